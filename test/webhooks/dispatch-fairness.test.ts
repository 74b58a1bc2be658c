import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
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
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  deliveries,
  endedDeliveries,
  queuesDeliveries,
  startDispatcher,
  subscribe,
  UNDISTURBED,
} from './dispatching.js';

/** All tenants are in one partition, so they share its event log and its index of retries. */
const TAG = tagOf('00');
const SUBSCRIPTIONS = 20;
const EVENTS = 600;
/** Events that the dispatcher reads at a time. */
const A_PAGE = 100;
const MANY_PAGES = 12;
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
    // Attempts that hang must outlast everything else in the test, and a lease that is taken again has queues read.
    ...UNDISTURBED,
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

/** Also so that nothing goes on in the tests that follow. */
async function everythingIsDelivered(): Promise<void> {
  await eventually(
    'everything is delivered',
    async () => {
      const groups = (await redis.xinfo('GROUPS', eventLogKey(TAG))) as [unknown[]];
      const figure = (name: string): unknown => groups[0][groups[0].indexOf(name) + 1];
      const isQueued = figure('pending') === 0 && figure('lag') === 0;
      return isQueued && (await redis.exists(orderedQueuesKey(TAG), retryingKey(TAG))) === 0;
    },
    60_000,
    100,
  );
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

  await everythingIsDelivered();
  for (let index = 0; index < SUBSCRIPTIONS; index += 1) {
    const received = receiver.received.filter(({ path }) => path === `/busy-${index}`);
    // A set keeps the order of first insertion: on a busy machine an attempt may fail and be repeated.
    expect([...new Set(received.map(({ headers }) => headers['webhook-id']))]).toEqual(eventIds);
  }
  expect((await deliveries(holdfast, ids[0] as string)).length).toBe(100);
  expect(await holdfast.metric('holdfast_webhook_queueing_pauses_total')).toBeGreaterThan(paused);
}, 120_000);

test.each([
  ['as they are read', 0],
  ['as they are read, though a turn has only the time to read a page,', 60],
])(
  'events that come as fast %s do not keep those before them from being queued',
  async (_, pageMs) => {
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
        if (pages <= MANY_PAGES) {
          await Promise.all([writeEvents(tenant, A_PAGE), delay(pageMs)]);
        }
      } else if (queuesDeliveries(name, args)) {
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
    await everythingIsDelivered();
  },
  120_000,
);

describe('a queue', () => {
  let heads: { mock: { calls: unknown[][] } } & { mockRestore: () => void };
  beforeEach(() => {
    heads = jest.spyOn(holdfast.app.get(RedisService).client, 'lrange');
  });
  afterEach(() => heads.mockRestore());
  /** How often the head of a queue has been read. Queues of others are read at any time: one that ends may be found once more. */
  const readsOf = (id: string, tenant: TestTenant): number =>
    heads.mock.calls.filter(([key]) => key === orderedQueueKey(TAG, `${id}:${tenant.id}`)).length;
  const webhookIds = (): unknown[] => receiver.received.map(({ headers }) => headers['webhook-id']);

  /** Counts deliveries as queued once their script has answered, not as soon as Redis has them. */
  const queued = (): Promise<number> =>
    holdfast.metric('cycles_admin_webhook_dispatched_total', { result: 'queued' });

  /**
   * Events of a tenant, to the only one of its endpoints. Returns their ids once all have arrived, and a function that answers the last.
   * The first is answered when all are queued, because the outcome of an attempt may tell of a delivery in the queue before the script that
   * made it has answered. The last is not answered, because a queue that ends may be found once more by a search that has begun before.
   * In both cases, it would rightly be read.
   */
  async function deliverFromMemory(tenant: TestTenant, count: number): Promise<[string[], () => unknown]> {
    const others = receiver.react;
    const [arrivedBefore, queuedBefore] = [receiver.received.length, await queued()];
    const arrived = (): number => receiver.received.length - arrivedBefore;
    let answerHeld = (): unknown => undefined;
    let isQueued = false;
    receiver.react = (response) => {
      const answer = (): unknown => response.writeHead(200).end();
      void (isQueued && arrived() < count ? answer() : (answerHeld = answer));
    };
    const eventIds = await writeEvents(tenant, count);
    await eventually('the first attempt has started', () => arrived() === 1);
    await eventually('all are queued', async () => (await queued()) === queuedBefore + count, 60_000);
    isQueued = true;
    answerHeld();
    await eventually('all arrive', () => arrived() === count, 60_000);
    receiver.react = others;
    return [eventIds, answerHeld];
  }

  test('whose deliveries this process has just created is not read', async () => {
    const tenant = await holdfast.fundedTenant();
    const id = await subscribe(holdfast, tenant, receiver.url);
    const [eventIds, answerLast] = await deliverFromMemory(tenant, 100);
    expect(webhookIds()).toEqual(eventIds);
    expect(readsOf(id, tenant)).toBe(0);
    answerLast();
  });

  test('is not read either while the endpoints of others hang, however much they have waiting', async () => {
    const [hanging, quiet] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
    const answers: (() => unknown)[] = [];
    receiver.react = (response) => answers.push(() => response.writeHead(200).end());
    const ids = await Promise.all(
      Array.from({ length: SUBSCRIPTIONS }, () => subscribe(holdfast, hanging, `${receiver.url}/hanging`)),
    );
    const quietId = await subscribe(holdfast, quiet, `${receiver.url}/quiet`);
    // Together, these are more than may stay in memory.
    const large = JSON.stringify({ text: 'x'.repeat(50_000) });
    const queuedBefore = await queued();
    await writeEvents(hanging, 36, 'metadata', large);
    const queues = ids.map((id) => orderedQueueKey(TAG, `${id}:${hanging.id}`));
    const isQueued = async (): Promise<boolean> => (await queued()) === queuedBefore + SUBSCRIPTIONS * 36;
    await eventually('all are queued', isQueued, 60_000);
    await eventually('each endpoint hangs', () => answers.length >= SUBSCRIPTIONS);
    const arrived = (): unknown[] =>
      receiver.received.filter(({ path }) => path === '/quiet').map(({ headers }) => headers['webhook-id']);
    const [eventIds, answerLast] = await deliverFromMemory(quiet, 50);
    expect(arrived()).toEqual(eventIds);
    expect(readsOf(quietId, quiet)).toBe(0);
    answerLast();

    receiver.react = (response) => response.writeHead(200).end();
    answers.forEach((answer) => answer());
    await eventually('the others arrive', async () => (await redis.exists(...queues)) === 0, 60_000);
    await eventually('their outcomes are known', async () => {
      const labels = { tenant: hanging.id };
      const known = await holdfast.metric('cycles_webhook_delivery_success_total', labels);
      return known === SUBSCRIPTIONS * 36;
    });
    // These are no longer in memory, so the queue may be long.
    const before = readsOf(quietId, quiet);
    const [more, answerLastAgain] = await deliverFromMemory(quiet, 900);
    expect(arrived()).toEqual([...eventIds, ...more]);
    expect(readsOf(quietId, quiet)).toBe(before);
    answerLastAgain();
  }, 120_000);

  test("longer than the part in this process' memory is read behind that, in order", async () => {
    const tenant = await holdfast.fundedTenant();
    const id = await subscribe(holdfast, tenant, receiver.url);
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const eventIds = await writeEvents(tenant, 1200);
    const queue = orderedQueueKey(TAG, `${id}:${tenant.id}`);
    await eventually('all are queued', async () => (await redis.llen(queue)) === 1200, 60_000);
    receiver.react = (response) => response.writeHead(200).end();
    answerFirst();
    await eventually('all arrive', () => receiver.received.length >= 1200, 60_000);
    expect([...new Set(webhookIds())]).toEqual(eventIds);
    expect(readsOf(id, tenant)).toBeGreaterThan(0);
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
    // No outcome is stored before the last attempt: those behind a failure wait for it.
    const { scripts } = holdfast.app.get(RedisService);
    const call = scripts.call.bind(scripts) as (...args: unknown[]) => Promise<unknown>;
    let storeAll = (): void => undefined;
    const allArrive = new Promise<void>((done) => (storeAll = done));
    const settling = jest.spyOn(scripts, 'call').mockImplementation(async (...args: unknown[]) => {
      await (args[0] === 'settle_delivery' ? allArrive : undefined);
      return (await call(...args)) as never;
    });
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
    await eventually('the others have arrived', () => receiver.received.length === 3);
    settling.mockRestore();
    storeAll();
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
    const before = readsOf(id, tenant);
    answerFirst();
    await eventually('it is read', () => readsOf(id, tenant) > before, 5000);
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
