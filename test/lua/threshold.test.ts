import { describe, expect, test } from '@jest/globals';
import { budgetKey } from '../../src/redis/keyspace.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, isCrossing } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

/** budget.threshold_crossed: EventDataBudgetThreshold of the governance plane. */

const newLedger = useLedger();
const AGENT = { agent: 'Bot' };

async function crossings(ledger: LedgerClient): Promise<string[]> {
  const { events } = await assertInvariants(ledger);
  return events
    .filter(isCrossing)
    .map(
      ({ fields }) =>
        `${fields['sc']} ${fields['threshold']} ${fields['direction']} at ${fields['utilization']}`,
    );
}

describe('a threshold that the use of a budget crosses', () => {
  test('is emitted although others in the list are damaged', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ th: 'junk,0.5,x' });
    const scope = await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 60 });
    await ledger.commit(id, 60);
    expect(await crossings(ledger)).toEqual([`${scope} 0.5 rising at 0.6000`]);
  });

  test('is emitted once for each crossing and scope, with its figures', async () => {
    const ledger = await newLedger();
    const root = await ledger.makeBudget({ allocated: 1000 });
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 100 });
    const { id } = await ledger.hold({ subject: AGENT, amount: 80 });
    await ledger.hold({ subject: AGENT, amount: 10 });
    expect(await crossings(ledger)).toEqual([`${leaf} 0.8 rising at 0.8000`]);
    await ledger.commit(id, 60);
    expect(await crossings(ledger)).toEqual([
      `${leaf} 0.8 rising at 0.8000`,
      `${leaf} 0.8 falling at 0.7000`,
    ]);
    const { events } = await assertInvariants(ledger);
    expect(events.filter(isCrossing)[1]?.fields).toEqual({
      ty: 'budget.threshold_crossed',
      tn: ledger.tenant,
      sc: leaf,
      ac: 'api_key',
      ki: 'key_1',
      rq: 'req_commit',
      tr: expect.any(String),
      unit: 'TOKENS',
      threshold: '0.8',
      utilization: '0.7000',
      direction: 'falling',
      allocated: '100',
      remaining: '30',
      spent: '60',
      reserved: '10',
    });
    expect(root).not.toBe(leaf);
  });

  test('several at once are emitted in ascending order, and again when utilization falls below each', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 100 });
    const rising = ['0.8', '0.95', '1'].map((mark) => `${scope} ${mark} rising at 1.0000`);
    expect(await crossings(ledger)).toEqual(rising);
    await ledger.release(id);
    expect(await crossings(ledger)).toEqual([
      ...rising,
      ...['0.8', '0.95', '1'].map((mark) => `${scope} ${mark} falling at 0.0000`),
    ]);
  });

  test('is emitted when the sweep returns budget, once for all holds that end in one page', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 100 });
    const holds = [
      await ledger.hold({ amount: 30 }),
      await ledger.hold({ amount: 30 }),
      await ledger.hold({ amount: 30 }),
    ];
    await Promise.all(holds.map(({ id }) => ledger.makeOverdue(id)));
    expect((await ledger.expirePage(holds.map(({ id }) => id)))[0]).toBe('JUDGED');
    expect(await crossings(ledger)).toEqual([
      `${scope} 0.8 rising at 0.9000`,
      `${scope} 0.8 falling at 0.0000`,
    ]);
  });
});

describe('a budget whose utilization is unknown', () => {
  test.each(['allocated', 'debt'])(
    'because of a damaged %s gets back what expires, and crosses no mark',
    async (figure) => {
      const ledger = await newLedger();
      const scope = await ledger.makeBudget({ allocated: 100 });
      const { id } = await ledger.hold({ amount: 90 });
      await ledger.makeOverdue(id);
      const key = budgetKey(ledger.tag, 'TOKENS', scope);
      await ledger.redis.hset(key, figure, 'many');
      expect((await ledger.expirePage([id])).slice(2, 4)).toEqual(['EXPIRED', ledger.tenant]);
      expect(await ledger.redis.hmget(key, 'remaining', 'reserved', figure)).toEqual(['100', '0', 'many']);
      await ledger.redis.hset(key, figure, figure === 'debt' ? 0 : 100);
      expect(await crossings(ledger)).toEqual([`${scope} 0.8 rising at 0.9000`]);
    },
  );
});

describe('the marks', () => {
  test("are the tenant's where its subscriptions ask for others", async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ status: 'ACTIVE', th: '0.5,0.8' });
    const scope = await ledger.makeBudget({ allocated: 100 });
    await ledger.hold({ amount: 50 });
    const { id } = await ledger.hold({ amount: 50 });
    expect(await crossings(ledger)).toEqual([
      `${scope} 0.5 rising at 0.5000`,
      `${scope} 0.8 rising at 1.0000`,
    ]);
    await ledger.makeOverdue(id);
    await ledger.expire(id);
    expect((await crossings(ledger)).slice(2)).toEqual([`${scope} 0.8 falling at 0.5000`]);
  });

  test('do not apply to a budget of nothing, whatever debt it takes', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 0, overdraftLimit: 100 });
    const { id } = await ledger.hold({ amount: 0, policy: 'ALLOW_WITH_OVERDRAFT' });
    expect((await ledger.commit(id, 50))[0]).toBe('COMMITTED');
    expect(await crossings(ledger)).toEqual([]);
  });
});
