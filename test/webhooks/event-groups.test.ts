import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { deliveryKey, eventLogKey, tagOf, tenantEventsKey } from '../../src/redis/keyspace.js';
import { type DeliveryPlace, deliveryPlaceOf } from '../../src/webhooks/dispatch/delivery.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, type Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import type { Received } from '../support/webhook-receiver.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  causeEvents,
  deliveries,
  endedDeliveries,
  startDispatcher,
  subscribe,
  subscription,
} from './dispatching.js';

const QUICK = { max_retries: 2, initial_delay_ms: 100, max_delay_ms: 1000 };
const TAG = tagOf('00');
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

let server: Store;
let redis: StoreClient;
let holdfast: Holdfast;
let receiver: WebhookReceiver;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  holdfast = await startDispatcher({ REDIS_URL: server.url, PARTITIONS: '1' });
  await allowLoopback(holdfast);
});

beforeEach(async () => {
  receiver = await WebhookReceiver.start();
  tenant = await holdfast.fundedTenant(1000);
});

afterEach(() => receiver.stop());

afterAll(async () => {
  await holdfast.stop();
  redis.disconnect();
  await server.stop();
});

async function subscribeWith(options: Json, more: Json = {}): Promise<string> {
  const id = await subscribe(holdfast, tenant, receiver.url, { retry_policy: QUICK, ...more });
  expectStatus(await holdfast.admin('PUT', `/ops/webhooks/${id}/options`, options), 200);
  return id;
}

/** The request ids of the events that a request carried, which name the events in the order in which they were caused. */
const requestsIn = ({ body }: Received): string[] =>
  (JSON.parse(body) as { events: Json[] }).events.map(({ request_id: id }) => id as string);

/** Holds the first request until `count` events wait behind it, and answers all by `statuses`, then by 200. */
async function behindTheFirst(count: number, ...statuses: number[]): Promise<string[]> {
  let answerFirst = (): unknown => undefined;
  receiver.react = (response) => {
    const answer = (): unknown => response.writeHead(statuses.shift() ?? 200).end();
    void (receiver.received.length === 1 ? (answerFirst = answer) : answer());
  };
  const first = await causeEvent(holdfast, tenant);
  await eventually('the first request arrives', () => receiver.received.length === 1);
  const queued = await holdfast.metric('cycles_admin_webhook_dispatched_total', { result: 'queued' });
  const others = await causeEvents(holdfast, tenant, count);
  await eventually(
    'the others are queued',
    async () =>
      (await holdfast.metric('cycles_admin_webhook_dispatched_total', { result: 'queued' })) ===
      queued + count,
  );
  answerFirst();
  return [first, ...others];
}

test('a request carries consecutive events up to the number, signed as one, and each is a delivery', async () => {
  const counted = await holdfast.metric('holdfast_webhook_grouped_deliveries_total');
  const id = await subscribeWith({ events_per_request: 3 }, { signing_secret: SECRET });
  const requests = await behindTheFirst(7);
  const ended = await endedDeliveries(holdfast, id, 8);
  expect(ended.every(({ status, attempts }) => status === 'SUCCESS' && attempts === 1)).toBe(true);
  expect(receiver.received.map((one) => requestsIn(one).length)).toEqual([1, 3, 3, 1]);
  expect(receiver.received.flatMap(requestsIn)).toEqual(requests);
  for (const { body, headers } of receiver.received) {
    expect(() => new Webhook(SECRET).verify(body, headers)).not.toThrow();
    expect(headers['webhook-id']).toMatch(/^grp_[0-9a-f]{32}$/);
    expect(headers['x-cycles-event-id']).toBe(headers['webhook-id']);
  }
  expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(4);
  expect(await holdfast.metric('holdfast_webhook_grouped_deliveries_total')).toBe(counted + 8);
});

test('a failure counts for each event of a group, and the retries carry all of them once', async () => {
  const id = await subscribeWith({ events_per_request: 50 });
  const requests = await behindTheFirst(5, 200, 503);
  const ended = await endedDeliveries(holdfast, id, 6);
  expect(ended.map(({ status }) => status)).toEqual(Array<string>(6).fill('SUCCESS'));
  // The newest first: the one that was alone needed no second attempt.
  expect(ended.map(({ attempts }) => attempts)).toEqual([2, 2, 2, 2, 2, 1]);
  const [alone, failed, ...retries] = receiver.received as [Received, Received, ...Received[]];
  expect([requestsIn(alone), requestsIn(failed)]).toEqual([requests.slice(0, 1), requests.slice(1)]);
  expect(retries.flatMap(requestsIn).sort()).toEqual(requests.slice(1).sort());
  expect(retries.length).toBeLessThan(5);
});

test('a damaged record in a group of retries holds none of the others back', async () => {
  const id = await subscribeWith(
    { events_per_request: 50 },
    { retry_policy: { max_retries: 2, initial_delay_ms: 2000, max_delay_ms: 2000 } },
  );
  await behindTheFirst(4, 200, 503);
  const retrying = await eventually('the group has failed', async () => {
    const found = (await deliveries(holdfast, id)).filter(({ status }) => status === 'RETRYING');
    return found.length === 4 && found;
  });
  const { ref } = deliveryPlaceOf(retrying[1]?.['delivery_id'] as string) as DeliveryPlace;
  const record = deliveryKey(TAG, ref);
  await redis.rename(record, `${record}.kept`);
  await redis.set(record, 'damaged');
  await eventually('the others are delivered', async () => {
    const found = await deliveries(holdfast, id);
    return found.filter(({ status }) => status === 'SUCCESS').length === 4;
  });
  await redis.rename(`${record}.kept`, record);
  await endedDeliveries(holdfast, id, 5);
});

test('410 ends a subscription that says so, for each event of the group without a retry', async () => {
  const id = await subscribeWith({ events_per_request: 10, end_on_gone: true });
  await behindTheFirst(3, 200, 410);
  const ended = await endedDeliveries(holdfast, id, 4);
  expect(ended.map(({ status, attempts }) => [status, attempts])).toEqual([
    ...Array.from({ length: 3 }, () => ['FAILED', 1]),
    ['SUCCESS', 1],
  ]);
  await eventually('it is disabled', async () => (await subscription(holdfast, id)).status === 'DISABLED');
  expect(receiver.received).toHaveLength(2);
});

test('a body has at most 1 MB, however many events wait', async () => {
  const id = await subscribeWith({ events_per_request: 100 });
  const large = JSON.stringify({ text: 'x'.repeat(100_000) });
  for (let index = 0; index < 25; index += 1) {
    const fields = ['ty', 'reservation.denied', 'tn', tenant.id, 'ac', 'system', 'metadata', large];
    const entry = (await redis.xadd(eventLogKey(TAG), '*', ...fields)) as string;
    await redis.xadd(tenantEventsKey(TAG, tenant.id), entry, 'y', 'reservation.denied');
  }
  await endedDeliveries(holdfast, id, 25);
  const sizes = receiver.received.map(({ body }) => body.length);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000_000);
  expect(receiver.received.flatMap(requestsIn)).toHaveLength(25);
  expect(sizes.length).toBeGreaterThanOrEqual(3);
});

test('a test of the subscription has the form of a group, too', async () => {
  const id = await subscribeWith({ events_per_request: 2 });
  expect(expectStatus(await holdfast.admin('POST', `/v1/admin/webhooks/${id}/test`, {}), 200).success).toBe(
    true,
  );
  const [{ body, headers }] = receiver.received as [Received];
  expect(JSON.parse(body)).toMatchObject({ events: [{ event_type: 'system.webhook_test' }] });
  expect(headers['webhook-id']).toMatch(/^grp_/);
});
