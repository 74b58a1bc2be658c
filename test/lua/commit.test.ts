import { describe, expect, test } from '@jest/globals';
import { journalKey, idempotencyKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { damageHold } from '../support/hold-record.js';
import { RETENTION_MS, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, isCrossing, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { agent: 'bot' };

async function refused(ledger: LedgerClient, id: string, actual: number, options = {}): Promise<string[]> {
  const before = await snapshot(ledger);
  const reply = await ledger.commit(id, actual, options);
  expect(await snapshot(ledger)).toEqual(before);
  return reply;
}

describe('a commit within the estimate', () => {
  test('charges the actual, returns the rest at every budgeted scope, and emits no event', async () => {
    shows('commitReservation');
    const ledger = await newLedger();
    const root = await ledger.makeBudget({ allocated: 1000 });
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 100 });
    const { id } = await ledger.hold({ subject: AGENT, amount: 100 });
    const before = await ledger.serverTime();
    const reply = await ledger.commit(id, 60, { metadata: '{"a":1}', by: 'key_2' });
    expect(reply).toEqual([
      'COMMITTED',
      'fresh',
      '60',
      '40',
      'TOKENS',
      'ALLOW_IF_AVAILABLE',
      '0',
      '0',
      root,
      '940,0,60,1000,0,0,0',
      leaf,
      '40,0,60,100,0,0,0',
    ]);
    const { holds, events, ttl } = await assertInvariants(ledger);
    expect(events.filter((event) => !isCrossing(event)).map(({ fields }) => fields['ty'])).toEqual([
      'budget.exhausted',
    ]);
    expect(holds.get(id)).toMatchObject({ st: 'COMMITTED', ch: '60', cm: '{"a":1}', eb: 'key_2', am: '100' });
    expect(Number(holds.get(id)?.['fa'])).toBeGreaterThanOrEqual(before);
    expect(ttl.size).toBe(0);
    expect(await ledger.redis.pttl(ledger.reservationKeyOf(id))).toBeGreaterThan(RETENTION_MS - 60_000);
  });

  test.each([
    ['no overage policy', undefined],
    ['an unknown overage policy', 'one of two'],
  ])(
    'of a hold with %s settles it, because the policy does not matter then, and is replayed',
    async (_, policy) => {
      const ledger = await newLedger();
      const scope = await ledger.makeBudget();
      const { id } = await ledger.hold({ amount: 10 });
      await damageHold(ledger.redis, ledger.reservationKeyOf(id), 'op', policy);
      const settled = ['7', '3', 'TOKENS', 'UNKNOWN', '0', '0', scope, '993,0,7,1000,0,0,0'];
      expect(await ledger.commit(id, 7, { key: 'c' })).toEqual(['COMMITTED', 'fresh', ...settled]);
      expect(await ledger.commit(id, 7, { key: 'c' })).toEqual(['COMMITTED', 'replay', ...settled]);
    },
  );

  test('of exactly the estimate and of 0 are both fine', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    expect((await ledger.commit((await ledger.hold({ amount: 10 })).id, 10)).slice(2, 4)).toEqual([
      '10',
      '0',
    ]);
    expect((await ledger.commit((await ledger.hold({ amount: 10 })).id, 0)).slice(2, 4)).toEqual(['0', '10']);
    expect(await ledger.figures()).toBe('990,0,10,1000,0,0,0');
    expect((await assertInvariants(ledger)).events).toEqual([]);
  });

  test('is accepted in the grace, and settles a scope that is over its limit or in debt', async () => {
    shows('settles over limit');
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 100, policy: 'REJECT' });
    await ledger.putInGrace(id);
    await ledger.makeBudget({ allocated: 1000, reserved: 100, debt: 50, isOverLimit: true });
    expect((await ledger.commit(id, 60)).slice(0, 4)).toEqual(['COMMITTED', 'fresh', '60', '40']);
    expect(await ledger.figures()).toBe('890,0,60,1000,50,0,1');
  });
});

describe('a repeated commit', () => {
  test('returns the first outcome with its own balances, whatever has changed since', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 60 });
    const { id } = await ledger.hold({ amount: 10 });
    const first = await ledger.commit(id, 100, { key: 'c' });
    await ledger.makeTenant({ status: 'CLOSED' });
    await ledger.makeBudget({ allocated: 77, status: 'FROZEN' });
    const state = await snapshot(ledger);
    expect(await ledger.commit(id, 100, { key: 'c' })).toEqual(['COMMITTED', 'replay', ...first.slice(2)]);
    expect(await ledger.commit(id, 99, { key: 'c' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await snapshot(ledger)).toEqual(state);
  });

  test('finds its scopes as long as it is remembered, though the audit retention is shorter', async () => {
    const ledger = await newLedger();
    const [root, leaf] = [
      await ledger.makeBudget(),
      await ledger.makeBudget({ scope: ledger.scope({ agent: 'bot' }) }),
    ];
    const { id } = await ledger.hold({ amount: 10, subject: { agent: 'bot' } });
    const idempotencyTtlMs = 2 * RETENTION_MS;
    const first = await ledger.commit(id, 7, { key: 'c', idempotencyTtlMs });
    expect(first.slice(-4).filter((_, index) => index % 2 === 0)).toEqual([root, leaf]);
    const [record, replay] = [
      ledger.reservationKeyOf(id),
      idempotencyKey.commit(ledger.tag, ledger.tenant, id, 'c'),
    ];
    // The record lives at least as long as the replay. Both expire at the same instant, except on Redis 7.0,
    // which reads its clock twice.
    const [recordEnds, replayEnds] = [
      await ledger.redis.pexpiretime(record),
      await ledger.redis.pexpiretime(replay),
    ];
    expect(recordEnds).toBeGreaterThanOrEqual(replayEnds);
    expect((await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]))[2]).toBe('1');
    expect(await ledger.redis.pexpiretime(record)).toBe(recordEnds);
    expect(await ledger.redis.pexpiretime(replay)).toBe(replayEnds);
    expect(await ledger.commit(id, 7, { key: 'c', idempotencyTtlMs })).toEqual([
      'COMMITTED',
      'replay',
      ...first.slice(2),
    ]);
  });

  test('with another key is refused as finalized', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.commit(id, 5);
    expect(await refused(ledger, id, 5)).toEqual(['RESERVATION_FINALIZED', 'COMMITTED']);
    expect(await ledger.release(id)).toEqual(['RESERVATION_FINALIZED', 'COMMITTED']);
  });

  test('of a refused one is evaluated again', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 10, policy: 'REJECT' });
    expect((await ledger.commit(id, 11, { key: 'c' }))[0]).toBe('BUDGET_EXCEEDED');
    expect((await ledger.commit(id, 9, { key: 'c' }))[0]).toBe('COMMITTED');
  });
});

describe('a commit that is refused changes no byte', () => {
  test('when the closed tenant meets an overdue hold, the hold waits for the sweeper', async () => {
    shows('closed before reservation');
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.makeOverdue(id);
    await ledger.makeTenant({ status: 'CLOSED' });
    expect(await refused(ledger, id, 1)).toEqual(['TENANT_CLOSED']);
    expect((await ledger.expire(id))[0]).toBe('EXPIRED');
  });

  test('when its record cannot be trusted: it is put into quarantine, once, and charges nothing', async () => {
    const corruptions = [
      ['am', 'much'],
      ['am', '-1'],
      ['am', '9223372036854775808'],
      ['bm', '11'],
      ['bm', '0'],
      ['bm', 'x'],
      ['ex', 'soon'],
      ['ex', 'nan'],
      ['ex', 'inf'],
      ['ex', '0x10'],
      ['gr', '-5'],
      ['st', 'ASLEEP'],
      ['op', 'MAYBE'],
    ] as const;
    for (const [field, value] of corruptions) {
      const ledger = await newLedger();
      await ledger.makeBudget();
      const { id } = await ledger.hold({ amount: 10 });
      await damageHold(ledger.redis, ledger.reservationKeyOf(id), field, value);
      const figures = await ledger.figures();
      expect((await ledger.commit(id, 11))[0]).toBe('QUARANTINED');
      const before = await snapshot(ledger);
      expect(await ledger.commit(id, 11)).toEqual([
        'QUARANTINED',
        expect.any(String),
        ledger.tenant,
        'again',
      ]);
      expect(await snapshot(ledger)).toEqual(before);
      expect(await ledger.figures()).toBe(figures);
    }
  });

  test('with an error when one of its budgets cannot be trusted', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 10 });
    await ledger.redis.del(ledger.budgetKeyOf());
    expect((await ledger.commit(id, 10)).slice(0, 2)).toEqual(['QUARANTINED', 'MISSING_BUDGET']);
    await ledger.makeBudget({ reserved: 9 });
    await expect(ledger.commit(id, 10)).rejects.toThrow('holds less than the reservation');
  });
});

describe('expiry on access', () => {
  test('a commit after the grace expires the hold by the usual transition and is refused', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 100 });
    const deadline = await ledger.makeOverdue(id);
    const [word, ...rest] = await ledger.commit(id, 60);
    expect([word, ...rest.slice(0, 3)]).toEqual([
      'RESERVATION_EXPIRED',
      'now',
      ledger.tenant,
      String(deadline),
    ]);
    expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
    const { events } = await assertInvariants(ledger);
    expect(events).toHaveLength(1);
    expect(await refused(ledger, id, 60)).toEqual(['RESERVATION_EXPIRED']);
    expect(await ledger.expire(id)).toEqual(['SKIP', 'EXPIRED']);
  });

  test('a commit that meets an overdue hold without its budget quarantines it, and says so once', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.makeOverdue(id);
    await ledger.redis.del(ledger.budgetKeyOf());
    expect(await ledger.commit(id, 1)).toEqual(['QUARANTINED', 'MISSING_BUDGET', ledger.tenant]);
    expect(await ledger.commit(id, 1)).toEqual(['QUARANTINED', 'MISSING_BUDGET', ledger.tenant, 'again']);
    const { events, quarantine, ttl } = await readLedger(ledger);
    expect(events.map(({ fields }) => `${fields['ty']} ${fields['rq']}`)).toEqual([
      'custom.reservation.quarantined req_commit',
    ]);
    expect(quarantine.get(id)).toMatch(/^MISSING_BUDGET \d{13}$/);
    expect(ttl.size).toBe(0);
  });
});
