import type { Answer } from '../../answers/index.js';
import { invalidField, Refusal, type Refused } from '../../ledger/index.js';
import { type Fields, readJson, stringifyJson } from '../../wire/index.js';
import type { KnownKinds } from '../action-kinds/known-kinds.js';
import type { ActionRulesDto } from './action-rules.dto.js';

/** The stored fields, which have the names of the members. lua/lib/action_rules.lua reads them. */
const RULE_FIELDS = [
  'action_quotas',
  'risk_class_quotas',
  'allowed_action_kinds',
  'denied_action_kinds',
] as const;

/** The rules of a policy on actions. A list that was never set is empty. */
export type ActionRules = Pick<Answer<'Policy'>, (typeof RULE_FIELDS)[number]>;

/** Of one list as JSON, because a reserve reads all rules of its policy. */
const LIST_MAX_BYTES = 16_384;

/** @throws Error when the record is corrupt. */
export function actionRulesOf(fields: Fields): ActionRules {
  return Object.fromEntries(
    RULE_FIELDS.map((name) => [name, readJson(fields.get(name) ?? '[]')]),
  ) as unknown as ActionRules;
}

/** Whether the rules have a quota of a kind or of a risk class. */
export function hasActionQuotas({ action_quotas: quotas, risk_class_quotas: risks }: ActionRules): boolean {
  return quotas.length + risks.length > 0;
}

/** Whether a quota or a list names the kind. */
export function referencesKind(rules: ActionRules, kind: string): boolean {
  return (
    rules.allowed_action_kinds.includes(kind) ||
    rules.denied_action_kinds.includes(kind) ||
    (rules.action_quotas as readonly { readonly action_kind?: unknown }[]).some(
      (quota) => quota.action_kind === kind,
    )
  );
}

/**
 * The lists of a request as the record stores them: JSON, or nothing for an empty one.
 * @throws Refusal INVALID_REQUEST
 */
export function ruleSettings(rules: ActionRulesDto): (readonly [field: string, value: string])[] {
  requireOneList(rules);
  for (const list of ['action_quotas', 'risk_class_quotas'] as const) {
    requireRunTtl(list, rules[list] ?? []);
  }
  return RULE_FIELDS.flatMap((name) => {
    const list = rules[name];
    return list === undefined ? [] : [[name, list.length === 0 ? '' : storedList(name, list)] as const];
  });
}

/** @throws Refusal INVALID_REQUEST if a list names a custom kind that the deployment does not declare: updatePolicyActionQuotas. */
export function requireKnownKinds(rules: ActionRulesDto, known: KnownKinds): void {
  const { action_quotas: quotas = [] } = rules;
  known.requireDeclared(
    quotas.map(({ action_kind: kind }) => kind),
    'action_quotas',
  );
  known.requireDeclared(rules.allowed_action_kinds ?? [], 'allowed_action_kinds');
  known.requireDeclared(rules.denied_action_kinds ?? [], 'denied_action_kinds');
}

function requireOneList({
  allowed_action_kinds: allowed,
  denied_action_kinds: denied,
}: ActionRulesDto): void {
  if ((allowed?.length ?? 0) > 0 && (denied?.length ?? 0) > 0) {
    throw new Refusal(...BOTH_LISTS);
  }
}

/** A policy either allows some kinds or denies some. */
export const BOTH_LISTS: Refused = [
  'INVALID_REQUEST',
  'a policy cannot have both allowed_action_kinds and denied_action_kinds; send [] to clear one of them',
  { field: 'allowed_action_kinds' },
];

function requireRunTtl(
  list: string,
  quotas: readonly { readonly window: string; readonly per_run_counter_ttl_ms?: number }[],
): void {
  const wrong = quotas.findIndex(
    ({ window, per_run_counter_ttl_ms: ttl }) => window !== 'per_run' && ttl !== undefined,
  );
  if (wrong !== -1) {
    const field = `${list}[${wrong}].per_run_counter_ttl_ms`;
    throw invalidField(field, `${field} is only allowed with the window per_run`);
  }
}

function storedList(field: string, list: readonly unknown[]): string {
  const text = stringifyJson(list);
  const bytes = Buffer.byteLength(text);
  if (bytes > LIST_MAX_BYTES) {
    throw invalidField(
      field,
      `${field} must have at most ${LIST_MAX_BYTES} bytes as JSON; this has ${bytes}`,
    );
  }
  return text;
}
