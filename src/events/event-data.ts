import { percentDecoded } from '../ledger/index.js';
import { actionOf, type DenyDetail, denyDetailOf, subjectOf, LEVEL_FIELDS } from '../reservations/index.js';
import { exactInteger, type Fields, readJson, timeOf } from '../wire/index.js';
import { FIELD, GIVEN_ROWS } from '../redis/index.js';
import { eventMember } from './event-members.js';

export type EventData = Readonly<Record<string, unknown>>;

/** The fields of lua/lib/event_writer.lua that belong to the envelope, not to `data`, and one that only refunds read. */
const ENVELOPE = new Set<string>([
  FIELD.scope_mask,
  'ty',
  'tn',
  'sc',
  'ac',
  'ki',
  'rq',
  'tr',
  'co',
  'va',
  'kw',
  'metadata',
]);
/** The fields with the subject and action of the request. */
const REQUEST = new Set<string>([
  FIELD.given_tenant,
  ...Object.values(LEVEL_FIELDS).filter((field) => field !== FIELD.tenant),
  ...GIVEN_ROWS.filter(({ of }) => of !== 'request').map(({ stored }) => stored),
]);
/** Members that have the name of the record's field in an event. */
const RENAMED: Readonly<Record<string, string>> = Object.fromEntries<string>([
  [FIELD.idempotency_key, 'idempotency_key'] as const,
  ...GIVEN_ROWS.filter(({ of }) => of === 'request').map(({ stored, member }) => [stored, member] as const),
]);

/** What a request gave, as JSON. The table of members has these, too, but a new one must not be shown as a text. */
const GIVEN_JSON = new Set(
  GIVEN_ROWS.filter(({ of, kind }) => of === 'request' && kind !== 'text').map(({ member }) => member),
);
/** The members of EventDataSystem. All other figures of a system event go into `details`. */
const SYSTEM_MEMBERS = new Set(['component', 'message', 'severity', 'details']);
/** Event types whose EventData* schema has no scope. */
const WITHOUT_SCOPE = /^(?:tenant|webhook|api_key|policy|system|custom)\./;
/** EventDataReservationDenied, also of direct debits, for which the protocol has no event. */
const DENIALS = new Set(['reservation.denied', 'custom.direct_debit.denied']);
/** Types for which the protocol requires `changed_fields` although no field changes. */
const WITHOUT_CHANGED_FIELDS = new Set(['tenant.created', 'webhook.disabled']);
const LIFECYCLE = new Set([
  'budget.created',
  'budget.updated',
  'budget.funded',
  'budget.debited',
  'budget.reset',
  'budget.reset_spent',
  'budget.debt_repaid',
  'budget.frozen',
  'budget.unfrozen',
  'budget.closed',
]);

/**
 * The `data` of an event, in the shape of its EventData* schema in cycles-governance-admin-v0.1.25. The scripts already give the figures
 * their names; this parses their values. A malformed value stays a string, so that one bad event cannot block those after it.
 */
export function dataOf(eventType: string, fields: Fields): EventData {
  const figures: Record<string, unknown> = {};
  const scope = fields.get('sc');
  if (scope !== undefined && (DENIALS.has(eventType) || !WITHOUT_SCOPE.test(eventType))) {
    figures.scope = scope;
  }
  for (const [name, text] of fields) {
    if (!ENVELOPE.has(name) && !REQUEST.has(name)) {
      const member = RENAMED[name] ?? name;
      figures[member] = valueOf(member.replace(/^(?:previous|new)_/, ''), text);
    }
  }
  const request = fields.has(FIELD.action_kind)
    ? { subject: subjectOf(fields), action: actionOf(fields) }
    : undefined;
  return shaped(eventType, { ...figures, ...request }, fields.has('kw'));
}

/** @param isKept whether what remained was kept for a reserve that waited longer */
function shaped(eventType: string, figures: Record<string, unknown>, isKept: boolean): EventData {
  if (LIFECYCLE.has(eventType)) {
    return lifecycleOf(figures);
  }
  if (eventType === 'budget.exhausted') {
    const utilization = ratio('utilization', total(figures.spent, figures.reserved), figures.allocated);
    return { ...figures, threshold: 1, direction: 'rising', ...utilization };
  }
  if (eventType.startsWith('budget.over_limit_')) {
    return { ...figures, ...ratio('debt_utilization', figures.debt, figures.overdraft_limit) };
  }
  if (DENIALS.has(eventType)) {
    const { window: _, window_key: _key, used: _used, limit: _limit, risk_class: _class, ...rest } = figures;
    return { ...rest, ...budgetWindowOf(figures), deny_detail: denialDetailOf(figures, isKept) };
  }
  if (eventType === 'reservation.observed_denied') {
    const { scope, unit, estimated_amount, observe_mode, idempotency_key, subject, action } = figures;
    const detail = denialDetailOf(figures, false);
    const asked = { estimated_amount, observe_mode, idempotency_key, subject, action };
    return {
      scope,
      unit,
      deny_detail: detail,
      ...asked,
      ...budgetWindowOf(figures),
      would_have_blocked_at: detail.blocked_by_scope,
    };
  }
  if (WITHOUT_CHANGED_FIELDS.has(eventType)) {
    return { ...figures, changed_fields: [] };
  }
  return eventType.startsWith('system.') ? systemOf(figures) : figures;
}

/** The window of the budget that denied. That of a quota is in the detail, as `quota_violation`. */
function budgetWindowOf({ reason_code, window }: Readonly<Record<string, unknown>>): EventData {
  return reason_code === 'BUDGET_EXCEEDED' && window !== undefined ? { window } : {};
}

/** The detail of a denial, from what its event has stored. */
function denialDetailOf(figures: Readonly<Record<string, unknown>>, isKept: boolean): DenyDetail {
  const textOf = (name: string): string | undefined => {
    const value = figures[name];
    return typeof value === 'string' || isInteger(value) ? String(value) : undefined;
  };
  const action = figures.action as { readonly kind?: string } | undefined;
  return denyDetailOf({
    reason: textOf('reason_code') ?? 'UNKNOWN',
    isKept,
    scope: textOf('scope'),
    remaining: textOf('remaining'),
    policyId: textOf('policy_id'),
    window: textOf('window'),
    windowKey: textOf('window_key'),
    used: textOf('used'),
    limit: textOf('limit'),
    riskClass: textOf('risk_class'),
    kind: action?.kind,
    unit: textOf('unit'),
    amount: textOf('requested_amount') ?? textOf('estimated_amount'),
  });
}

/** EventDataBudgetLifecycle: `previous_*` and `new_*` figures become two objects. */
function lifecycleOf(figures: Record<string, unknown>): EventData {
  const rest: Record<string, unknown> = {};
  const states: Record<string, Record<string, unknown>> = {};
  for (const [name, value] of Object.entries(figures)) {
    const [, when, member] = /^(previous|new)_(.+)$/.exec(name) ?? [];
    if (when === undefined || member === undefined) {
      rest[name] = value;
    } else {
      (states[`${when}_state`] ??= {})[member] = value;
    }
  }
  return { ...rest, ...states };
}

function systemOf(figures: Record<string, unknown>): EventData {
  const members = Object.entries(figures);
  const details = members.filter(([name]) => !SYSTEM_MEMBERS.has(name));
  return {
    ...Object.fromEntries(members.filter(([name]) => SYSTEM_MEMBERS.has(name))),
    ...(details.length === 0 ? {} : { details: Object.fromEntries(details) }),
  };
}

function valueOf(name: string, text: string): unknown {
  if (name === 'window_key') {
    return percentDecoded(text);
  }
  if (name === 'caps_applied') {
    return jsonOf(percentDecoded(text));
  }
  switch (eventMember(name)?.is) {
    case 'int64':
      return /^-?\d{1,19}$/.test(text) ? exactInteger(text) : text;
    case 'number':
      return Number.isFinite(Number(text)) ? Number(text) : text;
    case 'flag':
      return text === '1' || text === 'true';
    case 'instant':
      return /^\d{1,14}$/.test(text) ? timeOf(text) : text;
    case 'list':
      return listOf(text);
    case 'json':
      return jsonOf(text);
    default:
      return GIVEN_JSON.has(name) ? jsonOf(text) : text;
  }
}

/** Lists are stored as JSON or as comma-separated names. */
function listOf(text: string): unknown {
  return text.startsWith('[') ? jsonOf(text) : text.split(',').filter((name) => name !== '');
}

/** Parses stored JSON. Returns malformed text as it is. */
export function jsonOf(text: string): unknown {
  try {
    return readJson(text);
  } catch {
    return text;
  }
}

function isInteger(value: unknown): value is number | bigint {
  return typeof value === 'bigint' || Number.isSafeInteger(value);
}

function total(first: unknown, second: unknown): bigint | undefined {
  return isInteger(first) && isInteger(second) ? BigInt(first) + BigInt(second) : undefined;
}

function ratio<Name extends string>(
  name: Name,
  part: unknown,
  whole: unknown,
): Partial<Record<Name, number>> {
  const known = isInteger(part) && isInteger(whole) && whole > 0;
  return known ? ({ [name]: Number(part) / Number(whole) } as Partial<Record<Name, number>>) : {};
}
