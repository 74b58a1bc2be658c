import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { setTimeout as delay } from 'node:timers/promises';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { readScripts, type Script } from '../../src/redis/script-source.js';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { RecordedClients } from '../support/history/clients.js';
import {
  ADMIN_API_KEY,
  Holdfast,
  HoldfastClient,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
} from '../support/holdfast.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { startCluster } from '../support/redis-topologies.js';

/**
 * Concurrent clients on two instances: some order explains what each tenant's clients got. The seed is printed; HISTORY_SEED=<seed>
 * repeats the choices, though not their timing. `npm run history` adds HISTORY_ROUNDS under kills and failovers.
 */
const seed = seedFrom('HISTORY_SEED', 'histories');
const rounds = Number(process.env['HISTORY_ROUNDS'] ?? 0);
const CLIENTS = 4;
const TENANTS = 4;
const ENOUGH = 150;

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

/** Lets clients of one tenant work until they have enough answers. */
async function historyOf(instances: readonly Holdfast[]): Promise<RecordedClients> {
  const clients = await RecordedClients.make(() => instances, seed);
  const ended = clients.run(CLIENTS);
  await eventually('there are enough answers', () => clients.answered >= ENOUGH).finally(() =>
    clients.stop(),
  );
  await ended;
  return clients;
}

test('an order explains what clients of two instances got, and none does if a script forgets a check', async () => {
  const { redis, instances } = await startTwo();
  expect((await historyOf(instances)).verdict()).toEqual({ word: 'explained', faults: [] });
  for (const { name, ...change } of [
    { name: 'reserve', what: 'what remains', find: 'budget.remaining_figure < wanted', put: 'false' },
    {
      name: 'extend',
      what: 'the lease',
      find: 'expires_at = hold.expires_at + ',
      put: 'expires_at = now + ',
    },
  ] as const) {
    const { library } = readScripts().get(name) as Script;
    // Under its own name, so that the instances call it.
    await redis.function('LOAD', 'REPLACE', mutate(library, change));
    expect((await historyOf(instances)).verdict().word).toBe('violated');
    await redis.function('LOAD', 'REPLACE', library);
  }
});

type Service = Awaited<ReturnType<typeof startService>>;

/** A cluster of three masters with a replica each, and two instances in front of it. */
class Site {
  private constructor(
    private readonly env: Record<string, string>,
    private readonly nodes: readonly { readonly host: string; readonly port: number }[],
    private readonly services: Service[],
  ) {}

  static async open(): Promise<Site> {
    const { addresses, replicas, masters } = await startCluster();
    const env = {
      REDIS_CLUSTER_NODES: addresses,
      ADMIN_API_KEY,
      WEBHOOK_SECRET_ENCRYPTION_KEY,
      HOLDFAST_ROLES: 'api',
    };
    const services = await Promise.all([startService(env), startService(env)]);
    const site = new Site(env, [...masters, ...replicas], services);
    cleanUps.push(() => site.close());
    return site;
  }

  /** Those that run, or are coming up again. */
  readonly clients = (): readonly HoldfastClient[] => this.services.map(({ url }) => new HoldfastClient(url));

  /** SIGKILL, in the middle of whatever it does, and a new one in its place. */
  async kill(index: number): Promise<void> {
    const victim = this.services[index] as Service;
    victim.child.kill('SIGKILL');
    await victim.ended;
    this.services[index] = await startService(this.env);
  }

  /** Has each replica take over from its master. Both agree on it, so nothing that was answered is lost. */
  async failOver(): Promise<void> {
    const nodes = this.nodes.map(({ host, port }) => new Redis({ host, port }));
    const isMaster = async (redis: Redis): Promise<boolean> =>
      (await redis.info('replication')).includes('role:master');
    const masters = await Promise.all(nodes.map(isMaster));
    for (const replica of nodes.filter((_, index) => masters[index] === false)) {
      await replica.call('CLUSTER', 'FAILOVER');
      await eventually('the replica is a master', () => isMaster(replica));
    }
    nodes.forEach((redis) => redis.disconnect());
  }

  async ready(): Promise<void> {
    await eventually('both are ready', async () => {
      const answers = await Promise.all(this.services.map(({ url }) => fetch(`${url}/health/ready`)));
      return answers.every(({ status }) => status === 200);
    });
  }

  private async close(): Promise<void> {
    for (const { child, ended } of this.services) {
      child.kill('SIGTERM');
      await ended;
    }
  }
}

async function playRound(site: Site, random: () => number): Promise<void> {
  const loads = await Promise.all(
    Array.from({ length: TENANTS }, (_, index) => RecordedClients.make(site.clients, seed + 10 * index)),
  );
  const running = Promise.all(loads.map((load) => load.run(CLIENTS)));
  const pause = (): Promise<void> => delay(200 + random() * 400);
  const faults = (async (): Promise<void> => {
    await pause();
    await site.kill(0);
    await pause();
    await site.failOver();
    await pause();
    await site.kill(1);
    await pause();
    await site.ready();
  })().finally(() => loads.forEach((load) => load.stop()));
  const ended = await Promise.allSettled([running, faults]);
  expect(ended.filter(({ status }) => status === 'rejected')).toEqual([]);
  for (const load of loads) {
    expect(load.verdict()).toEqual({ word: 'explained', faults: [] });
  }
  const [all, answered] = [loads.map(({ attempts }) => attempts.length), loads.map((load) => load.answered)];
  process.stdout.write(
    `  ${all.join(' + ')} requests of ${TENANTS} tenants, ${answered.join(' + ')} answers: explained\n`,
  );
}

if (rounds > 0) {
  beforeAll(buildService, 120_000);

  test(
    'an order explains what clients got while instances were killed and masters gave way to their replicas',
    async () => {
      const site = await Site.open();
      const random = randomFrom(seed);
      for (let round = 0; round < rounds; round += 1) {
        await playRound(site, random);
      }
    },
    60_000 + rounds * 60_000,
  );
}
