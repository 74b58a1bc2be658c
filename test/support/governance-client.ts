import {
  apiKeyHashKey,
  apiKeyIndexKey,
  apiKeyKey,
  bornKey,
  budgetIndexKey,
  budgetKey,
  creditIndexKey,
  creditsTurnedKey,
  idempotencyKey,
  keyRevokedChannel,
  periodIndexKey,
  periodPlansKey,
  rolledKey,
  tenantIndexKey,
  tenantKey,
  turnedKey,
} from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import {
  IDEMPOTENCY_TTL_MS,
  randomText,
  RETENTION_MS,
  TRACE,
  type Amount,
  type LedgerClient,
} from './ledger-client.js';

/** The scripts of the governance plane, called as the services call them. */

const ADMIN = ['admin', '', 'req_1', TRACE] as const;
/** The lifetime of a key whose end is not given. */
export const KEY_LIFE_MS = 60_000;

export function createTenant(ledger: LedgerClient, name = 'Acme'): Promise<Reply> {
  const keys = [tenantKey(ledger.tag, ledger.tenant), tenantIndexKey(ledger.tag)] as const;
  return ledger.scripts.run(
    'create_tenant',
    [...keys],
    [ledger.tenant, name, ...ADMIN, 'max_reservation_extensions', '3'],
  );
}

export interface Key {
  readonly id: string;
  readonly hash: string;
}

export function newKey(ledger: LedgerClient): Key {
  return { id: `key_${ledger.tag.slice(2, 4)}${randomText(16)}`, hash: randomText(43) };
}

export function createKey(
  ledger: LedgerClient,
  { id, hash }: Key,
  expiresAt: number | '' = '',
): Promise<Reply> {
  const { tag, tenant } = ledger;
  return ledger.scripts.run(
    'create_api_key',
    [apiKeyKey(tag, id), apiKeyHashKey(tag, hash), apiKeyIndexKey(tag, tenant), tenantKey(tag, tenant)],
    [
      tenant,
      id,
      hash,
      'a key',
      '["balances:read"]',
      '[]',
      expiresAt,
      KEY_LIFE_MS,
      ...ADMIN,
      0,
      'key_prefix',
      'cyc_live_00abcd',
    ],
  );
}

export const revoke = (ledger: LedgerClient, id: string): Promise<Reply> =>
  ledger.scripts.run(
    'revoke_api_key',
    [apiKeyKey(ledger.tag, id)],
    [id, 'leaked', keyRevokedChannel(), ...ADMIN],
  );

export function createBudget(
  ledger: LedgerClient,
  allocated = '10',
  { starts = '', ends = '', policy = '' } = {},
): Promise<Reply> {
  const { tag, tenant } = ledger;
  const scope = ledger.scope();
  return ledger.scripts.run(
    'create_budget',
    [budgetKey(tag, 'TOKENS', scope), budgetIndexKey(tag, tenant), tenantKey(tag, tenant)],
    [
      tenant,
      'ldg_1',
      scope,
      'TOKENS',
      allocated,
      '0',
      ...ADMIN,
      0,
      starts,
      ends,
      ...(policy === '' ? [] : ['rollover_policy', policy]),
    ],
  );
}

/** Changes the overdraft limit or the period of the tenant's root budget. */
export function updateBudget(
  ledger: LedgerClient,
  overdraftLimit: string,
  starts = '',
  ends = '',
): Promise<Reply> {
  return ledger.scripts.run(
    'update_budget',
    [ledger.budgetKeyOf()],
    [ledger.tenant, ledger.scope(), 'TOKENS', overdraftLimit, ...ADMIN, starts, ends, RETENTION_MS],
  );
}

/** What the job for idle budgets reads. */
export const rollOverKeys = (tag: string) => ({
  periodIndex: periodIndexKey(tag),
  rolled: rolledKey(tag),
  periodPlans: periodPlansKey(tag),
  turned: turnedKey(tag),
  born: bornKey(tag),
  creditIndex: creditIndexKey(tag),
  creditsTurned: creditsTurnedKey(tag),
});

/** A run of the job for idle budgets in the partition. */
export function rollOver(
  { scripts, tag }: Pick<LedgerClient, 'scripts' | 'tag'>,
  limit = 20,
): Promise<Reply> {
  const keys = rollOverKeys(tag);
  return scripts.run(
    'roll_over_budgets',
    [
      ...([keys.periodIndex, keys.rolled, keys.periodPlans, keys.turned, keys.born] as const),
      ...([keys.creditIndex, keys.creditsTurned] as const),
    ],
    [limit],
  );
}

/** Gives the tenant's root budget a period. */
export function setPeriod(ledger: LedgerClient, starts: string, ends: string): Promise<Reply> {
  return updateBudget(ledger, '', starts, ends);
}

export interface FundOptions {
  /** Default: the tenant's root budget in tokens. */
  readonly scope?: string;
  readonly unit?: string;
  readonly operation?: string;
  readonly spent?: Amount;
  readonly key?: string;
  readonly fingerprint?: string;
  readonly reason?: string;
}

export function fund(ledger: LedgerClient, amount: Amount, options: FundOptions = {}): Promise<Reply> {
  const { operation = 'CREDIT', spent = '', key = '', fingerprint = '', reason = '' } = options;
  const { scope = ledger.scope(), unit = 'TOKENS' } = options;
  const owner = scope.split('/')[0]?.slice('tenant:'.length) as string;
  return ledger.scripts.run(
    'fund_budget',
    [ledger.budgetKeyOf(scope, unit), idempotencyKey.fund(ledger.tag, unit, scope, key)],
    [
      owner,
      scope,
      unit,
      operation,
      String(amount),
      String(spent),
      fingerprint,
      IDEMPOTENCY_TTL_MS,
      reason,
      '',
      'api_key',
      'key_1',
      'req_fund',
      RETENTION_MS,
      TRACE,
    ],
  );
}

/** How long a bulk action remembers what it has changed, and its correlation id. */
export const BULK_ACTION = [60_000, 'some_bulk_action:x:req_bulk'] as const;

export interface BulkOptions {
  readonly request?: string;
  readonly spent?: string;
  readonly scope?: string;
}

/** What a bulk action does to the tenant's root budget. */
export function bulkBudget(
  ledger: LedgerClient,
  operation: string,
  amount: string,
  { request = 'req_bulk', spent = '', scope = ledger.scope() }: BulkOptions = {},
): Promise<Reply> {
  return ledger.scripts.run(
    'bulk_budget',
    [ledger.budgetKeyOf()],
    [
      ledger.tenant,
      scope,
      'TOKENS',
      operation,
      amount,
      spent,
      '',
      ...BULK_ACTION,
      'admin_on_behalf_of',
      '',
      request,
      TRACE,
      RETENTION_MS,
    ],
  );
}

/** Freezes or unfreezes a budget of the tenant. */
export function setFrozen(ledger: LedgerClient, frozen: boolean, scope = ledger.scope()): Promise<Reply> {
  return ledger.scripts.run(
    'set_frozen',
    [ledger.budgetKeyOf(scope)],
    [ledger.tenant, scope, 'TOKENS', frozen ? 'FROZEN' : 'ACTIVE', '', '', ...ADMIN],
  );
}

/** A window of a budget: its limit, and the ends of the current window and of those to come. */
export interface Window {
  readonly name: string;
  readonly limit: Amount;
  readonly ends: readonly number[];
}

/** Sets a budget's windows, or removes them. */
export function setWindows(
  ledger: LedgerClient,
  windows: readonly Window[],
  scope = ledger.scope(),
  unit = 'TOKENS',
): Promise<Reply> {
  const owner = scope.split('/')[0]?.slice('tenant:'.length) as string;
  return ledger.scripts.run(
    'set_windows',
    [ledger.budgetKeyOf(scope, unit)],
    [
      owner,
      scope,
      unit,
      ...ADMIN,
      ...windows.flatMap(({ name, limit, ends }) => [name, String(limit), `rule of ${name}`, ends.join()]),
    ],
  );
}
