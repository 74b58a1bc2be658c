import { Injectable } from '@nestjs/common';
import { fingerprintOf } from '../../ledger/index.js';
import {
  type Attestable,
  idempotencyKey,
  RedisService,
  type ScriptReply,
  tagOfTenant,
  tenantKey,
} from '../../redis/index.js';
import { compileValidator, Nested, traceText } from '../../wire/index.js';
import { Admission, admittedScopes, denyDetailJson, type Operation, recordFields } from '../admission.js';
import type { Call, LedgerOperation, Outcome } from '../ledger-operation.js';
import { AdmissionDto, AmountDto } from '../request-parts.dto.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { RESERVATION_METRICS, reasonOf } from '../reservations.metrics.js';

/** DecisionRequest of the protocol. */
export class DecideDto extends AdmissionDto {
  @Nested(() => AmountDto)
  estimate!: AmountDto;
}

type Decided = Exclude<ScriptReply<'decide'> & Attestable, { status: 'RECLAIMED' | 'UNPLANNED' }>;

type Decision = Extract<Decided, { status: 'ALLOW' | 'ALLOW_WITH_CAPS' | 'DENY' }>;

/** DecisionResponse of the protocol as JSON text. Scopes and reasons need no escaping, and caps are JSON already. */
function decisionResponse(reply: Decision, scopes: readonly string[]): string {
  const reason = reply.status === 'DENY' ? `,"reason_code":"${reply.reason}"` : '';
  const caps = reply.status === 'ALLOW_WITH_CAPS' ? `,"caps":${reply.caps}` : '';
  return `{"decision":"${reply.status}"${caps}${reason},"affected_scopes":["${scopes.join('","')}"]}`;
}

/** POST /v1/decide: what a reserve would get right now. It holds nothing and promises nothing. */
@Injectable()
export class DecideService implements LedgerOperation<DecideDto> {
  readonly status = 200;
  readonly artifact = 'decide';
  readonly validate = compileValidator(DecideDto);
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
    private readonly admission: Admission,
  ) {}

  /**
   * Evaluates the request. The state of a budget or a closed tenant is a decision here, not a refusal.
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, UNIT_MISMATCH, UNAUTHORIZED (suspended tenant).
   */
  async perform(call: Call, request: DecideDto): Promise<Outcome> {
    const { tenantId } = call.caller;
    try {
      const scopes = admittedScopes(call.caller, request.subject);
      const reply = await this.ask(call, request, scopes);
      if (reply.status !== 'ALLOW' && reply.status !== 'ALLOW_WITH_CAPS' && reply.status !== 'DENY') {
        throw this.admission.refusal(reply, request.estimate, scopes, request.action.kind);
      }
      const reason = reply.status === 'DENY' ? reply.reason : 'OK';
      const counted = reply.answer === 'replay' ? 'IDEMPOTENT_REPLAY' : reason;
      this.counts.decisions.inc({ tenant: tenantId, decision: reply.status, reason: counted });
      const { stamp, answer } = reply;
      return {
        stamp,
        answer,
        response: decisionResponse(reply, scopes),
        unattested: denyDetailJson(reply, request),
      };
    } catch (error) {
      const reason = reasonOf(this.counts, error);
      this.counts.decisions.inc({ tenant: tenantId, decision: 'ERROR', reason });
      throw error;
    }
  }

  private ask({ caller, trace }: Operation, request: DecideDto, scopes: readonly string[]): Promise<Decided> {
    const { estimate } = request;
    const { tenantId } = caller;
    const tag = tagOfTenant(tenantId, this.redis.partitions);
    const fields = recordFields(request.subject, request.action, tenantId);
    const fingerprint = fingerprintOf(request);
    return this.calls.untilDecided(() =>
      this.redis.scripts.callAttestable(
        'decide',
        {
          idempotency: idempotencyKey.decide(tag, tenantId, request.idempotency_key),
          tenant: tenantKey(tag, tenantId),
        },
        {
          tenantId,
          fingerprint,
          unit: estimate.unit,
          amount: estimate.amount.toString(),
          idempotencyTtlMs: this.calls.idempotencyTtlMs,
          retentionMs: this.calls.retentionMs,
          keyId: caller.keyId,
          requestId: trace.requestId,
          trace: traceText(trace),
          actionFacts: this.admission.actionFacts(request.subject, request.action),
          maxBudgets: this.admission.limits.deployment.budgets,
          scopeCount: scopes.length,
          rest: [...scopes, ...fields],
        },
      ),
    );
  }
}
