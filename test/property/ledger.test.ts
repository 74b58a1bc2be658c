import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { seedFrom } from '../../scripts/seed.mjs';
import { shows } from '../compatibility/shows.js';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { CheckedScripts } from '../support/checked-scripts.js';
import { LedgerClient } from '../support/ledger-client.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { CLIENTS, worldOf } from './operations.js';
import { Play } from './play.js';
import { reachAll } from './reached.js';

/**
 * Thousands of random operations from several clients, each compared with the model. The seed is printed; to
 * play the same worlds again: PROPERTY_SEED=<seed> npm run jest -- test/property/ledger. PROPERTY_PATH=<path>
 * plays only the world that a failure names, PROPERTY_WORLDS sets the number of worlds, PROPERTY_LENGTH the
 * number of operations in each, and PROPERTY_SHRINK=1 searches for the smallest world that fails, which takes
 * long.
 */
const seed = seedFrom('PROPERTY_SEED', 'property test of the ledger');
const worlds = Number(process.env['PROPERTY_WORLDS'] ?? 60);
const length = Number(process.env['PROPERTY_LENGTH'] ?? 80);
const path = process.env['PROPERTY_PATH'];
/** Whether there are enough worlds to reach everything. */
const isWhole = path === undefined && worlds * length >= 4000;
const shrink = process.env['PROPERTY_SHRINK'] === '1';

/** What the worlds must have reached. */
const REACHED = [
  'ALLOW',
  'ALLOW_DRY_RUN',
  'DENY',
  'RECLAIMED',
  'BUDGET_EXCEEDED',
  'BUDGET_FROZEN',
  'OVERDRAFT_LIMIT_EXCEEDED',
  'IDEMPOTENCY_MISMATCH',
  'NOT_FOUND',
  'APPLIED',
  'COMMITTED',
  'RELEASED',
  'REFUNDED',
  'REFUND_EXCEEDED',
  'ACTIVE',
  'EXPIRED',
  'CHARGED',
  'SKIP',
  'RESERVATION_EXPIRED',
  'RESERVATION_FINALIZED',
  'FOUND',
  'CLEANED',
  'ROLLED',
  'FUNDED',
  'CHANGED',
  'PLANNED',
  'turn in reserve',
  'turn in group',
  'short window',
  ...['reserve', 'debit', 'group', 'set'].map((kind) => `birth in ${kind}`),
  ...['reserve', 'commit', 'debit', 'refund', 'group', 'set', 'fund', 'idle'].map(
    (kind) => `rollover in ${kind}`,
  ),
];

let server: RedisServer;
let connections: Redis[];

beforeAll(async () => {
  server = await startRedis();
  connections = Array.from({ length: CLIENTS }, () => new Redis(server.url));
});
afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.quit()));
  await server.stop();
});

test(
  'whatever the clients do, every script answers as the model does and every invariant holds after each step',
  async () => {
    shows('balance adds up', 'debt only with overdraft');
    const replies = new Map<string, number>();
    let runs = 0;
    const counted = (connection: Redis): CheckedScripts =>
      new CheckedScripts(connection, undefined, undefined, (_, calls) => (runs += calls > 1 ? 1 : 0));
    const missing = await reachAll(isWhole ? REACHED : [], replies, seed, (from) =>
      fc.assert(
        fc.asyncProperty(worldOf(length), async (world) => {
          const first = await LedgerClient.make(connections[0] as Redis);
          const play = new Play(
            connections.map((connection) => first.over(connection, counted(connection))),
            world,
          );
          await play.run();
          await play.clear();
          for (const [word, times] of play.replies) {
            replies.set(word, (replies.get(word) ?? 0) + times);
          }
        }),
        { seed: from, numRuns: worlds, endOnFailure: !shrink, ...(path === undefined ? {} : { path }) },
      ),
    );
    process.stdout.write(`  ${worlds} worlds of ${length} operations, ${runs} runs of several calls\n`);
    expect(path === undefined ? runs : 1).toBeGreaterThan(0);
    expect(missing).toEqual([]);
  },
  shrink ? 3_600_000 : 4 * 300_000,
);
