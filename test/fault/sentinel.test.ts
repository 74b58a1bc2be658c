import { randomUUID } from 'node:crypto';

import { afterEach, describe, expect, test } from '@jest/globals';

import { StoreUnavailable, toStoreError } from '../../src/redis/errors.js';
import { reservationKey, tagOf } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { stopAllRedis } from '../support/redis-server.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';
import { letReplicasTakeOver, startSentinel, type SentinelSetup } from '../support/redis-topologies.js';
import { BOUND_MS, hammer, slowest } from '../support/time-bound.js';

afterEach(async () => {
  await stopAllRedisServices();
  await stopAllRedis();
});

async function startBoth(): Promise<RunningService & { setup: SentinelSetup }> {
  const setup = await startSentinel();
  const running = await startRedisService({
    REDIS_SENTINELS: setup.addresses,
    REDIS_MASTER_NAME: setup.masterName,
  });
  return { setup, ...running };
}

/** Runs a registered script for a hold that does not exist. */
async function runScript({ service }: RunningService): Promise<string | undefined> {
  const [status] = await service.scripts.run(
    'get_reservation',
    [reservationKey(tagOf('00'), 'none')],
    ['', 'none', '1', 'r', 't-01'],
  );
  return status;
}

function write({ service }: RunningService): () => Promise<unknown> {
  return () => service.client.set(`k:${randomUUID()}`, 'v');
}

async function worksOn(running: RunningService, port: number): Promise<void> {
  await eventually('the new master accepts writes', async () => {
    await write(running)();
    return String(
      await (running.service.client as { info(section: string): Promise<string> }).info('server'),
    ).includes(`tcp_port:${port}`);
  });
  expect(await runScript(running)).toBe('NOT_FOUND');
  await eventually('readiness is back', async () => (await running.service.status()).ready);
}

describe('a master found through Sentinel', () => {
  test('runs commands and scripts', async () => {
    const running = await startBoth();
    expect(await write(running)()).toBe('OK');
    expect(await runScript(running)).toBe('NOT_FOUND');
    expect(await running.service.status()).toMatchObject({ ready: true });
  });

  test('that is killed fails commands within two seconds until the replica takes over, scripts included', async () => {
    const running = await startBoth();
    await running.service.client.set('kept', 'yes');
    await eventually(
      'the replica has it',
      async () => Number(await running.service.client.call('WAIT', '1', '1000')) >= 1,
    );
    await letReplicasTakeOver(running.setup);
    await running.setup.master.kill();
    const outcomes = await hammer(write(running), 1500);
    expect(slowest(outcomes)).toBeLessThan(BOUND_MS);
    expect(
      outcomes.every(({ error }) => error === undefined || toStoreError(error) instanceof StoreUnavailable),
    ).toBe(true);
    await worksOn(running, running.setup.replica.port);
    expect(await running.service.client.get('kept')).toBe('yes');
  });

  test('that is silent is left for the replica, and not used again when it wakes up as a replica', async () => {
    const running = await startBoth();
    await letReplicasTakeOver(running.setup);
    running.setup.master.pause();
    const outcomes = await hammer(write(running), 2500);
    expect(slowest(outcomes)).toBeLessThan(BOUND_MS);
    await worksOn(running, running.setup.replica.port);
    running.setup.master.resume();
    const afterwards = await hammer(write(running), 1000);
    expect(slowest(afterwards)).toBeLessThan(BOUND_MS);
    await worksOn(running, running.setup.replica.port);
  });

  test('is reached again after its Sentinels were unavailable for a while', async () => {
    const running = await startBoth();
    const [sentinel] = running.setup.sentinels;
    await sentinel?.kill();
    expect(await write(running)()).toBe('OK');
    await running.setup.master.restart();
    const outcomes = await hammer(write(running), 500);
    expect(outcomes.some(({ error }) => error !== undefined)).toBe(true);
    expect(slowest(outcomes)).toBeLessThan(BOUND_MS);
    await sentinel?.restart();
    await eventually('commands work again', async () => (await write(running)()) === 'OK');
  });
});
