import { Injectable } from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { Caller } from '../../auth/index.js';
import { balancesJson, fingerprintOf, oneLine, Refusal, type Unit, UNITS } from '../../ledger/index.js';
import {
  eventLogKey,
  idempotencyKey,
  RedisService,
  type ScriptAnswer,
  type ScriptReply,
  tagOfDebitId,
} from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import {
  compileValidator,
  IsFreeObject,
  IsInt64,
  Length,
  MaxLength,
  Nested,
  Optional,
  stringifyJson,
  traceText,
} from '../../wire/index.js';
import type { Call, LedgerOperation, Outcome } from '../ledger-operation.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { RESERVATION_METRICS, reasonOf } from '../reservations.metrics.js';

class RefundedAmountDto {
  @IsIn(UNITS)
  unit!: Unit;

  @IsInt64({ min: 1 })
  amount!: number | bigint;
}

export class RefundDto {
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Nested(() => RefundedAmountDto)
  amount!: RefundedAmountDto;

  @Optional(MaxLength(256))
  reason?: string;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** Names what was charged: a reservation or a direct debit. */
export interface RefundCall extends Call<Caller> {
  readonly reservationId?: string | undefined;
  readonly eventId?: string | undefined;
  /** The trace for the audit row of an operator's refund. */
  readonly traceOfRow?: string | undefined;
}

type Refunded = ScriptAnswer<'refund', 'REFUNDED'>;

function refundResponse({ total, scopes }: Refunded, { amount: { unit, amount } }: RefundDto): string {
  const returned = scopes.map((at) => `{"scope":${JSON.stringify(at.scope)},"amount":${at.returned}}`);
  return (
    `{"status":"REFUNDED","refunded":{"unit":"${unit}","amount":${amount}},` +
    `"refunded_total":{"unit":"${unit}","amount":${total}},` +
    `"returned":[${returned.join(',')}],"balances":${balancesJson(scopes, unit)}}`
  );
}

/** The refusals that say something of the charge. */
function refusalOfCharge(
  reply: ScriptReply<'refund'>,
  { amount: { unit } }: RefundDto,
  isDebit: boolean,
): Refusal | undefined {
  if (reply.status === 'UNIT_MISMATCH') {
    const details = { scope: reply.scope, requested_unit: unit, expected_units: [reply.unit] };
    return new Refusal('UNIT_MISMATCH', `the charge is in ${reply.unit}, not in ${unit}`, details);
  } else if (reply.status === 'REFUND_EXCEEDED') {
    const { state, charged, refunded } = reply;
    const left = BigInt(charged) - BigInt(refunded);
    const amountOf = (amount: bigint) => ({ unit, amount });
    return new Refusal(
      'BUDGET_EXCEEDED',
      state === 'ACTIVE'
        ? 'the reservation is not settled yet'
        : `${left} of the charge can still be refunded`,
      {
        status: state,
        charged: amountOf(BigInt(charged)),
        refunded: amountOf(BigInt(refunded)),
        refundable: amountOf(left),
      },
    );
  } else if (isDebit && (reply.status === 'NOT_FOUND' || reply.status === 'FORBIDDEN')) {
    return reply.status === 'NOT_FOUND' ? noSuchDebit() : new Refusal('FORBIDDEN', DEBIT_OF_ANOTHER);
  }
  return undefined;
}

const DEBIT_OF_ANOTHER = 'the direct debit belongs to another tenant';
const noSuchDebit = () =>
  new Refusal('NOT_FOUND', 'there is no such direct debit, or its retention has ended');

/** POST /v1/reservations/{id}/refunds and /v1/events/{id}/refunds: takes back what was charged, wholly or in part. */
@Injectable()
export class RefundService implements LedgerOperation<RefundDto, RefundCall> {
  readonly status = 200;
  readonly validate = compileValidator(RefundDto);
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * An operator may refund any tenant's charge on its behalf. The script writes the audit row for that in the same step.
   * @throws Refusal NOT_FOUND, FORBIDDEN, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, UNIT_MISMATCH, BUDGET_EXCEEDED (less is left of the charge,
   * or it is not settled).
   */
  async perform(call: RefundCall, request: RefundDto): Promise<Outcome> {
    const { caller } = call;
    const actor_type = caller.kind === 'tenant' ? 'tenant' : 'admin_on_behalf_of';
    try {
      const reply = await this.refunded(call, request);
      const reason = reply.answer === 'replay' ? 'IDEMPOTENT_REPLAY' : 'OK';
      this.counts.refunds.inc({ tenant: reply.tenant, actor_type, decision: 'REFUNDED', reason });
      return { answer: reply.answer, response: refundResponse(reply, request) };
    } catch (error) {
      const reason = reasonOf(this.counts, error);
      const tenant = caller.kind === 'tenant' ? caller.tenantId : '';
      this.counts.refunds.inc({ tenant, actor_type, decision: 'DENY', reason });
      throw error;
    }
  }

  private async refunded(call: RefundCall, request: RefundDto): Promise<Refunded> {
    const { reservationId, eventId = '' } = call;
    const chargeId = reservationId ?? eventId;
    const tag =
      reservationId === undefined
        ? await this.tagOfDebit(call, eventId)
        : await this.tagOfReservation(call, reservationId);
    let reply = await this.run(call, request, tag, chargeId);
    if (reply.status === 'RESERVATION_EXPIRED') {
      // The hold was overdue. It has ended now, perhaps with a charge.
      this.calls.note(reply, chargeId);
      reply = await this.run(call, request, tag, chargeId);
    }
    const refusal = refusalOfCharge(reply, request, reservationId === undefined);
    if (refusal !== undefined) {
      throw refusal;
    }
    return this.calls.settled(reply, 'REFUNDED', chargeId);
  }

  private async tagOfReservation(call: RefundCall, reservationId: string): Promise<string> {
    const tag = this.calls.tagOf(reservationId);
    await this.calls.requireInScope(call, tag, reservationId);
    return tag;
  }

  /** @throws Refusal NOT_FOUND, FORBIDDEN (scope filter) */
  private async tagOfDebit({ caller }: RefundCall, eventId: string): Promise<string> {
    const tag = tagOfDebitId(eventId, this.redis.partitions);
    if (tag === undefined) {
      throw noSuchDebit();
    }
    if (caller.kind === 'tenant' && caller.scopeFilter.length > 0) {
      const found = await this.redis.scripts.call('debit_scope', { eventLog: eventLogKey(tag) }, { eventId });
      this.calls.requireAllowed(caller.scopeFilter, found, 'direct debit');
    }
    return tag;
  }

  private run(
    { caller, trace, traceOfRow = traceText(trace) }: RefundCall,
    request: RefundDto,
    tag: string,
    chargeId: string,
  ): Promise<ScriptReply<'refund'>> {
    const [tenantId, keyId] =
      caller.kind === 'tenant' ? [caller.tenantId, caller.keyId] : ['', caller.keyId ?? ''];
    const { amount, metadata } = request;
    return this.redis.scripts.call(
      'refund',
      { idempotency: idempotencyKey.refund(tag, tenantId, chargeId, request.idempotency_key) },
      {
        tenantId,
        chargeId,
        fingerprint: fingerprintOf(request),
        unit: amount.unit,
        amount: amount.amount.toString(),
        reason: oneLine(request.reason),
        metadata: metadata === undefined ? '' : stringifyJson(metadata),
        idempotencyTtlMs: this.calls.idempotencyTtlMs,
        retentionMs: this.calls.retentionMs,
        keyId,
        requestId: trace.requestId,
        trace: traceOfRow,
      },
    );
  }
}
