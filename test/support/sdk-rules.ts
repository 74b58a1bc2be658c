/**
 * What published clients require of a success beyond the schemas. The TypeScript client (runcycles) considers
 * an operation settled only if the status is exactly the expected one and the body has only members that it
 * knows, none of them null. It treats any other 2xx as ambiguous, retries and finally fails. The MCP server
 * checks its own list of members. Integers beyond 2^53 are not checked: that limit is the client's own.
 */

type Body = Readonly<Record<string, unknown>>;
type Check = (value: unknown, at: string) => string[];

interface Rule {
  readonly operation: string;
  readonly method: string;
  readonly path: RegExp;
  readonly status: number;
  readonly required: Readonly<Record<string, Check>>;
  readonly optional: Readonly<Record<string, Check>>;
  /** Rules that relate several members. */
  readonly whole?: (body: Body) => string[];
}

const UNITS = ['USD_MICROCENTS', 'TOKENS', 'CREDITS', 'RISK_POINTS'];
const STATUSES = ['ACTIVE', 'COMMITTED', 'RELEASED', 'EXPIRED'];
/** Members whose content the client chooses; they may hold anything. */
const FREE = ['metadata', 'committed_metadata'];

const text: Check = (value, at) =>
  typeof value === 'string' && value !== '' ? [] : [`${at} must be a string`];
/** The tenant names a policy's tools and an action's tags, and may leave a name empty. */
const anyText: Check = (value, at) => (typeof value === 'string' ? [] : [`${at} must be a string`]);
const flag: Check = (value, at) => (typeof value === 'boolean' ? [] : [`${at} must be true or false`]);
const integer: Check = (value, at) =>
  typeof value === 'bigint' || Number.isInteger(value) ? [] : [`${at} must be an integer`];
const natural: Check = (value, at) => {
  const found = integer(value, at);
  return found.length > 0 || (value as number | bigint) >= 0 ? found : [`${at} must not be negative`];
};
const one =
  (...values: readonly string[]): Check =>
  (value, at) =>
    values.includes(value as string) ? [] : [`${at} must be ${values.join(' or ')}`];
const list =
  (check: Check): Check =>
  (value, at) =>
    Array.isArray(value)
      ? value.flatMap((entry, index) => check(entry, `${at}[${index}]`))
      : [`${at} must be an array`];
const free: Check = (value, at) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? [] : [`${at} must be an object`];
const reason: Check = (value, at) =>
  typeof value === 'string' && value !== '' && value.length <= 128
    ? []
    : [`${at} must be a string of up to 128 characters`];

const matching =
  (pattern: RegExp): Check =>
  (value, at) =>
    typeof value === 'string' && pattern.test(value) ? [] : [`${at} must match ${pattern.source}`];

function members(
  required: Readonly<Record<string, Check>>,
  optional: Readonly<Record<string, Check>> = {},
): Check {
  return (value, at) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return [`${at} must be an object`];
    }
    const problems = Object.keys(required).flatMap((name) =>
      name in value ? [] : [`${at}.${name} is missing`],
    );
    for (const [name, entry] of Object.entries(value)) {
      const check = required[name] ?? optional[name];
      problems.push(
        ...(check === undefined ? [`${at}.${name} is unknown to the client`] : check(entry, `${at}.${name}`)),
      );
    }
    return problems;
  };
}

const amount = members({ unit: one(...UNITS), amount: natural });
const signedAmount = members({ unit: one(...UNITS), amount: integer });
/** `allocated` is optional in the schema, but the MCP server's hint about a low budget needs it. */
const balances = list(
  members(
    { scope: text, scope_path: text, remaining: signedAmount, allocated: amount },
    { reserved: amount, spent: amount, debt: amount, overdraft_limit: amount, is_over_limit: flag },
  ),
);
const caps = members(
  {},
  {
    max_tokens: natural,
    max_steps_remaining: natural,
    tool_allowlist: list(anyText),
    tool_denylist: list(anyText),
    cooldown_ms: natural,
  },
);
const decision = one('ALLOW', 'ALLOW_WITH_CAPS', 'DENY');
const subject = members(
  {},
  { tenant: text, workspace: text, app: text, workflow: text, agent: text, toolset: text, dimensions: free },
);
const action = members({ kind: text, name: text }, { tags: list(anyText) });

const evidence = members({
  evidence_id: matching(/^[0-9a-f]{64}$/),
  cycles_evidence_url: matching(/^https?:\/\/./),
});

/** The MCP server's tool fails if a row lacks one of these. */
const ROW = {
  reservation_id: text,
  status: one(...STATUSES),
  subject,
  action,
  reserved: amount,
  created_at_ms: natural,
  expires_at_ms: natural,
  scope_path: text,
  affected_scopes: list(text),
};
const ROW_OPTIONAL = {
  idempotency_key: text,
  committed: amount,
  finalized_at_ms: natural,
  metadata: free,
  committed_metadata: free,
  evidence: members({}, { reserve: evidence, commit: evidence, release: evidence }),
};
const PAGE = { has_more: flag, next_cursor: text };

function capsMatch(body: Body): string[] {
  return (body['decision'] === 'ALLOW_WITH_CAPS') === (body['caps'] !== undefined)
    ? []
    : ['caps must be present exactly with ALLOW_WITH_CAPS'];
}

function pageMatches(body: Body): string[] {
  return (body['has_more'] === true) === (body['next_cursor'] !== undefined)
    ? []
    : ['next_cursor must be present exactly when has_more is true'];
}

/** Without remaining_ttl_ms the client extends immediately and uses up its extensions. */
function createMatches(body: Body): string[] {
  const live = ['reservation_id', 'expires_at_ms', 'remaining_ttl_ms'].filter(
    (name) => body[name] !== undefined,
  ).length;
  return [
    ...capsMatch(body),
    ...(live === 0 || live === 3 ? [] : ['reservation_id, expires_at_ms and remaining_ttl_ms come together']),
    ...(body['decision'] === 'DENY' && live > 0 ? ['a denial reserves nothing'] : []),
    ...(body['decision'] !== 'DENY' && body['reserved'] === undefined ? ['reserved is missing'] : []),
    ...denialSaysWhy(body),
  ];
}

function denialSaysWhy(body: Body): string[] {
  return (body['decision'] === 'DENY') === (body['reason_code'] !== undefined)
    ? []
    : ['reason_code must be present exactly with DENY'];
}

const RULES: readonly Rule[] = [
  {
    operation: 'createReservation',
    method: 'POST',
    path: /^\/v1\/reservations$/,
    status: 200,
    required: { decision, affected_scopes: list(text) },
    optional: {
      reservation_id: text,
      expires_at_ms: natural,
      remaining_ttl_ms: natural,
      scope_path: text,
      reserved: amount,
      caps,
      reason_code: reason,
      retry_after_ms: natural,
      balances,
      cycles_evidence: evidence,
    },
    whole: createMatches,
  },
  {
    operation: 'commitReservation',
    method: 'POST',
    path: /^\/v1\/reservations\/[^/]+\/commit$/,
    status: 200,
    required: { status: one('COMMITTED'), charged: amount, balances },
    optional: { released: amount, cycles_evidence: evidence },
  },
  {
    operation: 'releaseReservation',
    method: 'POST',
    path: /^\/v1\/reservations\/[^/]+\/release$/,
    status: 200,
    required: { status: one('RELEASED'), released: amount, balances },
    optional: { cycles_evidence: evidence },
  },
  {
    operation: 'extendReservation',
    method: 'POST',
    path: /^\/v1\/reservations\/[^/]+\/extend$/,
    status: 200,
    required: { status: one('ACTIVE'), expires_at_ms: natural, remaining_ttl_ms: natural },
    optional: { balances },
  },
  {
    operation: 'createEvent',
    method: 'POST',
    path: /^\/v1\/events$/,
    status: 201,
    required: { status: one('APPLIED'), event_id: text },
    optional: { charged: amount, balances },
  },
  {
    operation: 'decide',
    method: 'POST',
    path: /^\/v1\/decide$/,
    status: 200,
    required: { decision },
    optional: {
      caps,
      reason_code: reason,
      retry_after_ms: natural,
      affected_scopes: list(text),
      cycles_evidence: evidence,
    },
    whole: (body) => [...capsMatch(body), ...denialSaysWhy(body)],
  },
  {
    operation: 'getBalances',
    method: 'GET',
    path: /^\/v1\/balances$/,
    status: 200,
    required: { balances },
    optional: PAGE,
    whole: pageMatches,
  },
  {
    operation: 'getReservation',
    method: 'GET',
    path: /^\/v1\/reservations\/[^/]+$/,
    status: 200,
    required: ROW,
    optional: ROW_OPTIONAL,
  },
  {
    operation: 'listReservations',
    method: 'GET',
    path: /^\/v1\/reservations$/,
    status: 200,
    required: { reservations: list(members(ROW, ROW_OPTIONAL)) },
    optional: PAGE,
    whole: pageMatches,
  },
];

/**
 * Members that the MCP server's output schemas (0.6.x) lack. The schemas allow no additional members, so the
 * tool fails in an MCP client that validates outputs.
 */
const MCP_LACKS: Readonly<Record<string, readonly string[]>> = {
  createReservation: ['remaining_ttl_ms'],
  extendReservation: ['remaining_ttl_ms'],
};

export interface KnownFailure {
  readonly problem: string;
  readonly reason: string;
}

const TTL_IS_PROTOCOL =
  'the protocol has the member, and the TypeScript client times its heartbeat by it: without it each beat is an extension';

/**
 * What is known to fail in an MCP client that validates outputs. docs/compatibility.md says what to do about
 * it.
 */
export const KNOWN_MCP_FAILURES: readonly KnownFailure[] = [
  { problem: 'createReservation.remaining_ttl_ms is unknown to the MCP server', reason: TTL_IS_PROTOCOL },
  { problem: 'extendReservation.remaining_ttl_ms is unknown to the MCP server', reason: TTL_IS_PROTOCOL },
];

/**
 * What an MCP client would reject in a success if it validates the MCP server's outputs. `sdkProblems` finds
 * missing members.
 */
export function mcpProblems(method: string, path: string, status: number, body: unknown): string[] {
  const rule = ruleOf(method, path);
  if (status < 200 || status > 299 || rule === undefined || typeof body !== 'object' || body === null) {
    return [];
  }
  const lacks = MCP_LACKS[rule.operation] ?? [];
  const knows = (name: string): boolean =>
    (name in rule.required || name in rule.optional) && !lacks.includes(name);
  return Object.entries(body).flatMap(([name, value]) =>
    value === undefined || knows(name) ? [] : [`${rule.operation}.${name} is unknown to the MCP server`],
  );
}

/** The failures that are not in the list of known ones. */
export function unexplainedMcpProblems(
  method: string,
  path: string,
  status: number,
  body: unknown,
): string[] {
  return mcpProblems(method, path, status, body).filter(
    (found) => !KNOWN_MCP_FAILURES.some(({ problem }) => problem === found),
  );
}

function ruleOf(method: string, path: string): Rule | undefined {
  const [place = '', query = ''] = path.split('?');
  // The clients query balances only by subject; these filters select the governance view.
  if (place === '/v1/balances' && /(?:^|&)(?:tenant_id|scope_prefix|unit)=/.test(query)) {
    return undefined;
  }
  return RULES.find((candidate) => candidate.method === method && candidate.path.test(place));
}

/**
 * Whether the problem concerns members that clients of 0.1.25 do not know, and receive only if they use the
 * extensions, reserve in sets or refund.
 */
export function isOfExtensions(problem: string): boolean {
  return /(?:\.deny_detail|\.action\.policy_keys|\.reservation_set_id|\.refunded) is unknown to the (?:client|MCP server)$/.test(
    problem,
  );
}

/**
 * What the clients would not accept in a success. Empty for other responses, and for operations that the
 * clients do not call.
 */
export function sdkProblems(method: string, path: string, status: number, body: unknown): string[] {
  if (status < 200 || status > 299) {
    return [];
  }
  const rule = ruleOf(method, path);
  if (rule === undefined) {
    return [];
  }
  if (status !== rule.status) {
    return [`the client accepts only ${rule.status} for ${rule.operation}, not ${status}`];
  }
  const problems = members(rule.required, rule.optional)(body, rule.operation);
  return problems.length > 0
    ? problems
    : [...nullProblems(body, rule.operation), ...(rule.whole?.(body as Body) ?? [])];
}

function nullProblems(value: unknown, at: string): string[] {
  if (value === null) {
    return [`${at} is null`];
  }
  if (typeof value !== 'object') {
    return [];
  }
  return Object.entries(value).flatMap(([name, entry]) =>
    FREE.includes(name) ? [] : nullProblems(entry, `${at}.${name}`),
  );
}
