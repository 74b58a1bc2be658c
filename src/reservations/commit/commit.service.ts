import { Injectable } from '@nestjs/common';
import { fingerprintOf, Refusal } from '../../ledger/index.js';
import { idempotencyKey, RedisService, type Reply, reservationKey } from '../../redis/index.js';
import { stringifyJson, traceText } from '../../wire/index.js';
import type { Operation } from '../admission.js';
import { ReservationStore } from '../reservation-store.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import type { CommitDto } from './commit.dto.js';

/** POST /v1/reservations/{id}/commit: charges the actual cost of a hold and returns the rest. */
@Injectable()
export class CommitService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
  ) {}

  /**
   * @returns `COMMITTED fresh|replay charged released unit policy overage debt (scope balance)*`
   * @throws Refusal NOT_FOUND, FORBIDDEN, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, RESERVATION_FINALIZED, RESERVATION_EXPIRED,
   * UNIT_MISMATCH, BUDGET_FROZEN, BUDGET_CLOSED, BUDGET_EXCEEDED, OVERDRAFT_LIMIT_EXCEEDED, INVALID_REQUEST (int64).
   */
  async commit(operation: Operation, reservationId: string, request: CommitDto): Promise<Reply> {
    const { tenantId } = operation.caller;
    try {
      const reply = await this.run(operation, reservationId, request);
      this.metrics.committed(tenantId, reply[1] === 'replay', reply[5] as string, reply[7] as string);
      return reply;
    } catch (error) {
      this.metrics.commitFailed(tenantId, error);
      throw error;
    }
  }

  private async run(operation: Operation, reservationId: string, request: CommitDto): Promise<Reply> {
    const { caller, trace } = operation;
    const { actual, metadata } = request;
    const tag = this.store.tagOf(reservationId);
    await this.store.requireInScope(operation, tag, reservationId);
    const reply = await this.redis.scripts.run(
      'commit',
      [
        reservationKey(tag, reservationId),
        idempotencyKey.commit(tag, caller.tenantId, reservationId, request.idempotency_key),
      ],
      [
        caller.tenantId,
        reservationId,
        fingerprintOf(request),
        actual.unit,
        actual.amount.toString(),
        metadata === undefined ? '' : stringifyJson(metadata),
        this.store.idempotencyTtlMs,
        this.store.retentionMs,
        caller.keyId,
        trace.requestId,
        traceText(trace),
      ],
    );
    if (reply[0] === 'UNIT_MISMATCH') {
      const [, unit, scope] = reply;
      const details = { scope, requested_unit: actual.unit, expected_units: [unit] };
      throw new Refusal('UNIT_MISMATCH', `the reservation is in ${unit}, not in ${actual.unit}`, details);
    }
    return this.store.settled(reply, 'COMMITTED', reservationId);
  }
}
