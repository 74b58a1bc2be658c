import { Injectable } from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { Decided } from '../../expiry/index.js';
import {
  balancesJson,
  fingerprintOf,
  OVERAGE_POLICIES,
  type OveragePolicy,
  randomBase62,
} from '../../ledger/index.js';
import {
  codeOfTenant,
  idempotencyKey,
  RedisService,
  type ScriptAnswer,
  type ScriptReply,
  tagOf,
  tenantKey,
  FIELD,
} from '../../redis/index.js';
import { compileValidator, IsInt64, Nested, Optional, stringifyJson, traceText } from '../../wire/index.js';
import { Admission, admittedScopes, type Operation, recordFields } from '../admission.js';
import { StandardMetricsDto } from '../commit/commit.service.js';
import type { Wanted } from '../funds-forecast.js';
import type { Call, LedgerOperation, Outcome } from '../ledger-operation.js';
import { AdmissionDto, AmountDto } from '../request-parts.dto.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { writeMembers } from '../given-fields.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { RESERVATION_METRICS, reasonOf } from '../reservations.metrics.js';

/** EventCreateRequest of the protocol. */
export class DirectDebitDto extends AdmissionDto {
  @Nested(() => AmountDto)
  actual!: AmountDto;

  @Optional(IsIn(OVERAGE_POLICIES))
  overage_policy?: OveragePolicy;

  @Optional(Nested(() => StandardMetricsDto))
  metrics?: StandardMetricsDto;

  /** Advisory: no decision depends on it. */
  @Optional(IsInt64({ min: 0 }))
  client_time_ms?: number | bigint;
}

type Applied = ScriptAnswer<'direct_debit', 'APPLIED'>;

/** EventCreateResponse of the protocol. `charged` is present only if the charge was capped below the actual amount. */
function eventResponse(
  { eventId, charged, balances }: Applied,
  { actual: { unit, amount } }: DirectDebitDto,
): string {
  const capped = charged === amount.toString() ? '' : `"charged":{"unit":"${unit}","amount":${charged}},`;
  return `{"status":"APPLIED","event_id":"${eventId}",${capped}"balances":${balancesJson(balances, unit)}}`;
}

/** POST /v1/events: charges an amount to every budgeted scope without a hold. */
@Injectable()
export class DirectDebitService implements LedgerOperation<DirectDebitDto> {
  readonly status = 201;
  readonly validate = compileValidator(DirectDebitDto);
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
    private readonly admission: Admission,
  ) {}

  wanted({ actual, subject }: DirectDebitDto, { caller }: Call): Wanted {
    return { caller, amount: actual, subject };
  }

  /**
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, TENANT_CLOSED, NOT_FOUND, UNIT_MISMATCH,
   * BUDGET_FROZEN, BUDGET_CLOSED, BUDGET_EXCEEDED, OVERDRAFT_LIMIT_EXCEEDED, LIMIT_EXCEEDED (of budgets, if a template would make one),
   * INVALID_REQUEST (int64).
   */
  async perform(call: Call, request: DirectDebitDto): Promise<Outcome> {
    const { tenantId } = call.caller;
    const policy = request.overage_policy ?? 'DEFAULT';
    try {
      const scopes = admittedScopes(call.caller, request.subject);
      const reply = await this.charge(call, request, scopes);
      if (reply.status !== 'APPLIED') {
        throw this.admission.refusal(reply, request.actual, scopes, request.action.kind);
      }
      this.count(tenantId, reply, policy);
      return { answer: reply.answer, response: eventResponse(reply, request) };
    } catch (error) {
      const reason = reasonOf(this.counts, error);
      this.counts.debits.inc({ tenant: tenantId, decision: 'DENY', reason, overage_policy: policy });
      throw error;
    }
  }

  private count(tenant: string, { answer, debt }: Applied, policy: string): void {
    const reason = answer === 'replay' ? 'IDEMPOTENT_REPLAY' : 'OK';
    this.counts.debits.inc({ tenant, decision: 'APPLIED', reason, overage_policy: policy });
    if (answer !== 'replay' && debt !== '0') {
      this.counts.overdrafts.inc({ tenant });
    }
  }

  private charge(
    { caller, trace }: Operation,
    request: DirectDebitDto,
    scopes: readonly string[],
  ): Promise<Decided<ScriptReply<'direct_debit'>>> {
    const { actual } = request;
    const { tenantId } = caller;
    const code = codeOfTenant(tenantId, this.redis.partitions);
    const tag = tagOf(code);
    // Prefixed differently from the ids of the event log, so the two cannot be confused. The script adds the instant.
    const eventId = `evn_${code}${randomBase62(9)}`;
    const fields = recordFields(request.subject, request.action, tenantId);
    writeDebit(fields, request);
    const fingerprint = fingerprintOf(request);
    return this.calls.untilDecided(() =>
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
          idempotencyTtlMs: this.calls.idempotencyTtlMs,
          retentionMs: this.calls.retentionMs,
          keyId: caller.keyId,
          requestId: trace.requestId,
          trace: traceText(trace),
          maxBudgets: this.admission.limits.deployment.budgets,
          scopeCount: scopes.length,
          rest: [...scopes, ...fields],
        },
      ),
    );
  }
}

/** Appends what the debit's event keeps besides subject and action. */
function writeDebit(fields: string[], request: DirectDebitDto): void {
  const { idempotency_key: key, metrics, client_time_ms: clientTimeMs } = request;
  fields.push(FIELD.idempotency_key, key);
  writeMembers('request', request, fields);
  if (metrics !== undefined) {
    fields.push('metrics', stringifyJson(metrics));
  }
  if (clientTimeMs !== undefined) {
    fields.push('client_time_ms', clientTimeMs.toString());
  }
}
