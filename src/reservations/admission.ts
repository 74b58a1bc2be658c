import type { IncomingHttpHeaders } from 'node:http';
import { Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { type Caller, scopeAllowed, type TenantCaller } from '../auth/index.js';
import { KnownKinds } from '../governance/index.js';
import {
  deriveScopes,
  type ErrorCode,
  hasPolicyKey,
  headerText,
  invalidField,
  percentEncoded,
  Refusal,
  SCOPE_LEVELS,
} from '../ledger/index.js';
import { type LimitExceeded, TenantLimits } from '../limits/index.js';
import { type Attestable, FIELD, type ScriptReply } from '../redis/index.js';
import { type RequestTrace, stringifyJson } from '../wire/index.js';
import { denyDetailOf } from './deny-detail.js';
import type { ActionDto, AmountDto, SubjectDto } from './request-parts.dto.js';
import { refusalOf, type RefusingReply, stamped } from './script-refusals.js';
import { LEVEL_FIELDS, writeMembers } from './given-fields.js';

type AdmittingReply = ScriptReply<'reserve' | 'decide' | 'direct_debit'>;

/** What reserve, decide and direct debit tell their scripts, and how those refuse. */
@Injectable()
export class Admission {
  constructor(
    private readonly kinds: KnownKinds,
    readonly limits: TenantLimits,
  ) {}

  /** The refusal for a reply that admits nothing. */
  refusal(
    reply: Parameters<typeof admissionRefusal>[0] | LimitExceeded,
    amount: AmountDto,
    scopes: readonly string[],
    kind: string,
  ): Error {
    return isOverLimit(reply) ? this.limits.refusal(reply) : admissionRefusal(reply, amount, scopes, kind);
  }

  /** What the quotas of a policy need to know of a request. lua/ledger/lib/action_quota.lua describes the text. */
  actionFacts(subject: SubjectDto, action: ActionDto): string {
    const traits = this.kinds.traitsOf(action.kind);
    if (traits === undefined) {
      return UNDECLARED;
    }
    const run = subject.dimensions?.['run_id'] ?? '';
    const keys = action.policy_keys;
    if (keys === undefined && run === '') {
      return `${traits.risk_class}||||`;
    }
    const declared = (['host', 'recipient_domain', 'resource_type'] as const).map((name) =>
      hasPolicyKey(traits, name) ? (keys?.[name] ?? '') : '',
    );
    return [traits.risk_class, run, ...declared].map(percentEncoded).join('|');
  }
}

const isOverLimit = (reply: { readonly status: string }): reply is LimitExceeded =>
  reply.status === 'LIMIT_EXCEEDED';

/** The facts of a kind that would have to be declared. The script refuses it, unless it replays the answer to the same request. */
const UNDECLARED = '';

/**
 * The scopes derived from a subject, root first, whether they have a budget or not.
 * @throws Refusal FORBIDDEN (another tenant, outside the key's scope filter).
 */
export function admittedScopes(caller: TenantCaller, subject: SubjectDto): string[] {
  if (subject.tenant !== undefined && subject.tenant.toLowerCase() !== caller.tenantId) {
    throw new Refusal('FORBIDDEN', 'subject.tenant is not the tenant of the API key', {
      field: 'subject.tenant',
    });
  }
  const scopes = deriveScopes(subject, caller.tenantId);
  if (caller.scopeFilter.length > 0 && !scopeAllowed(caller.scopeFilter, scopes.at(-1) as string)) {
    throw new Refusal('FORBIDDEN', "the subject lies outside the API key's scope filter", {
      field: 'subject',
    });
  }
  return scopes;
}

function admissionRefusal(
  reply: RefusingReply | (Extract<AdmittingReply, { status: 'UNIT_MISMATCH' }> & Attestable),
  { unit, amount }: AmountDto,
  scopes: readonly string[],
  kind: string,
): Error {
  if (reply.status === 'NOT_FOUND') {
    return stamped(
      new Refusal('NOT_FOUND', `Budget not found for provided scope: ${scopes.at(-1)}`, { scopes }),
      reply,
    );
  }
  if ('units' in reply) {
    const { scope, units } = reply;
    const details = { scope, requested_unit: unit, expected_units: units };
    return stamped(new Refusal('UNIT_MISMATCH', `scope ${scope} has no budget in ${unit}`, details), reply);
  }
  const refusal = refusalOf(reply);
  if (refusal instanceof Refusal && WITH_DETAIL.has(refusal.code)) {
    const isKept = reply.status === 'KEPT_FOR_WAITER';
    const denial = { ...reply, reason: refusal.code, isKept, kind, unit, amount: amount.toString() };
    refusal.details = { ...refusal.details, deny_detail: denyDetailOf(denial) };
  }
  return refusal;
}

/** The refusals whose `details` have a `deny_detail`: ErrorResponseExtension of cycles-protocol-extensions-v0.1.26. */
const WITH_DETAIL: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'BUDGET_EXCEEDED',
  'BUDGET_FROZEN',
  'BUDGET_CLOSED',
  'OVERDRAFT_LIMIT_EXCEEDED',
  'DEBT_OUTSTANDING',
  'ACTION_QUOTA_EXCEEDED',
  'ACTION_KIND_NOT_ALLOWED',
  'ACTION_KIND_DENIED',
]);

/** The `deny_detail` of a DENY as a member in JSON, or undefined where the script gives none: see lua/ledger/lib/denial.lua. */
export function denyDetailJson(
  reply: { readonly status: string },
  request: { readonly action: ActionDto; readonly estimate: AmountDto },
): string | undefined {
  if (!isDetailed(reply)) {
    return undefined;
  }
  const { action, estimate } = request;
  const detail = denyDetailOf({
    ...reply,
    kind: action.kind,
    unit: estimate.unit,
    amount: estimate.amount.toString(),
  });
  return `"deny_detail":${stringifyJson(detail)}`;
}

type DeniedReply = Extract<ScriptReply<'reserve' | 'decide'>, { status: 'DENY' }>;

function isDetailed(reply: { readonly status: string }): reply is DeniedReply {
  return reply.status === 'DENY' && (reply as DeniedReply).scope !== undefined;
}

/** The subject and action as field and value pairs of an event. */
export function recordFields(subject: SubjectDto, action: ActionDto, tenantId: string): string[] {
  const fields: string[] = [];
  for (const level of SCOPE_LEVELS) {
    const value = level === 'tenant' ? undefined : subject[level];
    if (value !== undefined) {
      fields.push(LEVEL_FIELDS[level], value);
    }
  }
  writeGiven(fields, subject, action, tenantId);
  return fields;
}

/** Appends the same without the levels, which `reserve` takes in the text of its subject. */
export function writeGiven(fields: string[], subject: SubjectDto, action: ActionDto, tenantId: string): void {
  const { tenant } = subject;
  writeMembers('action', action, fields);
  if (tenant !== undefined && tenant !== tenantId) {
    fields.push(FIELD.given_tenant, tenant);
  }
  writeMembers('subject', subject, fields);
}

/**
 * The protocol's IDEMPOTENCY section: if the header gives a key, it must equal the one in the body.
 * @throws Refusal INVALID_REQUEST when they differ.
 */
export function requireSameKey(
  { headers }: { readonly headers: IncomingHttpHeaders },
  idempotencyKey: string,
): void {
  const header = headers['x-idempotency-key'];
  if (header !== undefined && headerText(String(header)) !== idempotencyKey) {
    throw invalidField('X-Idempotency-Key', 'X-Idempotency-Key must equal the idempotency_key of the body');
  }
}

/** The caller and trace that every operation passes to its script. */
export interface Operation<Who extends Caller = TenantCaller> {
  readonly caller: Who;
  readonly trace: RequestTrace;
}

/** An endpoint that also accepts the admin key uses `operationOf<Caller>`. */
export function operationOf<Who extends Caller = TenantCaller>(request: FastifyRequest): Operation<Who> {
  return { caller: request.caller as Who, trace: request.trace };
}
