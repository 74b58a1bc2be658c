import { describe, expect, test } from '@jest/globals';
import { apiKeyKey, ownedKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { createPolicy, makePolicy, updatePolicy } from '../support/admission-client.js';
import { createBudget, createKey, fund, newKey, revoke, setFrozen } from '../support/governance-client.js';
import type { BudgetOptions, LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

/*
 * The order in which an operation of the governance plane checks for refusals. Each row has the fault that
 * the reply reports, and faults that are checked later, so a table lists the refusals from first to last.
 */

const newLedger = useLedger();

interface Faults {
  /** An earlier request with the same idempotency key was granted. */
  readonly usedKey?: true;
  readonly tenant?: 'CLOSED' | 'SUSPENDED' | 'none';
  readonly budget?: BudgetOptions;
  /** The state of an API key. */
  readonly key?: 'unknown' | 'revoked';
  /** Applies to a new API key. */
  readonly expired?: true;
  /**
   * Applies to a policy: the tenant that wants to change it, a name that another policy has, and an empty
   * time window.
   */
  readonly policy?: 'unknown';
  readonly foreign?: true;
  readonly operator?: true;
  readonly sameName?: true;
  readonly noWindow?: true;
}

type Row = readonly [answer: string, faults: Faults];
type Act = (ledger: LedgerClient) => Promise<Reply>;

async function refuse(ledger: LedgerClient, [answer, { tenant }]: Row, act: Act): Promise<void> {
  if (tenant !== 'none') {
    await ledger.makeTenant({ status: tenant ?? 'ACTIVE' });
  }
  const before = await snapshot(ledger);
  const reply = await act(ledger);
  if (!/^(FUNDED|CHANGED|CREATED|REVOKED|UPDATED)$/.test(answer)) {
    expect(reply.join(' ')).toBe(answer);
    expect(await snapshot(ledger)).toEqual(before);
  } else {
    expect(reply[0]).toBe(answer);
  }
}

const FROZEN: BudgetOptions = { allocated: 1, status: 'FROZEN' };
const SHUT: BudgetOptions = { allocated: 1, status: 'CLOSED' };

describe('a debit from a budget is refused, and changes no byte', () => {
  test.each<Row>([
    ['IDEMPOTENCY_MISMATCH', { usedKey: true, tenant: 'CLOSED', budget: FROZEN }],
    ['NOT_FOUND', { tenant: 'CLOSED' }],
    ['TENANT_CLOSED', { tenant: 'CLOSED', budget: SHUT }],
    ['TENANT_CLOSED', { tenant: 'CLOSED', budget: FROZEN }],
    ['BUDGET_CLOSED', { tenant: 'SUSPENDED', budget: SHUT }],
    ['BUDGET_FROZEN', { tenant: 'SUSPENDED', budget: FROZEN }],
    ['BUDGET_EXCEEDED', { tenant: 'SUSPENDED', budget: { allocated: 1 } }],
    ['FUNDED', { tenant: 'SUSPENDED', budget: { allocated: 5 } }],
  ])('%s %j', async (...row) => {
    const [, faults] = row;
    const ledger = await newLedger();
    const debit = (fingerprint: string): Promise<Reply> =>
      fund(ledger, 5, { operation: 'DEBIT', key: 'k', fingerprint });
    if (faults.usedKey) {
      await ledger.makeBudget();
      expect((await debit('f'))[1]).toBe('fresh');
    }
    if (faults.budget !== undefined) {
      await ledger.makeBudget(faults.budget);
    }
    await refuse(ledger, row, () => debit('g'));
  });
});

describe.each<[string, boolean, string, string]>([
  ['freezing', true, 'ACTIVE', 'FROZEN'],
  ['unfreezing', false, 'FROZEN', 'ACTIVE'],
])('%s a budget is refused, and changes no byte', (_what, frozen, good, done) => {
  test.each<Row>([
    ['NOT_FOUND', { tenant: 'CLOSED' }],
    ['TENANT_CLOSED', { tenant: 'CLOSED', budget: { status: 'CLOSED' } }],
    ['TENANT_CLOSED', { tenant: 'CLOSED', budget: { status: done } }],
    ['BUDGET_CLOSED', { tenant: 'SUSPENDED', budget: { status: 'CLOSED' } }],
    [frozen ? 'BUDGET_FROZEN' : 'ALREADY_ACTIVE', { tenant: 'SUSPENDED', budget: { status: done } }],
    ['CHANGED', { tenant: 'SUSPENDED', budget: { status: good } }],
  ])('%s %j', async (...row) => {
    const ledger = await newLedger();
    if (row[1].budget !== undefined) {
      await ledger.makeBudget(row[1].budget);
    }
    await refuse(ledger, row, () => setFrozen(ledger, frozen));
  });
});

describe('a new budget is refused, and changes no byte', () => {
  test.each<Row>([
    ['TENANT_NOT_FOUND', { tenant: 'none', budget: {} }],
    ['TENANT_CLOSED', { tenant: 'CLOSED', budget: {} }],
    ['TENANT_CLOSED', { tenant: 'CLOSED' }],
    ['TENANT_SUSPENDED', { tenant: 'SUSPENDED', budget: {} }],
    ['TENANT_SUSPENDED', { tenant: 'SUSPENDED' }],
    ['DUPLICATE', { budget: {} }],
    ['CREATED', {}],
  ])('%s %j', async (...row) => {
    const ledger = await newLedger();
    if (row[1].budget !== undefined) {
      await ledger.makeBudget(row[1].budget);
    }
    await refuse(ledger, row, createBudget);
  });
});

describe('a new API key is refused, and changes no byte', () => {
  test.each<Row>([
    ['TENANT_NOT_FOUND', { tenant: 'none', expired: true }],
    ['TENANT_CLOSED', { tenant: 'CLOSED', expired: true }],
    ['TENANT_CLOSED', { tenant: 'CLOSED' }],
    ['EXPIRES_IN_PAST', { tenant: 'SUSPENDED', expired: true }],
    ['CREATED', { tenant: 'SUSPENDED' }],
  ])('%s %j', async (...row) => {
    const ledger = await newLedger();
    const end = row[1].expired ? await ledger.serverTime() : '';
    await refuse(ledger, row, () => createKey(ledger, newKey(ledger), end));
  });
});

describe('the revocation of an API key is refused, and changes no byte', () => {
  test.each<Row>([
    ['NOT_FOUND', { key: 'unknown', tenant: 'CLOSED' }],
    ['TENANT_CLOSED', { key: 'revoked', tenant: 'CLOSED' }],
    ['TENANT_CLOSED', { tenant: 'CLOSED' }],
    ['ALREADY_REVOKED', { key: 'revoked', tenant: 'SUSPENDED' }],
    ['REVOKED', { tenant: 'SUSPENDED' }],
  ])('%s %j', async (...row) => {
    const ledger = await newLedger();
    const key = newKey(ledger);
    if (row[1].key !== 'unknown') {
      await ledger.makeTenant();
      await createKey(ledger, key);
    }
    if (row[1].key === 'revoked') {
      await ledger.redis.hset(apiKeyKey(ledger.tag, key.id), 'status', 'REVOKED');
    }
    await refuse(ledger, row, () => revoke(ledger, key.id));
  });
});

describe('a new policy is refused, and changes no byte', () => {
  test.each<Row>([
    ['TENANT_CLOSED', { tenant: 'CLOSED', sameName: true }],
    ['TENANT_SUSPENDED', { tenant: 'SUSPENDED', sameName: true }],
    ['DUPLICATE', { sameName: true }],
    ['CREATED', {}],
  ])('%s %j', async (...row) => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    await makePolicy(ledger, ledger.scope(), { name: row[1].sameName ? 'a' : 'b' });
    await refuse(ledger, row, async () => (await createPolicy(ledger, ledger.scope(), { name: 'a' })).reply);
  });
});

describe('a change of a policy is refused, and changes no byte', () => {
  test.each<Row>([
    ['NOT_FOUND', { policy: 'unknown', tenant: 'CLOSED', sameName: true, noWindow: true }],
    ['NOT_FOUND', { foreign: true, tenant: 'CLOSED', sameName: true, noWindow: true }],
    ['TENANT_CLOSED', { tenant: 'CLOSED', sameName: true, noWindow: true }],
    ['TENANT_CLOSED', { operator: true, tenant: 'CLOSED' }],
    ['DUPLICATE', { tenant: 'SUSPENDED', sameName: true, noWindow: true }],
    ['INVALID_WINDOW', { tenant: 'SUSPENDED', noWindow: true }],
    ['UPDATED', { tenant: 'SUSPENDED' }],
    ['UPDATED', { operator: true, tenant: 'SUSPENDED' }],
  ])('%s %j', async (...row) => {
    const [, { policy, foreign, operator, sameName, noWindow }] = row;
    const ledger = await newLedger();
    await ledger.makeTenant();
    const id = await makePolicy(ledger, ledger.scope(), { name: 'a', from: 1000 });
    await makePolicy(ledger, ledger.scope(), { name: 'b' });
    const sets = { name: sameName ? 'b' : 'c', ...(noWindow ? { effective_until: 1000 } : {}) };
    const owner = operator ? '' : foreign ? 'another' : ledger.tenant;
    await refuse(ledger, row, () =>
      updatePolicy(ledger, policy === 'unknown' ? 'pol_unknown' : id, sets, owner),
    );
  });
});

test("an API key beyond the tenant's own limit is refused, and changes no byte", async () => {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await ledger.redis.hset(ownedKey(ledger.tag, ledger.tenant), 'max:api_keys', 1);
  expect((await createKey(ledger, newKey(ledger)))[0]).toBe('CREATED');
  const before = await snapshot(ledger);
  expect(await createKey(ledger, newKey(ledger))).toEqual(['LIMIT_EXCEEDED', 'api_keys', '1', '1']);
  expect(await snapshot(ledger)).toEqual(before);
});
