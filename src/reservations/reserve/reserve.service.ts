import { Inject, Injectable } from '@nestjs/common';
import { IsBoolean, IsIn } from 'class-validator';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import {
  balancesJson,
  fingerprintOf,
  invalidField,
  MAX_TTL_MS,
  OBSERVE_MODES,
  type ObserveMode,
  OVERAGE_POLICIES,
  type OveragePolicy,
  randomBase62,
  Refusal,
  subjectText,
} from '../../ledger/index.js';
import {
  type Attestable,
  codeOfTenant,
  idempotencyKey,
  type NamedCall,
  RedisService,
  reservationKey,
  type ScriptReply,
  tagOf,
  tenantKey,
  FIELD,
} from '../../redis/index.js';
import { compileValidator, IsInt, Nested, Optional, traceText } from '../../wire/index.js';
import { Admission, admittedScopes, denyDetailJson, type Operation, writeGiven } from '../admission.js';
import type { Wanted } from '../funds-forecast.js';
import type { Call, LedgerOperation, Outcome } from '../ledger-operation.js';
import { CHARGE_HEADER } from '../operation-headers.js';
import { AdmissionDto, AmountDto } from '../request-parts.dto.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { FundsWaiters } from './funds-waiters.js';
import type { Patience } from './waiter.js';
import { writeKey, writeMembers } from '../given-fields.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { RESERVATION_METRICS, reasonOf } from '../reservations.metrics.js';

/** ReservationCreateRequest of the protocol. */
export class ReserveDto extends AdmissionDto {
  @Nested(() => AmountDto)
  estimate!: AmountDto;

  @Optional(IsInt({ min: 1000, max: MAX_TTL_MS }))
  ttl_ms?: number;

  @Optional(IsInt({ min: 0, max: 60_000 }))
  grace_period_ms?: number;

  @Optional(IsIn(OVERAGE_POLICIES))
  overage_policy?: OveragePolicy;

  @Optional(IsBoolean())
  dry_run?: boolean;

  /** Of cycles-protocol-extensions-v0.1.26. Without it, the tenant's applies. */
  @Optional(IsIn(OBSERVE_MODES))
  observe_mode?: ObserveMode;
}

/** The protocol's default for grace_period_ms. */
const DEFAULT_GRACE_MS = 5000;

/** As lua/ledger/lib/reserve_terms.lua reads them. */
function termsOf({ overage_policy, ttl_ms, dry_run, grace_period_ms }: ReserveDto): string {
  const isDryRun = dry_run === true ? 1 : '';
  return `${overage_policy ?? ''}|${ttl_ms ?? ''}|${isDryRun}|${grace_period_ms ?? DEFAULT_GRACE_MS}`;
}

/** The decision for each status word of the script that is one. */
const DECISIONS = {
  ALLOW: 'ALLOW',
  ALLOW_DRY_RUN: 'ALLOW',
  ALLOW_WITH_CAPS: 'ALLOW_WITH_CAPS',
  DRY_RUN_WITH_CAPS: 'ALLOW_WITH_CAPS',
  DENY: 'DENY',
} as const;

type Deciding = keyof typeof DECISIONS;
type Run = Exclude<ScriptReply<'reserve'> & Attestable, { status: 'RECLAIMED' | 'UNPLANNED' }>;
export type Decided = Exclude<Run, { status: 'WAITING' }>;
type ReserveDecision = Extract<Decided, { status: Deciding }>;

function isDecision(reply: Decided): reply is ReserveDecision {
  return reply.status in DECISIONS;
}

/** How a request comes to the script. */
interface Circumstances {
  readonly fingerprint: string;
  /** Its place among those that wait for funds. */
  readonly waiter?: string;
  /** What it costs if it expires. */
  readonly charge?: bigint | undefined;
  /** The set that it belongs to, and what follows `rsv_` in the id of its first member; that of others is made up. */
  readonly setId?: string;
  readonly idPart?: string | undefined;
}

export interface ReserveCall extends Call {
  /** How long to wait for funds. Without it, a lack of budget is a refusal at once. */
  readonly patience?: Patience | undefined;
}

/**
 * What the hold costs if it expires. Without the header, the governing policy or the tenant decides.
 * @throws Refusal INVALID_REQUEST if it is not a whole number from 0 to the estimate.
 */
export function chargeOf({ headers }: Call, { estimate }: ReserveDto): bigint | undefined {
  const text = headers[CHARGE_HEADER.toLowerCase()];
  if (text === undefined) {
    return undefined;
  }
  const charge = typeof text === 'string' && /^\d{1,19}$/.test(text) ? BigInt(text) : undefined;
  if (charge === undefined || charge > BigInt(estimate.amount)) {
    throw invalidField(
      CHARGE_HEADER,
      `${CHARGE_HEADER} must be a whole number from 0 to the estimate, which is ${estimate.amount}`,
    );
  }
  return charge;
}

/**
 * ReservationCreateResponse of the protocol as JSON text, without `remaining_ttl_ms`, which changes from one answer to the next. Its
 * strings are ids, scopes and codes, which need no escaping; caps and balances are JSON already. Fields that do not apply are absent,
 * never null.
 */
function reserveResponse(
  reply: ReserveDecision,
  scopes: readonly string[],
  { estimate }: ReserveDto,
): string {
  const affected = `"affected_scopes":["${scopes.join('","')}"],"scope_path":"${scopes.at(-1) as string}"`;
  const reserved = `"reserved":{"unit":"${estimate.unit}","amount":${estimate.amount}}`;
  if (reply.status === 'DENY') {
    return `{"decision":"DENY",${affected},"reason_code":"${reply.reason}"}`;
  }
  const balances = `"balances":${balancesJson(reply.balances, estimate.unit)}`;
  const caps = 'caps' in reply ? `"caps":${reply.caps},` : '';
  const decision = `"decision":"${caps === '' ? 'ALLOW' : 'ALLOW_WITH_CAPS'}"`;
  if (!('reservationId' in reply)) {
    return `{${decision},${affected},${reserved},${caps}${balances}}`;
  }
  return (
    `{${decision},"reservation_id":"${reply.reservationId}",${affected},${reserved},` +
    `"expires_at_ms":${reply.expiresAtMs},${caps}${balances}}`
  );
}

function outcomeOf(reply: ReserveDecision, scopes: readonly string[], request: ReserveDto): Outcome {
  const { stamp, answer } = reply;
  const held = 'reservationId' in reply ? reply : undefined;
  // An envelope of a reserve without dry_run has a reservation, so what is only observed has no form there.
  const isAttestable = held !== undefined || request.dry_run === true;
  return {
    stamp: isAttestable ? stamp : undefined,
    answer,
    response: reserveResponse(reply, scopes, request),
    unattested: held ? `"remaining_ttl_ms":${held.remainingTtlMs}` : denyDetailJson(reply, request),
    reservationId: held?.reservationId,
  };
}

/** POST /v1/reservations: holds an amount at every budgeted scope, or at none. */
@Injectable()
export class ReserveService implements LedgerOperation<ReserveDto, ReserveCall> {
  readonly status = 200;
  readonly artifact = 'reserve';
  readonly validate = compileValidator(ReserveDto);
  private readonly counts = this.metrics.of(RESERVATION_METRICS);
  private readonly allowSampleRate: number;
  /** As lua/ledger/lib/reserve_terms.lua reads it. */
  private readonly limitsText: string;

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
    private readonly admission: Admission,
    private readonly waiters: FundsWaiters,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.allowSampleRate = config.observeAllowSampleRate;
    const { live_reservations: live, stored_bytes: stored, budgets } = admission.limits.deployment;
    this.limitsText = [calls.idempotencyTtlMs, calls.retentionMs, live, stored, budgets].join('|');
  }

  wanted({ estimate, subject }: ReserveDto, { caller }: Call): Wanted {
    return { caller, amount: estimate, subject, isHeld: true };
  }

  /**
   * Reserves, or only evaluates if `dry_run` is set or the request or its tenant is in observe mode.
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, TENANT_CLOSED, NOT_FOUND, UNIT_MISMATCH,
   * ACTION_KIND_DENIED, ACTION_KIND_NOT_ALLOWED, ACTION_QUOTA_EXCEEDED, BUDGET_FROZEN, BUDGET_CLOSED, OVERDRAFT_LIMIT_EXCEEDED, DEBT_OUTSTANDING, BUDGET_EXCEEDED, LIMIT_EXCEEDED (a tenant's limit, or the governing policy's rate),
   * INVALID_REQUEST (int64).
   */
  async perform(call: ReserveCall, request: ReserveDto): Promise<Outcome> {
    const charge = chargeOf(call, request);
    try {
      const scopes = admittedScopes(call.caller, request.subject);
      const reply =
        call.patience === undefined || request.dry_run === true
          ? ((await this.run(call, request, '', charge)) as Decided)
          : await this.waitFor(call, request, call.patience, charge);
      return this.outcome(call, request, scopes, reply);
    } catch (error) {
      this.countRefusal(call, request, error);
      throw error;
    }
  }

  /** The outcome of what the script decided, which is counted. @throws Refusal as `perform` */
  outcome({ caller }: Call, request: ReserveDto, scopes: readonly string[], reply: Decided): Outcome {
    if (!isDecision(reply)) {
      throw this.admission.refusal(reply, request.estimate, scopes, request.action.kind);
    }
    this.count(caller.tenantId, reply, request);
    return outcomeOf(reply, scopes, request);
  }

  countRefusal({ caller }: Call, request: ReserveDto, error: unknown): void {
    this.counts.reserves.inc({
      tenant: caller.tenantId,
      decision: 'DENY',
      reason: reasonOf(this.counts, error),
      overage_policy: request.overage_policy ?? 'DEFAULT',
    });
    // A dry run holds nothing and denies nothing, so it does not count as activity.
    if (error instanceof Refusal && request.dry_run !== true) {
      this.metrics.activity.add('denials');
    }
  }

  private count(tenant: string, reply: ReserveDecision, request: ReserveDto): void {
    const { answer, status } = reply;
    const reason = reply.status === 'DENY' ? reply.reason : 'OK';
    const decision = DECISIONS[status];
    if (answer === 'observed') {
      this.counts.observations.inc({ tenant, decision, reason });
      return;
    }
    const counted = answer === 'replay' ? 'IDEMPOTENT_REPLAY' : reason;
    this.counts.reserves.inc({
      tenant,
      decision,
      reason: counted,
      overage_policy: request.overage_policy ?? 'DEFAULT',
    });
    if (counted === 'OK' && request.dry_run !== true) {
      this.metrics.activity.add('reserves');
    }
  }

  /**
   * Whether an allowed reserve emits an event if it is observed, as lua/ledger/lib/observe.lua takes it. A request has
   * the same sample everywhere.
   */
  private sampleOf(fingerprint: string): string {
    if (this.allowSampleRate === 1) {
      return '';
    }
    const place = Buffer.from(fingerprint.slice(0, 8), 'base64url').readUIntBE(0, 6) / 2 ** 48;
    return place < this.allowSampleRate ? `|${this.allowSampleRate}` : '|-';
  }

  private waitFor(
    operation: Operation,
    request: ReserveDto,
    patience: Patience,
    charge: bigint | undefined,
  ): Promise<Decided> {
    const { unit, amount } = request.estimate;
    const { tenantId } = operation.caller;
    const readmit = async (): Promise<void> => {
      admittedScopes(await patience.readmit(), request.subject);
    };
    const wanted = { tenantId, unit, amount, idempotencyKey: request.idempotency_key, patience, readmit };
    return this.waiters.untilDecided(wanted, (waiter) => this.run(operation, request, waiter, charge));
  }

  /** @param waiter its place among those that wait for funds, or empty */
  private run(
    operation: Operation,
    request: ReserveDto,
    waiter: string,
    charge: bigint | undefined,
  ): Promise<Run> {
    const fingerprint = fingerprintOf(
      charge === undefined ? request : { ...request, charge_on_expiry: charge },
    );
    const { keys, args } = this.scriptCall(operation, request, { fingerprint, waiter, charge });
    return this.calls.untilDecided(() => this.redis.scripts.callAttestable('reserve', keys, args));
  }

  /** The call of the script for a request: alone, or as one of a set. */
  scriptCall(
    { caller, trace }: Operation,
    request: ReserveDto,
    { fingerprint, waiter = '', charge, setId, idPart }: Circumstances,
  ): NamedCall<'reserve'> {
    const { estimate } = request;
    const code = codeOfTenant(caller.tenantId, this.redis.partitions);
    const tag = tagOf(code);
    const fields: string[] = [];
    writeGiven(fields, request.subject, request.action, caller.tenantId);
    writeKey(fields, request.idempotency_key);
    writeMembers('request', request, fields);
    if (charge !== undefined) {
      fields.push(FIELD.charge_on_expiry, charge.toString());
    }
    if (setId !== undefined) {
      fields.push(FIELD.reservation_set, setId);
    }
    return {
      keys: {
        reservation: reservationKey(tag, `rsv_${idPart ?? code + randomBase62(16)}`),
        idempotency: idempotencyKey.reserve(tag, caller.tenantId, request.idempotency_key),
        tenant: tenantKey(tag, caller.tenantId),
      },
      args: {
        fingerprint,
        subject: subjectText(request.subject, caller.tenantId, estimate.unit),
        amount: estimate.amount.toString(),
        terms: termsOf(request),
        limits: this.limitsText,
        keyId: caller.keyId,
        requestId: trace.requestId,
        trace: traceText(trace),
        actionFacts: this.admission.actionFacts(request.subject, request.action),
        observe: (request.observe_mode ?? '') + this.sampleOf(fingerprint),
        waiter,
        rest: fields,
      },
    };
  }
}
