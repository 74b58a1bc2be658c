import { Injectable } from '@nestjs/common';
import { fingerprintOf, MAX_TTL_MS } from '../../ledger/index.js';
import { idempotencyKey, RedisService, reservationKey } from '../../redis/index.js';
import { compileValidator, IsFreeObject, IsInt, Length, Optional, traceText } from '../../wire/index.js';
import type { LedgerOperation, Outcome, SettlementCall } from '../ledger-operation.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { RESERVATION_METRICS, reasonOf } from '../reservations.metrics.js';

/** ReservationExtendRequest of the protocol. */
export class ExtendDto {
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @IsInt({ min: 1, max: MAX_TTL_MS })
  extend_by_ms!: number;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** POST /v1/reservations/{id}/extend: moves the expiry of a live reservation. */
@Injectable()
export class ExtendService implements LedgerOperation<ExtendDto, SettlementCall> {
  readonly status = 200;
  readonly validate = compileValidator(ExtendDto);
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * @throws Refusal NOT_FOUND, FORBIDDEN, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, RESERVATION_FINALIZED, RESERVATION_EXPIRED,
   * MAX_EXTENSIONS_EXCEEDED.
   */
  async perform(call: SettlementCall, request: ExtendDto): Promise<Outcome> {
    const { caller, trace, reservationId } = call;
    try {
      const tag = this.calls.tagOf(reservationId);
      await this.calls.requireInScope(call, tag, reservationId);
      const reply = await this.redis.scripts.call(
        'extend',
        {
          reservation: reservationKey(tag, reservationId),
          idempotency: idempotencyKey.extend(tag, caller.tenantId, reservationId, request.idempotency_key),
        },
        {
          tenantId: caller.tenantId,
          reservationId,
          fingerprint: fingerprintOf(request),
          extendByMs: request.extend_by_ms,
          idempotencyTtlMs: this.calls.idempotencyTtlMs,
          retentionMs: this.calls.retentionMs,
          keyId: caller.keyId,
          requestId: trace.requestId,
          trace: traceText(trace),
        },
      );
      const { answer, expiresAtMs, remainingTtlMs } = this.calls.settled(reply, 'ACTIVE', reservationId);
      const reason = answer === 'replay' ? 'IDEMPOTENT_REPLAY' : 'OK';
      this.counts.extends.inc({ tenant: caller.tenantId, decision: 'ACTIVE', reason });
      const response = `{"status":"ACTIVE","expires_at_ms":${expiresAtMs},"remaining_ttl_ms":${remainingTtlMs}}`;
      return { answer, response };
    } catch (error) {
      const reason = reasonOf(this.counts, error);
      this.counts.extends.inc({ tenant: caller.tenantId, decision: 'DENY', reason });
      throw error;
    }
  }
}
