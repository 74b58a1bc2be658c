import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { eventIdOf } from '../../src/events/index.js';
import {
  deliveryKey,
  eventLogKey,
  orderedQueueKey,
  orderedQueuesKey,
  retryingKey,
  tagOf,
  tenantEventsKey,
} from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/index.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, type Holdfast, type TestTenant } from '../support/holdfast.js';
import { commandCounts, connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  deliveries,
  endedDeliveries,
  startDispatcher,
  subscribe,
} from './dispatching.js';

/** All tenants are in one partition, so they share its event log and its index of retries. */
const TAG = tagOf('00');
const SUBSCRIPTIONS = 20;
const EVENTS = 600;
/** Events that the dispatcher reads at a time. */
const A_PAGE = 100;
const MANY_PAGES = 40;
/** From this length on, a queue gets no more from the log. */
const LONG_QUEUE = 5000;

let server: Store;
let redis: StoreClient;
let holdfast: Holdfast;
let receiver: WebhookReceiver;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  holdfast = await startDispatcher({
    REDIS_URL: server.url,
    PARTITIONS: '1',
    webhookTimeShare: 10,
    // Attempts that hang must outlast everything else in the test.
    WEBHOOK_TIMEOUT_MS: '60000',
  });
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
async function writeEvents(tenant: TestTenant, count: number, ...more: string[]): Promise<string[]> {
  const fields = ['ty', 'reservation.denied', 'tn', tenant.id, 'ac', 'system', ...more];
  const pipeline = redis.pipeline();
  for (let index = 0; index < count; index += 1) {
    pipeline.xadd(eventLogKey(TAG), '*', ...fields);
  }
  const entryIds = ((await pipeline.exec()) ?? []).map(([, entryId]) => entryId as string);
  const index = redis.pipeline();
  entryIds.forEach((entryId) =>
    index.xadd(tenantEventsKey(TAG, tenant.id), entryId, 'y', 'reservation.denied'),
  );
  await index.exec();
  return entryIds.map((entryId) => eventIdOf({ partition: '00', entryId }));
}

test('a tenant with thousands of deliveries to queue delays neither an event nor a retry of another tenant of its partition', async () => {
  const [busy, quiet] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
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
    'everything is delivered',
    async () => {
      const [left] = (await redis.xpending(eventLogKey(TAG), 'dispatcher')) as [number];
      return left === 0 && (await redis.exists(orderedQueuesKey(TAG), retryingKey(TAG))) === 0;
    },
    60_000,
    100,
  );
  for (let index = 0; index < SUBSCRIPTIONS; index += 1) {
    const received = receiver.received.filter(({ path }) => path === `/busy-${index}`);
    // A set keeps the order of first insertion: on a busy machine an attempt may fail and be repeated.
    expect([...new Set(received.map(({ headers }) => headers['webhook-id']))]).toEqual(eventIds);
  }
  expect((await deliveries(holdfast, ids[0] as string)).length).toBe(100);
  expect(await holdfast.metric('holdfast_webhook_queueing_pauses_total')).toBeGreaterThan(paused);
}, 120_000);

test('events that come as fast as they are read do not keep those before them from being queued', async () => {
  const tenant = await holdfast.fundedTenant();
  await subscribe(holdfast, tenant, receiver.url);
  const { scripts } = holdfast.app.get(RedisService);
  const real = scripts.call.bind(scripts) as (...args: unknown[]) => Promise<unknown>;
  let pages = 0;
  let pagesBeforeQueueing = Number.POSITIVE_INFINITY;
  const call = async (name: string, keys: unknown, args: { readonly limit?: number }): Promise<unknown> => {
    if (name === 'dispatch_page' && (args.limit ?? 0) > 0) {
      pages += 1;
      // Each page is full, for far more pages than a turn may read.
      await (pages <= MANY_PAGES ? writeEvents(tenant, A_PAGE) : undefined);
    } else if (name === 'queue_deliveries') {
      pagesBeforeQueueing = Math.min(pagesBeforeQueueing, pages);
    }
    return real(name, keys, args);
  };
  Object.assign(scripts, { call });
  try {
    await writeEvents(tenant, 1);
    await eventually('all pages are read', () => pages > MANY_PAGES);
    await eventually('the first delivery arrives', () => receiver.received.length > 0);
  } finally {
    Object.assign(scripts, { call: real });
  }
  // What was read but not acknowledged is asked for first, and has none.
  expect(pagesBeforeQueueing).toBeLessThanOrEqual(3);
}, 120_000);

describe('a queue', () => {
  /** How often the head of a queue has been read. */
  const reads = async (): Promise<number> => (await commandCounts(redis))['lrange'] ?? 0;
  const webhookIds = (): unknown[] => receiver.received.map(({ headers }) => headers['webhook-id']);

  test('whose deliveries this process has just created is not read', async () => {
    const tenant = await holdfast.fundedTenant();
    await subscribe(holdfast, tenant, receiver.url);
    const queued = (): Promise<number> =>
      holdfast.metric('cycles_admin_webhook_dispatched_total', { result: 'queued' });
    // Otherwise, the outcome of an attempt may tell of a delivery in the queue before the script that made it has answered.
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const [before, queuedBefore] = [await reads(), await queued()];
    const eventIds = await writeEvents(tenant, 100);
    await eventually('the first attempt has started', () => receiver.received.length === 1);
    await eventually('all are queued', async () => (await queued()) === queuedBefore + 100);
    receiver.react = (response) => response.writeHead(200).end();
    answerFirst();
    await eventually('all arrive', () => receiver.received.length === 100);
    expect(webhookIds()).toEqual(eventIds);
    expect(await reads()).toBe(before);
  });

  test('is not read either while the endpoints of others hang, however much they have waiting', async () => {
    const [hanging, quiet] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
    const answers: (() => unknown)[] = [];
    receiver.react = (response, { path }) => {
      const answer = (): unknown => response.writeHead(200).end();
      void (path === '/quiet' ? answer() : answers.push(answer));
    };
    const ids = await Promise.all(
      Array.from({ length: SUBSCRIPTIONS }, () => subscribe(holdfast, hanging, `${receiver.url}/hanging`)),
    );
    const quietId = await subscribe(holdfast, quiet, `${receiver.url}/quiet`);
    // Together, these are more than may stay in memory.
    const large = JSON.stringify({ text: 'x'.repeat(50_000) });
    await writeEvents(hanging, 36, 'metadata', large);
    const queues = ids.map((id) => orderedQueueKey(TAG, `${id}:${hanging.id}`));
    const lengths = (): Promise<number[]> => Promise.all(queues.map((queue) => redis.llen(queue)));
    await eventually(
      'all are queued',
      async () => (await lengths()).every((length) => length === 36),
      60_000,
    );
    // Whatever was read for an attempt was read before it.
    await eventually('each endpoint hangs', () => answers.length >= SUBSCRIPTIONS);
    const before = await reads();
    const eventIds = await writeEvents(quiet, 50);
    const arrived = (): unknown[] =>
      receiver.received.filter(({ path }) => path === '/quiet').map(({ headers }) => headers['webhook-id']);
    await eventually('those of the quiet tenant arrive', () => arrived().length === 50);
    expect(arrived()).toEqual(eventIds);
    expect(await reads()).toBe(before);

    receiver.react = (response) => response.writeHead(200).end();
    answers.forEach((answer) => answer());
    await eventually('the others arrive', async () => (await redis.exists(...queues)) === 0, 60_000);
    // These are no longer in memory, so the queue may be long.
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const readByOthers = await reads();
    await writeEvents(quiet, 900);
    const queue = orderedQueueKey(TAG, `${quietId}:${quiet.id}`);
    await eventually('all are queued', async () => (await redis.llen(queue)) === 900, 60_000);
    receiver.react = (response) => response.writeHead(200).end();
    answerFirst();
    await eventually('all arrive', () => arrived().length >= 950, 60_000);
    expect(await reads()).toBe(readByOthers);
  }, 120_000);

  test("longer than the part in this process' memory is read behind that, in order", async () => {
    const tenant = await holdfast.fundedTenant();
    const id = await subscribe(holdfast, tenant, receiver.url);
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const before = await reads();
    const eventIds = await writeEvents(tenant, 1200);
    const queue = orderedQueueKey(TAG, `${id}:${tenant.id}`);
    await eventually('all are queued', async () => (await redis.llen(queue)) === 1200, 60_000);
    receiver.react = (response) => response.writeHead(200).end();
    answerFirst();
    await eventually('all arrive', () => receiver.received.length >= 1200, 60_000);
    expect([...new Set(webhookIds())]).toEqual(eventIds);
    expect(await reads()).toBeGreaterThan(before);
  }, 120_000);

  test('that is long leaves later events in the log, delays no other tenant, and gets them as it gets shorter', async () => {
    const [busy, quiet] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
    const id = await subscribe(holdfast, busy, `${receiver.url}/busy`);
    await subscribe(holdfast, quiet, `${receiver.url}/quiet`);
    let answerFirst = (): unknown => undefined;
    receiver.react = (response, { path }) => {
      const answer = (): unknown => response.writeHead(200).end();
      void (path === '/quiet' ? answer() : (answerFirst = answer));
    };
    const held = (): Promise<number> => holdfast.metric('holdfast_webhook_queueing_held_total');
    const before = await held();
    const eventIds = await writeEvents(busy, LONG_QUEUE + 100);
    await eventually('its queue is long', async () => (await held()) > before, 60_000);
    const queue = orderedQueueKey(TAG, `${id}:${busy.id}`);
    // A batch that was on its way may come on top.
    expect(Math.abs((await redis.llen(queue)) - LONG_QUEUE)).toBeLessThan(60);
    const [later] = await writeEvents(quiet, 1);
    await eventually('the other tenant gets its event', () => webhookIds().includes(later));
    // Else it would grow from now on.
    await eventually('no event waits for the dispatcher', async () => {
      const { status, body } = await holdfast.call('GET', '/health/ready');
      return status === 200 && body.details.dispatcher.lateness_ms === 0;
    });
    receiver.react = (response) => response.writeHead(200).end();
    answerFirst();
    await eventually('all arrive', () => receiver.received.length > eventIds.length, 60_000);
    expect([...new Set(webhookIds())].filter((one) => one !== later)).toEqual(eventIds);
  }, 180_000);

  test('is read again after a delivery whose outcome could not be stored, which is then repeated', async () => {
    const tenant = await holdfast.fundedTenant();
    const id = await subscribe(holdfast, tenant, receiver.url);
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const eventIds = await writeEvents(tenant, 3);
    const queue = orderedQueueKey(TAG, `${id}:${tenant.id}`);
    await eventually('all are queued', async () => (await redis.llen(queue)) === 3);
    await eventually('the first has arrived', () => receiver.received.length === 1);
    const [first = ''] = await redis.lrange(queue, 0, 0);
    const record = deliveryKey(TAG, first);
    await redis.rename(record, `${record}.kept`);
    await redis.set(record, 'damaged');
    receiver.react = (response) => response.writeHead(200).end();
    answerFirst();
    await eventually('the others are settled', async () => (await redis.llen(queue)) === 1);
    await redis.rename(`${record}.kept`, record);
    await eventually('the first is settled', async () => (await redis.exists(queue)) === 0);
    expect([...new Set(webhookIds())]).toEqual(eventIds);
    expect(webhookIds().filter((one) => one === eventIds[0])).toHaveLength(2);
    expect(await endedDeliveries(holdfast, id, 3)).toMatchObject(eventIds.map(() => ({ status: 'SUCCESS' })));
  });

  test('is read again soon, not only when it is empty, after an outcome that could not be stored', async () => {
    const tenant = await holdfast.fundedTenant();
    const id = await subscribe(holdfast, tenant, receiver.url);
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const eventIds = await writeEvents(tenant, 500);
    const queue = orderedQueueKey(TAG, `${id}:${tenant.id}`);
    await eventually('all are queued', async () => (await redis.llen(queue)) === 500, 60_000);
    const [first = ''] = await redis.lrange(queue, 0, 0);
    const record = deliveryKey(TAG, first);
    await redis.rename(record, `${record}.kept`);
    await redis.set(record, 'damaged');
    // From the sixtieth on they hang, so the queue cannot become empty before an attempt times out after a
    // minute.
    const answers: (() => unknown)[] = [];
    receiver.react = (response) => {
      const answer = (): unknown => response.writeHead(200).end();
      void (receiver.received.length < 60 ? answer() : answers.push(answer));
    };
    const before = await reads();
    answerFirst();
    await eventually('it is read', async () => (await reads()) > before, 5000);
    receiver.react = (response) => response.writeHead(200).end();
    answers.forEach((answer) => answer());
    await redis.rename(`${record}.kept`, record);
    await eventually('all are settled', async () => (await redis.exists(queue)) === 0, 60_000);
    expect(new Set(webhookIds())).toEqual(new Set(eventIds));
  }, 120_000);

  test('that a replay has filled comes before a later event, which is attempted once', async () => {
    const tenant = await holdfast.fundedTenant();
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 1, initial_delay_ms: 60_000, max_delay_ms: 60_000 },
    });
    await writeEvents(tenant, 150);
    await eventually('all arrive', () => receiver.received.length === 150);
    let answerHeld = (): unknown => undefined;
    receiver.react = (response) => (answerHeld = () => response.writeHead(200).end());
    await writeEvents(tenant, 1);
    await eventually('another one arrives', () => receiver.received.length === 151);
    const queue = orderedQueueKey(TAG, `${id}:${tenant.id}`);
    const replay = await holdfast.admin('POST', `/v1/admin/webhooks/${id}/replay`, { max_events: 151 });
    expectStatus(replay, 202);
    await eventually('the replay is queued', async () => (await redis.llen(queue)) === 152, 60_000);
    const [late] = await writeEvents(tenant, 1);
    await eventually('a later one is queued', async () => (await redis.llen(queue)) === 153);
    receiver.react = (response, { headers }) =>
      void response.writeHead(headers['webhook-id'] === late ? 500 : 200).end();
    answerHeld();
    await eventually('the queue is empty', async () => (await redis.exists(queue)) === 0, 60_000);
    expect(receiver.received).toHaveLength(303);
    expect(webhookIds().indexOf(late)).toBe(302);
  }, 120_000);
});
