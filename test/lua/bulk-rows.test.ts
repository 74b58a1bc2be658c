import { describe, expect, test } from '@jest/globals';
import { bulkActionKey, bulkRowsKey, closingKey, eventLogKey, tenantKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { BULK_ACTION, bulkBudget, createBudget, createTenant } from '../support/governance-client.js';
import { TRACE, type LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const [KEEP_MS] = BULK_ACTION;
const REQUEST = 'req_bulk';
const originOf = (actor: string, request = REQUEST) => [...BULK_ACTION, actor, '', request, TRACE] as const;

async function owned(): Promise<LedgerClient> {
  const ledger = await newLedger();
  expect((await createTenant(ledger))[0]).toBe('CREATED');
  expect((await createBudget(ledger, '100'))[0]).toBe('CREATED');
  return ledger;
}

const bulkTenant = (ledger: LedgerClient, status: string, request = REQUEST): Promise<Reply> =>
  ledger.scripts.run(
    'bulk_tenant',
    [tenantKey(ledger.tag, ledger.tenant)],
    [ledger.tenant, status, ...originOf('admin', request)],
  );

const told = async (ledger: LedgerClient): Promise<string[]> =>
  (await ledger.redis.xrange(eventLogKey(ledger.tag), '-', '+')).map(
    ([, flat]) => flat[flat.indexOf('ty') + 1] as string,
  );

const setTenant = (ledger: LedgerClient, status: string): Promise<number> =>
  ledger.redis.hset(tenantKey(ledger.tag, ledger.tenant), 'status', status);
const setBudget = (ledger: LedgerClient, fields: Record<string, string>): Promise<number> =>
  ledger.redis.hset(ledger.budgetKeyOf(), fields);

interface Refused {
  readonly what: string;
  readonly prepare?: (ledger: LedgerClient) => Promise<unknown>;
  readonly call: (ledger: LedgerClient) => Promise<Reply>;
  /** A string is an error message. */
  readonly reply: readonly string[] | string;
}

// If a row has several faults, the one that is reported comes first.
const REFUSED: readonly Refused[] = [
  {
    what: 'a tenant in that status',
    call: (on) => bulkTenant(on, 'ACTIVE'),
    reply: ['SKIPPED', 'ALREADY_IN_TARGET_STATE'],
  },
  {
    what: 'a closed tenant',
    prepare: (on) => setTenant(on, 'CLOSED'),
    call: (on) => bulkTenant(on, 'ACTIVE'),
    reply: ['INVALID_TRANSITION'],
  },
  {
    what: 'a missing tenant',
    prepare: (on) => on.redis.del(tenantKey(on.tag, on.tenant)),
    call: (on) => bulkTenant(on, 'CLOSED'),
    reply: ['NOT_FOUND'],
  },
  {
    what: 'a damaged tenant',
    prepare: (on) => setTenant(on, 'OPEN'),
    call: (on) => bulkTenant(on, 'CLOSED'),
    reply: 'corrupt tenant record',
  },
  {
    what: 'a tenant whose closing could not be recorded',
    prepare: async (on) => {
      await on.redis.set(closingKey(on.tag), 'damaged');
    },
    call: (on) => bulkTenant(on, 'CLOSED'),
    reply: 'WRONGTYPE',
  },
  {
    what: 'a budget of a closed tenant, which is closed itself',
    prepare: async (on) => [await setTenant(on, 'CLOSED'), await setBudget(on, { status: 'CLOSED' })],
    call: (on) => bulkBudget(on, 'CREDIT', '1'),
    reply: ['TENANT_CLOSED'],
  },
  {
    what: 'a closed budget',
    prepare: (on) => setBudget(on, { status: 'CLOSED' }),
    call: (on) => bulkBudget(on, 'CREDIT', '1'),
    reply: ['BUDGET_CLOSED'],
  },
  {
    what: 'a frozen budget without debt to repay',
    prepare: (on) => setBudget(on, { status: 'FROZEN' }),
    call: (on) => bulkBudget(on, 'REPAY_DEBT', '1'),
    reply: ['BUDGET_FROZEN'],
  },
  {
    what: 'a missing budget',
    prepare: (on) => on.redis.del(on.budgetKeyOf()),
    call: (on) => bulkBudget(on, 'CREDIT', '1'),
    reply: ['NOT_FOUND'],
  },
  {
    what: 'a damaged budget',
    prepare: (on) => setBudget(on, { debt: '-' }),
    call: (on) => bulkBudget(on, 'CREDIT', '1'),
    reply: 'corrupt budget record',
  },
  {
    what: 'a debit beyond what remains',
    call: (on) => bulkBudget(on, 'DEBIT', '101'),
    reply: ['BUDGET_EXCEEDED'],
  },
  {
    what: 'a credit beyond int64',
    call: (on) => bulkBudget(on, 'CREDIT', '9223372036854775807'),
    reply: ['INT64_OVERFLOW'],
  },
  {
    what: 'a budget without debt',
    call: (on) => bulkBudget(on, 'REPAY_DEBT', '5'),
    reply: ['SKIPPED', 'ALREADY_IN_TARGET_STATE'],
  },
  {
    what: 'a budget that would not change',
    call: (on) => bulkBudget(on, 'RESET_SPENT', '100'),
    reply: ['SKIPPED', 'ALREADY_IN_TARGET_STATE'],
  },
];

describe('a row of a bulk action', () => {
  test.each(REFUSED)('changes no byte: $what', async ({ prepare, call, reply }) => {
    shows('bulk damaged row');
    const ledger = await owned();
    await prepare?.(ledger);
    const before = await snapshot(ledger);
    if (typeof reply === 'string') {
      await expect(call(ledger)).rejects.toThrow(reply);
    } else {
      expect(await call(ledger)).toEqual(reply);
    }
    expect(await snapshot(ledger)).toEqual(before);
  });

  test.each<[string, (ledger: LedgerClient, request?: string) => Promise<Reply>, string]>([
    ['a tenant', (ledger, request) => bulkTenant(ledger, 'SUSPENDED', request), 'tenant.suspended'],
    [
      'a budget',
      (ledger, request) => bulkBudget(ledger, 'CREDIT', '5', { request: request ?? REQUEST }),
      'budget.funded',
    ],
  ])(
    '%s is changed once, however often it is requested, and remembered only for a while',
    async (_what, call, event) => {
      shows('bulk idempotency');
      const ledger = await owned();
      expect(await call(ledger)).toEqual(['SUCCEEDED']);
      const after = await snapshot(ledger);
      expect(await call(ledger)).toEqual(['SUCCEEDED']);
      expect(await snapshot(ledger)).toEqual(after);
      expect((await told(ledger)).filter((type) => type === event)).toHaveLength(1);
      const ttl = await ledger.redis.pttl(bulkRowsKey(ledger.tag, REQUEST));
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(KEEP_MS);
    },
  );
});

describe('the record of a bulk action', () => {
  const begin = (ledger: LedgerClient, fingerprint: string, claims: 0 | 1): Promise<Reply> =>
    ledger.scripts.run(
      'begin_bulk_action',
      [bulkActionKey(ledger.tag, 'budgets:one')],
      [fingerprint, KEEP_MS, 'corr', REQUEST, TRACE, 'a,b', claims],
    );
  const end = (ledger: LedgerClient, response: string): Promise<Reply> =>
    ledger.scripts.run(
      'end_bulk_action',
      [bulkActionKey(ledger.tag, 'budgets:one')],
      [
        'fp',
        KEEP_MS,
        response,
        'bulkActionBudgets',
        'budget',
        ledger.tenant,
        'corr',
        'admin',
        '',
        REQUEST,
        TRACE,
      ],
    );

  test('is created only by a claim, and keeps the first response', async () => {
    shows('bulk idempotency');
    const ledger = await newLedger();
    expect(await begin(ledger, 'fp', 0)).toEqual(['UNKNOWN']);
    expect(await begin(ledger, 'fp', 1)).toEqual(['BEGUN', 'corr', REQUEST, TRACE, 'a,b']);
    expect(await begin(ledger, 'other', 0)).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await begin(ledger, 'fp', 0)).toEqual(['BEGUN', 'corr', REQUEST, TRACE, 'a,b']);
    expect(await end(ledger, 'first')).toEqual(['ENDED', 'fresh', 'first']);
    expect(await end(ledger, 'second')).toEqual(['ENDED', 'replay', 'first']);
    expect(await begin(ledger, 'fp', 1)).toEqual(['ENDED', 'first']);
    expect(await begin(ledger, 'other', 1)).toEqual(['IDEMPOTENCY_MISMATCH']);
  });

  test('of a tenant only has its end, and lapses', async () => {
    shows('bulk idempotency');
    const ledger = await newLedger();
    expect(await end(ledger, 'first')).toEqual(['ENDED', 'fresh', 'first']);
    expect(await begin(ledger, 'other', 0)).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await begin(ledger, 'fp', 0)).toEqual(['ENDED', 'first']);
    const ttl = await ledger.redis.pttl(bulkActionKey(ledger.tag, 'budgets:one'));
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(KEEP_MS);
  });
});
