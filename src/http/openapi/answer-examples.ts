import type { AnswerSchema } from '../../answers/index.js';

const NOW = '2026-11-23T09:12:04.118Z';
const NOW_MS = 1_795_511_524_118;

/** Values of members that their schema does not tell. */
const VALUES: Readonly<Record<string, unknown>> = {
  tenant_id: 'acme',
  tenant: 'acme',
  scope: 'tenant:acme/app:support-chat',
  scope_path: 'tenant:acme/app:support-chat',
  scope_pattern: 'tenant:acme/app:*',
  scope_filter: 'tenant:acme/*',
  scope_prefix: 'tenant:acme/',
  affected_scopes: ['tenant:acme', 'tenant:acme/app:support-chat'],
  reservation_id: 'rsv_3a9tBbH8kL1pY8DqS3',
  reservation_set_id: 'set_3a9tBbH8kL1pY8DqS3',
  event_id: 'evt_019abcdef012a000',
  ledger_id: 'ldg_3aDnSBhXoHTkThfwkD',
  key_id: 'key_3aAclSIZvuN5E8znWZ',
  credit_id: 'crd_3aQm8vXc2LpT6WnZrK',
  policy_id: 'pol_3a9TnEyYo9UKyaEyn8',
  subscription_id: 'whsub_3abOartZIsZZcTIIps',
  delivery_id: 'dlv_019abcdef012a000_3abOartZIsZZcTIIps',
  replay_id: 'rpl_3abOartZIsZZ',
  log_id: 'log_019abcdef012a000',
  template_id: 'agents',
  request_id: 'req_0123456789abcdef01234567',
  trace_id: '0af7651916cd43dd8448eb211c80319c',
  idempotency_key: 'order-1',
  name: 'Acme',
  kind: 'llm.completion',
  action_kind: 'llm.completion',
  event_type: 'reservation.expired',
  event_types: ['reservation.expired'],
  url: 'https://hooks.example.com/holdfast',
  time_zone: 'Europe/Berlin',
  app: 'support-chat',
  workspace: 'prod',
  workflow: 'refunds',
  agent: 'triage',
  toolset: 'search',
  message: 'there is no TOKENS budget at tenant:acme',
  unit: 'TOKENS',
  amount: 1000,
  // A secret is shown once, and in no document.
  key_secret: '********',
  signing_secret: '********',
  // allocated - spent - reserved - debt is what remains.
  allocated: 10_000,
  spent: 640,
  reserved: 1000,
  debt: 0,
  overdraft_limit: 0,
  remaining: 8360,
  expires_at_ms: NOW_MS + 60_000,
  source: 'holdfast',
};

/** What an answer has only in cases that its example does not show. */
const RARE =
  /^(?:next_cursor|cycles_evidence|deny_detail|reason_code|retry_after_ms|caps|debt|overdraft_limit|is_over_limit|error_code|error_message|message|suspended_at|closed_at|revoked_\w+|parent_tenant_id|quarantine\w*|awaiting_cleanup)$/;

const USUALLY_FALSE = /^(?:has_more|is_over_limit|over_limit|dry_run|quarantined|waiting|deprecated)$/;

type Lookup = (name: string) => AnswerSchema;
type Parts = Exclude<AnswerSchema, { readonly $ref: string }> & {
  readonly const?: unknown;
  readonly examples?: readonly unknown[];
};

/** A plausible value of a schema, which obeys it. */
export function exampleOf(
  schema: AnswerSchema,
  lookup: Lookup,
  name = '',
  seen: readonly string[] = [],
): unknown {
  if ('$ref' in schema && typeof schema.$ref === 'string') {
    const target = schema.$ref.replace(/^.*\//, '');
    return seen.includes(target) ? {} : exampleOf(lookup(target), lookup, name, [...seen, target]);
  }
  const parts = schema as Parts;
  const inner = (part: AnswerSchema, member: string): unknown => exampleOf(part, lookup, member, seen);
  const known = VALUES[name];
  if (known !== undefined && fits(known, parts)) {
    return known;
  }
  const given = parts.const ?? parts.examples?.[0] ?? parts.enum?.[0];
  if (given !== undefined) {
    return given;
  }
  if (parts.anyOf !== undefined) {
    return inner(parts.anyOf[0] as AnswerSchema, name);
  }
  switch (parts.type) {
    case 'object':
      return objectOf(parts, name, inner);
    case 'array':
      return parts.items === undefined ? [] : [inner(parts.items, singular(name))];
    case 'integer':
      return name.endsWith('_ms') && parts.maximum === Number.MAX_SAFE_INTEGER && /(?:^|_)at_ms$/.test(name)
        ? NOW_MS
        : Math.max(Number(parts.minimum ?? 0), Math.min(Number(parts.maximum ?? 100), 100));
    case 'number':
      return Math.min(Number(parts.maximum ?? 1), Math.max(Number(parts.minimum ?? 0), 0.5));
    case 'boolean':
      return !USUALLY_FALSE.test(name);
    default:
      return textOf(parts, name);
  }
}

/** An amount has the figure of the member that it is. */
function objectOf(parts: Parts, name: string, inner: (part: AnswerSchema, name: string) => unknown): unknown {
  const figure = VALUES[name];
  if (typeof figure === 'number' && parts.properties?.['amount'] !== undefined) {
    return { unit: VALUES['unit'], amount: figure };
  }
  const required = new Set(parts.required ?? []);
  return Object.fromEntries(
    Object.entries(parts.properties ?? {})
      .filter(([name]) => required.has(name) || !RARE.test(name))
      .map(([name, schema]) => [name, inner(schema, name)]),
  );
}

function fits(value: unknown, { type, pattern, enum: allowed }: Parts): boolean {
  const kind = Array.isArray(value) ? 'array' : typeof value === 'number' ? 'integer' : typeof value;
  const isOfType = type === kind || (type === 'number' && kind === 'integer');
  return isOfType && matches(value, pattern) && (allowed === undefined || allowed.includes(value));
}

const matches = (value: unknown, pattern: string | undefined): boolean =>
  pattern === undefined || new RegExp(pattern).test(String(value));

const singular = (name: string): string => name.replace(/ies$/, 'y').replace(/s$/, '');

/** Texts that common forms accept; the first that fits. */
const TEXTS = [
  'text',
  '0af7651916cd43dd8448eb211c80319c',
  'ab'.repeat(32),
  'ab'.repeat(64),
  '01',
  '0',
  'a'.repeat(43),
];

function textOf({ format, pattern }: Parts, name: string): string {
  if (format === 'date-time') {
    return NOW;
  }
  if (format === 'uri') {
    return 'https://cycles.example.com/v1/evidence/' + 'ab'.repeat(32);
  }
  return TEXTS.find((text) => matches(text, pattern)) ?? name;
}
