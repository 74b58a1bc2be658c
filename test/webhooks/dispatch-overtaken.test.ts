import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { orderedQueueKey, tagOfTenant } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/index.js';
import { Dispatcher } from '../../src/webhooks/dispatch/dispatcher.service.js';
import { eventually } from '../support/eventually.js';
import { HeldReplies } from '../support/held-replies.js';
import { Holdfast, type TestTenant } from '../support/holdfast.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  causeEvents,
  queuesDeliveries,
  startDispatcher,
  subscribe,
} from './dispatching.js';

/** A dispatch that begins anew while a reply is on its way: what the reply says is out of date, because another instance may have worked. */

let server: Store;
let redis: StoreClient;
let holdfast: Holdfast;
let receiver: WebhookReceiver;
let tenant: TestTenant;
let id: string;
let queue: string;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
});

beforeEach(async () => {
  holdfast = await startDispatcher({ REDIS_URL: server.url });
  await allowLoopback(holdfast);
  receiver = await WebhookReceiver.start();
  tenant = await holdfast.fundedTenant();
  id = await subscribe(holdfast, tenant, receiver.url);
  queue = orderedQueueKey(tagOfTenant(tenant.id, 64), `${id}:${tenant.id}`);
});

afterEach(async () => {
  jest.restoreAllMocks();
  await holdfast.stop();
  await receiver.stop();
});

afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

const received = (): (string | string[] | undefined)[] =>
  receiver.received.map(({ headers }) => headers['x-request-id']);

/** As if the lease had been another's meanwhile, who delivered the first that waits. */
async function another(): Promise<void> {
  holdfast.app.get(Dispatcher, { strict: false }).restarted();
  expect(await redis.lpop(queue)).not.toBeNull();
}

describe('what another instance has delivered is not delivered again', () => {
  test('though this one has queued it, and hears of that late', async () => {
    const { scripts } = holdfast.app.get(RedisService);
    // The events of the tenant's own making may still be read: only what queues a delivery counts.
    const queued = new HeldReplies(scripts, 'call', (script, _, args) => queuesDeliveries(script, args));
    await causeEvent(holdfast, tenant);
    await queued.have(1);
    await another();
    queued.open();
    const next = await causeEvent(holdfast, tenant);
    await eventually('the next is delivered', () => received().includes(next));
    expect(received()).toEqual([next]);
  });

  test('though this one has read the queue before', async () => {
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const [first, , third] = await causeEvents(holdfast, tenant, 3);
    await eventually('the first attempt has started', () => receiver.received.length === 1);
    await eventually('all are queued', async () => (await redis.llen(queue)) === 3);
    receiver.react = (response) => response.writeHead(200).end();
    holdfast.app.get(Dispatcher, { strict: false }).restarted();
    const read = new HeldReplies(holdfast.app.get(RedisService).client, 'lrange', (key) => key === queue);
    answerFirst();
    await read.have(1);
    await another();
    read.open();
    await eventually('the queue is empty', async () => (await redis.exists(queue)) === 0);
    expect(received()).toEqual([first, third]);
  });
});
