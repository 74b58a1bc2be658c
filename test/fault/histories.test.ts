import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { setTimeout as delay } from 'node:timers/promises';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { tagOfTenant } from '../../src/redis/keyspace.js';
import { LIBRARY } from '../../src/redis/script-library.js';
import { buildService } from '../support/built-service.js';
import { ClusterSite, type Crash } from '../support/cluster-site.js';
import { eventually } from '../support/eventually.js';
import { RecordedClients } from '../support/history/clients.js';
import { Holdfast, type HoldfastClient } from '../support/holdfast.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { slotOf } from '../support/redis-topologies.js';

/**
 * Concurrent clients on two instances: some order explains what each tenant's clients got. The seed is
 * printed; HISTORY_SEED=<seed> repeats the random choices, though not their timing. `npm run history` adds
 * HISTORY_ROUNDS under kills and failovers.
 */
const seed = seedFrom('HISTORY_SEED', 'histories');
const rounds = Number(process.env['HISTORY_ROUNDS'] ?? 0);
const CLIENTS = 4;
const TENANTS = 4;
const ENOUGH = 150;
const PARTITIONS = 64;

const cleanUps: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

async function startTwo(): Promise<{ redis: Redis; instances: readonly Holdfast[] }> {
  const server = await startRedis();
  const redis = new Redis(server.url);
  cleanUps.push(() => redis.disconnect());
  const instances = await Promise.all([1, 2].map(() => Holdfast.start({ REDIS_URL: server.url })));
  cleanUps.push(() => Promise.all(instances.map((instance) => instance.stop())));
  return { redis, instances };
}

/** Runs the clients of one tenant until they have enough responses. */
async function historyOf(instances: readonly Holdfast[], ofSeed = seed): Promise<RecordedClients> {
  const clients = await RecordedClients.make(() => instances, ofSeed);
  const ended = clients.run(CLIENTS);
  await eventually('there are enough responses', () => clients.answered >= ENOUGH).finally(() =>
    clients.stop(),
  );
  await ended;
  return clients;
}

/** How many calls of the instances' scripts came in runs with others. */
async function sharedRuns(instances: readonly HoldfastClient[]): Promise<number> {
  const counts = await Promise.all(
    instances.map(async (instance) => {
      const [calls, runs] = await Promise.all(
        ['sum', 'count'].map((part) => instance.metric(`holdfast_script_group_size_${part}`)),
      );
      return (calls as number) - (runs as number);
    }),
  );
  return counts.reduce((all, count) => all + count, 0);
}

test('an order explains what clients of two instances got, and none does if a script forgets a check', async () => {
  const { redis, instances } = await startTwo();
  expect((await historyOf(instances)).verdict()).toEqual({ word: 'explained', faults: [] });
  const shared = await sharedRuns(instances);
  process.stdout.write(`  ${shared} calls came in runs with others\n`);
  expect(shared).toBeGreaterThan(0);
  for (const change of [
    { what: 'what remains', find: 'budget.remaining_figure < wanted', put: 'false' },
    {
      what: 'the lease',
      find: 'expires_at = hold.expires_at + ',
      put: 'expires_at = now + ',
    },
  ] as const) {
    const { code } = LIBRARY;
    // Keeps its own name, so that the instances call it.
    await redis.function('LOAD', 'REPLACE', mutate(code, change));
    let word = '';
    // Some histories never come to what is wrong.
    for (let more = 0; more < 4 && word !== 'violated'; more += 1) {
      ({ word } = (await historyOf(instances, seed + 10 * more)).verdict());
    }
    expect(word).toBe('violated');
    await redis.function('LOAD', 'REPLACE', code);
  }
});

/** @returns how many calls came in runs with others, in instances that are still alive */
async function playRound(site: ClusterSite, random: () => number): Promise<number> {
  const loads = await Promise.all(
    Array.from({ length: TENANTS }, (_, index) => RecordedClients.make(site.clients, seed + 10 * index)),
  );
  const running = Promise.all(loads.map((load) => load.run(CLIENTS)));
  const pause = (): Promise<void> => delay(200 + random() * 400);
  const faults = (async (): Promise<Crash> => {
    await pause();
    await site.kill(0);
    await pause();
    await site.failOver();
    await pause();
    const crash = await site.crash(Math.floor(random() * 3), 20 + random() * 100);
    await pause();
    await site.kill(1);
    await pause();
    await site.ready();
    return crash;
  })().finally(() => loads.forEach((load) => load.stop()));
  const ended = await Promise.allSettled([running, faults]);
  expect(ended.filter(({ status }) => status === 'rejected')).toEqual([]);
  const crash = await faults;
  for (const load of loads) {
    const tag = tagOfTenant(load.tenantId, PARTITIONS);
    const isMet = crash.hadSlot(await slotOf(site.anyNode(), tag));
    expect(load.verdict(isMet ? crash : undefined)).toEqual({ word: 'explained', faults: [] });
  }
  const [all, answered] = [loads.map(({ attempts }) => attempts.length), loads.map((load) => load.answered)];
  process.stdout.write(
    `  ${all.join(' + ')} requests of ${TENANTS} tenants, ${answered.join(' + ')} responses: explained\n`,
  );
  return sharedRuns(site.clients());
}

if (rounds > 0) {
  beforeAll(buildService, 120_000);

  test(
    'an order explains what clients got while instances and a master were killed, and masters handed over to their replicas, except for what the master lost',
    async () => {
      const site = await ClusterSite.open(2, { HOLDFAST_ROLES: 'api' });
      cleanUps.push(() => site.close());
      const random = randomFrom(seed);
      let shared = 0;
      for (let round = 0; round < rounds; round += 1) {
        shared += await playRound(site, random);
      }
      process.stdout.write(`  ${shared} calls came in runs with others\n`);
      expect(shared).toBeGreaterThan(0);
    },
    60_000 + rounds * 60_000,
  );
}
