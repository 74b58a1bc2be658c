import { Injectable } from '@nestjs/common';
import { fingerprintOf, randomBase62 } from '../../ledger/index.js';
import {
  idempotencyKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  type Reply,
  tagOf,
  tenantKey,
} from '../../redis/index.js';
import { stringifyJson, traceText } from '../../wire/index.js';
import { Admission, admissionRefusal, admittedScopes, type Operation, recordFields } from '../admission.js';
import { ReservationStore } from '../reservation-store.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import type { DirectDebitDto } from './direct-debit.dto.js';

/** POST /v1/events: charges an amount to every budgeted scope without a hold. */
@Injectable()
export class DirectDebitService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
    private readonly admission: Admission,
  ) {}

  /**
   * @returns `APPLIED fresh|replay event_id charged policy debt (scope balance)*`
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, TENANT_CLOSED, NOT_FOUND, UNIT_MISMATCH,
   * BUDGET_FROZEN, BUDGET_CLOSED, BUDGET_EXCEEDED, OVERDRAFT_LIMIT_EXCEEDED, INVALID_REQUEST (int64).
   */
  async debit(operation: Operation, request: DirectDebitDto): Promise<Reply> {
    const { tenantId } = operation.caller;
    const policy = request.overage_policy ?? 'DEFAULT';
    try {
      const scopes = admittedScopes(operation.caller, request.subject);
      const reply = await this.run(operation, request, scopes);
      if (reply[0] !== 'APPLIED') {
        throw admissionRefusal(reply, request.actual.unit, scopes);
      }
      this.metrics.debited(tenantId, reply[1] === 'replay', policy, reply[5] as string);
      return reply;
    } catch (error) {
      this.metrics.debitFailed(tenantId, error, policy);
      throw error;
    }
  }

  private run(
    { caller, trace }: Operation,
    request: DirectDebitDto,
    scopes: readonly string[],
  ): Promise<Reply> {
    const { actual } = request;
    const { tenantId } = caller;
    const code = partitionCode(partitionOfTenant(tenantId, this.redis.partitions));
    const tag = tagOf(code);
    // Prefixed differently from the ids of the event log, so the two cannot be confused.
    const eventId = `evn_${code}${randomBase62(16)}`;
    const fields = [...recordFields(request.subject, request.action, tenantId), ...debitFields(request)];
    const fingerprint = fingerprintOf(request);
    return this.admission.decided(() =>
      this.redis.scripts.run(
        'direct_debit',
        [idempotencyKey.directDebit(tag, tenantId, request.idempotency_key), tenantKey(tag, tenantId)],
        [
          tenantId,
          eventId,
          fingerprint,
          actual.unit,
          actual.amount.toString(),
          request.overage_policy ?? '',
          this.store.idempotencyTtlMs,
          this.store.retentionMs,
          caller.keyId,
          trace.requestId,
          traceText(trace),
          scopes.length,
          ...scopes,
          ...fields,
        ],
      ),
    );
  }
}

/** What the debit's event keeps besides subject and action. */
function debitFields({
  idempotency_key: key,
  metadata,
  metrics,
  client_time_ms: clientTimeMs,
}: DirectDebitDto): string[] {
  return [
    'ik',
    key,
    ...(metadata === undefined ? [] : ['md', stringifyJson(metadata)]),
    ...(metrics === undefined ? [] : ['metrics', stringifyJson(metrics)]),
    ...(clientTimeMs === undefined ? [] : ['client_time_ms', clientTimeMs.toString()]),
  ];
}
