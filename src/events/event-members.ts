/**
 * What the value of a member is. Scripts write texts; they are read by this, and described by it. `object` is made of other members or of
 * what a request said.
 */
export type MemberKind = 'int64' | 'number' | 'flag' | 'instant' | 'list' | 'json' | 'text' | 'object';

export interface EventMember {
  readonly is: MemberKind;
  readonly says: string;
}

const member =
  (is: MemberKind) =>
  (says: string): EventMember => ({ is, says });
const int64 = member('int64');
const number = member('number');
const flag = member('flag');
const instant = member('instant');
const list = member('list');
const json = member('json');
const text = member('text');
const object = member('object');

/** Every member that the `data` of an event can have, under one meaning each. */
export const EVENT_MEMBERS = {
  action: object('The kind, name, tags and policy keys of the action, as the request gave them.'),
  action_kind: text('The kind of action that the quota counts, or `__risk__` for a class of kinds.'),
  actor_id: text('The operator or key that did it.'),
  actual_amount: int64('What the client said that it used, in the unit.'),
  allocated: int64('What the budget has been given, in its unit.'),
  amount: int64('What was granted, in the unit.'),
  attempts: int64('How many attempts were made.'),
  baseline_rate: number('The rate before, in units per minute.'),
  caps_applied: json('The caps of the governing policy.'),
  category: text('Of what sort it is, in the words of whoever granted it.'),
  cascade_reason: text('`tenant_closed`: the tenant was closed, and what it owned with it.'),
  changed_fields: list('The names of what changed; empty where that is not told.'),
  charged: int64('What was charged to the budgets, in the unit; for an expiry, only if it cost something.'),
  component: text('The part of the system: `store`, `api` or `webhook_dispatcher`.'),
  credit_id: text('The credit.'),
  current_fraction: number('The fraction that reached the threshold, 0 to 1.'),
  current_rate: number('The rate now, per minute: of spent units for a budget, of occurrences otherwise.'),
  debt: int64('What the budget owes, in its unit.'),
  debt_incurred: int64('What became debt by this, in the unit; 0 for none.'),
  debt_repaid: int64('What of it repaid debt, in the unit.'),
  debt_utilization: number('debt / overdraft_limit; absent without a limit.'),
  decision: text('What the decision would have been: `ALLOW` or `ALLOW_WITH_CAPS`.'),
  delivery_id: text('The delivery, as the list of deliveries names it.'),
  deny_detail: json(
    'The reason, what blocked and, where it helps, what to do; the members of `deny_detail` in answers.',
  ),
  details: json('Further figures about the component.'),
  direction: text('`rising` if the use reaches the threshold, `falling` if it drops below it.'),
  disable_reason: text(
    '`consecutive_failures_exceeded_threshold`, or `endpoint_gone` after an answer of 410.',
  ),
  effective_at: instant('When it starts, or started.'),
  estimated_amount: int64('What the reservation held or would have held, in the unit.'),
  event_id: text('The id that the answer to the direct debit, or the failed delivery, named.'),
  expired_at: instant('When it was ended.'),
  created_at: instant('When the reservation was made.'),
  extensions_used: int64('How often it was extended.'),
  failed_event_type: text('The type of the event that could not be delivered.'),
  failure_reason: text('`invalid_format`, `key_not_found`, `key_revoked` or `key_expired`.'),
  first_in_period: flag(
    'Whether the budget reached the threshold for the first time in its period; absent if not. Funding or a reset that puts the use below it begins anew.',
  ),
  found: text('What was wrong with its entry in the index of deadlines, such as `MISSING`.'),
  idempotency_key: text('The key that the client gave the request.'),
  is_over_limit: flag('Whether the budget refuses reserves until its debt is repaid.'),
  key_id: text('The API key; never its secret.'),
  key_name: text('The name that the key was given.'),
  lapsed: int64('What nobody used before the end, in the unit.'),
  ledger_id: text('The budget.'),
  limit: int64('How many calls the quota allows in its window.'),
  lost_at: instant('When the connection was lost.'),
  message: text('The same in words.'),
  metadata: json('What the request gave as its metadata.'),
  metric: text('`denial_rate`, `expiry_rate` or `auth_failure_rate`.'),
  metrics: json('What the client measured: tokens, latency, model.'),
  multiplier: number('current_rate / baseline_rate.'),
  name: text('The name that it was given.'),
  new_state: object('Figures, status and period of the budget after the change.'),
  new_status: text('The status after the change.'),
  observe_mode: text('`OBSERVE`: nothing was enforced, and this is what would have happened.'),
  operation: text(
    'What was done, such as `CREATE`, `CREDIT`, `RESET_SPENT`, `UPDATE`; for latency, the operation measured.',
  ),
  outage_ms: int64('How long the connection was away, in ms.'),
  outcome: text('What became of the reservation.'),
  overage: int64('actual_amount - estimated_amount, in the unit.'),
  overage_policy: text('`REJECT`, `ALLOW_IF_AVAILABLE` or `ALLOW_WITH_OVERDRAFT`.'),
  overdraft_limit: int64('How much debt the budget may have, in its unit.'),
  p99_ms: int64('The 99th percentile of the latency, in ms.'),
  period_end: instant('When the period ends.'),
  period_start: instant('When the period began.'),
  periods: int64('How many periods have passed; more than 1 after missed ones.'),
  permissions: list('The permissions of the key.'),
  pinned: int64('What holds that were made before the end may still need, in the unit.'),
  policy_id: text('The policy whose rule it is.'),
  priority: int64('0 burns first, 100 last.'),
  previous_state: object('Figures, status and period of the budget before the change.'),
  previous_status: text('The status before the change.'),
  previous_used: int64('How many calls were counted before the reset.'),
  prior_status: text('The status before the tenant was closed.'),
  projected_exhaustion_minutes: number('When the budget is used up at this rate, in minutes from now.'),
  quarantine_reason: text('Why it was in quarantine.'),
  quarantined_at: instant('When it was put there.'),
  client_time_ms: int64('The time by the clock of the client, in ms since 1970.'),
  expires_at: instant('When it expires.'),
  refunded: int64('What was refunded by this, in the unit.'),
  refunded_total: int64('What of the charge is refunded now, in the unit.'),
  reason: text('Why, in the words of whoever did it; for a quarantine, the defect found.'),
  reason_code: text('The code of the refusal; an open list.'),
  reclaim_deadline: instant('When the hold returns at the latest.'),
  released_amount: int64('What holds had reserved at this budget and returned, in its unit.'),
  remaining: int64('What remains at the scope, in the unit; negative with debt.'),
  requested_amount: int64('What was asked for, in the unit.'),
  reservation_id: text('The reservation.'),
  reserved: int64('What live reservations hold of the budget, in its unit.'),
  response_status: int64('The status that the endpoint answered with, if it did.'),
  response_time_ms: int64('How long the endpoint took, in ms.'),
  consecutive_failures: int64('How many deliveries failed in a row.'),
  restored_at: instant('When the connection was back.'),
  returned_amount: int64('What went back to the budgets, in the unit.'),
  risk_class: text('The class of kinds that the quota counts.'),
  rollover_policy: text('`NONE`, `CARRY_FORWARD` or `CAP_AT_ALLOCATED`.'),
  sample_count: int64('How many occurrences were looked at.'),
  sample_rate: number('The fraction of events that is told, 0 to 1.'),
  scope: text('The scope that it is about.'),
  scope_pattern: text('The scopes that the policy governs.'),
  severity: text('`info`, `warning` or `critical`.'),
  spent: int64('What has been charged to the budget, in its unit.'),
  spent_override_provided: flag(
    'Whether the request named what is spent afterwards. False for a new period.',
  ),
  subject: object('The levels and dimensions of the subject, as the request gave them.'),
  subscription_id: text('The webhook subscription.'),
  template_id: text('The template that the budget was made by, or that it is about.'),
  tenant_id: text('The tenant; `__system__` for the operators.'),
  threshold: number('The share of the budget, 0 to 1, that was crossed.'),
  threshold_amount: int64('The amount, in the unit, that was crossed; in place of `threshold`.'),
  threshold_ms: int64('The latency above which this is told, in ms.'),
  threshold_pct: number('The share of the quota, 0 to 1, from which this is told.'),
  threshold_rate: number('The threshold, a fraction of 0 to 1 or a multiplier.'),
  total_debt: int64('What the budget owes afterwards, in its unit.'),
  ttl_ms: int64('How long the lease was, in ms.'),
  unit: text('`USD_MICROCENTS`, `TOKENS`, `CREDITS` or `RISK_POINTS`: of all amounts of this event.'),
  used: int64('How many calls are counted in the window.'),
  utilization: number('(spent + reserved) / allocated; absent if nothing is allocated.'),
  voided: int64('What was taken back, in the unit.'),
  window: text('The window of the quota, or of the budget, that it is about.'),
  window_key: text('Which window: a day, a minute, or the id of a run.'),
  window_seconds: int64('How long the window is that rates are taken from, in seconds.'),
  would_have_blocked_at: text('The scope that would have refused.'),
} as const satisfies Readonly<Record<string, EventMember>>;

export type EventMemberName = keyof typeof EVENT_MEMBERS;

/** Undefined for a member that is not known. */
export function eventMember(name: string): EventMember | undefined {
  return Object.hasOwn(EVENT_MEMBERS, name) ? EVENT_MEMBERS[name as EventMemberName] : undefined;
}
