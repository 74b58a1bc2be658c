import { Injectable } from '@nestjs/common';
import { balancesJson, fingerprintOf, Refusal } from '../../ledger/index.js';
import {
  type Attestable,
  idempotencyKey,
  RedisService,
  reservationKey,
  type ScriptAnswer,
} from '../../redis/index.js';
import {
  compileValidator,
  IsFreeObject,
  IsInt,
  Length,
  MaxLength,
  Nested,
  Optional,
  stringifyJson,
  traceText,
} from '../../wire/index.js';
import type { Wanted } from '../funds-forecast.js';
import type { LedgerOperation, Outcome, SettlementCall } from '../ledger-operation.js';
import { AmountDto, IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { stamped } from '../script-refusals.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { RESERVATION_METRICS, reasonOf } from '../reservations.metrics.js';

/** StandardMetrics of the protocol. */
export class StandardMetricsDto {
  @Optional(IsInt({ min: 0 }))
  tokens_input?: number;

  @Optional(IsInt({ min: 0 }))
  tokens_output?: number;

  @Optional(IsInt({ min: 0 }))
  latency_ms?: number;

  @Optional(MaxLength(128))
  model_version?: string;

  @Optional(IsFreeObject())
  custom?: Record<string, unknown>;
}

/** CommitRequest of the protocol. */
export class CommitDto {
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Nested(() => AmountDto)
  actual!: AmountDto;

  @Optional(Nested(() => StandardMetricsDto))
  metrics?: StandardMetricsDto;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

type Committed = ScriptAnswer<'commit', 'COMMITTED'> & Attestable;

/** The overage policy of a refused commit, where the error code implies it. */
const POLICY_OF_REFUSAL: Readonly<Record<string, string>> = {
  BUDGET_EXCEEDED: 'REJECT',
  OVERDRAFT_LIMIT_EXCEEDED: 'ALLOW_WITH_OVERDRAFT',
};

/** CommitResponse of the protocol. `released` is present only if something was returned. */
function commitResponse({ charged, released, unit, balances }: Committed): string {
  const returned = released === '0' ? '' : `"released":{"unit":"${unit}","amount":${released}},`;
  return `{"status":"COMMITTED","charged":{"unit":"${unit}","amount":${charged}},${returned}"balances":${balancesJson(balances, unit)}}`;
}

/** POST /v1/reservations/{id}/commit: charges the actual cost of a hold and returns the rest. */
@Injectable()
export class CommitService implements LedgerOperation<CommitDto, SettlementCall> {
  readonly status = 200;
  readonly artifact = 'commit';
  readonly validate = compileValidator(CommitDto);
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
  ) {}

  wanted({ actual }: CommitDto, { caller, reservationId }: SettlementCall): Wanted {
    return { caller, amount: actual, reservationId };
  }

  /**
   * @throws Refusal NOT_FOUND, FORBIDDEN, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, RESERVATION_FINALIZED, RESERVATION_EXPIRED,
   * UNIT_MISMATCH, BUDGET_FROZEN, BUDGET_CLOSED, BUDGET_EXCEEDED, OVERDRAFT_LIMIT_EXCEEDED, LIMIT_EXCEEDED (the governing
   * policy's rate), INVALID_REQUEST (int64).
   */
  async perform(call: SettlementCall, request: CommitDto): Promise<Outcome> {
    const { tenantId } = call.caller;
    try {
      const reply = await this.charge(call, request);
      this.count(tenantId, reply);
      const { stamp, answer } = reply;
      return { stamp, answer, response: commitResponse(reply), reservationId: call.reservationId };
    } catch (error) {
      const reason = reasonOf(this.counts, error);
      const overage_policy = POLICY_OF_REFUSAL[reason] ?? 'UNKNOWN';
      this.counts.commits.inc({ tenant: tenantId, decision: 'DENY', reason, overage_policy });
      throw error;
    }
  }

  private count(tenant: string, { answer, overagePolicy, debt }: Committed): void {
    const decision = 'COMMITTED';
    if (answer === 'replay') {
      const reason = 'IDEMPOTENT_REPLAY';
      this.counts.commits.inc({ tenant, decision, reason, overage_policy: 'UNKNOWN' });
      return;
    }
    this.counts.commits.inc({ tenant, decision, reason: 'OK', overage_policy: overagePolicy });
    this.metrics.activity.add('commits');
    if (debt !== '0') {
      this.counts.overdrafts.inc({ tenant });
    }
  }

  private async charge(call: SettlementCall, request: CommitDto): Promise<Committed> {
    const { caller, trace, reservationId } = call;
    const { actual, metadata, metrics } = request;
    const tag = this.calls.tagOf(reservationId);
    await this.calls.requireInScope(call, tag, reservationId);
    const reply = await this.calls.untilDecided(() =>
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
          metrics: metrics === undefined ? '' : stringifyJson(metrics),
          idempotencyTtlMs: this.calls.idempotencyTtlMs,
          retentionMs: this.calls.retentionMs,
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
    return this.calls.settled(reply, 'COMMITTED', reservationId);
  }
}
