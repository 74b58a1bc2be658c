import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { MUTATIONS } from '../../scripts/mutants/list.mjs';
import type { Mutation } from '../../scripts/mutants/list.mjs';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { seedFrom } from '../../scripts/seed.mjs';
import { LedgerClient } from '../support/ledger-client.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { Replay } from './spec-replay.js';
import { loadScripts } from './spec-scripts.js';
import { takeWalks, type Walk } from './spec-walks.js';

/**
 * Random walks through the model in spec/ledger.qnt, repeated against the scripts. The seed is printed; to
 * take the same walks again: SPEC_SEED=<seed> npm run spec. SPEC_WALKS sets the number of walks, and
 * SPEC_STEPS the number of steps in each.
 */
const seed = seedFrom('SPEC_SEED', 'walks through spec/ledger.qnt');
const count = Number(process.env['SPEC_WALKS'] ?? 100);
const steps = Number(process.env['SPEC_STEPS'] ?? 25);
/** The walks of one simulator run; the next run proceeds while these are replayed. */
const AT_ONCE = 500;
/** The rarest step that one of the mutants below needs is in every seventh walk. */
const WALKS_FOR_MUTANTS = 100;

let server: RedisServer;
let redis: Redis;
let first: Promise<Walk[]>;

/** The seed of the walks that start with this one. */
const seedOf = (from: number): number => seed + from / AT_ONCE;
const walksFrom = (from: number): Promise<Walk[]> =>
  takeWalks({ seed: seedOf(from), count: Math.min(AT_ONCE, count - from), steps });

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url, { enableAutoPipelining: true });
  first = walksFrom(0);
  await first;
}, 120_000);
afterAll(async () => {
  await redis.quit();
  await server.stop();
});

/** @returns how many runs had several calls @throws Error if the scripts differ from the model */
async function replay(walk: Walk, isGrouped = false): Promise<number> {
  const ledger = await LedgerClient.make(redis);
  try {
    const taken = new Replay(ledger, walk, isGrouped);
    await taken.run();
    return taken.runsOfSeveral;
  } finally {
    await redis.unlink(await redis.keys(`${ledger.tag}*`));
  }
}

test(
  'replies, stored data and events of the scripts match the model after every step of every walk',
  async () => {
    await loadScripts(redis);
    let replayed = 0;
    let runs = 0;
    for (let [from, walks] = [0, first]; from < count; from += AT_ONCE) {
      const batch = await walks;
      walks = from + AT_ONCE < count ? walksFrom(from + AT_ONCE) : walks;
      for (const [index, walk] of batch.entries()) {
        const found = (error: unknown): never => {
          throw new Error(`walk ${index} of SPEC_SEED=${seedOf(from)}: ${String(error)}`);
        };
        await replay(walk).catch(found);
        runs += await replay(walk, true).catch(found);
        replayed += 1;
      }
    }
    process.stdout.write(`  ${runs} runs of several calls in ${count} walks\n`);
    expect(replayed).toBe(count);
    expect(runs).toBeGreaterThan(0);
  },
  60_000 + count * 100,
);

/** What the first walk that notices a mutant reports, or undefined if none does. */
async function noticed(mutation: Mutation, walks: readonly Walk[]): Promise<string | undefined> {
  await loadScripts(redis, (library) => mutate(library, mutation));
  for (const walk of walks) {
    const fault = await replay(walk).then(
      () => undefined,
      (error: unknown) => String(error).split('\n').slice(0, 2).join(' '),
    );
    if (fault !== undefined) {
      return fault;
    }
  }
  return undefined;
}

test.each([
  ['ledger/lib/settle.lua', 'a settled hold is settled again'],
  ['ledger/lib/settle.lua', 'an overdue hold is settled'],
  ['ledger/release.lua', 'the amount stays reserved'],
  ['lib/expiry.lua', 'an expiry charges nothing'],
  ['lib/give_back.lua', 'only the leaf is charged'],
  ['ledger/direct_debit.lua', 'the debit has no event'],
  ['ledger/lib/funds.lua', 'the short way takes a budget that is not active'],
])('a mistake in %s is noticed: %s', async (file, what) => {
  const mutation = MUTATIONS[file]?.find((one) => one.what === what);
  const fault = await noticed(mutation as Mutation, (await first).slice(0, WALKS_FOR_MUTANTS));
  expect(fault).toMatch(/step \d+|ReplyError/);
});

// Not a check: lists the mistakes that these walks notice.
if (process.env['SPEC_MUTANTS'] === '1') {
  test.each(Object.entries(MUTATIONS))(
    'the mistakes of %s that walks notice',
    async (file, mutations) => {
      const named = process.env['SPEC_MUTANT'] ?? '';
      for (const mutation of mutations.filter(({ what }) => what.includes(named))) {
        const fault = await noticed(mutation, await first).catch((error: unknown) => String(error));
        process.stdout.write(`${file}: ${mutation.what}: ${fault ?? 'NOT NOTICED'}\n`);
      }
    },
    600_000,
  );
}
