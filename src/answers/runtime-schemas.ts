import { OVERAGE_POLICIES, QUOTA_WINDOWS, RISK_CLASSES, UNITS } from '../ledger/index.js';
import {
  type AnswerSchema,
  COUNT,
  COUNT64,
  FLAG,
  FREE,
  INT64,
  kept,
  list,
  mapOf,
  MILLISECONDS,
  object,
  oneOf,
  PAGE,
  ref,
  TEXT,
  TIME,
} from './parts.js';

const AMOUNT = ref('Amount');
const BALANCES = list(ref('Balance'));
const DECISION = oneOf('ALLOW', 'ALLOW_WITH_CAPS', 'DENY');
const SCOPES = { ...list(TEXT), description: 'Canonical scopes from the tenant down.' };
const REASON = {
  type: 'string',
  maxLength: 128,
  description: 'Why the decision is DENY; further codes may come.',
} as const;

const DENY_DETAIL = {
  ...ref('DenyDetail'),
  description: 'Only for those who use the extensions of v0.1.26.',
} as const;
const EVIDENCE = ref('CyclesEvidenceRef');
const EVIDENCE_ID = { type: 'string', pattern: '^[0-9a-f]{64}$' } as const;
const TRACE_ID = { type: 'string', pattern: '^[0-9a-f]{32}$' } as const;

export const SET_ID = {
  type: 'string',
  description:
    'The set that the reservations were granted with. With `rsv_` for `set_`, it is the id of the first one.',
} as const;

/** As the record has it. */
const STORED_MS: AnswerSchema<number | bigint> = MILLISECONDS;
const RESERVATION_ALWAYS = {
  reservation_id: TEXT,
  status: kept('ACTIVE', 'COMMITTED', 'RELEASED', 'EXPIRED'),
  subject: ref('Subject'),
  action: ref('Action'),
  reserved: AMOUNT,
  created_at_ms: STORED_MS,
  expires_at_ms: STORED_MS,
  scope_path: TEXT,
  affected_scopes: SCOPES,
};
const RESERVATION_SOMETIMES = {
  idempotency_key: { type: 'string', minLength: 1, maxLength: 256 },
  reservation_set_id: SET_ID,
  committed: AMOUNT,
  refunded: { ...AMOUNT, description: 'What of the charge was refunded.' },
  finalized_at_ms: STORED_MS,
  metadata: FREE,
  committed_metadata: FREE,
  evidence: ref('ReservationEvidence'),
} as const;

/** The answers of the runtime plane: cycles-protocol-v0. Members that Holdfast always gives are required here, though the protocol lets them be absent. */
export const RUNTIME_SCHEMAS = {
  Amount: object({ unit: kept(...UNITS), amount: COUNT64 }),
  SignedAmount: object({ unit: kept(...UNITS), amount: INT64 }),
  CommitOveragePolicy: kept(...OVERAGE_POLICIES),
  Balance: object(
    {
      scope: TEXT,
      scope_path: TEXT,
      remaining: ref('SignedAmount'),
      reserved: AMOUNT,
      spent: AMOUNT,
      allocated: AMOUNT,
    },
    {
      debt: { ...AMOUNT, description: 'Absent where there is none.' },
      overdraft_limit: { ...AMOUNT, description: 'Absent where no overdraft is allowed.' },
      is_over_limit: { ...FLAG, description: 'Absent unless true.' },
    },
  ),
  Subject: object(
    {},
    {
      tenant: TEXT,
      workspace: TEXT,
      app: TEXT,
      workflow: TEXT,
      agent: TEXT,
      toolset: TEXT,
      dimensions: mapOf(TEXT),
    },
  ),
  Action: object({ kind: TEXT, name: TEXT }, { tags: list(TEXT), policy_keys: FREE }),
  ActionQuotaViolation: object(
    {
      action_kind: { type: 'string', maxLength: 64 },
      window: oneOf(...QUOTA_WINDOWS),
      used: INT64,
      limit: INT64,
      scope: TEXT,
    },
    { window_key: TEXT, policy_id: TEXT, risk_class: oneOf(...RISK_CLASSES) },
  ),
  DenyDetail: object(
    { reason_code: REASON },
    {
      quota_violation: ref('ActionQuotaViolation'),
      blocked_by_scope: TEXT,
      blocked_by_policy: { type: 'string', maxLength: 256 },
      suggested_fix: { type: 'string', maxLength: 512 },
      budget_remaining: INT64,
    },
  ),
  Caps: object(
    {},
    {
      max_tokens: COUNT64,
      max_steps_remaining: COUNT64,
      tool_allowlist: list(TEXT),
      tool_denylist: list(TEXT),
      cooldown_ms: COUNT64,
    },
  ),
  DecisionResponse: object(
    { decision: DECISION },
    {
      affected_scopes: SCOPES,
      caps: ref('Caps'),
      reason_code: REASON,
      deny_detail: DENY_DETAIL,
      retry_after_ms: COUNT,
      cycles_evidence: EVIDENCE,
    },
  ),
  ReservationCreateResponse: object(
    { decision: DECISION, affected_scopes: SCOPES },
    {
      scope_path: TEXT,
      reservation_id: { type: 'string', description: 'Absent for a dry run and for DENY.' },
      reserved: AMOUNT,
      expires_at_ms: MILLISECONDS,
      remaining_ttl_ms: {
        ...MILLISECONDS,
        description: 'What is left of the lease while this answer is made; a heartbeat is timed by it.',
      },
      caps: ref('Caps'),
      balances: BALANCES,
      reason_code: REASON,
      deny_detail: DENY_DETAIL,
      retry_after_ms: COUNT,
      cycles_evidence: EVIDENCE,
    },
  ),
  ReservationSetResponse: object({
    reservation_set_id: SET_ID,
    reservations: {
      type: 'array',
      items: ref('ReservationCreateResponse'),
      description: 'In the order of the request.',
    },
  }),
  CommitResponse: object(
    { status: oneOf('COMMITTED'), charged: AMOUNT, balances: BALANCES },
    {
      released: { ...AMOUNT, description: 'Absent where nothing went back.' },
      cycles_evidence: EVIDENCE,
    },
  ),
  ReleaseResponse: object(
    { status: oneOf('RELEASED'), released: AMOUNT, balances: BALANCES },
    { cycles_evidence: EVIDENCE },
  ),
  RefundResponse: object({
    status: oneOf('REFUNDED'),
    refunded: AMOUNT,
    refunded_total: { ...AMOUNT, description: 'What of the charge is refunded now, with this.' },
    returned: {
      ...list(object({ scope: TEXT, amount: INT64 })),
      description:
        'By how much each charged scope grew: debt that was repaid, and what still stood of the charge. Less than `refunded` where a period has ended since.',
    },
    balances: BALANCES,
  }),
  CyclesEvidenceRef: object({
    evidence_id: EVIDENCE_ID,
    cycles_evidence_url: { type: 'string', format: 'uri' },
  }),
  ReservationEvidence: object({}, { reserve: EVIDENCE, commit: EVIDENCE, release: EVIDENCE }),
  CyclesEvidenceEnvelope: object({
    schema_version: oneOf('cycles-evidence/v0.1'),
    artifact_type: oneOf('decide', 'reserve', 'commit', 'release', 'error'),
    server_id: TEXT,
    signer_did: { type: 'string', description: 'The public key in hex.' },
    issued_at_ms: MILLISECONDS,
    trace_id: TRACE_ID,
    payload: FREE,
    evidence_id: EVIDENCE_ID,
    signature: { type: 'string', pattern: '^[0-9a-f]{128}$' },
  }),
  CyclesEvidenceJwks: object({ keys: list(ref('CyclesEvidenceJwk')) }),
  CyclesEvidenceJwk: object(
    {
      kty: oneOf('OKP'),
      crv: oneOf('Ed25519'),
      alg: oneOf('EdDSA'),
      kid: TEXT,
      x: TEXT,
      cycles_nbf_ms: MILLISECONDS,
      status: oneOf('active', 'retired'),
    },
    { cycles_exp_ms: MILLISECONDS },
  ),
  ReservationExtendResponse: object(
    { status: oneOf('ACTIVE'), expires_at_ms: MILLISECONDS, remaining_ttl_ms: MILLISECONDS },
    { balances: BALANCES },
  ),
  ReservationDetail: object(RESERVATION_ALWAYS, RESERVATION_SOMETIMES),
  ReservationSummary: object(RESERVATION_ALWAYS, RESERVATION_SOMETIMES),
  ReservationListResponse: object({ reservations: list(ref('ReservationSummary')), has_more: FLAG }, PAGE),
  BalanceResponse: object({ balances: BALANCES, has_more: FLAG }, PAGE),
  EventCreateResponse: object(
    { status: oneOf('APPLIED'), event_id: TEXT, balances: BALANCES },
    { charged: { ...AMOUNT, description: 'Absent where the actual amount was charged in full.' } },
  ),
} as const;

/** The answers of Holdfast's own operations of the runtime plane. */
export const BATCH_SCHEMAS = {
  BatchResponse: object({
    results: {
      ...list(ref('BatchResult')),
      description: 'One for each operation, in the order of the request.',
    },
  }),
  BatchResult: object(
    {
      status: { type: 'integer', description: 'The status that a request of its own would have got.' },
      body: {
        anyOf: [
          'ReservationCreateResponse',
          'CommitResponse',
          'ReleaseResponse',
          'RefundResponse',
          'ReservationExtendResponse',
          'EventCreateResponse',
          'ErrorResponse',
        ].map(ref),
      },
    },
    {
      retry_after_s: {
        ...COUNT,
        description:
          'The `Retry-After` that a request of its own would have got. That of the answer is the longest.',
      },
    },
  ),
} as const;

const KIND = { type: 'string', maxLength: 64 } as const;

/** The answers about action kinds: cycles-action-kinds-v0.1.26. */
export const ACTION_SCHEMAS = {
  ActionKind: object(
    { kind: KIND, risk_class: oneOf(...RISK_CLASSES) },
    {
      policy_key_spec: object(
        {},
        { host: FLAG, recipient_domain: FLAG, resource_type: TEXT, path_prefix: FLAG },
      ),
      description: { type: 'string', maxLength: 512 },
      mcp_tool_prefixes: list({ type: 'string', maxLength: 128 }),
    },
  ),
  ActionQuotaState: object(
    {
      action_kind: { ...KIND, description: '`__risk__` for the counter of a risk class.' },
      scope: TEXT,
      scope_path: TEXT,
      window: oneOf(...QUOTA_WINDOWS),
      window_key: { ...TEXT, description: 'The minute, hour or day in UTC, or the run.' },
      used: COUNT64,
      limit: { type: 'integer', format: 'int64', minimum: 1 },
      remaining: COUNT64,
      expires_at: TIME,
    },
    { risk_class: kept(...RISK_CLASSES), policy_id: TEXT, last_incremented_at: TIME },
  ),
  ActionQuotaCounterListResponse: object({ counters: list(ref('ActionQuotaState')), has_more: FLAG }, PAGE),
  ActionQuotaCounterResetResponse: object({
    counter: ref('ActionQuotaState'),
    previous_used: { ...COUNT64, description: 'What it had counted before.' },
  }),
  ActionKindRegistry: object({ version: TEXT, kinds: list(ref('ActionKind')), has_more: FLAG }, PAGE),
} as const;
