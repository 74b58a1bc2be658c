import { randomUUID } from 'node:crypto';

import { afterEach, describe, expect, test } from '@jest/globals';
import type { Cluster } from 'ioredis';

import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { StoreUnavailable, toStoreError } from '../../src/redis/errors.js';
import { reservationKey, tagOfPartition } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';
import {
  letReplicasTakeOver,
  moveSlot,
  placeOf,
  slotOf,
  startCluster,
  type ClusterSetup,
} from '../support/redis-topologies.js';
import { BOUND_MS, hammer, slowest } from '../support/time-bound.js';

afterEach(async () => {
  await stopAllRedisServices();
  await stopAllRedis();
});

const random = randomFrom(seedFrom('CLUSTER_SEED', 'writes into a cluster'));
const TAGS = Array.from({ length: 64 }, (_, partition) => tagOfPartition(partition));

async function startBoth(): Promise<RunningService & { setup: ClusterSetup }> {
  const setup = await startCluster();
  return { setup, ...(await startRedisService({ REDIS_CLUSTER_NODES: setup.addresses })) };
}

/** A write to a random partition. */
function write({ service }: RunningService): () => Promise<unknown> {
  return () => service.client.set(`${TAGS[Math.floor(random() * TAGS.length)]}${randomUUID()}`, 'v');
}

/** Runs a registered script in each partition, for a hold that does not exist. */
async function runScripts({ service }: RunningService): Promise<Set<string | undefined>> {
  const replies = TAGS.map((tag) =>
    service.scripts.run('get_reservation', [reservationKey(tag, 'none')], ['', 'none', '1', 'r', 't-01']),
  );
  return new Set((await Promise.all(replies)).map(([status]) => status));
}

async function worksEverywhere(running: RunningService): Promise<void> {
  await eventually('every partition accepts writes', async () => {
    await Promise.all(TAGS.map((tag) => running.service.client.set(`${tag}probe`, '1')));
    return true;
  });
  // On a busy machine, another master may be replaced, too.
  await eventually('every partition runs scripts', async () => {
    expect(await runScripts(running)).toEqual(new Set(['NOT_FOUND']));
    return true;
  });
  await eventually('readiness is back', async () => (await running.service.status()).ready);
}

function expectOnlyStoreTrouble(outcomes: Awaited<ReturnType<typeof hammer>>): void {
  const defects = outcomes
    .map(({ error }) => error)
    .filter((error) => error !== undefined && !(toStoreError(error) instanceof StoreUnavailable));
  expect(defects).toEqual([]);
  expect(slowest(outcomes)).toBeLessThan(BOUND_MS);
}

describe('a Redis Cluster', () => {
  test('runs commands and scripts in every partition, spread over the masters', async () => {
    const running = await startBoth();
    await worksEverywhere(running);
    const sizes = await Promise.all(
      (running.service.client as Cluster).nodes('master').map((node) => node.dbsize()),
    );
    expect(sizes.every((size) => size > 0)).toBe(true);
    expect((await running.service.memory()).nodes).toHaveLength(3);
  });

  test('that loses a master fails commands within two seconds and continues with its replica', async () => {
    const running = await startBoth();
    await worksEverywhere(running);
    await letReplicasTakeOver(running.setup);
    await running.setup.masters[0]?.kill();
    expectOnlyStoreTrouble(await hammer(write(running), 2500));
    await worksEverywhere(running);
  });

  test('with a silent master fails its commands within two seconds, serves the others, and continues with the replica', async () => {
    const running = await startBoth();
    await worksEverywhere(running);
    await letReplicasTakeOver(running.setup);
    running.setup.masters[0]?.pause();
    const outcomes = await hammer(write(running), 2500);
    expectOnlyStoreTrouble(outcomes);
    expect(outcomes.some(({ error }) => error === undefined)).toBe(true);
    await worksEverywhere(running);
    running.setup.masters[0]?.resume();
    await worksEverywhere(running);
  });

  test('that is killed completely fails commands within two seconds, and works again when it is back', async () => {
    const running = await startBoth();
    await worksEverywhere(running);
    const servers = [...running.setup.masters, ...running.setup.replicas];
    await letReplicasTakeOver(running.setup);
    await Promise.all(servers.map((server) => server.kill()));
    expectOnlyStoreTrouble(await hammer(write(running), 1500));
    expect((await running.service.status()).ready).toBe(false);
    await Promise.all(servers.map((server) => server.restart()));
    await worksEverywhere(running);
  });

  test('that is completely silent fails commands within two seconds, and works again when it wakes up', async () => {
    const running = await startBoth();
    await worksEverywhere(running);
    const servers = [...running.setup.masters, ...running.setup.replicas];
    await letReplicasTakeOver(running.setup);
    for (const server of servers) {
      server.pause();
    }
    expectOnlyStoreTrouble(await hammer(write(running), 3000));
    expect((await running.service.status()).ready).toBe(false);
    for (const server of servers) {
      server.resume();
    }
    await worksEverywhere(running);
  });

  test('that moves a slot to another master loses no command', async () => {
    const running = await startBoth();
    await worksEverywhere(running);
    const [from, to] = running.setup.masters as [RedisServer, RedisServer];
    const slots = await Promise.all(TAGS.map(async (tag) => ({ tag, slot: await slotOf(from, tag) })));
    const { tag, slot } = slots.find((one) => placeOf(running.setup, one.slot).master === from) as {
      tag: string;
      slot: number;
    };
    const hammering = hammer(() => running.service.client.incr(`${tag}probe`), 1500);
    await moveSlot(from, to, slot);
    const outcomes = await hammering;
    expect(outcomes.filter(({ error }) => error !== undefined)).toEqual([]);
    expect(Number(await running.service.client.get(`${tag}probe`))).toBe(outcomes.length + 1);
  });
});
