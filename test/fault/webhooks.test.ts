import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { eventIdOf } from '../../src/events/event.js';
import {
  deliveryKey,
  eventLogKey,
  orderedQueuesKey,
  outcomesKey,
  reservationKey,
  retryingKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { deliveryIdOf } from '../../src/webhooks/dispatch/delivery.js';
import { shows } from '../compatibility/shows.js';
import { makeHolds } from '../support/bulk-holds.js';
import { buildService, spawnService, type ServiceProcess } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, Holdfast } from '../support/holdfast.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { allowLoopback, subscribe } from '../webhooks/dispatching.js';

const random = randomFrom(seedFrom('WEBHOOKS_SEED', 'webhooks under kills'));
const below = (limit: number): number => Math.floor(random() * limit);
const TENANTS = 8;
/**
 * Drawn for each attempt, so a delivery can fail at any of its attempts. No expected result depends on
 * chance.
 */
const REFUSED_PERCENT = 8;
const CUT_OFF_PERCENT = 4;
/** For the subscriber whose deliveries are given up after two attempts, so that about every fourth one is. */
const REFUSED_FOR_GOOD_PERCENT = 50;
const POLICY = { max_retries: 10, initial_delay_ms: 100, backoff_multiplier: 1, max_delay_ms: 1000 };
const KEY = 'ab'.repeat(32);

interface Subscriber {
  readonly tenant: string;
  readonly tag: string;
  readonly subscriptionId: string;
  /** Whether its deliveries may fail permanently. */
  readonly givesUp: boolean;
}

let redis: RedisServer;
let maker: Holdfast;
let stored: StoredHolds;
let receiver: WebhookReceiver;
let subscribers: Subscriber[] = [];
const services: ServiceProcess[] = [];
const cleanUps: (() => Promise<void> | void)[] = [];

beforeAll(() => {
  buildService();
}, 180_000);

/**
 * @param appendfsync `always` where Redis itself is killed, because then nothing that it acknowledged may be
 * lost
 */
async function setUp(appendfsync: 'everysec' | 'always'): Promise<void> {
  redis = await startRedis({ appendonly: true, args: ['--appendfsync', appendfsync] });
  stored = new StoredHolds(redis.url);
  stored.redis.on('error', () => undefined);
  cleanUps.push(() => stored.close());
  receiver = await WebhookReceiver.start();
  cleanUps.push(() => receiver.stop());
  maker = await Holdfast.start({ REDIS_URL: redis.url, WEBHOOK_SECRET_ENCRYPTION_KEY: KEY });
  cleanUps.push(() => maker.stop());
  subscribers = [];
  receiver.react = (response, { path }) => {
    const chance = below(100);
    const refusedPercent = subscribers.some(({ tenant, givesUp }) => givesUp && path === `/${tenant}`)
      ? REFUSED_FOR_GOOD_PERCENT
      : REFUSED_PERCENT;
    if (chance < CUT_OFF_PERCENT) {
      response.destroy();
    } else {
      response.writeHead(chance < CUT_OFF_PERCENT + refusedPercent ? 500 : 200).end();
    }
  };
  await allowLoopback(maker);
  for (let index = 0; index < TENANTS; index += 1) {
    const tenant = await maker.fundedTenant();
    await maker.admin('POST', `/v1/admin/budgets/fund?scope=tenant:${tenant.id}&unit=TOKENS`, {
      operation: 'CREDIT',
      amount: { unit: 'TOKENS', amount: 1_000_000 },
      idempotency_key: 'more',
    });
    const givesUp = index === 0;
    const settings = {
      event_types: ['reservation.expired'],
      retry_policy: givesUp ? { ...POLICY, max_retries: 1 } : POLICY,
      disable_after_failures: 1000,
    };
    subscribers.push({
      tenant: tenant.id,
      tag: stored.tagOfTenant(tenant.id),
      givesUp,
      subscriptionId: await subscribe(maker, tenant, `${receiver.url}/${tenant.id}`, settings),
    });
  }
}

// Only stop what a test did start. A failure must not keep the rest running, or jest would not exit.
afterEach(async () => {
  try {
    await Promise.all(services.splice(0).map((service) => end(service)));
    for (const cleanUp of cleanUps.splice(0).reverse()) {
      await cleanUp();
    }
  } finally {
    await stopAllRedis();
  }
});

/** A separate process that sweeps and dispatches. */
function start(): ServiceProcess {
  const service = spawnService({
    REDIS_URL: redis.url,
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY: KEY,
    PORT: '0',
    HOST: '127.0.0.1',
    HOLDFAST_ROLES: 'sweeper,dispatcher',
    LOG_LEVEL: 'warn',
    SWEEP_INTERVAL_MS: '50',
    sweepLeaseMs: 1000,
    webhookLeaseMs: 1000,
    webhookPollMs: 20,
    WEBHOOK_TIMEOUT_MS: '2000',
  });
  services.push(service);
  return service;
}

async function end({ child, ended }: ServiceProcess): Promise<void> {
  child.kill('SIGKILL');
  await ended;
}

/** Holds of all tenants that are due at the same time. */
async function makeDue(count: number): Promise<number> {
  const each = Math.ceil(count / TENANTS);
  for (const { tenant, tag } of subscribers) {
    const ids = await makeHolds(
      stored.redis,
      tag,
      tenant,
      Array.from({ length: each }, () => ({})),
    );
    const pipeline = stored.redis.pipeline();
    for (const id of ids) {
      pipeline.hset(reservationKey(tag, id), 'ex', 1000, 'gr', 0).zadd(ttlIndexKey(tag), 1000, id);
    }
    await pipeline.exec();
  }
  return each * TENANTS;
}

/** The events of a type in a partition, oldest first. */
async function eventsOf(
  tag: string,
  type: string,
): Promise<{ entryId: string; fields: Map<string, string> }[]> {
  const entries = await stored.redis.xrange(eventLogKey(tag), '-', '+');
  return entries
    .map(([entryId, flat]) => ({
      entryId,
      fields: new Map(
        flat.flatMap(
          (name, index) => (index % 2 === 0 ? [[name, flat[index + 1] ?? '']] : []) as [string, string][],
        ),
      ),
    }))
    .filter(({ fields }) => fields.get('ty') === type);
}

/** A tenant's expirations according to its log, oldest first. */
async function expirations({ tenant, tag }: Subscriber): Promise<{ entryId: string; reservation: string }[]> {
  const events = await eventsOf(tag, 'reservation.expired');
  return events
    .filter(({ fields }) => fields.get('tn') === tenant)
    .map(({ entryId, fields }) => ({ entryId, reservation: fields.get('reservation_id') ?? '' }));
}

/** The deliveries that were reported as given up. */
async function deadLettersOf({ tag, subscriptionId }: Subscriber): Promise<(string | undefined)[]> {
  const events = await eventsOf(tag, 'system.webhook_delivery_failed');
  return events
    .filter(({ fields }) => fields.get('subscription_id') === subscriptionId)
    .map(({ fields }) => fields.get('delivery_id'));
}

async function statuses(
  { tag, subscriptionId }: Subscriber,
  entryIds: readonly string[],
): Promise<(string | null)[]> {
  return Promise.all(
    entryIds.map((entryId) => stored.redis.hget(deliveryKey(tag, `${entryId}:${subscriptionId}`), 'st')),
  );
}

/**
 * Expirations = events = deliveries that succeeded or were given up, each reported once. Nothing was reported
 * that did not happen, and first attempts were in order.
 */
async function expectNothingLost(total: number): Promise<void> {
  await eventually(
    'nothing is due, unread, waiting or to be retried',
    async () => {
      for (const { tag } of subscribers) {
        const indexes = [ttlIndexKey(tag), orderedQueuesKey(tag), retryingKey(tag), outcomesKey(tag)];
        const counts = await Promise.all(indexes.map((key) => stored.redis.exists(key)));
        const waiting = indexes.filter((_key, index) => counts[index] === 1);
        const [, , , , , , , , , , , lag] =
          ((await stored.redis.xinfo('GROUPS', eventLogKey(tag))) as unknown[][])[0] ?? [];
        if (waiting.length > 0 || lag !== 0) {
          throw new Error(`${tag}: ${waiting.join(', ')} not empty, lag ${String(lag)}`);
        }
      }
      return true;
    },
    60_000,
    100,
  );
  let told = 0;
  let givenUp = 0;
  for (const one of subscribers) {
    const events = await expirations(one);
    told += events.length;
    expect(new Set(events.map(({ reservation }) => reservation)).size).toBe(events.length);
    const ids = events.map(({ entryId }) => eventIdOf({ partition: one.tag.slice(2, 4), entryId }));
    const received = receiver.received
      .filter(({ path }) => path === `/${one.tenant}`)
      .map(({ headers }) => headers['webhook-id']);
    const ended = await statuses(
      one,
      events.map(({ entryId }) => entryId),
    );
    const failed = events.filter((_event, index) => ended[index] === 'FAILED');
    expect(ended.filter((status) => status === 'SUCCESS').length + failed.length).toBe(events.length);
    expect(failed.length > 0 && !one.givesUp).toBe(false);
    expect((await deadLettersOf(one)).sort()).toEqual(
      failed
        .map(({ entryId }) =>
          deliveryIdOf({ partition: one.tag.slice(2, 4), ref: `${entryId}:${one.subscriptionId}` }),
        )
        .sort(),
    );
    givenUp += failed.length;
    // A set keeps the order of first insertion.
    expect([...new Set(received)]).toEqual(ids);
  }
  expect(told).toBe(total);
  expect(givenUp).toBeGreaterThan(0);
}

describe('no event is lost or invented', () => {
  test('when the service is killed at random moments', async () => {
    shows('at least once');
    await setUp('everysec');
    let total = 0;
    for (let round = 0; round < 4; round += 1) {
      total += await makeDue(500);
      const seen = receiver.received.length;
      const service = start();
      await eventually('it delivers', () => receiver.received.length > seen, 30_000);
      await delay(20 + below(380));
      await end(service);
    }
    total += await makeDue(500);
    start();
    await expectNothingLost(total);
  }, 180_000);

  test('when two share the work, and now one and now the other is killed', async () => {
    shows('at least once');
    await setUp('everysec');
    let total = 0;
    let [first, second] = [start(), start()];
    for (let round = 0; round < 4; round += 1) {
      total += await makeDue(500);
      const seen = receiver.received.length;
      await eventually('they deliver', () => receiver.received.length > seen, 30_000);
      await delay(20 + below(580));
      await end(first);
      [first, second] = [second, start()];
    }
    await expectNothingLost(total);
    expect(second.child.exitCode).toBeNull();
  }, 180_000);

  test('when Redis is stuck, and when it is killed and comes back', async () => {
    shows('at least once');
    await setUp('always');
    start();
    let total = await makeDue(400);
    await eventually('it delivers', () => receiver.received.length > 0, 30_000);
    redis.pause();
    await delay(500 + below(2000));
    redis.resume();
    total += await makeDue(400);
    for (let round = 0; round < 2; round += 1) {
      const seen = receiver.received.length;
      await eventually('it delivers again', () => receiver.received.length > seen, 30_000);
      await delay(20 + below(180));
      await redis.kill();
      await redis.restart();
      await eventually(
        'the connection of the test is back',
        async () => (await stored.redis.ping()) === 'PONG',
      );
      total += await makeDue(400);
    }
    await expectNothingLost(total);
  }, 180_000);
});
