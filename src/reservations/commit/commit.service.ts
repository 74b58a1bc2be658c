import { Injectable } from '@nestjs/common';
import { IsInt, IsString, Min } from 'class-validator';
import { fingerprintOf, Refusal } from '../../ledger/index.js';
import {
  type Attestable,
  idempotencyKey,
  RedisService,
  reservationKey,
  type ScriptAnswer,
} from '../../redis/index.js';
import {
  IsFreeObject,
  Length,
  MaxLength,
  Nested,
  Optional,
  stringifyJson,
  traceText,
} from '../../wire/index.js';
import type { Operation } from '../admission.js';
import { AmountDto, IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';
import { ReservationStore } from '../reservation-store.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import { stamped } from '../script-refusals.js';

/** StandardMetrics of the protocol. */
export class StandardMetricsDto {
  @Optional()
  @IsInt()
  @Min(0)
  tokens_input?: number;

  @Optional()
  @IsInt()
  @Min(0)
  tokens_output?: number;

  @Optional()
  @IsInt()
  @Min(0)
  latency_ms?: number;

  @Optional()
  @IsString()
  @MaxLength(128)
  model_version?: string;

  @Optional()
  @IsFreeObject()
  custom?: Record<string, unknown>;
}

/** CommitRequest of the protocol. */
export class CommitDto {
  @IsString()
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Nested(() => AmountDto)
  actual!: AmountDto;

  @Optional()
  @Nested(() => StandardMetricsDto)
  metrics?: StandardMetricsDto;

  @Optional()
  @IsFreeObject()
  metadata?: Record<string, unknown>;
}

export type Committed = ScriptAnswer<'commit', 'COMMITTED'> & Attestable;

/** POST /v1/reservations/{id}/commit: charges the actual cost of a hold and returns the rest. */
@Injectable()
export class CommitService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
  ) {}

  /**
   * @throws Refusal NOT_FOUND, FORBIDDEN, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, RESERVATION_FINALIZED, RESERVATION_EXPIRED,
   * UNIT_MISMATCH, BUDGET_FROZEN, BUDGET_CLOSED, BUDGET_EXCEEDED, OVERDRAFT_LIMIT_EXCEEDED, LIMIT_EXCEEDED (the governing
   * policy's rate), INVALID_REQUEST (int64).
   */
  async commit(operation: Operation, reservationId: string, request: CommitDto): Promise<Committed> {
    const { tenantId } = operation.caller;
    try {
      const reply = await this.charge(operation, reservationId, request);
      this.metrics.committed(tenantId, reply.answer === 'replay', reply.overagePolicy, reply.debt);
      return reply;
    } catch (error) {
      this.metrics.commitFailed(tenantId, error);
      throw error;
    }
  }

  private async charge(operation: Operation, reservationId: string, request: CommitDto): Promise<Committed> {
    const { caller, trace } = operation;
    const { actual, metadata } = request;
    const tag = this.store.tagOf(reservationId);
    await this.store.requireInScope(operation, tag, reservationId);
    const reply = await this.store.decided(() =>
      this.redis.scripts.callAttestable(
        'commit',
        {
          reservation: reservationKey(tag, reservationId),
          idempotency: idempotencyKey.commit(tag, caller.tenantId, reservationId, request.idempotency_key),
        },
        {
          tenantId: caller.tenantId,
          reservationId,
          fingerprint: fingerprintOf(request),
          unit: actual.unit,
          actual: actual.amount.toString(),
          metadata: metadata === undefined ? '' : stringifyJson(metadata),
          idempotencyTtlMs: this.store.idempotencyTtlMs,
          retentionMs: this.store.retentionMs,
          keyId: caller.keyId,
          requestId: trace.requestId,
          trace: traceText(trace),
        },
      ),
    );
    if (reply.status === 'UNIT_MISMATCH') {
      const { unit, scope } = reply;
      const details = { scope, requested_unit: actual.unit, expected_units: [unit] };
      throw stamped(
        new Refusal('UNIT_MISMATCH', `the reservation is in ${unit}, not in ${actual.unit}`, details),
        reply,
      );
    }
    return this.store.settled(reply, 'COMMITTED', reservationId);
  }
}
