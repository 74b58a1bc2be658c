import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import {
  deliveryKey,
  dispatchLeaseKey,
  eventLogKey,
  orderedQueueKey,
  orderedQueuesKey,
  outcomesKey,
  partitionOfTenant,
  retryingKey,
  tagOf,
  tagOfPartition,
  tagOfTenant,
} from '../../src/redis/keyspace.js';
import { RedisService, StoreUnavailable } from '../../src/redis/index.js';
import { Dispatcher } from '../../src/webhooks/dispatch/dispatcher.service.js';
import { DispatchPartition } from '../../src/webhooks/dispatch/dispatch-partition.js';
import { EventReader } from '../../src/webhooks/dispatch/event-reader.js';
import { OrderedQueues } from '../../src/webhooks/dispatch/ordered-queues.js';
import { Retries } from '../../src/webhooks/dispatch/retries.js';
import { PartitionLeases } from '../../src/worker/index.js';
import { deliveryPlaceOf } from '../../src/webhooks/dispatch/delivery.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import { Holdfast, type TestTenant } from '../support/holdfast.js';
import type { Settings } from '../support/settings.js';
import { commandCounts, connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import { storedWebhookKey } from '../support/subscriber.js';
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
  UNDISTURBED,
} from './dispatching.js';

const TAGS = Array.from({ length: 64 }, (_, number) => tagOfPartition(number));

let server: Store;
let redis: StoreClient;
let api: Holdfast;
let receiver: WebhookReceiver;
let tenant: TestTenant;
let instances: Holdfast[] = [];

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  api = await Holdfast.start({ REDIS_URL: server.url });
  await allowLoopback(api);
});

beforeEach(async () => {
  receiver = await WebhookReceiver.start();
  tenant = await api.fundedTenant();
});

afterEach(async () => {
  await receiver.stop();
  await Promise.all(instances.map((instance) => instance.stop()));
  instances = [];
});

afterAll(async () => {
  await api.stop();
  redis.disconnect();
  await server.stop();
});

async function start(env: Settings = {}): Promise<Holdfast> {
  const instance = await startDispatcher({ REDIS_URL: server.url, HOLDFAST_ROLES: 'dispatcher', ...env });
  instances.push(instance);
  return instance;
}

function ownTag(): string {
  return tagOfTenant(tenant.id, 64);
}

async function leases(): Promise<number[]> {
  const counts = new Map<string, number>();
  for (const token of await Promise.all(TAGS.map((tag) => redis.get(dispatchLeaseKey(tag))))) {
    if (token !== null) {
      counts.set(token, (counts.get(token) ?? 0) + 1);
    }
  }
  return [...counts.values()].sort((a, b) => b - a);
}

/** Expects dispatchers to pause at least 10 ms between two polls for events, whatever else is due. */
async function expectPauses(dispatchers: number, from: () => Promise<unknown>): Promise<void> {
  // On a cluster, a poll is one command per partition.
  const commandsOfAll = redis.isCluster ? 64 : dispatchers;
  const polls = async (): Promise<number> => ((await commandCounts(redis))['xread'] ?? 0) / commandsOfAll;
  await from();
  const [began, before] = [performance.now(), await polls()];
  // Longer than a beat, which notices due work.
  await delay(2500);
  const made = (await polls()) - before;
  expect(made).toBeLessThan((performance.now() - began) / 10);
}

function sharesBecome(...sizes: number[]): Promise<unknown> {
  return eventually(
    `the shares are ${sizes.join(', ')}`,
    async () => JSON.stringify(await leases()) === JSON.stringify(sizes),
    // Longer than most leases last, in case that they lapse.
    25_000,
  );
}

describe('the role', () => {
  test('is required: without it events wait, and the first instance with it delivers them in order', async () => {
    shows('at least once');
    const id = await subscribe(api, tenant, receiver.url);
    const requestIds = await causeEvents(api, tenant, 5);
    expect(await deliveries(api, id)).toEqual([]);
    expect(await api.metric('holdfast_dispatch_leases_held')).toBe(0);
    expect((await api.call('GET', '/health/ready')).body.details.dispatcher).toBeUndefined();
    await start();
    await endedDeliveries(api, id, 5);
    expect(receiver.received.map(({ headers }) => headers['x-request-id'])).toEqual(requestIds);
  });
});

test('an event whose acknowledgement a failover lost is delivered again', async () => {
  await start();
  const id = await subscribe(api, tenant, receiver.url);
  const requestId = await causeEvent(api, tenant);
  await endedDeliveries(api, id, 1);
  const log = eventLogKey(ownTag());
  const [entryId = ''] = (await redis.xrevrange(log, '+', '-', 'COUNT', 1))[0] ?? [];
  await redis.del(deliveryKey(ownTag(), `${entryId}:${id}`));
  await redis.call('XCLAIM', log, 'dispatcher', 'dispatcher', 0, entryId, 'FORCE');
  await eventually('it arrives again', () => receiver.received.length === 2);
  expect(receiver.received.map(({ headers }) => headers['x-request-id'])).toEqual([requestId, requestId]);
});

describe('several instances', () => {
  test('share the partitions, deliver each event once and retry it once at a time; an instance that leaves gives up its leases immediately', async () => {
    receiver.react = (response) => response.writeHead(500).end();
    const first = await start({ webhookLeaseMs: 300_000 });
    await sharesBecome(64);
    const second = await start({ webhookLeaseMs: 300_000 });
    await sharesBecome(32, 32);
    const policy = {
      retry_policy: { max_retries: 2, initial_delay_ms: 100, backoff_multiplier: 1, max_delay_ms: 1000 },
      disable_after_failures: 100,
    };
    const id = await subscribe(api, tenant, receiver.url, policy);
    await causeEvents(api, tenant, 10);
    expect(
      (await endedDeliveries(api, id, 10)).map(({ status, attempts }) => `${status} ${attempts}`),
    ).toEqual(Array.from({ length: 10 }, () => 'FAILED 3'));
    expect(receiver.received).toHaveLength(30);
    await eventually(
      'the gauge shows its share',
      async () => (await first.metric('holdfast_dispatch_leases_held')) === 32,
    );
    expect(
      await second.metric('holdfast_dispatch_lease_changes_total', { change: 'taken' }),
    ).toBeGreaterThanOrEqual(32);
    await second.stop();
    instances.pop();
    await sharesBecome(64);
    await first.stop();
    instances = [];
    expect(await leases()).toEqual([]);
  });
});

describe('a partition that is to be handed to another instance', () => {
  test('is kept until its attempt in flight has ended, and stays here if the other instance has gone by then', async () => {
    // The first instance takes the partitions in order, and hands over the last ones.
    tenant = await eventually('a tenant of a late partition', async () => {
      const made = await api.fundedTenant();
      return partitionOfTenant(made.id, 64) >= 32 && made;
    });
    let release = (): void => undefined;
    receiver.react = (response) => {
      release = () => void response.writeHead(200).end();
    };
    // The attempt and the leases must outlast everything else in the test.
    await start(UNDISTURBED);
    await sharesBecome(64);
    const id = await subscribe(api, tenant, receiver.url);
    await causeEvents(api, tenant, 2);
    await eventually('the first attempt has started', () => receiver.received.length === 1);
    const second = await start(UNDISTURBED);
    await sharesBecome(33, 31);
    await expectPauses(2, () => redis.zadd(retryingKey(ownTag()), 1, 'due'));
    await second.stop();
    instances.pop();
    await sharesBecome(64);
    receiver.react = (response) => response.writeHead(200).end();
    release();
    expect((await endedDeliveries(api, id, 2)).map(({ attempts }) => attempts)).toEqual([1, 1]);
    await causeEvent(api, tenant);
    await endedDeliveries(api, id, 3);
    expect(receiver.received).toHaveLength(3);
  });
});

describe('a partition whose lease another instance has', () => {
  test('is counted as lost, and taken again when the lease lapses', async () => {
    const instance = await start();
    await sharesBecome(64);
    await redis.set(dispatchLeaseKey(ownTag()), 'another', 'PX', 60_000);
    await eventually(
      'it is counted',
      async () => (await instance.metric('holdfast_dispatch_lease_changes_total', { change: 'lost' })) === 1,
    );
    expect(
      await instance.metric('cycles_maintenance_runs_total', {
        job: 'webhook_dispatch',
        outcome: 'lease_lost',
      }),
    ).toBe(1);
    await redis.pexpire(dispatchLeaseKey(ownTag()), 1);
    await sharesBecome(64);
    const id = await subscribe(api, tenant, receiver.url);
    await causeEvent(api, tenant);
    await endedDeliveries(api, id, 1);
  });

  test('is read from Redis when it is taken again, not from memory', async () => {
    const instance = await start(UNDISTURBED);
    await sharesBecome(64);
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(200).end());
    const id = await subscribe(api, tenant, receiver.url);
    const requestIds = await causeEvents(api, tenant, 3);
    const queue = orderedQueueKey(ownTag(), `${id}:${tenant.id}`);
    await eventually('all are queued', async () => (await redis.llen(queue)) === 3);
    await eventually('the first attempt has started', () => receiver.received.length === 1);
    await redis.set(dispatchLeaseKey(ownTag()), 'another', 'PX', 60_000);
    // The other instance delivers the second.
    const [, second = ''] = await redis.lrange(queue, 0, -1);
    await redis.lrem(queue, 1, second);
    await eventually(
      'it is lost',
      async () => (await instance.metric('holdfast_dispatch_lease_changes_total', { change: 'lost' })) === 1,
    );
    await redis.pexpire(dispatchLeaseKey(ownTag()), 1);
    await sharesBecome(64);
    receiver.react = (response) => response.writeHead(200).end();
    answerFirst();
    await eventually('the queue is empty', async () => (await redis.exists(queue)) === 0);
    const received = receiver.received.map(({ headers }) => headers['x-request-id']);
    expect([...new Set(received)]).toEqual([requestIds[0], requestIds[2]]);
  });

  test('is read from its unacknowledged events on, also when this instance turns out to hold the lease, as after a lost reply', async () => {
    const instance = await start();
    await sharesBecome(64);
    const id = await subscribe(api, tenant, receiver.url);
    await causeEvent(api, tenant);
    await endedDeliveries(api, id, 1);
    const [lease, log] = [dispatchLeaseKey(ownTag()), eventLogKey(ownTag())];
    const token = (await redis.get(lease)) as string;
    await redis.set(lease, 'another', 'PX', 300_000);
    await eventually(
      'it is lost',
      async () => (await instance.metric('holdfast_dispatch_lease_changes_total', { change: 'lost' })) === 1,
    );
    await causeEvent(api, tenant);
    await redis.xreadgroup('GROUP', 'dispatcher', 'dispatcher', 'STREAMS', log, '>');
    await redis.set(lease, token, 'PX', 300_000);
    await endedDeliveries(api, id, 2);
  });
});

describe('a dispatch that is stuck', () => {
  test('is restarted by the beat, counted, and delivers', async () => {
    const instance = await start();
    await sharesBecome(64);
    const reader = instance.app.get(EventReader);
    const id = await subscribe(api, tenant, receiver.url);
    const standing = jest
      .spyOn(reader, 'withEvents')
      .mockImplementationOnce(() => new Promise(() => undefined));
    await eventually('it stands', () => standing.mock.calls.length > 0);
    await causeEvent(api, tenant);
    await eventually(
      'it is restarted',
      async () => (await instance.metric('holdfast_dispatch_restarts_total')) === 1,
      30_000,
    );
    standing.mockRestore();
    await endedDeliveries(api, id, 1);
  }, 60_000);
});

describe('a poll that took longer than the interval', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  test('is still followed by a pause', async () => {
    jest.spyOn(PartitionLeases.prototype, 'beatWhenDue').mockResolvedValue(undefined);
    // The interval is 100 ms, at most 125 ms with its random variation.
    jest.spyOn(api.app.get(EventReader), 'withEvents').mockImplementation(() => delay(150, []));
    const { sleepMs } = await api.app.get(Dispatcher).runTurn({ goesOn: () => true });
    expect(sleepMs).toBeCloseTo(10);
  });
});

describe('the index of retries', () => {
  afterEach(async () => {
    jest.restoreAllMocks();
    await redis.del(dispatchLeaseKey(tagOf('00')));
  });

  const indexed = async (): Promise<{ partition: DispatchPartition; scripts: RedisService['scripts'] }> => {
    const partition = new DispatchPartition(0, 'this instance');
    await redis.set(partition.keys.lease, partition.token, 'PX', 60_000);
    return { partition, scripts: api.app.get(RedisService).scripts };
  };

  test('is read again for a retry that was scheduled after the script had read it', async () => {
    const { partition, scripts } = await indexed();
    const call = scripts.call.bind(scripts);
    jest.spyOn(scripts, 'call').mockImplementationOnce(async (...args: Parameters<typeof call>) => {
      const reply = await call(...args);
      partition.retryIn(5);
      return reply;
    });
    await api.app.get(Retries).startDue(partition);
    expect(partition.retriesAt).toBeLessThan(performance.now() + 1000);
  });

  test('that could not be read is read again, but not immediately', async () => {
    const { partition, scripts } = await indexed();
    partition.retryIn(0);
    jest.spyOn(scripts, 'call').mockRejectedValueOnce(new StoreUnavailable('timeout'));
    const began = performance.now();
    await expect(api.app.get(Retries).startDue(partition)).rejects.toThrow(StoreUnavailable);
    expect(partition.retriesAt).toBeGreaterThan(began + 50);
    expect(partition.retriesAt).toBeLessThan(Number.POSITIVE_INFINITY);
  });
});

describe('the state that a process leaves when it dies between two steps', () => {
  async function failedOnce(more: Record<string, number>): Promise<{ id: string; ref: string; tag: string }> {
    receiver.react = (response) => response.writeHead(500).end();
    const id = await subscribe(api, tenant, receiver.url, {
      retry_policy: { max_retries: 1, initial_delay_ms: 60_000, max_delay_ms: 60_000, ...more },
    });
    await causeEvent(api, tenant);
    const { delivery_id: deliveryId } = await eventually('it fails once', async () =>
      (await deliveries(api, id)).find(({ attempts }) => attempts === 1),
    );
    return { id, ref: deliveryPlaceOf(deliveryId)?.ref ?? '', tag: ownTag() };
  }

  test('a retry that is long overdue is attempted', async () => {
    const instance = await start();
    const { id, ref, tag } = await failedOnce({});
    receiver.react = (response) => response.writeHead(200).end();
    await redis.hset(deliveryKey(tag, ref), 'nr', 1000);
    await redis.zadd(retryingKey(tag), 1000, ref);
    expect(await endedDeliveries(api, id, 1)).toMatchObject([{ status: 'SUCCESS', attempts: 2 }]);
    expect(await instance.metric('holdfast_dispatch_left_over_total', { kind: 'retry' })).toBeGreaterThan(0);
  });

  test('a retry is attempted that is due in the same millisecond as more than two pages before it, which leave meanwhile', async () => {
    await start();
    const { id, ref, tag } = await failedOnce({});
    receiver.react = (response) => response.writeHead(200).end();
    // Of deliveries that are gone, to subscriptions that are gone.
    const left = Array.from(
      { length: 1200 },
      (_, number) => `1000-${number}:whsub_${id.slice(6, 8)}${String(number).padStart(16, '0')}`,
    );
    await redis.hset(deliveryKey(tag, ref), 'nr', 1000);
    await redis.zadd(retryingKey(tag), ...[...left, ref].flatMap((one) => [1000, one]));
    expect(await endedDeliveries(api, id, 1)).toMatchObject([{ status: 'SUCCESS', attempts: 2 }]);
    await eventually('the others have left', async () => {
      const scores = await redis.zmscore(retryingKey(tag), ...left);
      return scores.every((score) => score === null);
    });
  });

  test('a failure that was not counted is counted', async () => {
    const instance = await start();
    const { id, ref, tag } = await failedOnce({ max_retries: 0 });
    await eventually('it is counted', async () => (await subscription(api, id)).consecutive_failures === 1);
    // As if the count had neither been written nor removed from the list.
    await redis.hdel(storedWebhookKey(id), 'cf', 'ld');
    await redis.zadd(outcomesKey(tag), 1000, ref);
    await eventually(
      'it is counted again',
      async () => (await subscription(api, id)).consecutive_failures === 1,
    );
    expect(
      await eventually(
        'it is off the list',
        async () => (await redis.zscore(outcomesKey(tag), ref)) === null,
      ),
    ).toBe(true);
    expect(await instance.metric('holdfast_dispatch_left_over_total', { kind: 'outcome' })).toBe(1);
  });

  describe('does not let entries that cannot be repaired block others, however many there are:', () => {
    let damaged: string[] = [];

    /**
     * Puts unreadable records before the others of an index, more than two reads take up. Returns their refs.
     */
    async function hide(index: string, tag: string, id: string): Promise<string[]> {
      const refs = Array.from({ length: 250 }, (_, number) => `1000-${number}:${id}`);
      damaged = [index, ...refs.map((ref) => deliveryKey(tag, ref))];
      await Promise.all(refs.map((ref) => redis.set(deliveryKey(tag, ref), 'damaged')));
      await redis.zadd(index, ...refs.flatMap((ref) => [500, ref]));
      return refs;
    }

    function moveBack(index: string, refs: readonly string[]): Promise<unknown> {
      return eventually('those before it move back', async () => {
        const scores = await redis.zmscore(index, ...refs);
        return scores.every((score) => Number(score) > 1000);
      });
    }

    // Other tests may use the same partition.
    afterEach(() => Promise.all(damaged.map((key) => redis.del(key))));

    test('a retry', async () => {
      await start({ webhookLeaseMs: 1000 });
      const { id, ref, tag } = await failedOnce({});
      const refs = await hide(retryingKey(tag), tag, id);
      receiver.react = (response) => response.writeHead(200).end();
      await redis.hset(deliveryKey(tag, ref), 'nr', 1000);
      await redis.zadd(retryingKey(tag), 1000, ref);
      expect(await endedDeliveries(api, id, 1)).toMatchObject([{ status: 'SUCCESS', attempts: 2 }]);
      await moveBack(retryingKey(tag), refs);
    });

    test('a failure that was not counted', async () => {
      await start({ webhookLeaseMs: 1000 });
      const { id, ref, tag } = await failedOnce({ max_retries: 0 });
      await eventually('it is counted', async () => (await subscription(api, id)).consecutive_failures === 1);
      const refs = await hide(outcomesKey(tag), tag, id);
      await redis.hdel(storedWebhookKey(id), 'cf', 'ld');
      await redis.zadd(outcomesKey(tag), 1000, ref);
      await eventually(
        'it is counted again',
        async () => (await subscription(api, id)).consecutive_failures === 1,
      );
      await moveBack(outcomesKey(tag), refs);
    });
  });

  test('is forgotten, and counted, when its record is gone', async () => {
    const instance = await start();
    const id = await subscribe(api, tenant, receiver.url);
    const tag = ownTag();
    const trimmed = (): Promise<number> => instance.metric('holdfast_index_entries_trimmed_total');
    const before = await trimmed();
    await redis.zadd(outcomesKey(tag), 1000, `1000-1:${id}`, 1000, 'no-ref');
    await redis.zadd(retryingKey(tag), 1000, `1000-1:${id}`);
    await eventually(
      'they are off the lists',
      async () => (await redis.exists(outcomesKey(tag), retryingKey(tag))) === 0,
    );
    await eventually('they are counted', async () => (await trimmed()) === before + 3);
  });
});

describe('readiness', () => {
  test('is red while events wait for the dispatcher, and green again when they are delivered', async () => {
    const instance = await start({ webhookAlertMs: 1000 });
    const id = await subscribe(api, tenant, receiver.url);
    await causeEvent(api, tenant);
    await endedDeliveries(api, id, 1);
    await redis.set(orderedQueueKey(ownTag(), `${id}:${tenant.id}`), 'damaged');
    await causeEvent(api, tenant);
    // A late beat also turns readiness red, but before the lag is known.
    const red = await eventually('it is red because of its lag', async () => {
      const answer = await instance.call('GET', '/health/ready');
      const { dispatcher } = answer.body.details;
      return answer.status === 503 && dispatcher.event_lag > 0 && dispatcher;
    });
    expect(red).toMatchObject({ status: 'down', limit_ms: 1000 });
    // It is that of the last beat, which may not be over.
    await eventually('the gauge shows it', async () => (await instance.metric('holdfast_event_log_lag')) > 0);
    await redis.del(orderedQueueKey(ownTag(), `${id}:${tenant.id}`));
    await endedDeliveries(api, id, 2);
    await eventually('it is green', async () => (await instance.call('GET', '/health/ready')).status === 200);
    expect(await redis.exists(orderedQueuesKey(ownTag()))).toBe(0);
  });
});

describe('shutdown', () => {
  test('lets a running attempt end, and starts no other', async () => {
    const instance = await start();
    let release = (): void => undefined;
    receiver.react = (response) => {
      release = () => void response.writeHead(200).end();
    };
    const id = await subscribe(api, tenant, receiver.url);
    await causeEvents(api, tenant, 2);
    await eventually(
      'the first attempt has started and the other is queued',
      async () => receiver.received.length === 1 && (await deliveries(api, id)).length === 2,
    );
    const { limiter } = instance.app.get(OrderedQueues);
    const stopped = instance.stop();
    instances = [];
    await eventually('it starts no attempt any more', () => limiter.isClosed);
    release();
    await stopped;
    expect((await deliveries(api, id)).map(({ status }) => status).sort()).toEqual(['PENDING', 'SUCCESS']);
    receiver.react = (response) => response.writeHead(200).end();
    await start();
    await endedDeliveries(api, id, 2);
    expect(receiver.received).toHaveLength(2);
  });
});
