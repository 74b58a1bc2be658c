import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { MUTATIONS } from '../../scripts/mutants/list.mjs';
import type { Mutation } from '../../scripts/mutants/list.mjs';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { seedFrom } from '../../scripts/seed.mjs';
import { LedgerClient } from '../support/ledger-client.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { withInvariants } from './group-invariants.js';
import { GroupPlay } from './group-play.js';
import { Side } from './group-sides.js';
import { groupWorldOf } from './group-worlds.js';
import { reachAll } from './reached.js';
import { SCRIPTS } from './world-scripts.js';

/**
 * Random batches of 2 to 16 calls of each grouped script, in one run on one server and one after the other on another: replies and
 * all keys must be the same after each batch. The seed is printed; GROUPS_SEED=<seed> repeats the batches, GROUPS_PATH=<path> only the
 * world that a failure names, and GROUPS_WORLDS sets their number.
 */
const seed = seedFrom('GROUPS_SEED', 'property test of grouped runs');
const worlds = Number(process.env['GROUPS_WORLDS'] ?? 120);
const path = process.env['GROUPS_PATH'];
/** Whether there are enough worlds to reach everything. */
const isWhole = path === undefined && worlds >= 100;
const LENGTH = 14;
const MOST = 16;

let servers: RedisServer[];
let connections: Redis[];
let grouped: Side;
let alone: Side;

beforeAll(async () => {
  servers = await Promise.all([startRedis(), startRedis()]);
  connections = servers.map(({ url }) => new Redis(url));
  grouped = new Side(connections[0] as Redis, MOST);
  alone = new Side(connections[1] as Redis, 1);
});
afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.quit()));
  await Promise.all(servers.map((server) => server.stop()));
});

async function play(count: number, tally: Map<string, number>, from = seed): Promise<void> {
  await fc.assert(
    fc.asyncProperty(groupWorldOf(LENGTH), async (world) => {
      const first = await LedgerClient.make(alone.redis);
      const played = new GroupPlay({ grouped, alone }, first, world, tally);
      await played.run();
      await played.clear();
    }),
    { seed: from, numRuns: count, endOnFailure: true, ...(path === undefined ? {} : { path }) },
  );
}

test('every grouped script is played', () => {
  const names = [...SCRIPTS.values()].filter(({ group }) => group !== undefined);
  expect(names.map(({ name, group }) => [name, group])).toEqual([
    ['commit', MOST],
    ['direct_debit', MOST],
    ['reserve', MOST],
  ]);
});

/** What the runs with several calls must have reached: without it, they would show nothing about it. */
const REACHED = [
  ...[
    'ALLOW fresh',
    'ALLOW replay',
    'ALLOW_WITH_CAPS fresh',
    'ALLOW_DRY_RUN fresh',
    'ALLOW_DRY_RUN observed',
  ],
  ...['DENY fresh', 'BUDGET_EXCEEDED', 'BUDGET_EXCEEDED in a window', 'WAITING', 'RECLAIMED', 'RATE_LIMITED'],
  ...['LIMIT_EXCEEDED', 'ACTION_QUOTA_EXCEEDED', 'IDEMPOTENCY_MISMATCH', 'BUDGET_FROZEN', 'BUDGET_CLOSED'],
  ...[
    'DEBT_OUTSTANDING',
    'OVERDRAFT_LIMIT_EXCEEDED',
    'COMMITTED fresh',
    'COMMITTED replay',
    'COMMITTED with debt',
  ],
  ...['COMMITTED and capped', 'RESERVATION_FINALIZED', 'RESERVATION_EXPIRED', 'UNIT_MISMATCH', 'QUARANTINED'],
  ...['APPLIED fresh', 'APPLIED replay', 'APPLIED with debt', 'RECLAIMED in direct_debit'],
  ...['16 digits', 'threshold crossed', 'a waiter was told', 'a run ended early'],
];

test(
  'calls in one run answer and leave what the same calls do one after the other',
  async () => {
    await grouped.load(withInvariants);
    await alone.load(withInvariants);
    const tally = new Map<string, number>();
    const missing = await reachAll(isWhole ? REACHED : [], tally, seed, (from) => play(worlds, tally, from));
    process.stdout.write(
      `  ${[...tally]
        .sort()
        .map(([what, times]) => `${what} ${times}`)
        .join(', ')}\n`,
    );
    expect(missing).toEqual([]);
  },
  240_000 + worlds * 4000,
);

test.each([
  ['lib/shared_budgets.lua', 'debt is not written'],
  ['lib/grouped.lua', 'only the first entry of an index is written'],
  ['lib/grouped.lua', 'a call that left the group does not write what the others did'],
])(
  'a mistake in %s is noticed: %s',
  async (file, what) => {
    const mutation = MUTATIONS[file]?.find((one) => one.what === what);
    await grouped.load((library) => mutate(library, mutation as Mutation));
    await alone.load();
    await expect(play(300, new Map(), 1)).rejects.toMatchObject({
      cause: { message: expect.stringContaining('in a run: ') as unknown },
    });
  },
  120_000,
);
