import { describe, expect, test } from '@jest/globals';
import { reservationKey, ttlIndexKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { clockAt } from '../support/fixed-clock.js';
import { damageHold } from '../support/hold-record.js';
import { RETENTION_MS, TRACE, type Hold, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { workspace: 'prod', agent: 'Bot' };

async function heldLedger(options = {}): Promise<{ ledger: LedgerClient; hold: Hold }> {
  const ledger = await newLedger();
  await ledger.makeBudget();
  return { ledger, hold: await ledger.hold({ amount: 100, ...options }) };
}

async function untouched(ledger: LedgerClient, id: string): Promise<string[]> {
  const before = await snapshot(ledger);
  const reply = await ledger.expire(id);
  expect(await snapshot(ledger)).toEqual(before);
  return reply;
}

describe('only ACTIVE holds expire', () => {
  test.each(['COMMITTED', 'RELEASED'])(
    'a %s one in the index is removed from it, and no budget is touched',
    async (state) => {
      const { ledger, hold } = await heldLedger();
      await (state === 'COMMITTED' ? ledger.commit(hold.id, 60) : ledger.release(hold.id));
      const before = await snapshot(ledger);
      await ledger.redis.zadd(ttlIndexKey(ledger.tag), 1, hold.id);
      expect(await ledger.expire(hold.id)).toEqual(['SKIP', state]);
      expect(await snapshot(ledger)).toEqual(before);
    },
  );
});

describe('the reserved budget', () => {
  test('returns to every budgeted scope, by exactly the amount held, and the record says what happened', async () => {
    const ledger = await newLedger();
    const root = await ledger.makeBudget({ allocated: 1000 });
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 500 });
    await ledger.hold({ subject: AGENT, amount: 7 });
    const { id } = await ledger.hold({ subject: AGENT, amount: 100 });
    await ledger.extend(id, 1000);
    const deadline = await ledger.makeOverdue(id);
    const before = await ledger.serverTime();
    const [word, tenant, due, now] = await ledger.expire(id);
    expect([word, tenant, due]).toEqual(['EXPIRED', ledger.tenant, String(deadline)]);
    expect(Number(now)).toBeGreaterThanOrEqual(before);
    expect(await ledger.figures(root)).toBe('993,7,0,1000,0,0,0');
    expect(await ledger.figures(leaf)).toBe('493,7,0,500,0,0,0');
    const { holds, events } = await assertInvariants(ledger);
    expect(events).toHaveLength(1);
    expect(holds.get(id)).toMatchObject({
      st: 'EXPIRED',
      fa: now,
      eb: 'system',
      ev: events[0]?.id,
      am: '100',
      xc: '1',
    });
    expect(events[0]?.fields).toEqual({
      ty: 'reservation.expired',
      tn: ledger.tenant,
      sc: leaf,
      ac: 'system',
      tr: TRACE,
      reservation_id: id,
      unit: 'TOKENS',
      estimated_amount: '100',
      created_at: holds.get(id)?.['ca'],
      expired_at: now,
      ttl_ms: expect.stringMatching(/^\d+$/),
      extensions_used: '1',
    });
    const lifetime = await ledger.redis.pttl(reservationKey(ledger.tag, id));
    expect(lifetime).toBeGreaterThan(RETENTION_MS - 60_000);
    expect(lifetime).toBeLessThanOrEqual(RETENTION_MS);
  });

  test('is exact beyond 2^53, and returns to a budget that is frozen, over its limit or in debt', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: '9223372036854775807' });
    const { id } = await ledger.hold({ amount: '9223372036854775807' });
    await ledger.makeBudget({
      allocated: '9223372036854775807',
      reserved: '9223372036854775807',
      debt: 3,
      isOverLimit: true,
      status: 'FROZEN',
    });
    await ledger.makeOverdue(id);
    expect((await ledger.expire(id))[0]).toBe('EXPIRED');
    expect(await ledger.figures()).toBe('9223372036854775804,0,0,9223372036854775807,3,0,1');
    await assertInvariants(ledger);
  });

  test('returns even if the tenant is closed', async () => {
    const { ledger, hold } = await heldLedger();
    await ledger.makeTenant({ status: 'CLOSED' });
    await ledger.makeOverdue(hold.id);
    expect((await ledger.expire(hold.id))[0]).toBe('EXPIRED');
    await assertInvariants(ledger);
  });
});

describe('the grace is honoured', () => {
  test('to the millisecond: within the lease, in the grace and at its very end nothing happens, 1 ms later the hold is gone', async () => {
    const { ledger, hold } = await heldLedger({ graceMs: 5000 });
    const deadline = hold.expiresAt + 5000;
    const before = await snapshot(ledger);
    for (const now of [hold.expiresAt - 1, hold.expiresAt, hold.expiresAt + 1, deadline - 1, deadline]) {
      expect(await clockAt(ledger, now).expire(hold.id)).toEqual([
        'SKIP',
        'in_grace_period',
        String(deadline),
      ]);
    }
    expect(await snapshot(ledger)).toEqual(before);
    expect(await clockAt(ledger, deadline + 1).expire(hold.id)).toEqual([
      'EXPIRED',
      ledger.tenant,
      String(deadline),
      String(deadline + 1),
    ]);
    await assertInvariants(ledger);
  });

  test('by the server clock: a hold within its grace stays, one whose grace has ended expires', async () => {
    const { ledger, hold } = await heldLedger();
    await ledger.putInGrace(hold.id);
    const deadline = await ledger.ttlScore(hold.id);
    expect(await untouched(ledger, hold.id)).toEqual(['SKIP', 'in_grace_period', deadline]);
    await ledger.makeOverdue(hold.id);
    expect((await ledger.expire(hold.id))[0]).toBe('EXPIRED');
  });

  test('an entry whose score is too early is corrected, so that it cannot stay at the head of the page forever', async () => {
    const { ledger, hold } = await heldLedger();
    const deadline = await ledger.ttlScore(hold.id);
    await ledger.redis.zadd(ttlIndexKey(ledger.tag), 1, hold.id);
    expect(await ledger.expire(hold.id)).toEqual(['SKIP', 'in_grace_period', deadline]);
    await assertInvariants(ledger);
  });
});

describe('a second call', () => {
  test('returns nothing and emits nothing a second time', async () => {
    const { ledger, hold } = await heldLedger();
    await ledger.makeOverdue(hold.id);
    await ledger.expire(hold.id);
    expect(await untouched(ledger, hold.id)).toEqual(['SKIP', 'EXPIRED']);
    await assertInvariants(ledger);
  });
});

test('a hold that is named twice in a page is returned once', async () => {
  const { ledger, hold } = await heldLedger();
  await ledger.hold({ amount: 100 });
  await ledger.makeOverdue(hold.id);
  const [, , ...outcomes] = await ledger.expirePage([hold.id, hold.id]);
  expect(outcomes.filter((_, index) => index % 3 === 0)).toEqual(['EXPIRED', 'SKIP']);
  const { events } = await assertInvariants(ledger);
  expect(events).toHaveLength(1);
});

describe('an orphan', () => {
  test('of the index is removed and is not seen again', async () => {
    const { ledger, hold } = await heldLedger();
    await ledger.redis.del(reservationKey(ledger.tag, hold.id));
    expect(await ledger.expire(hold.id)).toEqual(['NOT_FOUND']);
    expect(await ledger.ttlScore(hold.id)).toBeNull();
    expect(await untouched(ledger, hold.id)).toEqual(['NOT_FOUND']);
  });
});

describe('the clock', () => {
  test("is only the server's: a bogus time as a further argument is ignored, on both sides", async () => {
    shows('server clock');
    const { ledger, hold } = await heldLedger();
    const expireWith = (bogus: string): Promise<string[]> =>
      ledger.scripts.run('expire', [reservationKey(ledger.tag, hold.id)], [
        hold.id,
        RETENTION_MS,
        TRACE,
        bogus,
      ] as unknown as [string, number, string]);
    expect((await expireWith('99999999999999')).slice(0, 2)).toEqual(['SKIP', 'in_grace_period']);
    await ledger.makeOverdue(hold.id);
    expect((await expireWith('1'))[0]).toBe('EXPIRED');
  });
});

describe('a hold that cannot be settled is quarantined: removed from the index, with its state and the budgets unchanged', () => {
  const record =
    (field: string, value?: string) =>
    (ledger: LedgerClient, id: string): Promise<unknown> =>
      damageHold(ledger.redis, reservationKey(ledger.tag, id), field, value);
  const without = (field: string) => record(field);
  const budget =
    (field: string, value: string) =>
    (ledger: LedgerClient): Promise<unknown> =>
      ledger.redis.hset(ledger.budgetKeyOf(), field, value);

  const cases: [string, string, (ledger: LedgerClient, id: string) => Promise<unknown>][] = [
    ...['soon', 'nan', 'inf', '-inf', '0x10', '-5', '1.5', '1e3', ''].map(
      (value) =>
        ['INVALID_EXPIRY', `an expiry of '${value}'`, record('ex', value)] as [
          string,
          string,
          ReturnType<typeof record>,
        ],
    ),
    ['INVALID_EXPIRY', 'no expiry', without('ex')],
    ['INVALID_EXPIRY', 'a grace of -100', record('gr', '-100')],
    ['INVALID_EXPIRY', 'no grace', without('gr')],
    ['INVALID_ESTIMATE', 'an amount of -1', record('am', '-1')],
    ['INVALID_ESTIMATE', 'an amount beyond int64', record('am', '9223372036854775808')],
    ['INVALID_ESTIMATE', 'no amount', without('am')],
    ['INVALID_ESTIMATE', 'no unit', without('un')],
    ['MISSING_SCOPES', 'no scopes', without('bm')],
    [
      'MISSING_SCOPES',
      'neither scopes nor amount',
      async (ledger, id) => {
        await without('bm')(ledger, id);
        await without('am')(ledger, id);
      },
    ],
    ['MALFORMED_SCOPES', 'more scopes than its subject has', record('bm', '11')],
    ['MALFORMED_SCOPES', 'invalid scopes', record('bm', '0')],
    ['MALFORMED_SCOPES', 'scopes in letters', record('bm', 'x')],
    ['INVALID_STATE', 'an unknown state', record('st', 'ASLEEP')],
    ['INVALID_STATE', 'no state', without('st')],
    ['MISSING_BUDGET', 'no budget', (ledger) => ledger.redis.del(ledger.budgetKeyOf())],
    ['INVALID_BUDGET', 'a budget with a figure that is not a number', budget('reserved', 'x')],
    ['INVALID_BUDGET', 'a budget that holds less than it', budget('reserved', '99')],
    ['INVALID_BUDGET', 'a budget that the refund would overflow', budget('remaining', '9223372036854775807')],
    [
      'INVALID_BUDGET',
      'a budget of another type',
      async (ledger) => {
        await ledger.redis.del(ledger.budgetKeyOf());
        await ledger.redis.set(ledger.budgetKeyOf(), 'x');
      },
    ],
  ];
  test.each(cases)('%s: %s', async (reason, _, corrupt) => {
    const { ledger, hold } = await heldLedger();
    await ledger.makeOverdue(hold.id);
    await corrupt(ledger, hold.id);
    const state = (await ledger.record(hold.id))['st'];
    const before = (await readLedger(ledger)).budgets;
    const { tenant } = ledger;
    expect(await ledger.expire(hold.id)).toEqual(['QUARANTINED', reason, tenant]);
    const after = await readLedger(ledger);
    expect(after.budgets).toEqual(before);
    expect(after.ttl.size).toBe(0);
    expect(after.quarantine.get(hold.id)).toMatch(new RegExp(`^${reason} \\d{13}$`));
    expect(after.holds.get(hold.id)).toMatchObject({ qr: reason, qa: expect.stringMatching(/^\d{13}$/) });
    expect((await ledger.record(hold.id))['st']).toBe(state);
    expect(after.events.map(({ fields }) => fields)).toEqual([
      {
        ty: 'custom.reservation.quarantined',
        tn: tenant,
        ac: 'system',
        tr: TRACE,
        reservation_id: hold.id,
        reason,
        quarantined_at: expect.stringMatching(/^\d{13}$/),
      },
    ]);
    expect(await untouched(ledger, hold.id)).toEqual(['QUARANTINED', reason, tenant]);
  });

  test('NOT_A_RECORD: its key holds something else, and is left alone', async () => {
    const { ledger, hold } = await heldLedger();
    await ledger.redis.del(reservationKey(ledger.tag, hold.id));
    await ledger.redis.set(reservationKey(ledger.tag, hold.id), 'what is this');
    expect(await ledger.expire(hold.id)).toEqual(['QUARANTINED', 'NOT_A_RECORD', '']);
    expect(await ledger.redis.get(reservationKey(ledger.tag, hold.id))).toBe('what is this');
    expect(await ledger.ttlScore(hold.id)).toBeNull();
    expect((await readLedger(ledger)).quarantine.get(hold.id)).toMatch(/^NOT_A_RECORD \d{13}$/);
  });

  test('a creation time or a count that cannot be read does not matter: the event omits it', async () => {
    const { ledger, hold } = await heldLedger();
    await ledger.makeOverdue(hold.id);
    await ledger.redis.hset(reservationKey(ledger.tag, hold.id), { ca: 'then', xc: 'many' });
    expect((await ledger.expire(hold.id))[0]).toBe('EXPIRED');
    const { events } = await assertInvariants(ledger);
    expect(events[0]?.fields).toMatchObject({ ttl_ms: '0', extensions_used: '0' });
    expect(events[0]?.fields).not.toHaveProperty('created_at');
  });

  test('a repaired hold expires when it is back in the index', async () => {
    const { ledger, hold } = await heldLedger();
    await ledger.makeOverdue(hold.id);
    await record('am', 'x')(ledger, hold.id);
    await ledger.expire(hold.id);
    await record('am', '100')(ledger, hold.id);
    expect((await ledger.expire(hold.id))[0]).toBe('EXPIRED');
    expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
  });
});
