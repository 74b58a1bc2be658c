import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { reservationKey, ttlIndexKey } from '../../src/redis/keyspace.js';
import { FIELD } from '../../src/redis/script-types.js';
import { clockAt } from '../support/fixed-clock.js';
import type { Hold, LedgerClient } from '../support/ledger-client.js';
import { assertInvariants } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const GRACE_MS = 5000;

async function held(): Promise<{ ledger: LedgerClient; hold: Hold; deadline: number }> {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const hold = await ledger.hold({ amount: 10, graceMs: GRACE_MS });
  return { ledger, hold, deadline: hold.expiresAt + GRACE_MS };
}

describe('the last millisecond of the grace still settles, the next one does not', () => {
  test.each([
    ['commit', 'COMMITTED', (ledger: LedgerClient, id: string) => ledger.commit(id, 5)],
    ['release', 'RELEASED', (ledger: LedgerClient, id: string) => ledger.release(id)],
    ['read', 'FOUND', (ledger: LedgerClient, id: string) => ledger.get(id)],
  ] as const)('%s', async (_, word, act) => {
    shows('server clock');
    const early = await held();
    expect((await act(clockAt(early.ledger, early.deadline), early.hold.id))[0]).toBe(word);
    await assertInvariants(early.ledger);
    const late = await held();
    expect(await act(clockAt(late.ledger, late.deadline + 1), late.hold.id)).toEqual([
      'RESERVATION_EXPIRED',
      'now',
      late.ledger.tenant,
      String(late.deadline),
      String(late.deadline + 1),
    ]);
    await assertInvariants(late.ledger);
  });
});

test('the last millisecond of the lease can be extended, the next one cannot, and the hold is still there', async () => {
  shows('extension needs lease');
  const { ledger, hold, deadline } = await held();
  expect(await clockAt(ledger, hold.expiresAt + 1).extend(hold.id, 1000)).toEqual(['RESERVATION_EXPIRED']);
  expect(await clockAt(ledger, deadline).extend(hold.id, 1000)).toEqual(['RESERVATION_EXPIRED']);
  expect(await clockAt(ledger, hold.expiresAt).extend(hold.id, 1000)).toEqual([
    'ACTIVE',
    'fresh',
    String(hold.expiresAt + 1000),
    '1000',
  ]);
  const { events } = await assertInvariants(ledger);
  expect(events).toEqual([]);
});

test('a reserve reclaims holds past their deadline, not those exactly at it', async () => {
  const { ledger, hold, deadline } = await held();
  const all = { amount: 1000, key: 'all' };
  expect((await clockAt(ledger, deadline).reserve(all))[0]).toBe('BUDGET_EXCEEDED');
  expect(await clockAt(ledger, deadline + 1).reserve(all)).toEqual([
    'RECLAIMED',
    String(deadline + 1),
    'EXPIRED',
    ledger.tenant,
    String(deadline),
  ]);
  expect((await clockAt(ledger, deadline + 1).reserve(all)).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
  expect((await assertInvariants(ledger)).holds.get(hold.id)?.['st']).toBe('EXPIRED');
});

test('a lease is counted from the instant of the reserve, and a replay counts what is left of it to the millisecond', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const now = await ledger.serverTime();
  const options = { key: 'a', ttlMs: 1000, graceMs: 0 };
  const reply = await clockAt(ledger, now).reserve(options);
  expect(reply.slice(3, 5)).toEqual([String(now + 1000), '1000']);
  for (const [later, left] of [
    [1, '999'],
    [999, '1'],
    [1000, '0'],
    [5000, '0'],
  ] as const) {
    expect((await clockAt(ledger, now + later).reserve(options)).slice(0, 5)).toEqual([
      'ALLOW',
      'replay',
      reply[2],
      String(now + 1000),
      left,
    ]);
  }
  const id = reply[2] as string;
  await clockAt(ledger, now).extend(id, 500, { key: 'x' });
  for (const [later, left] of [
    [500, '1000'],
    [1499, '1'],
    [1500, '0'],
    [9000, '0'],
  ] as const) {
    expect(await clockAt(ledger, now + later).extend(id, 500, { key: 'x' })).toEqual([
      'ACTIVE',
      'replay',
      String(now + 1500),
      left,
    ]);
  }
});

describe('list_holds', () => {
  interface Run {
    readonly walked: readonly [ms: string, id: string];
    readonly examined: string | undefined;
    readonly damaged: readonly string[];
    /** Id, amount, end of the lease, reclaim deadline, charge on expiry. */
    readonly holds: readonly string[][];
  }

  async function run(
    ledger: LedgerClient,
    scope: string,
    {
      after = ['', ''],
      examine = 100,
      limit = 100,
    }: { after?: Run['walked']; examine?: number; limit?: number },
  ): Promise<Run> {
    const [ms = '', id = '', examined, , count, ...all] = await ledger.scripts.run(
      'list_holds',
      [ttlIndexKey(ledger.tag)],
      [ledger.tenant, scope, 'TOKENS', '', ...after, examine, limit],
    );
    const [damaged, rest] = [all.slice(0, Number(count)), all.slice(Number(count))];
    const holds = Array.from({ length: rest.length / 5 }, (_, index) => rest.slice(5 * index, 5 * index + 5));
    return { walked: [ms, id], examined, damaged, holds };
  }

  test('lists the live holds of a budget by deadline, whatever else is in the partition', async () => {
    const ledger = await newLedger();
    const subject = { workspace: 'prod' };
    const [root, scope] = [ledger.scope(), ledger.scope(subject)];
    await ledger.makeBudget();
    await ledger.makeBudget({ scope });
    await ledger.makeBudget({ unit: 'CREDITS' });
    const late = await ledger.hold({ amount: 3, subject, ttlMs: 90_000, graceMs: 0 });
    const early = await ledger.hold({ amount: 2, subject, ttlMs: 30_000, graceMs: 10_000 });
    const above = await ledger.hold({ amount: 4, ttlMs: 60_000, graceMs: 0, fields: { ce: '3' } });
    await ledger.hold({ amount: 5, unit: 'CREDITS', ttlMs: 50_000 });
    const damaged = await ledger.hold({ amount: 6, subject, ttlMs: 20_000 });
    await ledger.redis.hset(reservationKey(ledger.tag, damaged.id), 'am', 'many');
    const ended = await ledger.hold({ amount: 7, subject, ttlMs: 10_000 });
    await ledger.commit(ended.id, 7);
    const row = (hold: Hold, amount: number, graceMs = 0, charge = ''): string[] =>
      [hold.id, amount, hold.expiresAt, hold.expiresAt + graceMs, charge].map(String);

    const below = await run(ledger, scope, {});
    expect(below).toMatchObject({ examined: '5', holds: [row(early, 2, 10_000), row(late, 3)] });
    expect(below.walked[0]).toBe('');
    expect(below.damaged).toEqual([damaged.id]);
    expect((await run(ledger, root, {})).holds).toEqual([
      row(early, 2, 10_000),
      row(above, 4, 0, '3'),
      row(late, 3),
    ]);

    const first = await run(ledger, scope, { limit: 1 });
    expect(first).toMatchObject({ examined: '2', holds: [row(early, 2, 10_000)] });
    const second = await run(ledger, scope, { after: first.walked, examine: 2 });
    expect(second).toMatchObject({ examined: '2', holds: [] });
    const third = await run(ledger, scope, { after: second.walked, examine: 2 });
    expect(third).toMatchObject({ examined: '1', holds: [row(late, 3)], walked: ['', late.id] });
  });

  test.each<
    [what: string, names: 'both' | 'own' | 'none', damage: (ledger: LedgerClient, key: string) => unknown]
  >([
    ['whose amount is junk', 'own', ({ redis }, key) => redis.hset(key, FIELD.amount, 'many')],
    ['whose lease is junk', 'own', ({ redis }, key) => redis.hset(key, FIELD.expires_at, 'soon')],
    [
      'whose scopes are junk',
      'both',
      ({ redis, tenant }, key) => redis.hset(key, FIELD.subject, `${tenant}\u001fjunk`),
    ],
    [
      'of another tenant',
      'none',
      ({ redis }, key) => redis.multi().hdel(key, FIELD.subject).hset(key, FIELD.tenant, 'other').exec(),
    ],
    ['of another type', 'both', ({ redis }, key) => redis.multi().del(key).set(key, 'junk').exec()],
    ['that is gone', 'none', ({ redis }, key) => redis.del(key)],
  ])('names a damaged hold %s where it may be a hold of the budget: %s', async (_what, names, damage) => {
    const ledger = await newLedger();
    const subject = { workspace: 'prod' };
    const [scope, beside] = [ledger.scope(subject), ledger.scope({ workspace: 'dev' })];
    await ledger.makeBudget({ scope });
    await ledger.makeBudget({ scope: beside });
    const { id } = await ledger.hold({ amount: 1, subject });
    const whole = await ledger.hold({ amount: 2, subject });
    await damage(ledger, reservationKey(ledger.tag, id));
    const own = await run(ledger, scope, {});
    expect([own.damaged, own.holds.map(([held]) => held)]).toEqual([
      names === 'none' ? [] : [id],
      [whole.id],
    ]);
    expect(await run(ledger, beside, {})).toMatchObject({ damaged: names === 'both' ? [id] : [], holds: [] });
  });
});
