import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { StoreOutages } from '../../src/events/store-outages.js';
import { RedisService } from '../../src/redis/index.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json } from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

let redis: RedisServer;
const instances: Holdfast[] = [];

beforeAll(async () => {
  redis = await startRedis({ appendonly: true, args: ['--appendfsync', 'always'] });
  for (let count = 0; count < 2; count += 1) {
    instances.push(await Holdfast.start({ REDIS_URL: redis.url }));
  }
});

afterAll(async () => {
  await Promise.all(instances.map((instance) => instance.stop()));
  await redis.stop();
});

const outages = async (outcome: string): Promise<number> =>
  (
    await Promise.all(
      instances.map((instance) => instance.metric('holdfast_store_outages_total', { outcome })),
    )
  ).reduce((sum, count) => sum + count, 0);

async function told(): Promise<string[]> {
  const { events } = expectStatus(
    await (instances[0] as Holdfast).admin('GET', '/v1/admin/events?category=system&sort_dir=asc'),
    200,
  );
  return events.map(({ event_type: type }: Json) => type as string);
}

const PAIR = ['system.store_connection_lost', 'system.store_connection_restored'];

test('an outage that two instances saw emits one event when the store is back, and so does the next one', async () => {
  for (const outage of [1, 2]) {
    await redis.kill();
    await eventually('both notice', async () => {
      const answers = await Promise.all(instances.map((instance) => instance.call('GET', '/health/ready')));
      return answers.every(({ status }) => status === 503);
    });
    await redis.restart();
    await eventually(
      'both are back and have reported it',
      async () => (await outages('told')) + (await outages('same')) === 2 * outage,
    );
    // Lists use a separate connection, which may be the last one to recover.
    expect(await eventually('lists succeed', told)).toEqual(
      Array.from({ length: outage }, () => PAIR).flat(),
    );
  }
  expect([await outages('told'), await outages('same'), await outages('failed')]).toEqual([2, 2, 0]);
});

test('an event that is late tells when the outage was, and the report of another instance is of the same', async () => {
  const [told0, same] = [await outages('told'), await outages('same')];
  const [instance] = instances as [Holdfast];
  const lostAt = performance.now();
  const [seconds, micros] = await instance.app.get(RedisService).client.time();
  await delay(20);
  const emit = (outageMs: number): Promise<void> =>
    instance.app.get(StoreOutages).emit(lostAt, lostAt + outageMs);
  await emit(5);
  await delay(20);
  await emit(1);
  expect([await outages('told'), await outages('same')]).toEqual([told0 + 1, same + 1]);
  const { events } = expectStatus(
    await instance.admin('GET', '/v1/admin/events?category=system&limit=1'),
    200,
  );
  const { lost_at: lost, restored_at: restored, outage_ms: outageMs } = events[0].data.details;
  expect([Date.parse(restored) - Date.parse(lost), outageMs]).toEqual([5, 5]);
  expect(Date.parse(lost)).toBeLessThanOrEqual(Number(seconds) * 1000 + Number(micros) / 1000);
});

test('an outage whose event cannot be emitted is counted', async () => {
  await redis.kill();
  await (instances[0] as Holdfast).app.get(StoreOutages).emit(performance.now() - 10, performance.now());
  expect(await outages('failed')).toBe(1);
  await redis.restart();
});
