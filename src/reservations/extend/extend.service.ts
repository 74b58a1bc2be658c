import { Injectable } from '@nestjs/common';
import { fingerprintOf } from '../../ledger/index.js';
import { idempotencyKey, RedisService, type Reply, reservationKey } from '../../redis/index.js';
import { traceText } from '../../wire/index.js';
import type { Operation } from '../admission.js';
import { ReservationStore } from '../reservation-store.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import type { ExtendDto } from './extend.dto.js';

/** POST /v1/reservations/{id}/extend: moves the expiry of a live reservation. */
@Injectable()
export class ExtendService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
  ) {}

  /**
   * @returns `ACTIVE fresh|replay expires_at_ms remaining_ttl_ms`
   * @throws Refusal NOT_FOUND, FORBIDDEN, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, RESERVATION_FINALIZED, RESERVATION_EXPIRED,
   * MAX_EXTENSIONS_EXCEEDED.
   */
  async extend(operation: Operation, reservationId: string, request: ExtendDto): Promise<Reply> {
    const { caller, trace } = operation;
    try {
      const tag = this.store.tagOf(reservationId);
      await this.store.requireInScope(operation, tag, reservationId);
      const answer = await this.redis.scripts.run(
        'extend',
        [
          reservationKey(tag, reservationId),
          idempotencyKey.extend(tag, caller.tenantId, reservationId, request.idempotency_key),
        ],
        [
          caller.tenantId,
          reservationId,
          fingerprintOf(request),
          request.extend_by_ms,
          this.store.idempotencyTtlMs,
          this.store.retentionMs,
          caller.keyId,
          trace.requestId,
          traceText(trace),
        ],
      );
      const reply = this.store.settled(answer, 'ACTIVE', reservationId);
      this.metrics.extended(caller.tenantId, reply[1] === 'replay');
      return reply;
    } catch (error) {
      this.metrics.extendFailed(caller.tenantId, error);
      throw error;
    }
  }
}
