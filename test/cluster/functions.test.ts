import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { LOGGER, type Logger } from '../../src/telemetry/index.js';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce } from '../support/exactly-once.js';
import { Holdfast } from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { stopAllRedis, type RedisServer } from '../support/redis-server.js';
import {
  addMaster,
  moveSlot,
  placeOf,
  slotOf,
  startCluster,
  withServer,
  type ClusterSetup,
} from '../support/redis-topologies.js';
import { StoredHolds } from '../support/stored-holds.js';
import { clusterUrl } from '../support/store.js';
import { startSweeper } from '../expiry/instances.js';

const CLIENTS = 8;
const FLUSHES = 5;

let setup: ClusterSetup;
let holdfast: Holdfast;
let sweeper: Holdfast | undefined;
let stored: StoredHolds;
let load: JournaledLoad;

beforeEach(async () => {
  setup = await startCluster();
  holdfast = await Holdfast.start({ REDIS_URL: clusterUrl(setup) });
  stored = new StoredHolds(clusterUrl(setup));
  load = await JournaledLoad.make(holdfast, randomFrom(seedFrom('CRASH_SEED', 'functions')));
}, 60_000);

afterEach(async () => {
  jest.restoreAllMocks();
  load.stop();
  stored.close();
  await sweeper?.stop();
  sweeper = undefined;
  await holdfast.stop();
  await stopAllRedis();
});

/** The names of the libraries on a server, which differ between versions. */
function librariesOf(server: RedisServer): Promise<string[]> {
  return withServer(server, async (client) =>
    ((await client.function('LIST')) as string[][]).map(
      (library) => library[library.indexOf('library_name') + 1] as string,
    ),
  );
}

async function startSweeping(): Promise<Holdfast> {
  sweeper = await startSweeper({ REDIS_URL: clusterUrl(setup) });
  return sweeper;
}

/** Runs the load while something happens. Returns how many requests were not acknowledged. */
async function unansweredDuring(happening: () => Promise<void>): Promise<number> {
  const more = (from: number): Promise<unknown> =>
    eventually('requests succeed', () => load.acknowledged.length > from + 50, 30_000);
  const clients = load.run(CLIENTS);
  await more(0);
  await happening();
  await more(load.acknowledged.length);
  load.stop();
  await clients;
  return load.entries.length - load.acknowledged.length;
}

test('replicas have the functions of their master', async () => {
  const [wanted, ...others] = await Promise.all(setup.masters.map(librariesOf));
  expect(wanted).toHaveLength(1);
  await eventually('they are replicated', async () => {
    const found = [...others, ...(await Promise.all(setup.replicas.map(librariesOf)))];
    expect(found).toEqual(found.map(() => wanted));
    return true;
  });
});

test('functions that are flushed are loaded again without a failed request or sweep', async () => {
  const sweeping = await startSweeping();
  const logger = sweeping.app.get<Logger>(LOGGER);
  const logged = (['warn', 'error'] as const).map((level) => jest.spyOn(logger, level));
  const unanswered = await unansweredDuring(async () => {
    for (let flush = 0; flush < FLUSHES; flush += 1) {
      await Promise.all(
        setup.masters.map((master) => withServer(master, (client) => client.function('FLUSH'))),
      );
      const from = load.acknowledged.length;
      await eventually('requests continue', () => load.acknowledged.length > from + 20, 30_000);
    }
  });
  expect(unanswered).toBe(0);
  await expectExactlyOnce(load, stored.redis);
  // Where a server of a busy machine takes too long, a run fails, too, but without an error.
  const errors = logged.flatMap(({ mock }) =>
    mock.calls.map(([fields]) => (fields as { err?: unknown }).err),
  );
  expect(errors.filter((error) => error !== undefined)).toEqual([]);
  await eventually('every master has them again', async () =>
    (await Promise.all(setup.masters.map(librariesOf))).every(({ length }) => length > 0),
  );
}, 90_000);

test('a new master that receives a partition gets the functions, and nothing is lost or done twice', async () => {
  const added = await addMaster(setup);
  expect(await librariesOf(added)).toEqual([]);
  // The first command to a node opens its connection, and commands that arrive meanwhile are told to retry.
  // Nobody sweeps during the move: scripts with a single key would write on both of its sides.
  await unansweredDuring(async () => {
    const slot = await slotOf(added, stored.tagOfTenant(load.tenant.id));
    await moveSlot(placeOf(setup, slot).master, added, slot);
  });
  await load.settle();
  await startSweeping();
  await expectExactlyOnce(load, stored.redis);
  await eventually('the new master has them', async () => (await librariesOf(added)).length > 0);
}, 90_000);
