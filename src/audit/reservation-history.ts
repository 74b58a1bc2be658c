import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { eventIdOf, jsonOf } from '../events/index.js';
import { countExpiry } from '../expiry/index.js';
import { parseAmount, Refusal } from '../ledger/index.js';
import { RedisService, reservationKey, tagOfReservationId, FIELD } from '../redis/index.js';
import {
  type ReservationRecord,
  type ReservationSummary,
  summaryOf,
  givenMembers,
} from '../reservations/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { optional, type RequestTrace, traceText } from '../wire/index.js';

/** The result of lua/audit/inspect_reservation.lua. Empty strings stand for missing values. */
export interface InspectedReservation {
  /** The time of Redis when it was read. */
  readonly nowMs: bigint;
  readonly reservationId: string;
  /** Two hex digits. */
  readonly partition: string;
  readonly goesAtMs: string;
  /** Reason and time, split by a space. */
  readonly quarantine: string;
  readonly defect: string;
  /** The event of the end. */
  readonly endEvent: ReadonlyMap<string, string>;
  readonly record: ReservationRecord;
}

type History = Readonly<Record<string, unknown>>;

/** The record's codes for policies other than AUTO_RELEASE, from lua/lib/field.lua. */
const EXPIRY_POLICIES: Readonly<Record<string, string>> = {
  m: 'MANUAL_CLEANUP',
  g: 'GRACE_ONLY',
  c: 'AUTO_RELEASE',
  mc: 'MANUAL_CLEANUP',
  gc: 'GRACE_ONLY',
};

/** Fields of an event that the history shows elsewhere or under another name. */
const ENVELOPE = new Set(['ty', 'tn', 'sc', 'ac', 'ki', 'rq', 'tr', 'co', 'reservation_id']);

/** The response of GET /ops/reservations/{id}: all that is known about a reservation. Members that do not apply are absent. */
export function historyOf(found: InspectedReservation): History {
  const { reservationId, record, defect, goesAtMs } = found;
  return {
    reservation_id: reservationId,
    state: record.get(FIELD.state) ?? 'UNKNOWN',
    ...optional('tenant_id', record.get(FIELD.tenant)),
    ...(defect === '' ? intactHistory(found) : { defect, stored: Object.fromEntries(record) }),
    ...quarantineOf(found.quarantine, record),
    ...optional('record_goes_at_ms', goesAtMs === '' ? undefined : goesAtMs, parseAmount),
  };
}

function intactHistory(found: InspectedReservation): History {
  const { reservationId, record } = found;
  const summary = summaryOf(reservationId, record);
  const expiresAt = summary.expires_at_ms;
  const reclaimAt = expiresAt + parseAmount(record.get(FIELD.grace_ms));
  const charge = chargeOnExpiryOf(record, summary);
  const expiryPolicy = EXPIRY_POLICIES[record.get(FIELD.expiry_policy) ?? ''] ?? 'AUTO_RELEASE';
  const budgeted = summary.affected_scopes.map((scope, index) => ({
    scope,
    budgeted: record.get(FIELD.scope_mask)?.[index] === '1',
  }));
  const held = budgeted.filter((entry) => entry.budgeted).map(({ scope }) => scope);
  const ended = record.get(FIELD.state) === 'ACTIVE' ? {} : { end: endOf(found, summary, held) };
  return {
    request: requestOf(record, summary),
    scope_path: summary.scope_path,
    scopes: budgeted,
    reserved: summary.reserved,
    created_at_ms: summary.created_at_ms,
    expires_at_ms: expiresAt,
    reclaim_at_ms: reclaimAt,
    expiry_policy: expiryPolicy,
    ...(charge === undefined ? {} : { charge_on_expiry: charge }),
    ...(record.get(FIELD.state) === 'ACTIVE' && expiryPolicy === 'MANUAL_CLEANUP'
      ? { awaiting_cleanup: found.nowMs > reclaimAt }
      : {}),
    extensions_allowed: wholeOf(record.get(FIELD.max_extensions)) ?? 0n,
    extensions: extensionsOf(record, expiresAt),
    ...ended,
  };
}

/** What it costs if it expires, by its request or by default; an expired one was charged exactly this. Undefined for nothing. */
function chargeOnExpiryOf(
  record: ReservationRecord,
  { reserved }: ReservationSummary,
): ReservationSummary['reserved'] | undefined {
  const text = record.get(FIELD.charge_on_expiry) ?? '';
  return /^[1-9]\d{0,18}$/.test(text) ? { unit: reserved.unit, amount: parseAmount(text) } : undefined;
}

function requestOf(
  record: ReservationRecord,
  { subject, action, reserved, created_at_ms, expires_at_ms }: ReservationSummary,
): History {
  return {
    ...optional('idempotency_key', record.get(FIELD.idempotency_key)),
    ...optional('reservation_set_id', record.get(FIELD.reservation_set)),
    ...optional('key_id', record.get(FIELD.key_id)),
    subject,
    action,
    estimate: reserved,
    overage_policy: record.get(FIELD.overage_policy) ?? 'UNKNOWN',
    ttl_ms:
      expires_at_ms - created_at_ms - grantsOf(record).reduce((sum, { grantedMs }) => sum + grantedMs, 0n),
    grace_period_ms: parseAmount(record.get(FIELD.grace_ms)),
    ...givenMembers('request', record, undefined, { asStored: true }),
  };
}

interface Grant {
  readonly atMs: bigint;
  readonly grantedMs: bigint;
  readonly keyId: string | undefined;
}

function grantsOf(record: ReservationRecord): Grant[] {
  const grants: Grant[] = [];
  for (;;) {
    const [text, at = '', granted = '', keyId] =
      /^(\d{1,15})\+(\d{1,15})(?:\+(.*))?$/.exec(
        record.get(`${FIELD.extension}${grants.length + 1}`) ?? '',
      ) ?? [];
    // A damaged record shows the extensions up to the damage.
    if (text === undefined) {
      return grants;
    }
    grants.push({ atMs: BigInt(at), grantedMs: BigInt(granted), keyId: keyId ?? record.get(FIELD.key_id) });
  }
}

/** Each extension with its resulting expiry, computed backwards from the last one. */
function extensionsOf(record: ReservationRecord, expiresAt: bigint): History[] {
  let after = expiresAt;
  const extensions = grantsOf(record)
    .reverse()
    .map(({ atMs, grantedMs, keyId }) => {
      const extension = {
        at_ms: atMs,
        granted_ms: grantedMs,
        expires_at_ms: after,
        ...optional('key_id', keyId),
      };
      after -= grantedMs;
      return extension;
    });
  return extensions.reverse();
}

function endOf(found: InspectedReservation, summary: ReservationSummary, held: readonly string[]): History {
  const { record } = found;
  const { reserved } = summary;
  const charged = summary.status === 'EXPIRED' ? chargeOnExpiryOf(record, summary) : summary.committed;
  const unused = charged === undefined ? reserved.amount : reserved.amount - charged.amount;
  const amount = unused > 0n ? unused : 0n;
  return {
    how: summary.status,
    ...optional('at_ms', record.get(FIELD.ended_at), parseAmount),
    by: enderOf(record.get(FIELD.ended_by)),
    ...optional('reason', record.get(FIELD.release_reason)),
    ...(charged === undefined ? {} : { charged }),
    ...(summary.refunded === undefined ? {} : { refunded: summary.refunded }),
    ...optional('credits', record.get(FIELD.credits), (text) => creditsOf(text, reserved.unit)),
    ...optional('committed_metadata', record.get(FIELD.commit_metadata), jsonOf),
    ...optional('committed_metrics', record.get(FIELD.commit_metrics), jsonOf),
    returned: held.map((scope) => ({ scope, unit: reserved.unit, amount })),
    ...eventOf(found),
  };
}

/** Who paid, as lua/lib/credit_record.lua writes it. */
function creditsOf(text: string, unit: string): History[] {
  return [...text.matchAll(/(\w+):(\d+)/g)].map(([, id, amount]) => ({
    credit_id: id,
    amount: { unit, amount: parseAmount(amount) },
  }));
}

/** Who ended it: an API key, `system` for an expiry or the closing of its tenant, or an operator, by name if there is one. */
function enderOf(ender: string | undefined): History {
  if (ender === undefined) {
    return { type: 'unknown' };
  }
  if (ender === 'system' || ender === 'admin') {
    return { type: ender };
  }
  return { type: ender.startsWith('key_') ? 'api_key' : 'admin', key_id: ender };
}

/** The event of the end. The protocol has none for a release, or for a commit without overage. */
function eventOf({ record, partition, endEvent }: InspectedReservation): History {
  const entryId = record.get(FIELD.end_event);
  if (entryId === undefined || !/^\d{1,15}-\d{1,15}$/.test(entryId)) {
    return {};
  }
  const figures = Object.fromEntries([...endEvent].filter(([name]) => !ENVELOPE.has(name)));
  const event = {
    event_id: eventIdOf({ partition, entryId }),
    ...optional('event_type', endEvent.get('ty')),
    ...optional('request_id', endEvent.get('rq')),
    ...optional('trace_id', endEvent.get('tr'), (trace) => trace.split('-', 1)[0]),
    ...(endEvent.size === 0 ? {} : { figures }),
  };
  return { event };
}

function quarantineOf(text: string, record: ReservationRecord): History {
  const [reason, at] =
    text === '' ? [record.get(FIELD.quarantine_reason), record.get(FIELD.quarantined_at)] : text.split(' ');
  if (reason === undefined || reason === '') {
    return {};
  }
  // After an operator's decision, the record keeps the reason and time of the quarantine.
  return {
    quarantine: { reason, waiting: text !== '', ...optional('at_ms', wholeOf(at)?.toString(), BigInt) },
  };
}

/** A stored count or instant; undefined if malformed. */
function wholeOf(text: string | undefined): bigint | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? BigInt(text) : undefined;
}

/** GET /ops/reservations/{id}: the full history of a reservation, whatever its state. */
@Injectable()
export class HistoryService {
  private readonly retentionMs: number = this.config.auditRetentionMs;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /** Expires an overdue hold. @throws Refusal NOT_FOUND */
  async get(reservationId: string, trace: RequestTrace): Promise<object> {
    const tag = tagOfReservationId(reservationId, this.redis.partitions);
    const reply =
      tag === undefined
        ? undefined
        : await this.redis.queries.call(
            'inspect_reservation',
            { reservation: reservationKey(tag, reservationId) },
            {
              reservationId,
              retentionMs: this.retentionMs,
              requestId: trace.requestId,
              trace: traceText(trace),
            },
          );
    if (reply?.status !== 'FOUND') {
      throw new Refusal('NOT_FOUND', 'there is no such reservation, or its retention has ended', {
        reservation_id: reservationId,
      });
    }
    const { nowMs, goesAtMs, quarantine = '', defect = '', word, detail = '', secondDetail = '' } = reply;
    if (word !== undefined) {
      countExpiry(this.metrics, 'access', { word, detail, secondDetail }, nowMs);
    }
    return historyOf({
      nowMs: BigInt(nowMs),
      reservationId,
      partition: reservationId.slice(4, 6),
      goesAtMs: goesAtMs?.toString() ?? '',
      quarantine,
      defect,
      endEvent: reply.endEvent,
      record: reply.record,
    });
  }
}
