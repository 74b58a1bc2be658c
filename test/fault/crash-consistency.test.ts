import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { eventLogKey } from '../../src/redis/keyspace.js';
import { parseInfo } from '../../src/redis/memory-guard.js';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce, expectStored, storedFor } from '../support/exactly-once.js';
import { ADMIN_API_KEY, HoldfastClient } from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { endFlushes, makeLogFolder } from '../support/log-folder.js';
import { StoredHolds } from '../support/stored-holds.js';

/**
 * Holdfast with its embedded Redis is killed at random moments under load. CRASH_ROUNDS sets how often for
 * each setting, CRASH_SEED repeats the random choices of a run, and CRASH_DIR is where the data is kept.
 */
const rounds = Number(process.env['CRASH_ROUNDS'] ?? 3);
const seed = seedFrom('CRASH_SEED', 'crash consistency');
const CLIENTS = 16;
const VICTIMS = ['holdfast', 'redis', 'both'] as const;
type Victim = (typeof VICTIMS)[number];

type Service = Awaited<ReturnType<typeof startService>>;

/** The data of an embedded Redis, the process that currently serves it, and a direct connection to Redis. */
interface Site {
  readonly fsync: string;
  readonly env: Record<string, string>;
  readonly redis: StoredHolds;
  service: Service;
}

const cleanUps: (() => Promise<void> | void)[] = [];

beforeAll(buildService, 120_000);

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
});

async function open(fsync: string): Promise<Site> {
  const dataDir = makeLogFolder(fsync, 'holdfast-test-crash-', process.env['CRASH_DIR']);
  const env = { DATA_DIR: dataDir, ADMIN_API_KEY, HOLDFAST_ROLES: 'api,sweeper', REDIS_APPENDFSYNC: fsync };
  cleanUps.push(() => rmSync(dataDir, { recursive: true, force: true }));
  const service = await startService(env);
  const redis = new StoredHolds(join(dataDir, 'redis', 'redis.sock'));
  redis.redis.on('error', () => undefined);
  const site = { fsync, env, redis, service };
  cleanUps.push(async () => {
    site.service.child.kill('SIGTERM');
    await site.service.ended;
    redis.close();
  });
  return site;
}

/** Kills the victim and restores everything. Clients continue unless Holdfast is killed. */
async function crash(site: Site, victim: Victim, load: JournaledLoad): Promise<void> {
  const { redis } = site.redis;
  const pid = Number(parseInfo(await redis.info('server')).get('process_id'));
  if (victim !== 'holdfast') {
    await endFlushes(site.fsync, redis);
    process.kill(pid, 'SIGKILL');
  }
  if (victim !== 'redis') {
    site.service.child.kill('SIGKILL');
    load.stop();
    await site.service.ended;
    site.service = await startService(site.env);
  }
  await eventually(
    'it serves again',
    async () => (await fetch(`${site.service.url}/health/ready`)).status === 200,
  );
  await eventually('the store replies here too', async () => (await redis.ping()) === 'PONG');
}

/** The events that a reader of the log sees until the crash is over. */
async function watchEvents(load: JournaledLoad, site: Site, crashing: () => boolean): Promise<Set<string>> {
  const seen = new Set<string>();
  const log = eventLogKey(site.redis.tagOfTenant(load.tenant.id));
  let after = '-';
  while (!crashing()) {
    const entries = await site.redis.redis.xrange(log, after, '+', 'COUNT', 1000).catch(() => []);
    entries.forEach(([id]) => seen.add(id));
    after = entries.length > 0 ? `(${entries.at(-1)?.[0]}` : after;
    await delay(2);
  }
  return seen;
}

async function playRound(site: Site, victim: Victim, random: () => number): Promise<JournaledLoad> {
  const load = await JournaledLoad.make(new HoldfastClient(site.service.url), random);
  const clients = load.run(CLIENTS);
  let over = false;
  const watching = watchEvents(load, site, () => over);
  await delay(50 + random() * 750);
  const crashing = crash(site, victim, load).finally(() => {
    over = true;
    load.stop();
  });
  // Await both, even if one fails: nothing may be in flight when the site is removed.
  const ended = await Promise.allSettled([clients, crashing]);
  expect(ended.filter(({ status }) => status === 'rejected')).toEqual([]);
  load.client = new HoldfastClient(site.service.url);
  const unanswered = load.entries.length - load.acknowledged.length;
  const stored = await storedFor(load, site.redis.redis);
  const logged = new Set(stored.events.map(({ id }) => id));
  expect([...(await watching)].filter((id) => !logged.has(id))).toEqual([]);
  await load.settle();
  await expectExactlyOnce(load, site.redis.redis);
  process.stdout.write(
    `  ${victim} killed: ${load.entries.length - unanswered} responses, ${unanswered} requests without one\n`,
  );
  return load;
}

test.each(['always', 'everysec'])(
  'a kill of Holdfast, of its Redis, or of both, at any moment, loses nothing that was acknowledged and does nothing twice (appendfsync %s)',
  async (fsync) => {
    process.stdout.write(`  ${rounds} rounds, appendfsync ${fsync}\n`);
    const random = randomFrom(seed);
    const site = await open(fsync);
    const loads: JournaledLoad[] = [];
    for (let round = 0; round < rounds; round += 1) {
      loads.push(await playRound(site, VICTIMS[round % VICTIMS.length] as Victim, random));
    }
    for (const load of loads) {
      load.client = new HoldfastClient(site.service.url);
      await expectStored(load, site.redis.redis);
    }
  },
  60_000 + rounds * 20_000,
);
