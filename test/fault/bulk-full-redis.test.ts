import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { expectStatus, Holdfast, newKey } from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

let server: RedisServer;
let redis: Redis;
let holdfast: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  await redis.set('{test}ballast', 'x'.repeat(2_000_000));
  holdfast = await Holdfast.start({ REDIS_URL: server.url });
});
afterAll(async () => {
  await holdfast.stop();
  await redis.quit();
  await server.stop();
});

test('on a full Redis, operators can still stop many tenants at once', async () => {
  const tenant = await holdfast.createTenant();
  await redis.config('SET', 'maxmemory', '1mb');
  const answer = await holdfast.admin('POST', '/v1/admin/tenants/bulk-action', {
    action: 'SUSPEND',
    filter: { search: tenant.id },
    idempotency_key: newKey(),
  });
  await redis.config('SET', 'maxmemory', '0');
  expect(expectStatus(answer, 200).succeeded).toEqual([{ id: tenant.id }]);
  const shown = await holdfast.admin('GET', `/v1/admin/tenants/${tenant.id}`);
  expect(expectStatus(shown, 200).status).toBe('SUSPENDED');
});
