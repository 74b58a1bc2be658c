import { Injectable } from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { Decided } from '../../expiry/index.js';
import { fingerprintOf, OVERAGE_POLICIES, type OveragePolicy, randomBase62 } from '../../ledger/index.js';
import {
  idempotencyKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  type ScriptAnswer,
  type ScriptReply,
  tagOf,
  tenantKey,
  FIELD,
} from '../../redis/index.js';
import { IsInt64, Nested, Optional, stringifyJson, traceText } from '../../wire/index.js';
import { admissionRefusal, admittedScopes, type Operation, recordFields } from '../admission.js';
import { StandardMetricsDto } from '../commit/commit.service.js';
import { AdmissionDto, AmountDto } from '../request-parts.dto.js';
import { ReservationStore } from '../reservation-store.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import { givenPairs } from '../given-fields.js';

/** EventCreateRequest of the protocol. */
export class DirectDebitDto extends AdmissionDto {
  @Nested(() => AmountDto)
  actual!: AmountDto;

  @Optional()
  @IsIn(OVERAGE_POLICIES)
  overage_policy?: OveragePolicy;

  @Optional()
  @Nested(() => StandardMetricsDto)
  metrics?: StandardMetricsDto;

  /** Advisory: no decision depends on it. */
  @Optional()
  @IsInt64({ min: 0 })
  client_time_ms?: number | bigint;
}

export type Applied = ScriptAnswer<'direct_debit', 'APPLIED'>;

/** POST /v1/events: charges an amount to every budgeted scope without a hold. */
@Injectable()
export class DirectDebitService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
  ) {}

  /**
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, TENANT_CLOSED, NOT_FOUND, UNIT_MISMATCH,
   * BUDGET_FROZEN, BUDGET_CLOSED, BUDGET_EXCEEDED, OVERDRAFT_LIMIT_EXCEEDED, INVALID_REQUEST (int64).
   */
  async debit(operation: Operation, request: DirectDebitDto): Promise<Applied> {
    const { tenantId } = operation.caller;
    const policy = request.overage_policy ?? 'DEFAULT';
    try {
      const scopes = admittedScopes(operation.caller, request.subject);
      const reply = await this.charge(operation, request, scopes);
      if (reply.status !== 'APPLIED') {
        throw admissionRefusal(reply, request.actual, scopes, request.action.kind);
      }
      this.metrics.debited(tenantId, reply.answer === 'replay', policy, reply.debt);
      return reply;
    } catch (error) {
      this.metrics.debitFailed(tenantId, error, policy);
      throw error;
    }
  }

  private charge(
    { caller, trace }: Operation,
    request: DirectDebitDto,
    scopes: readonly string[],
  ): Promise<Decided<ScriptReply<'direct_debit'>>> {
    const { actual } = request;
    const { tenantId } = caller;
    const code = partitionCode(partitionOfTenant(tenantId, this.redis.partitions));
    const tag = tagOf(code);
    // Prefixed differently from the ids of the event log, so the two cannot be confused.
    const eventId = `evn_${code}${randomBase62(16)}`;
    const fields = [...recordFields(request.subject, request.action, tenantId), ...debitFields(request)];
    const fingerprint = fingerprintOf(request);
    return this.store.decided(() =>
      this.redis.scripts.call(
        'direct_debit',
        {
          idempotency: idempotencyKey.directDebit(tag, tenantId, request.idempotency_key),
          tenant: tenantKey(tag, tenantId),
        },
        {
          tenantId,
          eventId,
          fingerprint,
          unit: actual.unit,
          actual: actual.amount.toString(),
          overagePolicy: request.overage_policy ?? '',
          idempotencyTtlMs: this.store.idempotencyTtlMs,
          retentionMs: this.store.retentionMs,
          keyId: caller.keyId,
          requestId: trace.requestId,
          trace: traceText(trace),
          scopeCount: scopes.length,
          rest: [...scopes, ...fields],
        },
      ),
    );
  }
}

/** What the debit's event keeps besides subject and action. */
function debitFields(request: DirectDebitDto): string[] {
  const { idempotency_key: key, metrics, client_time_ms: clientTimeMs } = request;
  return [
    FIELD.idempotency_key,
    key,
    ...givenPairs('request', request),
    ...(metrics === undefined ? [] : ['metrics', stringifyJson(metrics)]),
    ...(clientTimeMs === undefined ? [] : ['client_time_ms', clientTimeMs.toString()]),
  ];
}
