import { Injectable } from '@nestjs/common';
import { fingerprintOf, randomBase62 } from '../../ledger/index.js';
import { TenantLimits } from '../../limits/index.js';
import {
  idempotencyKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  type Reply,
  reservationKey,
  tagOf,
  tenantKey,
} from '../../redis/index.js';
import { stringifyJson, traceText } from '../../wire/index.js';
import { Admission, admissionRefusal, admittedScopes, type Operation, recordFields } from '../admission.js';
import { ReservationStore } from '../reservation-store.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import type { ReserveDto } from './reserve.dto.js';

/** The protocol's default for grace_period_ms. */
const DEFAULT_GRACE_MS = 5000;

/** The decision for each granting status word of the script. */
const DECISIONS: Readonly<Record<string, 'ALLOW' | 'ALLOW_WITH_CAPS'>> = {
  ALLOW: 'ALLOW',
  ALLOW_DRY_RUN: 'ALLOW',
  ALLOW_WITH_CAPS: 'ALLOW_WITH_CAPS',
  DRY_RUN_WITH_CAPS: 'ALLOW_WITH_CAPS',
};

/** The script's reply, and the scopes of the request. */
export interface ReserveOutcome {
  /** `ALLOW ...`, `ALLOW_WITH_CAPS ...`, `ALLOW_DRY_RUN ...`, `DRY_RUN_WITH_CAPS ...` or `DENY ...` as lua/ledger/reserve.lua documents them. */
  readonly reply: Reply;
  /** Every derived scope, root first, whether it has a budget or not. */
  readonly scopes: readonly string[];
}

/** POST /v1/reservations: holds an amount at every budgeted scope, or at none. */
@Injectable()
export class ReserveService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
    private readonly admission: Admission,
    private readonly limits: TenantLimits,
  ) {}

  /**
   * Reserves, or only evaluates if `dry_run` is set.
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, TENANT_CLOSED, NOT_FOUND, UNIT_MISMATCH,
   * BUDGET_FROZEN, BUDGET_CLOSED, OVERDRAFT_LIMIT_EXCEEDED, DEBT_OUTSTANDING, BUDGET_EXCEEDED, LIMIT_EXCEEDED, INVALID_REQUEST (int64).
   */
  async reserve(operation: Operation, request: ReserveDto): Promise<ReserveOutcome> {
    const { tenantId } = operation.caller;
    const policy = request.overage_policy ?? 'DEFAULT';
    try {
      const scopes = admittedScopes(operation.caller, request.subject);
      const reply = await this.run(operation, request, scopes);
      const [word, freshness] = reply as [string, string];
      const replayed = freshness === 'replay' ? 'IDEMPOTENT_REPLAY' : undefined;
      const decision = DECISIONS[word];
      if (word === 'DENY') {
        this.metrics.reserved(tenantId, 'DENY', replayed ?? (reply[2] as string), policy);
      } else if (decision !== undefined) {
        this.metrics.reserved(tenantId, decision, replayed ?? 'OK', policy);
      } else if (word === 'LIMIT_EXCEEDED') {
        throw this.limits.refusal(reply);
      } else {
        throw admissionRefusal(reply, request.estimate.unit, scopes);
      }
      return { reply, scopes };
    } catch (error) {
      this.metrics.reserveFailed(tenantId, error, policy);
      throw error;
    }
  }

  private run(operation: Operation, request: ReserveDto, scopes: readonly string[]): Promise<Reply> {
    const { caller, trace } = operation;
    const { estimate, metadata } = request;
    const code = partitionCode(partitionOfTenant(caller.tenantId, this.redis.partitions));
    const tag = tagOf(code);
    const reservationId = `rsv_${code}${randomBase62(16)}`;
    const fields = recordFields(request.subject, request.action, caller.tenantId);
    fields.push('ik', request.idempotency_key);
    if (metadata !== undefined) {
      fields.push('md', stringifyJson(metadata));
    }
    const fingerprint = fingerprintOf(request);
    return this.admission.decided(() =>
      this.redis.scripts.run(
        'reserve',
        [
          reservationKey(tag, reservationId),
          idempotencyKey.reserve(tag, caller.tenantId, request.idempotency_key),
          tenantKey(tag, caller.tenantId),
        ],
        [
          caller.tenantId,
          reservationId,
          fingerprint,
          estimate.unit,
          estimate.amount.toString(),
          request.overage_policy ?? '',
          request.ttl_ms ?? '',
          request.grace_period_ms ?? DEFAULT_GRACE_MS,
          request.dry_run === true ? 1 : 0,
          this.store.idempotencyTtlMs,
          this.store.retentionMs,
          caller.keyId,
          trace.requestId,
          traceText(trace),
          this.limits.deployment.live_reservations,
          this.limits.deployment.stored_bytes,
          scopes.length,
          ...scopes,
          ...fields,
        ],
      ),
    );
  }
}
