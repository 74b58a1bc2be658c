import { Writable } from 'node:stream';
import { afterAll, afterEach, expect, test } from '@jest/globals';
import { createLogger } from '../../src/telemetry/index.js';
import { PartitionLeases } from '../../src/worker/index.js';
import { eventually } from '../support/eventually.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { startRedisService, stopAllRedisServices } from '../support/redis-service.js';

afterEach(stopAllRedisServices);
afterAll(stopAllRedis);

test('an outage in which an instance cannot announce itself is logged when it begins and when it ends', async () => {
  const redis = await startRedis();
  const { service } = await startRedisService({ REDIS_URL: redis.url });
  const log: Record<string, unknown>[] = [];
  const destination = new Writable({
    write(line: Buffer, _encoding, done) {
      log.push(JSON.parse(line.toString()) as Record<string, unknown>);
      done();
    },
  });
  let failures = 0;
  const leases = new PartitionLeases(service, createLogger('warn', destination), {
    work: 'swept',
    leaseMs: 60_000,
    instancesKey: '{holdfast}instances',
    reportsKey: '{holdfast}reports',
    leaseKey: (tag) => `${tag}lease`,
    partition: (number) => ({ number, code: String(number), tag: `{p${number}}` }),
    beatMs: 0,
    ask: () => Promise.resolve({ status: 'FREE' }),
    mayLeave: () => true,
    changed: () => undefined,
    announcementFailed: () => (failures += 1),
  });
  const beats = async (): Promise<boolean> => {
    leases.nextBeatAt = 0;
    return (await leases.beatWhenDue(() => '{}', { goesOn: () => true }))?.nowMs !== undefined;
  };
  expect(await beats()).toBe(true);
  await redis.kill();
  for (let beat = 0; beat < 3; beat += 1) {
    expect(await beats()).toBe(false);
  }
  await redis.restart();
  await eventually('it announces itself', beats);
  expect(log).toMatchObject([
    {
      msg: 'this instance could not announce itself; it keeps its partitions',
      work: 'swept',
      reason: expect.stringContaining('the store'),
    },
    {
      msg: 'this instance can announce itself again',
      work: 'swept',
      failures,
      lasted_ms: expect.any(Number),
    },
  ]);
  expect(log[0]).not.toHaveProperty('err');
});
