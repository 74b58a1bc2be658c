import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { balancesJson, fingerprintOf, oneLine, tenantOfScope } from '../../ledger/index.js';
import {
  type Attestable,
  idempotencyKey,
  RedisService,
  reservationKey,
  type ScriptAnswer,
} from '../../redis/index.js';
import { compileValidator, Length, MaxLength, Optional, traceText } from '../../wire/index.js';
import type { LedgerOperation, Outcome, SettlementCall } from '../ledger-operation.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { RESERVATION_METRICS, reasonOf } from '../reservations.metrics.js';

/** ReleaseRequest of the protocol. */
export class ReleaseDto {
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Optional(MaxLength(256))
  reason?: string;
}

type Released = ScriptAnswer<'release', 'RELEASED'> & Attestable;

/** ReleaseResponse of the protocol. */
function releaseResponse({ released, unit, balances }: Released): string {
  return (
    `{"status":"RELEASED","released":{"unit":"${unit}","amount":${released}},` +
    `"balances":${balancesJson(balances, unit)}}`
  );
}

export interface ReleaseCall extends SettlementCall<Caller> {
  /** The trace for the audit row of an operator's release. */
  readonly traceOfRow?: string | undefined;
}

/** POST /v1/reservations/{id}/release: returns a hold unused. */
@Injectable()
export class ReleaseService implements LedgerOperation<ReleaseDto, ReleaseCall> {
  readonly status = 200;
  readonly artifact = 'release';
  readonly validate = compileValidator(ReleaseDto);
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * An operator may release any tenant's hold on its behalf. The script writes the audit row for that in the same step.
   * @throws Refusal NOT_FOUND, FORBIDDEN, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, RESERVATION_FINALIZED, RESERVATION_EXPIRED.
   */
  async perform(call: ReleaseCall, request: ReleaseDto): Promise<Outcome> {
    const { caller, trace, reservationId, traceOfRow = traceText(trace) } = call;
    const [tenantId, keyId] =
      caller.kind === 'tenant' ? [caller.tenantId, caller.keyId] : ['', caller.keyId ?? ''];
    const actor_type = caller.kind === 'tenant' ? 'tenant' : 'admin_on_behalf_of';
    try {
      const tag = this.calls.tagOf(reservationId);
      await this.calls.requireInScope(call, tag, reservationId);
      const reply = await this.redis.scripts.callAttestable(
        'release',
        {
          reservation: reservationKey(tag, reservationId),
          idempotency: idempotencyKey.release(tag, tenantId, reservationId, request.idempotency_key),
        },
        {
          tenantId,
          reservationId,
          fingerprint: fingerprintOf(request),
          reason: oneLine(request.reason),
          idempotencyTtlMs: this.calls.idempotencyTtlMs,
          retentionMs: this.calls.retentionMs,
          keyId,
          requestId: trace.requestId,
          trace: traceOfRow,
        },
      );
      const released = this.calls.settled(reply, 'RELEASED', reservationId);
      const owner = tenantOfScope(released.balances[0]?.scope ?? '') ?? tenantId;
      const reason = released.answer === 'replay' ? 'IDEMPOTENT_REPLAY' : 'OK';
      this.counts.releases.inc({ tenant: owner, actor_type, decision: 'RELEASED', reason });
      const { stamp, answer } = released;
      return { stamp, answer, response: releaseResponse(released), reservationId };
    } catch (error) {
      const reason = reasonOf(this.counts, error);
      this.counts.releases.inc({ tenant: tenantId, actor_type, decision: 'DENY', reason });
      throw error;
    }
  }
}
