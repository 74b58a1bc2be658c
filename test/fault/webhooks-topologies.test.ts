import { afterEach, expect, test } from '@jest/globals';
import { RedisService } from '../../src/redis/redis.service.js';
import { eventually } from '../support/eventually.js';
import type { Holdfast, TestTenant } from '../support/holdfast.js';
import { stopAllRedis } from '../support/redis-server.js';
import { letReplicasTakeOver, startCluster, startSentinel } from '../support/redis-topologies.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { allowLoopback, endedDeliveries, startDispatcher, subscribe } from '../webhooks/dispatching.js';

const POLICY = {
  retry_policy: { max_retries: 10, initial_delay_ms: 100, backoff_multiplier: 1, max_delay_ms: 1000 },
};

let holdfast: Holdfast | undefined;
let receiver: WebhookReceiver | undefined;

afterEach(async () => {
  await holdfast?.stop();
  await receiver?.stop();
  await stopAllRedis();
});

/**
 * Endpoints that refuse every first attempt, so that each delivery also passes through the queue of retries.
 */
async function startRefusing(): Promise<WebhookReceiver> {
  const seen = new Set<string>();
  const refusing = await WebhookReceiver.start();
  refusing.react = (response, { path, headers }) => {
    const name = `${path} ${headers['webhook-id']}`;
    response.writeHead(seen.has(name) ? 200 : 500).end();
    seen.add(name);
  };
  return refusing;
}

/** Emits one event per tenant and expects its delivery, which is the tenant's `count`th. */
async function expectDelivered(
  instance: Holdfast,
  subscribed: readonly { tenant: TestTenant; id: string }[],
  count: number,
): Promise<void> {
  for (const { tenant } of subscribed) {
    await eventually(
      'the store accepts the event',
      async () => (await instance.reserve(tenant, 1_000_000_000_000)).status === 409,
      30_000,
    );
  }
  for (const { id } of subscribed) {
    const ended = await eventually('it is delivered', () => endedDeliveries(instance, id, count), 30_000);
    expect(ended.map(({ status }) => status)).toEqual(Array.from({ length: count }, () => 'SUCCESS'));
  }
}

async function subscribeTenants(
  instance: Holdfast,
  url: string,
  count: number,
): Promise<{ tenant: TestTenant; id: string }[]> {
  await allowLoopback(instance);
  const subscribed: { tenant: TestTenant; id: string }[] = [];
  for (let index = 0; index < count; index += 1) {
    const tenant = await instance.fundedTenant();
    subscribed.push({ tenant, id: await subscribe(instance, tenant, `${url}/${tenant.id}`, POLICY) });
  }
  return subscribed;
}

test('a cluster is dispatched on all its masters, and retried', async () => {
  const setup = await startCluster();
  receiver = await startRefusing();
  holdfast = await startDispatcher({ REDIS_CLUSTER_NODES: setup.addresses });
  const subscribed = await subscribeTenants(holdfast, receiver.url, 8);
  await expectDelivered(holdfast, subscribed, 1);
}, 90_000);

test('with Sentinels deliveries and retries continue with the master that takes over', async () => {
  const setup = await startSentinel();
  receiver = await startRefusing();
  holdfast = await startDispatcher({ REDIS_SENTINELS: setup.addresses, REDIS_MASTER_NAME: setup.masterName });
  const subscribed = await subscribeTenants(holdfast, receiver.url, 2);
  await expectDelivered(holdfast, subscribed, 1);
  const { client } = holdfast.app.get(RedisService);
  // A busy machine may drop the connection; then this command fails, and the next one uses a new connection.
  await eventually(
    'a replica has everything',
    async () => Number(await client.call('WAIT', '1', '1000')) >= 1,
  );
  await letReplicasTakeOver(setup);
  await setup.master.kill();
  await expectDelivered(holdfast, subscribed, 2);
}, 90_000);
