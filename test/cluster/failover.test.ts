import { afterEach, expect, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { eventually } from '../support/eventually.js';
import { eventsFor, expectExactlyOnce, storedFor } from '../support/exactly-once.js';
import { HoldfastClient, type Holdfast } from '../support/holdfast.js';
import { JournaledLoad, outcomeOf, type Entry } from '../support/journaled-load.js';
import { faultsOf } from '../support/ledger-state.js';
import { stopAllRedis, type RedisServer } from '../support/redis-server.js';
import {
  letReplicasTakeOver,
  placeOf,
  slotOf,
  startCluster,
  startSentinel,
  withServer,
} from '../support/redis-topologies.js';
import { StoredHolds } from '../support/stored-holds.js';
import { clusterUrl, sentinelUrl } from '../support/store.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { startSweeper } from '../expiry/instances.js';
import { allowLoopback, subscribe, SYSTEM } from '../webhooks/dispatching.js';

const CLIENTS = 8;
const seed = seedFrom('CRASH_SEED', 'failover');
const cleanUps: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

interface Site {
  readonly url: string;
  /** The master that owns a key, and its replica. */
  placeOf(key: string): Promise<{ master: RedisServer; replica: RedisServer }>;
  letReplicasTakeOver(): Promise<void>;
}

const TOPOLOGIES: Readonly<Record<string, () => Promise<Site>>> = {
  'a cluster': async () => {
    const setup = await startCluster();
    return {
      url: clusterUrl(setup),
      placeOf: async (key) => placeOf(setup, await slotOf(setup.masters[0] as RedisServer, key)),
      letReplicasTakeOver: () => letReplicasTakeOver(setup),
    };
  },
  Sentinels: async () => {
    const setup = await startSentinel(3);
    return {
      url: sentinelUrl(setup),
      placeOf: () => Promise.resolve(setup),
      letReplicasTakeOver: () => letReplicasTakeOver(setup),
    };
  },
};

/** Whether the replica has received everything that its master has. */
function isInStep(master: RedisServer, tag: string): Promise<boolean> {
  return withServer(master, async (client) => {
    await client.set(`${tag}in-step`, '1');
    return (await client.wait(1, 1000)) === 1;
  });
}

/** Entries whose outcome a failover must not affect, with that outcome. */
function outcomesOf(entries: readonly Entry[]): Map<Entry, string> {
  return new Map(
    entries.filter(({ answer }) => answer !== undefined).map((entry) => [entry, outcomeOf(entry.answer)]),
  );
}

async function startAll(
  site: Site,
): Promise<{ holdfast: Holdfast; receiver: WebhookReceiver; stored: StoredHolds }> {
  const receiver = await WebhookReceiver.start();
  cleanUps.push(() => receiver.stop());
  const stored = new StoredHolds(site.url);
  stored.redis.on('error', () => undefined);
  cleanUps.push(() => stored.close());
  const holdfast = await startSweeper({
    REDIS_URL: site.url,
    HOLDFAST_ROLES: 'api,sweeper,dispatcher',
    webhookPollMs: 20,
  });
  cleanUps.push(() => holdfast.stop());
  await allowLoopback(holdfast);
  return { holdfast, receiver, stored };
}

/** The ids of the events that an endpoint received. */
function toldTo(receiver: WebhookReceiver): Set<string> {
  return new Set(
    receiver.received.map(
      ({ body }) => (JSON.parse(body) as { data: { reservation_id: string } }).data.reservation_id,
    ),
  );
}

test.each(Object.keys(TOPOLOGIES))(
  'with %s, a master that is killed under load loses at most what it had not replicated, and everything continues with the replica: requests, sweep, events, webhooks',
  async (name) => {
    process.stdout.write(`  ${name}\n`);
    const site = await (TOPOLOGIES[name] as () => Promise<Site>)();
    const { holdfast, receiver, stored } = await startAll(site);
    const load = await JournaledLoad.make(holdfast, randomFrom(seed));
    cleanUps.push(() => load.stop());
    await subscribe(holdfast, SYSTEM, receiver.url, { event_types: ['reservation.expired'] });
    const tag = stored.tagOfTenant(load.tenant.id);
    const { master, replica } = await site.placeOf(tag);
    const clients = load.run(CLIENTS);
    await eventually('the load is running', () => load.acknowledged.length > 150);
    const replicated = outcomesOf(load.acknowledged);
    await eventually('the replica has it', () => isInStep(master, tag));
    await site.letReplicasTakeOver();
    await master.kill();
    await eventually(
      'the replica has taken over',
      () => withServer(replica, async (client) => (await client.info('replication')).includes('role:master')),
      30_000,
    );
    const sentBefore = load.entries.length;
    const answeredSince = () => load.entries.slice(sentBefore).filter(({ answer }) => answer !== undefined);
    await eventually('requests succeed again', () => answeredSince().length > 100, 30_000);
    load.stop();
    await clients;
    const kept = new Map([...replicated, ...outcomesOf(answeredSince())]);
    const answered = outcomesOf(load.acknowledged);
    expect(faultsOf(await storedFor(load, stored.redis))).toEqual([]);
    load.client = new HoldfastClient(holdfast.url);
    load.forget();
    await load.settle();
    expect(
      [...kept].filter(([{ answer }, first]) => outcomeOf(answer) !== first).map(([{ kind }]) => kind),
    ).toEqual([]);
    await expectExactlyOnce(load, stored.redis);
    const expired = eventsFor(load, await storedFor(load, stored.redis)).filter(
      ({ fields }) => fields['ty'] === 'reservation.expired',
    );
    await eventually(
      'the endpoint has received each expiry',
      () => {
        const told = toldTo(receiver);
        return expired.every(({ fields }) => told.has(fields['reservation_id'] as string));
      },
      30_000,
    );
    const lost = [...answered].filter(([{ answer }, first]) => outcomeOf(answer) !== first);
    process.stdout.write(`  ${answered.size} responses, ${lost.length} of them lost with the master\n`);
  },
  120_000,
);
