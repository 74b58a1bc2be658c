import { describe, expect, test } from '@jest/globals';
import { journalKey, ownedKey, reservationIndexKey, tenantIndexKey } from '../../src/redis/keyspace.js';
import { useClockedLedgers } from '../support/clocked-ledger.js';
import { RETENTION_MS, TRACE, type LedgerClient } from '../support/ledger-client.js';
import { nextMillisecond } from '../support/server-time.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const clocked = useClockedLedgers();
const NO_LIMITS = [
  'live_reservations',
  0,
  'budgets',
  0,
  'policies',
  0,
  'api_keys',
  0,
  'webhooks',
  0,
  'stored_bytes',
  0,
] as const;

async function withHolds(count: number, make = newLedger): Promise<{ ledger: LedgerClient; ids: string[] }> {
  const ledger = await make();
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated: 100_000 });
  await ledger.redis.zadd(tenantIndexKey(ledger.tag), 1, ledger.tenant);
  const ids: string[] = [];
  for (let made = 0; made < count; made += 1) {
    ids.push((await ledger.hold()).id);
  }
  // Events in the very millisecond in which a walk begins cannot be told from earlier ones.
  await nextMillisecond(ledger.redis);
  return { ledger, ids };
}

interface Walked {
  readonly recounts: string[];
  readonly near: string[];
}

/** Walks the partition a few entries at a time. Calls `between` with the number of each run after it. */
async function walk(
  ledger: LedgerClient,
  limits: readonly (string | number)[] = NO_LIMITS,
  between: (run: number) => Promise<unknown> = () => Promise.resolve(),
): Promise<Walked> {
  const [recounts, near]: string[][] = [[], []];
  let place: [string, string, string, string] = ['', '', '', ''];
  for (let run = 1; ; run += 1) {
    const reply = await ledger.scripts.run(
      'reconcile',
      [tenantIndexKey(ledger.tag)],
      [...place, 13, RETENTION_MS, TRACE, ...limits],
    );
    const rows = reply.slice(7);
    const take = (width: number): string[] =>
      Array.from({ length: Number(rows.shift()) }, () => rows.splice(0, width).slice(1).join(' '));
    recounts?.push(...take(3));
    near?.push(...take(4));
    place = [reply[2], reply[3], reply[4], reply[5]] as typeof place;
    if (place[0] === '') {
      return { recounts: recounts as string[], near: near as string[] };
    }
    await nextMillisecond(ledger.redis);
    await between(run);
  }
}

const live = (ledger: LedgerClient): Promise<string | null> =>
  ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'live');
const setLive = (ledger: LedgerClient, value: string): Promise<number> =>
  ledger.redis.hset(ownedKey(ledger.tag, ledger.tenant), 'live', value);

describe('the count of live reservations', () => {
  test.each([
    ['is missing, as after an upgrade', null, '0 20'],
    ['is too low', '7', '7 20'],
    ['is too high', '99', '99 20'],
    ['is not a number', 'many', '0 20'],
  ])('is corrected where it %s', async (_, wrong, told) => {
    const { ledger } = await withHolds(20);
    await (wrong === null ? ledger.redis.del(ownedKey(ledger.tag, ledger.tenant)) : setLive(ledger, wrong));
    expect((await walk(ledger)).recounts).toEqual([told]);
    expect(await live(ledger)).toBe('20');
    expect((await walk(ledger)).recounts).toEqual([]);
  });

  test("is right after Redis' clock has stepped back from the instants of some records", async () => {
    const { ledger, ids } = await withHolds(40);
    const ahead = (await ledger.serverTime()) + 3_600_000;
    for (const id of ids.slice(20, 30)) {
      await ledger.redis.zadd(reservationIndexKey(ledger.tag, ledger.tenant), ahead, id);
    }
    for (const id of ids.slice(30)) {
      await ledger.release(id);
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'fa', ahead);
    }
    expect((await walk(ledger)).recounts).toEqual([]);
    expect(await live(ledger)).toBe('30');
  });

  test('is corrected where its hash is damaged', async () => {
    const { ledger } = await withHolds(3);
    await ledger.redis.set(ownedKey(ledger.tag, ledger.tenant), 'damaged');
    expect((await walk(ledger)).recounts).toEqual(['0 3']);
    expect(await live(ledger)).toBe('3');
  });

  test('that was missing when the walk began excludes everything that ends during the walk', async () => {
    const { ledger, ids } = await withHolds(40);
    await ledger.redis.del(ownedKey(ledger.tag, ledger.tenant));
    await walk(ledger, NO_LIMITS, async (run) => {
      await ledger.commit(ids[run] as string, 1);
      await ledger.release(ids[39 - run] as string);
    });
    const states = await Promise.all(ids.map(async (id) => (await ledger.record(id))['st']));
    expect(states).toContain('COMMITTED');
    expect(await live(ledger)).toBe(String(states.filter((state) => state === 'ACTIVE').length));
  });

  test('is corrected once by two instances that walk at the same time', async () => {
    const { ledger } = await withHolds(40);
    await ledger.redis.del(ownedKey(ledger.tag, ledger.tenant));
    let other: Walked | undefined;
    const { recounts } = await walk(ledger, NO_LIMITS, async (run) => {
      other = run === 2 ? await walk(ledger) : other;
    });
    expect([other?.recounts, recounts]).toEqual([['0 40'], []]);
    expect(await live(ledger)).toBe('40');
    expect((await walk(ledger)).recounts).toEqual([]);
    await setLive(ledger, '30');
    expect((await walk(ledger)).recounts).toEqual(['30 40']);
  });

  test.each([
    ['right', 0],
    ['wrong by 5', 5],
  ])('that is %s comes out right, whatever happens during the walk', async (_, off) => {
    const { ledger, ids } = await withHolds(60);
    await setLive(ledger, String(60 + off));
    const later: string[] = [];
    const { recounts } = await walk(ledger, NO_LIMITS, async (run) => {
      // Some that were already visited, some that will be, and new ones that are created and end.
      await ledger.commit(ids[run] as string, 1);
      await ledger.release(ids[59 - run] as string);
      await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
      if (run <= 4) {
        later.push((await ledger.hold()).id, (await ledger.hold()).id);
        await ledger.commit(later[2 * run - 2] as string, 1);
      }
    });
    expect(recounts.length).toBe(off === 0 ? 0 : 1);
    const states = await Promise.all([...ids, ...later].map(async (id) => (await ledger.record(id))['st']));
    expect(await live(ledger)).toBe(String(states.filter((state) => state === 'ACTIVE').length));
    expect((await walk(ledger)).recounts).toEqual([]);
  });

  test("is not changed by a walk during which Redis' clock steps back, but by the next one", async () => {
    const start = Date.parse('2150-01-01T00:00:00Z');
    await clocked.stand(start);
    const { ledger, ids } = await withHolds(40, clocked.make);
    await clocked.stand(start + 1);
    const { recounts } = await walk(ledger, NO_LIMITS, async (run) => {
      if (run === 1) {
        // By its instant, it has ended before the walk began.
        await clocked.stand(start - 3_600_000);
        await ledger.release(ids[39] as string);
      }
    });
    expect([recounts, await live(ledger)]).toEqual([[], '39']);
    await clocked.stand(start + 2);
    await setLive(ledger, '40');
    expect((await walk(ledger)).recounts).toEqual(['40 39']);
  });

  // Nothing tells whether an instant of that millisecond was before the walk or after it began.
  test.each([
    ['ends', 'before', '39'],
    ['ends', 'during', '39'],
    ['begins', 'before', '41'],
    ['begins', 'during', '41'],
  ])(
    'is right where a hold %s in the millisecond in which a walk begins, %s it',
    async (what, when, right) => {
      const start = Date.parse('2150-01-01T00:00:00Z');
      await clocked.stand(start);
      const { ledger, ids } = await withHolds(40, clocked.make);
      await clocked.stand(start + 1);
      const act = (): Promise<unknown> =>
        what === 'ends' ? ledger.release(ids[39] as string) : ledger.hold();
      await (when === 'before' && act());
      const { recounts } = await walk(
        ledger,
        NO_LIMITS,
        async (run) => when === 'during' && run === 1 && act(),
      );
      expect([recounts, await live(ledger)]).toEqual([[], right]);
    },
  );

  test("is right where a test clock is ahead of Redis' clock, which decides how long records are kept", async () => {
    const start = Date.parse('2150-01-01T00:00:00Z');
    await clocked.stand(start);
    const { ledger, ids } = await withHolds(60, clocked.make);
    await clocked.stand(start + 1);
    const { recounts } = await walk(ledger, NO_LIMITS, async (run) => {
      await ledger.commit(ids[59 - run] as string, 1);
      await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
    });
    expect(recounts).toEqual([]);
    const states = await Promise.all(ids.map(async (id) => (await ledger.record(id))['st']));
    expect(await live(ledger)).toBe(String(states.filter((state) => state === 'ACTIVE').length));
  });
});

describe('a walk', () => {
  test("reports tenants near their limits, their own and the deployment's", async () => {
    const { ledger } = await withHolds(8);
    expect(
      (await walk(ledger, ['live_reservations', 10, 'budgets', 1, 'policies', 1, 'stored_bytes', 1000])).near,
    ).toEqual(['live_reservations 8 10', 'budgets 1 1', expect.stringMatching(/^stored_bytes \d+ 1000$/)]);
    expect((await walk(ledger, ['live_reservations', 11, 'budgets', 0])).near).toEqual([]);
    await ledger.redis.hset(ownedKey(ledger.tag, ledger.tenant), 'max:live_reservations', 9);
    expect((await walk(ledger, ['live_reservations', 1000])).near).toEqual(['live_reservations 8 9']);
  });

  test('adds up the stored bytes of a tenant that has no sum yet', async () => {
    const { ledger } = await withHolds(5);
    await ledger.redis.del(ownedKey(ledger.tag, ledger.tenant));
    await walk(ledger);
    expect(await ledger.reserve({ maxStored: 3400 })).toEqual([
      'LIMIT_EXCEEDED',
      'stored_bytes',
      '3400',
      expect.any(String),
    ]);
  });
});
