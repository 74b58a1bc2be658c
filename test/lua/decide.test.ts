import { describe, expect, test } from '@jest/globals';
import { idempotencyKey, tenantKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { decide, makePolicy } from '../support/admission-client.js';
import { IDEMPOTENCY_TTL_MS, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

async function denials(ledger: LedgerClient): Promise<Readonly<Record<string, string>>[]> {
  return (await assertInvariants(ledger)).events
    .map(({ fields }) => fields)
    .filter((fields) => fields['ty'] === 'reservation.denied');
}

describe('a decision', () => {
  test('that a reserve would be granted changes nothing but its own record', async () => {
    shows('decide');
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 10 });
    const before = await snapshot(ledger);
    expect(await decide(ledger, { amount: 10, key: 'k' })).toEqual(['ALLOW', 'fresh']);
    const after = await snapshot(ledger);
    const record = idempotencyKey.decide(ledger.tag, ledger.tenant, 'k');
    const lifetime = await ledger.redis.pttl(record);
    expect(lifetime).toBeLessThanOrEqual(IDEMPOTENCY_TTL_MS);
    expect(lifetime).toBeGreaterThan(IDEMPOTENCY_TTL_MS - 60_000);
    expect(after.delete(record)).toBe(true);
    expect(after).toEqual(before);
  });

  test('carries the caps of the governing policy', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const root = await ledger.makeBudget();
    await makePolicy(ledger, root, { sets: { caps: '%7B%22max_tokens%22%3A5%7D' } });
    expect(await decide(ledger, { key: 'k' })).toEqual([
      'ALLOW_WITH_CAPS',
      'fresh',
      '%7B%22max_tokens%22%3A5%7D',
    ]);
    expect(await decide(ledger, { amount: 1001 })).toEqual(['DENY', 'fresh', 'BUDGET_EXCEEDED']);
    expect(await decide(ledger, { key: 'k' })).toEqual([
      'ALLOW_WITH_CAPS',
      'replay',
      '%7B%22max_tokens%22%3A5%7D',
    ]);
  });

  test('replays as it was, DENY too, and neither evaluates nor emits again', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 5 });
    expect(await decide(ledger, { key: 'k' })).toEqual(['DENY', 'fresh', 'BUDGET_EXCEEDED']);
    await ledger.makeBudget({ allocated: 50 });
    await ledger.makeTenant({ status: 'CLOSED' });
    expect(await decide(ledger, { key: 'k' })).toEqual(['DENY', 'replay', 'BUDGET_EXCEEDED']);
    expect(await decide(ledger, { key: 'k', amount: 11 })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await denials(ledger)).toHaveLength(1);
  });

  test('does not share keys: a reserve with the same key is another request', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.hold({ key: 'k' });
    expect(await decide(ledger, { key: 'k' })).toEqual(['ALLOW', 'fresh']);
  });

  test('over a tenant or a budget that cannot be trusted ends with an error and writes nothing', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.redis.hset(tenantKey(ledger.tag, ledger.tenant), 'name', 'x');
    const before = await snapshot(ledger);
    await expect(decide(ledger)).rejects.toThrow('corrupt tenant record');
    expect(await snapshot(ledger)).toEqual(before);
    await ledger.makeTenant();
    await ledger.redis.hdel(ledger.budgetKeyOf(), 'debt');
    await expect(decide(ledger)).rejects.toThrow('corrupt budget record');
  });

  test('is never a denial because of an overdue hold', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 100 });
    const deadline = await ledger.makeOverdue(id);
    const [word, , ...outcomes] = await decide(ledger, { amount: 100, key: 'k' });
    expect([word, ...outcomes]).toEqual(['RECLAIMED', 'EXPIRED', ledger.tenant, String(deadline)]);
    expect(await decide(ledger, { amount: 100, key: 'k' })).toEqual(['ALLOW', 'fresh']);
    expect(await denials(ledger)).toEqual([]);
  });

  test('is exact at the end of int64', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: '9223372036854775806' });
    expect(await decide(ledger, { amount: '9223372036854775806' })).toEqual(['ALLOW', 'fresh']);
    expect(await decide(ledger, { amount: '9223372036854775807' })).toEqual([
      'DENY',
      'fresh',
      'BUDGET_EXCEEDED',
    ]);
  });
});
