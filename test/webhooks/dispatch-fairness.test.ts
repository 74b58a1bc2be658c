import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { eventIdOf } from '../../src/events/index.js';
import { eventLogKey, orderedQueuesKey, retryingKey, tagOf } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import type { Holdfast, TestTenant } from '../support/holdfast.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  deliveries,
  endedDeliveries,
  startDispatcher,
  subscribe,
  tenantWithBudget,
} from './dispatching.js';

/** All tenants in one partition: they share its event log and its index of retries. */
const TAG = tagOf('00');
const SUBSCRIPTIONS = 20;
const EVENTS = 600;

let server: Store;
let redis: StoreClient;
let holdfast: Holdfast;
let receiver: WebhookReceiver;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  holdfast = await startDispatcher({ REDIS_URL: server.url, PARTITIONS: '1', WEBHOOK_TIME_SHARE: '10' });
  await allowLoopback(holdfast);
});

beforeEach(async () => {
  receiver = await WebhookReceiver.start();
});

afterEach(() => receiver.stop());

afterAll(async () => {
  await holdfast.stop();
  redis.disconnect();
  await server.stop();
});

/** Events of a tenant, as scripts write them. Returns their ids. */
async function writeEvents(tenant: TestTenant, count: number): Promise<string[]> {
  const pipeline = redis.pipeline();
  for (let index = 0; index < count; index += 1) {
    pipeline.xadd(eventLogKey(TAG), '*', 'ty', 'reservation.denied', 'tn', tenant.id, 'ac', 'system');
  }
  const replies = (await pipeline.exec()) ?? [];
  return replies.map(([, entryId]) => eventIdOf({ partition: '00', entryId: entryId as string }));
}

test('a tenant with thousands of deliveries to queue delays neither an event nor a retry of another tenant of its partition', async () => {
  const [busy, quiet] = [await tenantWithBudget(holdfast), await tenantWithBudget(holdfast)];
  const ids = await Promise.all(
    Array.from({ length: SUBSCRIPTIONS }, (_, index) =>
      subscribe(holdfast, busy, `${receiver.url}/busy-${index}`),
    ),
  );
  const quietId = await subscribe(holdfast, quiet, `${receiver.url}/quiet`, {
    retry_policy: { max_retries: 1, initial_delay_ms: 100, max_delay_ms: 1000 },
  });
  const paused = await holdfast.metric('holdfast_webhook_queueing_pauses_total');
  const codes = [500, 200];
  receiver.react = (response, { path }) =>
    void response.writeHead(path === '/quiet' ? (codes.shift() ?? 200) : 200).end();
  const eventIds = await writeEvents(busy, EVENTS);
  await eventually('the busy tenant is delivered to', () => receiver.received.length > 0);
  await causeEvent(holdfast, quiet);
  expect(await endedDeliveries(holdfast, quietId, 1)).toMatchObject([{ status: 'SUCCESS', attempts: 2 }]);
  const [pending] = (await redis.xpending(eventLogKey(TAG), 'dispatcher')) as [number];
  expect(pending).toBeGreaterThan(EVENTS / 4);
  const ready = await holdfast.call('GET', '/health/ready');
  expect(ready.status).toBe(200);

  await eventually(
    'all is delivered',
    async () => {
      const [left] = (await redis.xpending(eventLogKey(TAG), 'dispatcher')) as [number];
      return left === 0 && (await redis.exists(orderedQueuesKey(TAG), retryingKey(TAG))) === 0;
    },
    60_000,
    100,
  );
  for (let index = 0; index < SUBSCRIPTIONS; index += 1) {
    const received = receiver.received.filter(({ path }) => path === `/busy-${index}`);
    // A set keeps the order of the first time: on a busy machine an attempt may fail and be repeated.
    expect([...new Set(received.map(({ headers }) => headers['webhook-id']))]).toEqual(eventIds);
  }
  expect((await deliveries(holdfast, ids[0] as string)).length).toBe(100);
  expect(await holdfast.metric('holdfast_webhook_queueing_pauses_total')).toBeGreaterThan(paused);
}, 120_000);
