import { Inject, Injectable } from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { Answer } from '../../answers/index.js';
import { mayActFor, partitionsOfTenants, type Tenants } from '../../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { fingerprintOf, oneLine, Refusal } from '../../ledger/index.js';
import {
  ownerOfReservation,
  quarantineKey,
  RedisService,
  reservationKey,
  type ScriptAnswer,
  tagOfPartition,
  tagOfReservationId,
} from '../../redis/index.js';
import {
  MaxLength,
  Optional,
  type Origin,
  PageCursor,
  pageEnd,
  PageLimit,
  PageSelection,
  placeAfter,
} from '../../wire/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { countExpiry, EXPIRY_METRICS, outcomeOf } from '../expiry.metrics.js';

export class QuarantineListQueryDto {
  @Optional(MaxLength(64))
  reason?: string;

  @PageCursor()
  cursor?: string;

  @PageLimit(200)
  limit?: number;
}

export class QuarantineDecisionDto {
  @IsIn(['retry', 'release'])
  action!: 'retry' | 'release';

  @Optional(MaxLength(256))
  reason?: string;
}

const DEFAULT_LIMIT = 50;
/** COUNT hint for one scan of a partition's quarantine. */
const SCAN_COUNT = 500;

export type QuarantineEntry = Answer<'QuarantineList'>['entries'][number];

/** The amounts that a release returns, by budget, and those that it cannot return. */
export interface Returnable {
  readonly returns: readonly { readonly scope: string; readonly unit: string; readonly amount: bigint }[];
  readonly keeps: readonly { readonly scope: string; readonly reason: string }[];
}

export interface QuarantinedReservation extends QuarantineEntry, Returnable {
  readonly defect?: string;
  readonly record: Readonly<Record<string, string>>;
}

export type QuarantineDecision = Answer<'QuarantineDecision'>;

export type QuarantineList = Answer<'QuarantineList'>;

/** Reservations that could not be settled and wait for an operator: lists them, shows what is wrong, and applies decisions. */
@Injectable()
export class QuarantineService {
  private readonly retentionMs: number = this.config.auditRetentionMs;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Newest first, over all partitions. Reads the whole quarantine, which operators keep small, but holds no more than one page in memory.
   * @param tenants that the operator is confined to, who sees no reservation whose owner is not known
   * @throws Refusal INVALID_REQUEST if the cursor belongs to another list.
   */
  async list(
    { reason, cursor, limit = DEFAULT_LIMIT }: QuarantineListQueryDto,
    tenants: Tenants,
  ): Promise<QuarantineList> {
    const query = fingerprintOf({ list: 'quarantine', reason, tenants });
    const selection = new PageSelection<QuarantineEntry>(
      {
        direction: 'desc',
        valueOf: (entry) => entry.quarantined_at_ms,
        idOf: (entry) => entry.reservation_id,
      },
      limit,
      placeAfter(query, cursor),
    );
    for (const partition of partitionsOfTenants(tenants, this.redis.partitions)) {
      for await (const entry of this.entriesOf(tagOfPartition(partition))) {
        const isAsked = reason === undefined || entry.reason === reason;
        if (isAsked && (await this.isOf(tenants, entry.reservation_id))) {
          selection.offer(entry);
        }
      }
    }
    return { entries: selection.rows(), ...pageEnd(query, selection.next()) };
  }

  /** @throws Refusal NOT_FOUND if it is not in quarantine. */
  async inspect(reservationId: string): Promise<QuarantinedReservation> {
    const reply = await this.redis.scripts.call(
      'inspect_quarantined',
      { reservation: reservationKey(this.tagOf(reservationId), reservationId) },
      { reservationId },
    );
    if (reply.status !== 'QUARANTINED') {
      throw notInQuarantine(reservationId);
    }
    const { entry, defect, record } = reply;
    return {
      ...entryOf(reservationId, entry),
      ...(defect === undefined ? {} : { defect }),
      ...returnableOf(reply),
      record: Object.fromEntries(record),
    };
  }

  /** @throws Refusal NOT_FOUND if it is not in quarantine. */
  async decide(
    reservationId: string,
    { action, reason }: QuarantineDecisionDto,
    { requestId, trace, keyId }: Origin,
  ): Promise<QuarantineDecision> {
    const reply = await this.redis.scripts.call(
      'decide_quarantined',
      { reservation: reservationKey(this.tagOf(reservationId), reservationId) },
      {
        reservationId,
        action,
        reason: oneLine(reason),
        retentionMs: this.retentionMs,
        requestId,
        trace,
        keyId,
      },
    );
    if (reply.status === 'NOT_FOUND') {
      throw notInQuarantine(reservationId);
    }
    const { decisions } = this.metrics.of(EXPIRY_METRICS);
    const decided = { reservation_id: reservationId, action, decided_at_ms: reply.nowMs };
    if (reply.status === 'RELEASED') {
      decisions.inc({ action, outcome: 'RELEASED' });
      return { ...decided, outcome: 'RELEASED', ...returnableOf(reply) };
    }
    const { detail } = reply;
    const outcome = outcomeOf(reply.word);
    countExpiry(this.metrics, 'access', reply, reply.nowMs);
    decisions.inc({ action, outcome });
    const hasDetail = detail !== undefined && (outcome === 'SKIP' || outcome === 'QUARANTINED');
    return { ...decided, outcome, ...(hasDetail ? { detail } : {}), returns: [], keeps: [] };
  }

  private async isOf(tenants: Tenants, reservationId: string): Promise<boolean> {
    return (
      tenants === undefined || mayActFor(tenants, (await ownerOfReservation(this.redis, reservationId)) ?? '')
    );
  }

  private tagOf(reservationId: string): string {
    const tag = tagOfReservationId(reservationId, this.redis.partitions);
    if (tag === undefined) {
      throw notInQuarantine(reservationId);
    }
    return tag;
  }

  /** Each entry once: a scan may return an entry twice while the hash grows. */
  private async *entriesOf(tag: string): AsyncGenerator<QuarantineEntry> {
    const seen = new Set<string>();
    let cursor = '0';
    do {
      const from = cursor;
      const [next, flat]: [string, string[]] = await this.redis.queries.command((client) =>
        client.hscan(quarantineKey(tag), from, 'COUNT', SCAN_COUNT),
      );
      for (let index = 0; index < flat.length; index += 2) {
        const id = flat[index] as string;
        if (!seen.has(id)) {
          seen.add(id);
          yield entryOf(id, flat[index + 1] as string);
        }
      }
      cursor = next;
    } while (cursor !== '0');
  }
}

function entryOf(reservationId: string, text: string): QuarantineEntry {
  const [reason = '', at = ''] = text.split(' ');
  return { reservation_id: reservationId, reason, quarantined_at_ms: Number(at) };
}

function returnableOf({
  amount = '0',
  unit = '',
  returnedScopes,
  kept,
}: Pick<
  ScriptAnswer<'inspect_quarantined', 'QUARANTINED'>,
  'amount' | 'unit' | 'returnedScopes' | 'kept'
>): Returnable {
  return {
    returns: returnedScopes.map((scope) => ({ scope, unit, amount: BigInt(amount) })),
    keeps: kept,
  };
}

function notInQuarantine(reservationId: string): Refusal {
  return new Refusal('NOT_FOUND', `the reservation ${reservationId} is not in quarantine`, {
    reservation_id: reservationId,
  });
}
