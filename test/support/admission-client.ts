import { deriveScopes, type SubjectLevels } from '../../src/ledger/scopes.js';
import {
  idempotencyKey,
  policyIndexKey,
  policyKey,
  policyNameKey,
  tenantKey,
} from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import {
  DEFAULT_UNIT,
  IDEMPOTENCY_TTL_MS,
  RETENTION_MS,
  TRACE,
  randomText,
  type Amount,
  type LedgerClient,
} from './ledger-client.js';

export interface AdmissionOptions {
  readonly tenant?: string;
  readonly key?: string;
  readonly subject?: SubjectLevels;
  readonly unit?: string;
  readonly amount?: Amount;
  readonly fields?: Readonly<Record<string, string>>;
  /** For quotas; only `decide` takes it. See lua/ledger/lib/action_quota.lua. */
  readonly facts?: string;
  readonly maxBudgets?: number;
}

export interface DebitOptions extends AdmissionOptions {
  readonly id?: string;
  readonly policy?: string;
}

const ORIGIN = ['api_key', 'key_1', 'req_policy', TRACE] as const;

/** Equal for equal requests; the scripts only compare it. */
const fingerprintOf = (payload: unknown): string =>
  Buffer.from(JSON.stringify(payload)).toString('base64url');

export function decide(ledger: LedgerClient, options: AdmissionOptions = {}): Promise<Reply> {
  const {
    tenant = ledger.tenant,
    key = randomText(12),
    subject = {},
    unit = DEFAULT_UNIT,
    amount = 10,
    fields = {},
  } = options;
  const scopes = deriveScopes(subject, tenant);
  return ledger.scripts.run(
    'decide',
    [idempotencyKey.decide(ledger.tag, tenant, key), tenantKey(ledger.tag, tenant)],
    [
      tenant,
      fingerprintOf([scopes, unit, String(amount), fields]),
      unit,
      String(amount),
      IDEMPOTENCY_TTL_MS,
      RETENTION_MS,
      'key_1',
      'req_decide',
      TRACE,
      options.facts ?? 'side_effect||||',
      options.maxBudgets ?? 0,
      scopes.length,
      ...scopes,
      'ak',
      'llm',
      ...Object.entries(fields).flat(),
    ],
  );
}

export function debit(ledger: LedgerClient, options: DebitOptions = {}): Promise<Reply> {
  const {
    tenant = ledger.tenant,
    key = randomText(12),
    subject = {},
    unit = DEFAULT_UNIT,
    amount = 10,
    policy = '',
    fields = {},
  } = options;
  const scopes = deriveScopes(subject, tenant);
  return ledger.scripts.run(
    'direct_debit',
    [idempotencyKey.directDebit(ledger.tag, tenant, key), tenantKey(ledger.tag, tenant)],
    [
      tenant,
      options.id ?? `evn_${randomText(18)}`,
      fingerprintOf([scopes, unit, String(amount), policy, fields]),
      unit,
      String(amount),
      policy,
      IDEMPOTENCY_TTL_MS,
      RETENTION_MS,
      'key_1',
      'req_debit',
      TRACE,
      options.maxBudgets ?? 0,
      scopes.length,
      ...scopes,
      'ak',
      'llm',
      ...Object.entries(fields).flat(),
    ],
  );
}

/** A debit as the service runs it: repeated while overdue holds have to be reclaimed first. */
export async function debitToTheEnd(ledger: LedgerClient, options: DebitOptions = {}): Promise<Reply> {
  const settled = { key: randomText(12), ...options };
  let reply = await debit(ledger, settled);
  while (reply[0] === 'RECLAIMED') {
    reply = await debit(ledger, settled);
  }
  return reply;
}

export interface PolicyOptions {
  readonly name?: string;
  readonly priority?: number;
  readonly from?: number | '';
  readonly until?: number | '';
  /** The fields that the policy sets, as stored. */
  readonly sets?: Readonly<Record<string, string | number>>;
}

/** The reply of create_policy, and the id that it was given. */
export async function createPolicy(
  ledger: LedgerClient,
  pattern: string,
  options: PolicyOptions = {},
): Promise<{ id: string; reply: Reply }> {
  const { name = randomText(8), priority = 0, from = '', until = '', sets = {} } = options;
  const { tag, tenant } = ledger;
  const id = `pol_${randomText(18)}`;
  const reply = await ledger.scripts.run(
    'create_policy',
    [policyKey(tag, id), policyIndexKey(tag, tenant), policyNameKey(tag, tenant), tenantKey(tag, tenant)],
    [tenant, id, name, pattern, priority, from, until, ...ORIGIN, 0, ...Object.entries(sets).flat()],
  );
  return { id, reply };
}

/** Creates a policy and fails if the script refuses it. */
export async function makePolicy(
  ledger: LedgerClient,
  pattern: string,
  options: PolicyOptions = {},
): Promise<string> {
  const { id, reply } = await createPolicy(ledger, pattern, options);
  if (reply[0] !== 'CREATED') {
    throw new Error(`the policy was not created: ${reply.join(' ')}`);
  }
  return id;
}

/** An empty value removes the field; an empty tenant means an operator. */
export function updatePolicy(
  ledger: LedgerClient,
  id: string,
  sets: Record<string, string | number>,
  tenant = ledger.tenant,
): Promise<Reply> {
  return ledger.scripts.run(
    'update_policy',
    [policyKey(ledger.tag, id)],
    [tenant, id, ...ORIGIN, ...Object.entries(sets).flat()],
  );
}
