import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import {
  deliveryIndexKey,
  eventLogKey,
  tagOfTenant,
  tagOfWebhookId,
  webhookRevisionKey,
} from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import type { ScriptRegistry } from '../../src/redis/scripts.js';
import { SubscriptionCache } from '../../src/webhooks/subscriptions/subscription-cache.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { connectTo, startStore, type Store } from '../support/store.js';
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
  SYSTEM,
  UNDISTURBED,
} from './dispatching.js';

let redis: Store;
let holdfast: Holdfast;
let receiver: WebhookReceiver;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startStore();
  holdfast = await startDispatcher({ REDIS_URL: redis.url, ...UNDISTURBED });
  await allowLoopback(holdfast);
});

beforeEach(async () => {
  receiver = await WebhookReceiver.start();
  tenant = await holdfast.fundedTenant();
});

afterEach(async () => {
  await receiver.stop();
});

afterAll(async () => {
  await holdfast.stop();
  await redis.stop();
});

function requestIds(of: WebhookReceiver, path = '/'): (string | undefined)[] {
  return of.received.filter((one) => one.path === path).map(({ headers }) => headers['x-request-id']);
}

describe('an event', () => {
  test('reaches its subscriber once, and its delivery, its subscription and the counters show it', async () => {
    const id = await subscribe(holdfast, tenant, receiver.url);
    const labels = { tenant: tenant.id, event_type: 'reservation.denied' };
    const requestId = await causeEvent(holdfast, tenant);
    const [delivery] = await endedDeliveries(holdfast, id, 1);
    expect(requestIds(receiver)).toEqual([requestId]);
    expect(delivery).toMatchObject({
      status: 'SUCCESS',
      attempts: 1,
      response_status: 200,
      event_type: 'reservation.denied',
      event_id: receiver.received[0]?.headers['x-cycles-event-id'],
    });
    expect(await holdfast.metric('cycles_webhook_delivery_attempts_total', labels)).toBe(1);
    expect(
      await holdfast.metric('cycles_webhook_delivery_success_total', {
        ...labels,
        status_code_family: '2xx',
      }),
    ).toBe(1);
    expect(
      await holdfast.metric('cycles_webhook_delivery_latency_seconds_count', {
        ...labels,
        outcome: 'success',
      }),
    ).toBe(1);
    expect(
      await holdfast.metric('cycles_admin_webhook_dispatched_total', { result: 'queued' }),
    ).toBeGreaterThan(0);
    expect(await holdfast.metric('holdfast_webhook_first_attempt_delay_seconds_count')).toBeGreaterThan(0);
    const { last_success_at: success, last_triggered_at: triggered } = await eventually(
      'the subscription knows',
      async () => {
        const found = await subscription(holdfast, id);
        return found.last_success_at !== undefined && found;
      },
    );
    expect(success).toBe(triggered);
  });

  test('removes expired deliveries from the index of its subscription, and counts them', async () => {
    const id = await subscribe(holdfast, tenant, receiver.url);
    const before = await holdfast.metric('holdfast_index_entries_trimmed_total');
    const client = connectTo(redis.url);
    await client.zadd(
      deliveryIndexKey(tagOfWebhookId(id, 64) as string, id),
      1000,
      `1000-0:${id}`,
      1001,
      `1001-0:${id}`,
    );
    client.disconnect();
    await causeEvent(holdfast, tenant);
    await endedDeliveries(holdfast, id, 1);
    expect(await holdfast.metric('holdfast_index_entries_trimmed_total')).toBe(before + 2);
  });

  test('goes to each of its subscribers, and to no other', async () => {
    const other = await holdfast.fundedTenant();
    await subscribe(holdfast, tenant, `${receiver.url}/one`);
    await subscribe(holdfast, tenant, `${receiver.url}/two`);
    const elsewhere = await subscribe(holdfast, other, `${receiver.url}/elsewhere`);
    const requestId = await causeEvent(holdfast, tenant);
    await eventually('both arrive', () => receiver.received.length === 2);
    expect(requestIds(receiver, '/one')).toEqual([requestId]);
    expect(requestIds(receiver, '/two')).toEqual([requestId]);
    expect(await deliveries(holdfast, elsewhere)).toEqual([]);
  });

  test('from before a subscription is not delivered to it, even if it is dispatched later', async () => {
    const before = await causeEvent(holdfast, tenant);
    await subscribe(holdfast, tenant, receiver.url);
    const after = await causeEvent(holdfast, tenant);
    await eventually('the later one arrives', () => receiver.received.length > 0);
    expect(requestIds(receiver)).toEqual([after]);
    expect(before).not.toBe(after);
  });
});

const isTried = ({ status }: Record<string, unknown>): boolean => status !== 'PENDING';

describe('first attempts', () => {
  test('of one tenant are in order, whichever of them fail, and tenants proceed in parallel', async () => {
    shows('delivery order');
    const other = await holdfast.fundedTenant();
    // Every third is refused; its retry is much later and blocks nothing.
    let count = 0;
    receiver.react = (response) => response.writeHead(count++ % 3 === 0 ? 500 : 200).end();
    const policy = { retry_policy: { max_retries: 1, initial_delay_ms: 60_000, max_delay_ms: 60_000 } };
    await subscribe(holdfast, tenant, `${receiver.url}/mine`, policy);
    await subscribe(holdfast, other, `${receiver.url}/others`, policy);
    const [mine, others] = await Promise.all([
      causeEvents(holdfast, tenant, 40),
      causeEvents(holdfast, other, 40),
    ]);
    await eventually('all arrive', () => receiver.received.length === 80);
    expect(requestIds(receiver, '/mine')).toEqual(mine);
    expect(requestIds(receiver, '/others')).toEqual(others);
  });

  test('pause after a failure while others wait, and not after a success', async () => {
    const pauses = (): Promise<number> =>
      holdfast.metric('holdfast_webhook_failure_pauses_total', { for: 'first_attempt' });
    const before = await pauses();
    const policy = { retry_policy: { max_retries: 1, initial_delay_ms: 60_000, max_delay_ms: 60_000 } };
    const id = await subscribe(holdfast, tenant, receiver.url, policy);
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(500).end());
    const ids = await causeEvents(holdfast, tenant, 8);
    await eventually('all are queued', async () => (await deliveries(holdfast, id)).length === 8);
    await eventually('the first has arrived', () => receiver.received.length === 1);
    // The second to fourth succeed, and the others fail.
    receiver.react = (response) => response.writeHead(receiver.received.length < 5 ? 200 : 500).end();
    answerFirst();
    await eventually('all were tried', async () => (await deliveries(holdfast, id)).every(isTried));
    expect(requestIds(receiver)).toEqual(ids);
    // After the first, the fifth, the sixth and the seventh. Nothing waits behind the last one.
    expect((await pauses()) - before).toBe(4);
  });

  test('are sent one at a time for a tenant and an endpoint', async () => {
    shows('delivery order');
    let under = 0;
    let most = 0;
    receiver.react = (response) => {
      under += 1;
      most = Math.max(most, under);
      setImmediate(() => {
        under -= 1;
        response.writeHead(200).end();
      });
    };
    const id = await subscribe(holdfast, tenant, receiver.url);
    await causeEvents(holdfast, tenant, 20);
    await endedDeliveries(holdfast, id, 20);
    expect(most).toBe(1);
  });

  describe('while outcomes are being stored', () => {
    /** What the dispatcher waits for to store an outcome, in the order of the attempts. */
    const stores: (() => void)[] = [];
    let storeAll = (): void => undefined;

    function holdOutcomes(): void {
      const { scripts } = holdfast.app.get(RedisService);
      const call: ScriptRegistry['call'] = scripts.call;
      let isHeld = true;
      const holding = async (...given: Parameters<typeof call>): Promise<unknown> => {
        if (isHeld && given[0] === 'settle_delivery') {
          await new Promise<void>((store) => stores.push(store));
        }
        return call.apply(scripts, given);
      };
      Object.assign(scripts, { call: holding });
      storeAll = () => {
        isHeld = false;
        stores.splice(0).forEach((store) => store());
        Object.assign(scripts, { call });
      };
    }

    afterEach(() => storeAll());

    const eventIds = (): unknown[] => receiver.received.map(({ headers }) => headers['x-cycles-event-id']);

    test('go on up to 32, and then with each one that is stored', async () => {
      holdOutcomes();
      let answerFirst = (): unknown => undefined;
      receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
      const id = await subscribe(holdfast, tenant, receiver.url);
      await causeEvents(holdfast, tenant, 36);
      await eventually('all are queued', async () => (await deliveries(holdfast, id)).length === 36);
      await eventually('the first has arrived', () => receiver.received.length === 1);
      receiver.react = (response) => response.writeHead(200).end();
      answerFirst();
      for (const stored of [0, 1, 2]) {
        await eventually('as many attempts as may be made', () => stores.length === 32 + stored);
        expect(receiver.received).toHaveLength(32 + stored);
        stores[stored]?.();
      }
      storeAll();
      await endedDeliveries(holdfast, id, 36);
      expect(eventIds()).toEqual([...new Set(eventIds())].sort());
    });

    test('go on past the end of a page that was read, and repeat none of them', async () => {
      const id = await subscribe(holdfast, tenant, receiver.url);
      await causeEvents(holdfast, tenant, 20);
      await endedDeliveries(holdfast, id, 20);
      const inOrder = eventIds();
      holdOutcomes();
      // Their queue has to be read, at first one delivery at a time.
      expectStatus(await holdfast.admin('POST', `/v1/admin/webhooks/${id}/replay`, { max_events: 20 }), 202);
      await eventually('all arrive again, although no outcome is stored', () => stores.length === 20);
      storeAll();
      await endedDeliveries(holdfast, id, 40);
      expect(eventIds()).toEqual([...inOrder, ...inOrder]);
    });
  });

  test('of others are not delayed by an endpoint that hangs, even one of the same tenant, and readiness stays green', async () => {
    shows('hanging endpoint');
    const hanging = await WebhookReceiver.start();
    hanging.react = () => undefined;
    const stuck = await subscribe(holdfast, tenant, hanging.url);
    const id = await subscribe(holdfast, tenant, receiver.url);
    await causeEvents(holdfast, tenant, 5);
    await endedDeliveries(holdfast, id, 5);
    expect((await deliveries(holdfast, stuck)).map(({ status }) => status)).toEqual(
      Array.from({ length: 5 }, () => 'PENDING'),
    );
    expect(hanging.received).toHaveLength(1);
    expect(
      await eventually(
        'the gauge shows them',
        async () =>
          (await holdfast.metric('holdfast_webhook_deliveries_waiting', { for: 'first_attempt' })) >= 5,
      ),
    ).toBe(true);
    await eventually(
      'so does the other one',
      async () => (await holdfast.metric('holdfast_webhook_attempts_in_flight')) > 0,
    );
    expect(await holdfast.metric('holdfast_oldest_undelivered_event_seconds')).toBeGreaterThan(0);
    // The figures are those of the last beat, which may precede the read of the events.
    const ready = await eventually('a beat has seen all events queued', async () => {
      const { status, body } = await holdfast.call('GET', '/health/ready');
      return body.details.dispatcher.event_lag === 0 && { code: status, ...body.details.dispatcher };
    });
    expect(ready).toMatchObject({ code: 200, status: 'up', waiting_deliveries: 5 });
    await hanging.stop();
    await eventually('the rest is attempted', async () =>
      (await deliveries(holdfast, stuck)).every(({ attempts }) => attempts > 0),
    );
  });
});

describe('an answer', () => {
  test.each([200, 201, 204])('of %i is a success', async (code) => {
    shows('delivery retries');
    receiver.react = (response) => response.writeHead(code).end();
    const id = await subscribe(holdfast, tenant, receiver.url);
    await causeEvent(holdfast, tenant);
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([
      { status: 'SUCCESS', response_status: code, attempts: 1 },
    ]);
  });

  test('that redirects is a failure, and the redirect is not followed', async () => {
    shows('delivery retries');
    const elsewhere = await WebhookReceiver.start();
    receiver.react = (response) => response.writeHead(302, { location: elsewhere.url }).end();
    const id = await subscribe(holdfast, tenant, receiver.url, { retry_policy: { max_retries: 0 } });
    await causeEvent(holdfast, tenant);
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([
      { status: 'FAILED', response_status: 302 },
    ]);
    expect(
      await holdfast.metric('cycles_webhook_delivery_failed_total', {
        tenant: tenant.id,
        reason: 'http_3xx',
      }),
    ).toBe(1);
    expect(elsewhere.received).toEqual([]);
    await elsewhere.stop();
  });

  test('without an end blocks neither its own queue nor the process', async () => {
    receiver.react = (response) => {
      response.writeHead(200);
      const more = (): void =>
        void (response.destroyed || response.write('x'.repeat(65_536), () => setImmediate(more)));
      more();
    };
    const id = await subscribe(holdfast, tenant, receiver.url);
    await causeEvents(holdfast, tenant, 3);
    expect((await endedDeliveries(holdfast, id, 3)).map(({ status }) => status)).toEqual([
      'SUCCESS',
      'SUCCESS',
      'SUCCESS',
    ]);
  });
});

describe('an event without a subscription in its partition', () => {
  let book: SubscriptionCache;
  let scripts: ScriptRegistry;
  let alone: TestTenant;
  let log: string;
  /** The dispatcher's calls on the tenant's log since the test began, with their status. */
  let asked: string[];

  beforeEach(async () => {
    book = holdfast.app.get(SubscriptionCache, { strict: false });
    ({ scripts } = holdfast.app.get(RedisService, { strict: false }));
    const client = connectTo(redis.url);
    const tagOfAlone = (): string => tagOfTenant(alone.id, 64);
    try {
      do {
        alone = await holdfast.fundedTenant();
      } while ((await client.exists(webhookRevisionKey(tagOfAlone()))) === 1);
      log = eventLogKey(tagOfAlone());
      await eventually(
        "the dispatcher has processed the tenant's creation, and knows of no operators' subscription",
        async () => {
          const [group] = (await client.xinfo('GROUPS', log)) as unknown[][];
          return group?.[group.indexOf('lag') + 1] === 0 && !book.hasTargets(SYSTEM);
        },
      );
    } finally {
      client.disconnect();
    }
    asked = [];
    const call = scripts.call.bind(scripts);
    jest.spyOn(scripts, 'call').mockImplementation(async (name, keys, args) => {
      const reply = await call(name, keys, args);
      const isOfLog = Object.values(keys).includes(log);
      const isRead = name === 'dispatch_page' && Number((args as { limit?: unknown }).limit) > 0;
      if (isOfLog && (name === 'skip_events' || isRead)) {
        asked.push(`${name} ${(reply as { status?: string }).status}`);
      }
      return reply;
    });
  });

  afterEach(() => {
    jest.restoreAllMocks();
  });

  test('is left unread', async () => {
    await causeEvent(holdfast, alone);
    await eventually('the dispatcher skips it', () => asked.includes('skip_events SKIPPED'));
    expect(asked.filter((one) => one.startsWith('dispatch_page'))).toEqual([]);
  });

  test.each(['before', 'after'] as const)(
    "does not hide one that follows the operators' first subscription, created just %s those are read",
    async (when) => {
      const refresh = book.refresh.bind(book);
      let id = '';
      let told = '';
      const subscribed = async (): Promise<void> => {
        id = await subscribe(holdfast, SYSTEM, receiver.url);
        told = await causeEvent(holdfast, alone);
      };
      jest.spyOn(book, 'refresh').mockImplementationOnce(async (owners) => {
        await (when === 'before' ? subscribed() : undefined);
        await refresh(owners);
        await (when === 'after' ? subscribed() : undefined);
      });
      await causeEvent(holdfast, alone);
      await eventually(
        'the event after the subscription arrives',
        () => id !== '' && requestIds(receiver).includes(told),
      );
      expect(asked[0]).toBe('skip_events UP_TO');
      expect((await holdfast.admin('DELETE', `/v1/admin/webhooks/${id}`)).status).toBe(204);
      await eventually('it is forgotten', async () => {
        await book.refresh([]);
        return !book.hasTargets(SYSTEM);
      });
    },
  );
});

describe("the operators' subscription", () => {
  test("gets the events of all tenants, each tenant's in order", async () => {
    shows('delivery order');
    const other = await holdfast.fundedTenant();
    const id = await subscribe(holdfast, SYSTEM, receiver.url);
    const [mine, others] = await Promise.all([
      causeEvents(holdfast, tenant, 10),
      causeEvents(holdfast, other, 10),
    ]);
    await endedDeliveries(holdfast, id, 20);
    const seen = requestIds(receiver);
    expect(seen.filter((one) => mine.includes(one as string))).toEqual(mine);
    expect(seen.filter((one) => others.includes(one as string))).toEqual(others);
    expect((await holdfast.admin('DELETE', `/v1/admin/webhooks/${id}`)).status).toBe(204);
  });
});
