import { describe, expect, test } from '@jest/globals';
import { ttlIndexKey } from '../../src/redis/keyspace.js';
import { makePolicy } from '../support/admission-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { createBudget, setFrozen, setPeriod, setWindows } from '../support/governance-client.js';
import { IDEMPOTENCY_TTL_MS, type LedgerClient, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import { assertInvariants, faultsOf, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const DAY_MS = 86_400_000;
const INT64_MAX = '9223372036854775807';

async function withBudget(allocated: number | string = 1000): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated });
  return ledger;
}

/** A hold that is overdue and costs `ce` when it expires. */
async function overdue(ledger: LedgerClient, amount: number | string, ce: string): Promise<string> {
  const { id } = await ledger.hold({ amount, fields: { ce } });
  await ledger.makeOverdue(id);
  return id;
}

/** What remains, is reserved and is spent. */
const figures = async (ledger: LedgerClient): Promise<string> =>
  (await ledger.figures()).split(',').slice(0, 3).join();
const windowsOf = async (ledger: LedgerClient): Promise<string[]> =>
  String(await ledger.redis.hget(ledger.budgetKeyOf(), 'windows'))
    .split(' ')
    .map((window) => window.split(',').slice(0, 3).join());

describe('an expiry that costs something', () => {
  test('adds up over the holds of one run, each with its own event', async () => {
    const ledger = await withBudget();
    const ids = [
      await overdue(ledger, 100, '30'),
      await overdue(ledger, 50, '50'),
      await overdue(ledger, 7, '0'),
    ];
    ids.push((await ledger.hold({ amount: 11 })).id);
    await ledger.makeOverdue(ids[3] as string);
    const reply = await ledger.expirePage(ids);
    expect(reply.filter((_, index) => index % 3 === 2)).toEqual(['CHARGED', 'CHARGED', 'EXPIRED', 'EXPIRED']);
    expect(await figures(ledger)).toBe('920,0,80');
    const { events } = await assertInvariants(ledger);
    expect(
      events
        .filter(({ fields }) => fields['ty'] === 'reservation.expired')
        .map(({ fields }) => [fields['estimated_amount'], fields['charged']]),
    ).toEqual([
      ['100', '30'],
      ['50', '50'],
      ['7', undefined],
      ['11', undefined],
    ]);
  });

  test('charges a frozen budget too: the action has been paid for', async () => {
    const ledger = await withBudget();
    const id = await overdue(ledger, 100, '60');
    await setFrozen(ledger, true);
    expect((await ledger.expire(id))[0]).toBe('CHARGED');
    expect(await figures(ledger)).toBe('940,0,60');
    await assertInvariants(ledger);
  });

  test('tells the thresholds that its rest crosses, and none if there is no rest', async () => {
    const ledger = await withBudget(100);
    const whole = await overdue(ledger, 85, '85');
    expect((await ledger.expire(whole))[0]).toBe('CHARGED');
    const crossings = async (): Promise<string[]> =>
      (await readLedger(ledger)).events
        .filter(({ fields }) => fields['ty'] === 'budget.threshold_crossed')
        .map(({ fields }) => `${fields['threshold']} ${fields['direction']} ${fields['spent']}`);
    expect(await crossings()).toEqual(['0.8 rising 0']);
    const part = await overdue(ledger, 14, '9');
    expect((await ledger.expire(part))[0]).toBe('CHARGED');
    expect(await crossings()).toEqual(['0.8 rising 0', '0.95 rising 85', '0.95 falling 94']);
  });

  test('counts in the window that it falls into', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const starts = Date.UTC(2100, 0, 1);
    const days = Array.from({ length: 9 }, (_, day) => starts + (day + 1) * DAY_MS);
    const today = clockAt(ledger, starts + 1000);
    await createBudget(today, '1000');
    await setWindows(today, [
      { name: 'day', limit: 100, ends: days },
      { name: 'week', limit: 300, ends: days.map((ms) => ms + 6 * DAY_MS) },
    ]);
    const spends = await today.hold({ amount: 9, ttlMs: 1000, graceMs: 0 });
    await today.commit(spends.id, 9);
    const first = await today.hold({ amount: 20, ttlMs: 1000, graceMs: 0, fields: { ce: '15' } });
    const second = await today.hold({ amount: 40, ttlMs: 1000, graceMs: 0, fields: { ce: '40' } });
    expect((await clockAt(ledger, starts + 5000).expire(first.id))[0]).toBe('CHARGED');
    expect(await windowsOf(ledger)).toEqual(['day,100,24', 'week,300,24']);
    expect((await clockAt(ledger, days[0] as number).expire(second.id))[0]).toBe('CHARGED');
    expect(await windowsOf(ledger)).toEqual(['day,100,40', 'week,300,64']);
    expect(await figures(ledger)).toBe('936,0,64');
  });

  test('counts in the period that it falls into', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const starts = Date.UTC(2100, 0, 1);
    const within = clockAt(ledger, starts + 1000);
    await createBudget(within, '1000');
    await setPeriod(within, String(starts), String(starts + DAY_MS));
    await setWindows(within, [
      { name: 'week', limit: 900, ends: [7, 14, 21].map((day) => starts + day * DAY_MS) },
    ]);
    const spends = await within.hold({ amount: 500, ttlMs: 1000, graceMs: 0 });
    await within.commit(spends.id, 500);
    const { id } = await within.hold({ amount: 100, ttlMs: 1000, graceMs: 0, fields: { ce: '70' } });
    expect((await clockAt(ledger, starts + DAY_MS).expire(id))[0]).toBe('CHARGED');
    expect(await figures(ledger)).toBe('930,0,70');
    expect(await windowsOf(ledger)).toEqual(['week,900,570']);
  });

  test('loses to a commit in the grace, which charges the actual amount alone', async () => {
    const ledger = await withBudget();
    const { id } = await ledger.hold({ amount: 100, fields: { ce: '100' } });
    await ledger.putInGrace(id);
    expect((await ledger.commit(id, 30))[0]).toBe('COMMITTED');
    expect(await ledger.expire(id)).toEqual(['SKIP', 'COMMITTED']);
    expect(await figures(ledger)).toBe('970,0,30');
  });

  test('is kept by an extension, and happens once', async () => {
    const ledger = await withBudget();
    const { id } = await ledger.hold({ amount: 100, fields: { ce: '40' } });
    expect((await ledger.extend(id, 60_000))[0]).toBe('ACTIVE');
    await ledger.makeOverdue(id);
    expect((await ledger.expire(id))[0]).toBe('CHARGED');
    expect(await ledger.expire(id)).toEqual(['SKIP', 'EXPIRED']);
    expect(await ledger.commit(id, 100)).toEqual(['RESERVATION_EXPIRED']);
    expect(await figures(ledger)).toBe('960,0,40');
  });

  test('has no part in a dry run', async () => {
    const ledger = await withBudget();
    const reply = await ledger.reserve({ amount: 100, dryRun: true, fields: { ce: '40' } });
    expect(reply[0]).toBe('ALLOW_DRY_RUN');
    expect(await figures(ledger)).toBe('1000,0,0');
    expect((await readLedger(ledger)).holds.size).toBe(0);
  });

  test('returns in a forecast only what it does not charge', async () => {
    const ledger = await withBudget(100);
    const holds = [
      await ledger.hold({ amount: 30, ttlMs: 1000, fields: { ce: '30' } }),
      await ledger.hold({ amount: 50, ttlMs: 2000, fields: { ce: '20' } }),
      await ledger.hold({ amount: 20, ttlMs: 3000 }),
    ];
    const forecast = async (amount: number): Promise<string[]> =>
      (
        await ledger.scripts.run(
          'forecast_funds',
          [ttlIndexKey(ledger.tag)],
          [ledger.tenant, 'TOKENS', amount, '', 'hold', ledger.scope(), amount],
        )
      ).slice(6);
    const [, second, third] = holds.map(({ expiresAt }) => String(expiresAt + 5000));
    expect(await forecast(40)).toEqual([String(Number(third) + 1), '', '', '30', second, '20', third]);
    expect(await forecast(51)).toEqual(['', 'FUNDING_REQUIRED', '', '30', second, '20', third]);
  });
});

describe('an expiry that cannot charge waits for an operator', () => {
  const set = (fields: Record<string, string>) => (ledger: LedgerClient) =>
    ledger.redis.hset(ledger.budgetKeyOf(), fields);
  const charge = (ce: string) => (ledger: LedgerClient, id: string) =>
    ledger.redis.hset(ledger.reservationKeyOf(id), { ce });
  const CASES: readonly [string, string, (ledger: LedgerClient, id: string) => Promise<unknown>][] = [
    ['a charge that is no amount', 'INVALID_CHARGE', charge('junk')],
    ['a negative charge', 'INVALID_CHARGE', charge('-1')],
    ['an empty charge', 'INVALID_CHARGE', charge('')],
    ['a charge above what is held', 'INVALID_CHARGE', charge('101')],
    ['an unreadable figure of what is spent', 'INVALID_BUDGET', set({ spent: 'junk' })],
    ['unreadable windows', 'INVALID_BUDGET', set({ windows: 'junk', extras: '1' })],
    ['a budget that has spent all that int64 can hold', 'INT64_OVERFLOW', set({ spent: INT64_MAX })],
    [
      'a window that has spent all that int64 can hold',
      'INT64_OVERFLOW',
      set({ windows: `day,${INT64_MAX},${INT64_MAX},1,9000000000000`, extras: '1' }),
    ],
  ];

  test.each(CASES)('%s', async (_what, reason, damage) => {
    const ledger = await withBudget();
    const good = await overdue(ledger, 10, '0');
    const id = await overdue(ledger, 100, '60');
    await damage(ledger, id);
    const before = await ledger.redis.hgetall(ledger.budgetKeyOf());
    const reply = await ledger.expirePage([id, good]);
    expect(reply.slice(2, 4)).toEqual(['QUARANTINED', reason]);
    expect(reply[5]).toBe('EXPIRED');
    expect(await ledger.redis.hgetall(ledger.budgetKeyOf())).toEqual({
      ...before,
      remaining: String(Number(before['remaining']) + 10),
      reserved: '100',
    });
    await ledger.redis.hset(ledger.reservationKeyOf(id), { ce: '60' });
    await ledger.redis.hset(ledger.budgetKeyOf(), { spent: '0' });
    await ledger.redis.hdel(ledger.budgetKeyOf(), 'windows', 'extras');
    const retried = await ledger.scripts.run(
      'decide_quarantined',
      [ledger.reservationKeyOf(id)],
      [id, 'retry', '', RETENTION_MS, 'req_decide', TRACE, ''],
    );
    expect(retried[2]).toBe('CHARGED');
    expect(await figures(ledger)).toBe('940,0,60');
    const faults = faultsOf(await readLedger(ledger));
    expect(faults.filter((fault) => !fault.includes('1 events custom.reservation.quarantined'))).toEqual([]);
  });

  test.each([
    ['60', '60'],
    ['101', undefined],
    ['junk', undefined],
  ])('and a release from there charges nothing, and keeps a charge of %s as %s', async (ce, kept) => {
    const ledger = await withBudget();
    const id = await overdue(ledger, 100, ce);
    await ledger.redis.hset(ledger.reservationKeyOf(id), { gr: 'junk' });
    expect((await ledger.expire(id)).slice(0, 2)).toEqual(['QUARANTINED', 'INVALID_EXPIRY']);
    const key = ledger.reservationKeyOf(id);
    const decision = [id, 'release', '', RETENTION_MS, 'req_decide', TRACE, ''] as const;
    expect((await ledger.scripts.run('decide_quarantined', [key], [...decision]))[0]).toBe('RELEASED');
    expect(await figures(ledger)).toBe('1000,0,0');
    expect((await ledger.record(id))['ce']).toBe(kept);
  });

  test('but a damaged figure that only charges need does not keep a hold that costs nothing', async () => {
    const ledger = await withBudget();
    const id = await overdue(ledger, 100, '0');
    await ledger.redis.hset(ledger.budgetKeyOf(), { spent: 'junk', windows: 'junk', extras: '1' });
    expect((await ledger.expire(id))[0]).toBe('EXPIRED');
    expect((await ledger.figures()).slice(0, 7)).toBe('1000,0,');
  });
});

describe('the default share of the estimate', () => {
  const stored = async (ledger: LedgerClient, options: Parameters<LedgerClient['hold']>[0]) =>
    (await ledger.record((await ledger.hold(options)).id))['ce'];
  const AMOUNTS = ['0', '1', '7', '99', '100', '12345', '9999999999999', '10000000000000'];
  // The first one is exact in doubles only where it is added up.
  AMOUNTS.push(
    '99999999999901',
    '999999999999999',
    '1000000000000001',
    '9007199254740993',
    '4611686018427387904',
    INT64_MAX,
  );

  test.each([1, 33, 50, 99, 100])('of %s percent is exact and rounded up', async (percent) => {
    const ledger = await newLedger();
    await ledger.makeTenant({ charge_on_expiry_percent: String(percent) });
    await ledger.makeBudget({ allocated: INT64_MAX });
    for (const amount of AMOUNTS) {
      const { id } = await ledger.hold({ amount });
      const share = (BigInt(amount) * BigInt(percent) + 99n) / 100n;
      expect([amount, (await ledger.record(id))['ce']]).toEqual([
        amount,
        share === 0n ? undefined : share.toString(),
      ]);
      expect((await ledger.release(id))[0]).toBe('RELEASED');
    }
  });

  test('is that of the governing policy, else that of the tenant; the request says otherwise', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ charge_on_expiry_percent: '10' });
    await ledger.makeBudget({ allocated: 10_000 });
    await makePolicy(ledger, ledger.scope({ workspace: 'half' }), { sets: { charge_on_expiry_percent: 50 } });
    await makePolicy(ledger, ledger.scope({ workspace: 'free' }), { sets: { charge_on_expiry_percent: 0 } });
    await makePolicy(ledger, ledger.scope({ workspace: 'mute' }), { sets: { default_ttl_ms: 1000 } });
    const amount = 200;
    expect(await stored(ledger, { amount })).toBe('20');
    expect(await stored(ledger, { amount, subject: { workspace: 'half' } })).toBe('100');
    expect(await stored(ledger, { amount, subject: { workspace: 'free' } })).toBeUndefined();
    expect(await stored(ledger, { amount, subject: { workspace: 'mute' } })).toBe('20');
    const fields = { ce: '7' };
    expect(await stored(ledger, { amount, subject: { workspace: 'half' }, fields })).toBe('7');
    expect(await stored(ledger, { amount, fields })).toBe('7');
    expect(await stored(ledger, { amount, fields: { ce: '0' } })).toBe('0');
  });

  test.each(['101', '-1', '5.5', 'half', ''])('is never guessed from %j', async (percent) => {
    const ledger = await newLedger();
    await ledger.makeTenant({ charge_on_expiry_percent: percent });
    await ledger.makeBudget();
    const before = await snapshot(ledger);
    await expect(ledger.reserve({ idempotencyTtlMs: IDEMPOTENCY_TTL_MS })).rejects.toThrow(
      'charge_on_expiry_percent is not a whole number up to 100',
    );
    expect(await snapshot(ledger)).toEqual(before);
  });
});
