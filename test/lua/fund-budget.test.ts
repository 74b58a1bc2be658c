import { describe, expect, test } from '@jest/globals';
import { idempotencyKey, tenantKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { IDEMPOTENCY_TTL_MS, TRACE, type Amount, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const MAX = 9223372036854775807n;
const newLedger = useLedger();

interface FundOptions {
  readonly key?: string;
  readonly fingerprint?: string;
  readonly reason?: string;
}

function fund(ledger: LedgerClient, amount: Amount, { key = '', fingerprint = '', reason = '' }: FundOptions = {}): Promise<Reply> {
  const [tag, scope] = [ledger.tag, ledger.scope()];
  return ledger.scripts.run(
    'fund_budget',
    [ledger.budgetKeyOf(), idempotencyKey.fund(tag, 'TOKENS', scope, key), tenantKey(tag, ledger.tenant)],
    [
      ledger.tenant, scope, 'TOKENS', String(amount), fingerprint, IDEMPOTENCY_TTL_MS, reason, '', 'api_key', 'key_1', 'req_fund', TRACE,
    ],
  );
}

async function refused(ledger: LedgerClient, amount: Amount, options?: FundOptions): Promise<Reply> {
  const before = await snapshot(ledger);
  const reply = await fund(ledger, amount, options);
  expect(await snapshot(ledger)).toEqual(before);
  return reply;
}

async function eventTypes(ledger: LedgerClient): Promise<(string | undefined)[]> {
  return (await assertInvariants(ledger)).events.map(({ fields }) => fields['ty']);
}

describe('a credit', () => {
  test('adds to allocated and remaining and tells both states', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 40 });
    expect((await fund(ledger, 5, { reason: 'gift' })).slice(0, 10)).toEqual(['FUNDED', 'fresh', '100', '105', '60', '65', '0', '0', '40', '40']);
    const { events } = await assertInvariants(ledger);
    expect(events).toHaveLength(1);
    expect(events[0]?.fields).toMatchObject({
      ty: 'budget.funded', tn: ledger.tenant, sc: ledger.scope(), ac: 'api_key', ki: 'key_1', rq: 'req_fund', tr: TRACE, operation: 'CREDIT',
      previous_allocated: '100', new_allocated: '105', previous_remaining: '60', new_remaining: '65', reason: 'gift', new_status: 'ACTIVE',
    });
  });

  test.each<[string, Amount, string]>([
    ['less than the debt', 20, '-10,0,120,120,10,50,0'],
    ['exactly the debt', 30, '0,0,130,130,0,50,0'],
    ['more than the debt', 100, '70,0,130,200,0,50,0'],
    ['nothing', 0, '-30,0,100,100,30,50,0'],
  ])('of %s pays debt before anything is free', async (_what, amount, figures) => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, debt: 30, overdraftLimit: 50 });
    await fund(ledger, amount);
    expect(await ledger.figures()).toBe(figures);
    await assertInvariants(ledger);
  });

  test('lifts the mark of a capped charge, and tells that the scope is over its limit no more', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, isOverLimit: true });
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('OVERDRAFT_LIMIT_EXCEEDED');
    await fund(ledger, 10);
    expect(await ledger.figures()).toBe('10,0,100,110,0,0,0');
    expect(await eventTypes(ledger)).toEqual(['reservation.denied', 'budget.funded', 'budget.over_limit_exited']);
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('ALLOW');
  });

  test('leaves a scope over its limit until its debt is within it', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, debt: 30, overdraftLimit: 10 });
    await fund(ledger, 10);
    expect(await ledger.figures()).toBe('-20,0,110,110,20,10,1');
    expect(await eventTypes(ledger)).toEqual(['budget.funded']);
    await fund(ledger, 10);
    expect(await ledger.figures()).toBe('-10,0,120,120,10,10,0');
    expect(await eventTypes(ledger)).toEqual(['budget.funded', 'budget.funded', 'budget.over_limit_exited']);
  });

  test('of nothing on a dry scope leaves its mark', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100, spent: 100, isOverLimit: true });
    await fund(ledger, 0);
    expect(await ledger.figures()).toBe('0,0,100,100,0,0,1');
    expect(await eventTypes(ledger)).toEqual(['budget.funded']);
  });

  test('reaches the largest int64 and is refused beyond it, whichever figure would leave it', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: MAX - 1n });
    expect(await refused(ledger, 2)).toEqual(['INT64_OVERFLOW']);
    expect((await fund(ledger, 1))[1]).toBe('fresh');
    expect(await ledger.figures()).toBe(`${MAX},0,0,${MAX},0,0,0`);
    expect(await refused(ledger, MAX)).toEqual(['INT64_OVERFLOW']);
  });

  test('replays its first reply before any guard, and changes nothing', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    await ledger.makeBudget();
    const first = await fund(ledger, 5, { key: 'k', fingerprint: 'f' });
    await ledger.makeTenant({ status: 'CLOSED' });
    await ledger.makeBudget({ allocated: 1, status: 'FROZEN' });
    expect(await refused(ledger, 5, { key: 'k', fingerprint: 'f' })).toEqual(['FUNDED', 'replay', ...first.slice(2)]);
    expect(await refused(ledger, 5, { key: 'k', fingerprint: 'g' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    const record = idempotencyKey.fund(ledger.tag, 'TOKENS', ledger.scope(), 'k');
    expect(await ledger.redis.pttl(record)).toBeGreaterThan(IDEMPOTENCY_TTL_MS - 60_000);
  });

  test.each<[string, string, string]>([
    ['a frozen budget', 'FROZEN', 'BUDGET_FROZEN'],
    ['a closed budget', 'CLOSED', 'BUDGET_CLOSED'],
  ])('on %s is refused and leaves every byte as it was', async (_what, status, word) => {
    const ledger = await newLedger();
    await ledger.makeBudget({ status });
    expect(await refused(ledger, 5, { key: 'k', fingerprint: 'f' })).toEqual([word]);
  });

  test('without a budget, or of a closed tenant, is refused and leaves every byte as it was', async () => {
    const ledger = await newLedger();
    expect(await refused(ledger, 5)).toEqual(['NOT_FOUND']);
    await ledger.makeBudget({ status: 'FROZEN' });
    await ledger.makeTenant({ status: 'CLOSED' });
    expect(await refused(ledger, 5)).toEqual(['TENANT_CLOSED']);
  });

  test.each(['remaining', 'debt', 'overdraft_limit', 'status'])('on a record without its %s is an error and leaves every byte as it was', async (field) => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.redis.hdel(ledger.budgetKeyOf(), field);
    const before = await snapshot(ledger);
    await expect(fund(ledger, 5)).rejects.toThrow('corrupt budget record');
    expect(await snapshot(ledger)).toEqual(before);
  });
});
