import { Injectable } from '@nestjs/common';
import { scopeAllowed } from '../../auth/index.js';
import { ExpiryMetrics } from '../../expiry/index.js';
import { deriveScopes, randomBase62, Refusal } from '../../ledger/index.js';
import {
  idempotencyKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  reservationKey,
  StoreUnavailable,
  tagOf,
  tenantKey,
  type Reply,
} from '../../redis/index.js';
import { stringifyJson } from '../../http/index.js';
import { fingerprintOf } from '../fingerprint.js';
import { traceText, type Operation } from '../operation.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import { ReservationStore } from '../reservation-store.js';
import { refusalOf } from '../script-refusals.js';
import type { SubjectDto } from '../request-parts.dto.js';
import type { ReserveDto } from './reserve.dto.js';

/** grace_period_ms of the protocol when the request names none. */
const DEFAULT_GRACE_MS = 5000;
/** Each round reclaims up to 100 dead holds of the partition; more than this many rounds is a backlog for the sweeper. */
const MAX_RECLAIM_ROUNDS = 100;

/** A reserve's answer: the script's reply and the scopes it was asked for. */
export interface ReserveOutcome {
  /** `ALLOW ...`, `ALLOW_DRY_RUN ...` or `DENY ...` as lua/reserve.lua documents them. */
  readonly reply: Reply;
  /** Every derived scope, root first, budgeted or not. */
  readonly scopes: readonly string[];
}

/** POST /v1/reservations: hold an amount against every budgeted scope, or nothing. */
@Injectable()
export class ReserveService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
    private readonly expiry: ExpiryMetrics,
  ) {}

  /**
   * Reserves, or evaluates when `dry_run` is set.
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, TENANT_CLOSED, NOT_FOUND, UNIT_MISMATCH,
   * BUDGET_FROZEN, BUDGET_CLOSED, OVERDRAFT_LIMIT_EXCEEDED, DEBT_OUTSTANDING, BUDGET_EXCEEDED, INVALID_REQUEST (int64).
   */
  async reserve(operation: Operation, request: ReserveDto): Promise<ReserveOutcome> {
    const { tenantId } = operation.caller;
    const policy = request.overage_policy ?? 'DEFAULT';
    try {
      const scopes = this.scopesOf(operation, request.subject);
      const reply = await this.run(operation, request, scopes);
      const [word, freshness] = reply as [string, string];
      const replayed = freshness === 'replay' ? 'IDEMPOTENT_REPLAY' : undefined;
      if (word === 'DENY') {
        this.metrics.reserved(tenantId, 'DENY', replayed ?? (reply[2] as string), policy);
      } else if (word === 'ALLOW' || word === 'ALLOW_DRY_RUN') {
        this.metrics.reserved(tenantId, 'ALLOW', replayed ?? 'OK', policy);
      } else {
        throw this.refusal(reply, request, scopes);
      }
      return { reply, scopes };
    } catch (error) {
      this.metrics.reserveFailed(tenantId, error, policy);
      throw error;
    }
  }

  private scopesOf({ caller }: Operation, subject: SubjectDto): string[] {
    if (subject.tenant !== undefined && subject.tenant.toLowerCase() !== caller.tenantId) {
      throw new Refusal('FORBIDDEN', 'subject.tenant is not the tenant of the API key', { field: 'subject.tenant' });
    }
    const scopes = deriveScopes(subject, caller.tenantId);
    if (caller.scopeFilter.length > 0 && !scopeAllowed(caller.scopeFilter, scopes.at(-1) as string)) {
      throw new Refusal('FORBIDDEN', "the subject lies outside the API key's scope filter", { field: 'subject' });
    }
    return scopes;
  }

  /** Runs the script until it decides: each run that only reclaimed dead holds is counted and followed by another. */
  private async run(operation: Operation, request: ReserveDto, scopes: readonly string[]): Promise<Reply> {
    const { caller, trace } = operation;
    const { estimate } = request;
    const code = partitionCode(partitionOfTenant(caller.tenantId, this.redis.partitions));
    const tag = tagOf(code);
    const reservationId = `rsv_${code}${randomBase62(16)}`;
    const fields = recordFields(request, caller.tenantId);
    const fingerprint = fingerprintOf(request);
    for (let round = 0; round < MAX_RECLAIM_ROUNDS; round += 1) {
      const reply = await this.redis.scripts.run(
        'reserve',
        [
          reservationKey(tag, reservationId),
          idempotencyKey.reserve(tag, caller.tenantId, request.idempotency_key),
          tenantKey(tag, caller.tenantId),
        ],
        [
          caller.tenantId, reservationId, fingerprint, estimate.unit, estimate.amount.toString(),
          request.overage_policy ?? '', request.ttl_ms ?? '', request.grace_period_ms ?? DEFAULT_GRACE_MS,
          request.dry_run === true ? 1 : 0, this.store.idempotencyTtlMs, this.store.retentionMs, caller.keyId,
          trace.requestId, traceText(trace), scopes.length, ...scopes, ...fields,
        ],
      );
      if (reply[0] !== 'RECLAIMED') {
        return reply;
      }
      for (let index = 2; index < reply.length; index += 3) {
        this.expiry.record('access', reply.slice(index, index + 3), reply[1]);
      }
    }
    throw new StoreUnavailable('backlog');
  }

  private refusal(reply: Reply, request: ReserveDto, scopes: readonly string[]): Error {
    if (reply[0] === 'NOT_FOUND') {
      return new Refusal('NOT_FOUND', `Budget not found for provided scope: ${scopes.at(-1)}`, { scopes });
    }
    if (reply[0] === 'UNIT_MISMATCH') {
      const [, scope, ...units] = reply;
      const details = { scope, requested_unit: request.estimate.unit, expected_units: units };
      return new Refusal('UNIT_MISMATCH', `scope ${scope} has no budget in ${request.estimate.unit}`, details);
    }
    return refusalOf(reply);
  }
}

/** What the record keeps of the request, as field and value pairs: lua/lib/hold.lua names the fields. */
function recordFields(request: ReserveDto, tenantId: string): string[] {
  const { subject, action } = request;
  const fields: string[] = [];
  if (subject.tenant !== undefined && subject.tenant !== tenantId) {
    fields.push('tv', subject.tenant);
  }
  const keep = (name: string, value: string | undefined): void => {
    if (value !== undefined) {
      fields.push(name, value);
    }
  };
  keep('ws', subject.workspace);
  keep('ap', subject.app);
  keep('wf', subject.workflow);
  keep('ag', subject.agent);
  keep('ts', subject.toolset);
  keep('dm', subject.dimensions && stringifyJson(subject.dimensions));
  keep('ak', action.kind);
  keep('an', action.name);
  keep('at', action.tags && stringifyJson(action.tags));
  keep('ik', request.idempotency_key);
  keep('md', request.metadata && stringifyJson(request.metadata));
  return fields;
}
