import { afterEach, expect, test } from '@jest/globals';
import { BlackholeProxy } from '../support/blackhole-proxy.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { expectUnavailable } from '../support/unavailable.js';

const cleanUps: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

async function behindProxy(): Promise<{ proxy: BlackholeProxy; holdfast: Holdfast; tenant: TestTenant }> {
  const proxy = await BlackholeProxy.before(await startRedis());
  cleanUps.push(() => proxy.close());
  const holdfast = await Holdfast.start({ REDIS_URL: proxy.url });
  cleanUps.push(() => holdfast.stop());
  const tenant = await holdfast.fundedTenant(1_000_000);
  return { proxy, holdfast, tenant };
}

test("a list without a reply from Redis closes the connection for queries; the ledger's continues to work", async () => {
  const { proxy, holdfast, tenant } = await behindProxy();
  const list = () => holdfast.call('GET', '/v1/reservations', { key: tenant.key });
  let [asked, over] = [0, false];
  const reserves = (async () => {
    for (; !over; asked += 1) {
      expectStatus(await holdfast.reserve(tenant, 1), 200);
    }
  })();
  // The name of the function, which only the connection for queries sends.
  proxy.cutWhereSaid('list_reservations');
  await expectUnavailable(list);
  const askedBefore = asked;
  await eventually('reserves succeed', () => asked > askedBefore + 20);
  await eventually(
    'the connection for queries is known to be lost',
    async () => (await holdfast.metric('holdfast_queries_connection_lost_total')) > 0,
  );
  expectStatus(await holdfast.call('GET', '/health/ready'), 200);
  expect(await holdfast.metric('holdfast_redis_connection_lost_total')).toBe(0);
  proxy.heal();
  await eventually('lists succeed again', async () => (await list()).status === 200);
  over = true;
  await reserves;
  expect(await holdfast.metric('holdfast_redis_connection_lost_total')).toBe(0);
  expect(await holdfast.metric('holdfast_queries_connected')).toBe(1);
  expect(await holdfast.metric('holdfast_queries_connection_restored_total')).toBeGreaterThan(0);
}, 60_000);

test('without a connection for queries these get 503 immediately, and readiness stays green and says why', async () => {
  const { proxy, holdfast, tenant } = await behindProxy();
  const list = () => holdfast.call('GET', '/v1/reservations', { key: tenant.key });
  // Every new connection first sends its name.
  proxy.cutWhereSaid('list_reservations', 'holdfast-queries');
  await expectUnavailable(list);
  const ready = await eventually('health shows it', async () => {
    const answer = await holdfast.call('GET', '/health/ready');
    return answer.text.includes('the connection for queries is lost') ? answer : undefined;
  });
  expect(ready.status).toBe(200);
  expect(await holdfast.metric('holdfast_queries_connected')).toBe(0);
  await eventually('one is refused without a wait', async () => {
    const began = performance.now();
    await expectUnavailable(list);
    return performance.now() - began < 300;
  });
  expectStatus(await holdfast.reserve(tenant, 1), 200);
  proxy.heal();
  await eventually('lists succeed again', async () => (await list()).status === 200, 20_000);
}, 60_000);
