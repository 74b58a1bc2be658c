import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { StoreUnavailable } from '../../src/redis/errors.js';
import {
  deliveryIndexKey,
  deliveryKey,
  eventLogKey,
  orderedQueueKey,
  orderedQueuesKey,
  replayKey,
  tenantEventsKey,
  webhookKey,
} from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { ReplaySelection } from '../../src/webhooks/replay/replay.service.js';
import { SubscriptionCache } from '../../src/webhooks/subscriptions/subscription-cache.js';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Answer, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const URL = 'https://93.184.216.34/hook';

async function subscribe(owner: string, more: Json = {}): Promise<string> {
  const answer = await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${owner}`, {
    url: URL,
    event_types: ['budget.created'],
    ...more,
  });
  return expectStatus(answer, 201).subscription.subscription_id as string;
}

const replay = (id: string, body: Json = {}): Promise<Answer> =>
  on.holdfast.admin('POST', `/v1/admin/webhooks/${id}/replay`, body);
const deliveries = async (id: string): Promise<Json[]> =>
  expectStatus(await on.holdfast.admin('GET', `/v1/admin/webhooks/${id}/deliveries?limit=100`), 200)
    .deliveries as Json[];
const eventsOf = async (tenant: TestTenant, type = 'budget.created'): Promise<Json[]> =>
  (
    expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}&event_type=${type}&limit=100`),
      200,
    ).events as Json[]
  ).reverse();
const replays = (result: string): Promise<number> =>
  on.holdfast.metric('holdfast_webhook_replays_total', { result });

/** A tenant with this many budgets, and as many events of their creation. */
async function withBudgets(count: number): Promise<TestTenant> {
  const tenant = await on.holdfast.createTenant();
  for (let index = 0; index < count; index += 1) {
    await on.holdfast.createBudget(tenant, `/workspace:w${index}`, 100);
  }
  return tenant;
}

/** The refs that wait for their first attempts, in the order in which they will be attempted. */
function queue(tenant: TestTenant, id: string): Promise<string[]> {
  return on.stored.redis.lrange(orderedQueueKey(on.stored.tagOf(tenant.id), `${id}:${tenant.id}`), 0, -1);
}

/** As if the dispatcher had attempted everything that waits once. */
async function tryAll(tenant: TestTenant, id: string, st = 'SUCCESS'): Promise<void> {
  for (const ref of await queue(tenant, id)) {
    await on.stored.redis.hset(deliveryKey(on.stored.tagOf(tenant.id), ref), 'st', st);
  }
}

describe('a replay', () => {
  test('queues the events of its window again, oldest first, each as a new delivery, including those older than the subscription', async () => {
    shows('replay of events', 'replayEvents');
    const tenant = await withBudgets(4);
    const id = await subscribe(tenant.id);
    const events = await eventsOf(tenant);
    const [queued, accepted] = [
      await on.holdfast.metric('holdfast_webhook_replayed_events_total'),
      await replays('accepted'),
    ];
    const result = expectStatus(await replay(id), 202);
    expect(result).toEqual({ replay_id: expect.stringMatching(/^rpl_[0-9A-Za-z]{16}$/), events_queued: 4 });

    const rows = await deliveries(id);
    expect(rows.map(({ status, event_type: type, attempts }) => [status, type, attempts])).toEqual(
      events.map(() => ['PENDING', 'budget.created', 0]),
    );
    expect(rows.map(({ event_id: event }) => event as string).sort()).toEqual(
      events.map(({ event_id: event }) => event as string).sort(),
    );
    expect(rows[0]).toMatchObject({
      trace_id: events.find(({ event_id: event }) => event === rows[0].event_id).trace_id,
    });
    const waiting = await queue(tenant, id);
    expect(waiting.map((ref) => ref.split(':')[0])).toEqual(
      [...waiting].map((ref) => ref.split(':')[0]).sort(),
    );
    expect(waiting).toHaveLength(4);
    expect(await on.stored.redis.smembers(orderedQueuesKey(on.stored.tagOf(tenant.id)))).toContain(
      `${id}:${tenant.id}`,
    );
    expect(await on.holdfast.metric('holdfast_webhook_replayed_events_total')).toBe(queued + 4);
    expect(await replays('accepted')).toBe(accepted + 1);

    await tryAll(tenant, id);
    expect(expectStatus(await replay(id), 202).events_queued).toBe(4);
    const both = await deliveries(id);
    expect(new Set(both.map(({ delivery_id: one }) => one as string)).size).toBe(8);
    expect(new Set(both.map(({ event_id: one }) => one as string)).size).toBe(4);
  });

  test('counts the index entries that it removes because their deliveries have expired', async () => {
    const tenant = await withBudgets(1);
    const id = await subscribe(tenant.id);
    const trimmed = (): Promise<number> => on.holdfast.metric('holdfast_index_entries_trimmed_total');
    const before = await trimmed();
    await on.stored.redis.zadd(
      deliveryIndexKey(on.stored.tagOf(tenant.id), id),
      1000,
      `1000-0:${id}`,
      1001,
      `1001-0:${id}`,
    );
    expectStatus(await replay(id), 202);
    expect(await trimmed()).toBe(before + 2);
  });

  test('is limited to its window, which includes both ends, and to the types it names', async () => {
    const tenant = await withBudgets(3);
    await on.holdfast.admin(
      'POST',
      `/v1/admin/budgets/freeze?scope=tenant:${tenant.id}/workspace:w0&unit=TOKENS`,
      {},
    );
    const events = await eventsOf(tenant);
    const id = await subscribe(tenant.id, {
      event_types: ['budget.created', 'budget.frozen'],
      event_categories: ['tenant'],
    });
    const { timestamp } = events[1] as { timestamp: string };
    const count = async (body: Json): Promise<number> => {
      await tryAll(tenant, id);
      return expectStatus(await replay(id, body), 202).events_queued as number;
    };
    const sameInstant = events.filter((event) => event.timestamp === timestamp).length;
    const notBefore = events.filter((event) => event.timestamp >= timestamp).length;
    expect(await count({ from: timestamp, to: timestamp, event_types: ['budget.created'] })).toBe(
      sameInstant,
    );
    expect(await count({ from: timestamp, event_types: ['budget.created'] })).toBe(notBefore);
    expect(await count({ event_types: ['budget.frozen', 'tenant.created'] })).toBe(2);
    expect(await count({ event_types: ['budget.funded'] })).toBe(0);
    expect(await count({ event_types: [] })).toBe(0);
    expect(await count({})).toBe(5);
    expectRefusal(
      await replay(id, { from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' }),
      400,
      'INVALID_REQUEST',
    );
  });

  test("respects the subscription's selectors, its scope filter and its owner", async () => {
    shows('replay complete');
    const [tenant, other] = [await withBudgets(3), await withBudgets(2)];
    const scoped = await subscribe(tenant.id, { scope_filter: `tenant:${tenant.id}/workspace:w1*` });
    expect(expectStatus(await replay(scoped), 202).events_queued).toBe(1);
    const byCategory = await subscribe(tenant.id, {
      event_types: ['reservation.expired'],
      event_categories: ['budget'],
    });
    expect(expectStatus(await replay(byCategory), 202).events_queued).toBe(3);
    const blind = await subscribe(tenant.id, { event_types: ['reservation.expired'] });
    expect(expectStatus(await replay(blind, { event_types: ['budget.created'] }), 202).events_queued).toBe(0);
    const ids = new Set((await eventsOf(other)).map(({ event_id: event }) => event as string));
    expect((await deliveries(byCategory)).filter(({ event_id: event }) => ids.has(event as string))).toEqual(
      [],
    );
  });

  test("of the operators' subscription reaches the events of all tenants, each in its own queue", async () => {
    const tenants = [await withBudgets(2), await withBudgets(3)];
    const id = await subscribe('__system__', { scope_filter: `tenant:${(tenants[0] as TestTenant).id}*` });
    expect(expectStatus(await replay(id), 202).events_queued).toBe(2);
    const all = await subscribe('__system__', {
      event_types: ['policy.created'],
      event_categories: ['budget'],
    });
    const { events_queued: queued } = expectStatus(await replay(all, { max_events: 1000 }), 202);
    for (const tenant of tenants) {
      const waiting = await queue(tenant, all);
      expect(waiting).toHaveLength((await eventsOf(tenant)).length);
      expect(waiting).toEqual([...waiting].sort());
    }
    expect(queued).toBeGreaterThanOrEqual(5);
    expect((await deliveries(all)).length).toBe(Math.min(queued as number, 100));
  });

  test('takes all events of one millisecond, in their order', async () => {
    shows('replay of events');
    const tenant = await on.holdfast.createTenant();
    const id = await subscribe(tenant.id, { event_types: ['budget.funded'] });
    const tag = on.stored.tagOf(tenant.id);
    const [seconds] = await on.stored.redis.time();
    const ms = (Number(seconds) + 60) * 1000;
    for (let sequence = 1; sequence <= 250; sequence += 1) {
      const entryId = `${ms}-${sequence}`;
      await on.stored.redis.xadd(
        eventLogKey(tag),
        entryId,
        'ty',
        'budget.funded',
        'tn',
        tenant.id,
        'ac',
        'admin',
      );
      await on.stored.redis.xadd(tenantEventsKey(tag, tenant.id), entryId, 'y', 'budget.funded');
    }
    const at = new Date(ms).toISOString();
    expectRefusal(await replay(id, { from: at, to: at, max_events: 249 }), 400, 'INVALID_REQUEST');
    expect(await queue(tenant, id)).toEqual([]);
    expect(expectStatus(await replay(id, { from: at, to: at, max_events: 250 }), 202).events_queued).toBe(
      250,
    );
    expect((await queue(tenant, id)).map((ref) => ref.split(':')[0])).toEqual(
      Array.from({ length: 250 }, (_, index) => `${ms}-${index + 1}`),
    );
  });

  test('is recorded in the audit log', async () => {
    const tenant = await withBudgets(1);
    const id = await subscribe(tenant.id);
    const answer = await replay(id, { from: '2026-01-01T00:00:00Z', max_events: 5 });
    const { logs } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/audit/logs?operation=replayEvents&resource_id=${id}`),
      200,
    );
    expect(logs).toEqual([
      expect.objectContaining({
        operation: 'replayEvents',
        status: 202,
        resource_type: 'webhook',
        tenant_id: tenant.id,
        request_id: answer.headers.get('x-request-id'),
        metadata: {
          actor_type: 'admin',
          tenant_id: tenant.id,
          replay_id: answer.body.replay_id,
          events_queued: '1',
          from: '2026-01-01T00:00:00Z',
          max_events: '5',
        },
      }),
    ]);
  });
});

describe('a replay', () => {
  /** A tenant with this many funding events, all within one second. */
  async function withFundings(count: number): Promise<TestTenant> {
    const tenant = await on.holdfast.createTenant();
    const tag = on.stored.tagOf(tenant.id);
    for (let index = 0; index < count; index += 1) {
      const entryId = await on.stored.redis.xadd(
        eventLogKey(tag),
        '*',
        'ty',
        'budget.funded',
        'tn',
        tenant.id,
        'ac',
        'admin',
      );
      await on.stored.redis.xadd(tenantEventsKey(tag, tenant.id), entryId as string, 'y', 'budget.funded');
    }
    return tenant;
  }

  /** Makes the store fail at the nth run of the script that queues. */
  function failAtRun(failing: number): void {
    const { scripts } = on.holdfast.app.get(RedisService, { strict: false });
    const call = scripts.call.bind(scripts) as (...given: unknown[]) => Promise<never>;
    let runs = 0;
    jest.spyOn(scripts, 'call').mockImplementation((name: string, ...rest: unknown[]) => {
      runs += name === 'replay_events' ? 1 : 0;
      return name === 'replay_events' && runs === failing
        ? Promise.reject(new StoreUnavailable('connection', 'gone'))
        : call(name, ...rest);
    });
  }

  afterEach(() => {
    jest.restoreAllMocks();
  });

  test('that a store failure ends half-way keeps what it has queued, and reports the count', async () => {
    shows('replay count');
    const tenant = await withFundings(150);
    const id = await subscribe(tenant.id, { event_types: ['budget.funded'] });
    failAtRun(2);
    expect(expectStatus(await replay(id, { max_events: 1000 }), 202).events_queued).toBe(100);
    expect(await queue(tenant, id)).toHaveLength(100);
  });

  test('that a store failure ends immediately is 503, and queues nothing', async () => {
    const tenant = await withFundings(2);
    const id = await subscribe(tenant.id, { event_types: ['budget.funded'] });
    failAtRun(1);
    expectStatus(await replay(id), 503);
    expect(await queue(tenant, id)).toEqual([]);
  });
});

describe('a replay is refused', () => {
  test('when the window holds more than max_events, and nothing is queued', async () => {
    shows('replay complete');
    const tenant = await withBudgets(3);
    const id = await subscribe(tenant.id);
    const before = await replays('rejected');
    expect(expectRefusal(await replay(id, { max_events: 2 }), 400, 'INVALID_REQUEST').message).toContain(
      'raise max_events',
    );
    expect(await deliveries(id)).toEqual([]);
    expect(await replays('rejected')).toBe(before + 1);
    expect(expectStatus(await replay(id, { max_events: 3 }), 202).events_queued).toBe(3);
  });

  test.each([
    { max_events: 0 },
    { max_events: 1001 },
    { max_events: 1.5 },
    { from: 'yesterday' },
    { to: '' },
    { event_types: ['no.such'] },
    { event_types: 'budget.created' },
    { speed: 1 },
  ])('with %j', async (body) => {
    const tenant = await on.holdfast.createTenant();
    expectRefusal(await replay(await subscribe(tenant.id), body), 400, 'INVALID_REQUEST');
  });

  test('when the window has more entries than one replay reads', async () => {
    shows('replay complete');
    const tenant = await withBudgets(3);
    for (let index = 0; index < 300; index += 1) {
      await on.stored.redis.xadd(
        tenantEventsKey(on.stored.tagOf(tenant.id), tenant.id),
        '*',
        'y',
        'budget.updated',
      );
    }
    const id = await subscribe(tenant.id);
    const target = await on.holdfast.app.get(SubscriptionCache, { strict: false }).find(id);
    const selection = on.holdfast.app.get(ReplaySelection, { strict: false });
    await expect(selection.select(target as NonNullable<typeof target>, {}, 250)).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      message: expect.stringContaining('250 events that one replay examines'),
    });
    expect(await selection.select(target as NonNullable<typeof target>, {}, 1000)).toHaveLength(3);
  });

  test('while another one is in progress, that is, until everything it queued was attempted once', async () => {
    shows('one replay');
    const tenant = await withBudgets(3);
    const id = await subscribe(tenant.id);
    const before = await replays('in_progress');
    expectStatus(await replay(id), 202);
    expectRefusal(await replay(id), 409, 'REPLAY_IN_PROGRESS');
    expect(await deliveries(id)).toHaveLength(3);
    expect(await replays('in_progress')).toBe(before + 1);
    await tryAll(tenant, id, 'RETRYING');
    expect(expectStatus(await replay(id), 202).events_queued).toBe(3);
    const another = await subscribe(tenant.id);
    expect(expectStatus(await replay(another), 202).events_queued).toBe(3);
  });

  test('all but one of several at the same moment', async () => {
    shows('one replay');
    const tenant = await withBudgets(2);
    const id = await subscribe(tenant.id);
    const answers = await Promise.all(Array.from({ length: 8 }, () => replay(id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, ...Array<number>(7).fill(409)]);
    expect(await deliveries(id)).toHaveLength(2);
  });

  test('for a while after an instance died in the middle of one', async () => {
    const tenant = await withBudgets(1);
    const id = await subscribe(tenant.id);
    const key = replayKey(on.stored.tagOf(tenant.id), id);
    const { scripts } = on.holdfast.app.get(RedisService, { strict: false });
    expect(
      await scripts.run(
        'start_replay',
        [webhookKey(on.stored.tagOf(tenant.id), id), key],
        [tenant.id, 'rpl_dead', 60_000, ''],
      ),
    ).toEqual(['STARTED']);
    expectRefusal(await replay(id), 409, 'REPLAY_IN_PROGRESS');
    const ttl = await on.stored.redis.pttl(key);
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(60_000);
    await on.stored.redis.del(key);
    expectStatus(await replay(id), 202);
  });

  test('for a subscription that does not exist, for a closed tenant, and for tenants', async () => {
    shows('test after close');
    const tenant = await withBudgets(1);
    const id = await subscribe(tenant.id);
    expectRefusal(await replay('whsub_00aaaaaaaaaaaaaaaa'), 404, 'WEBHOOK_NOT_FOUND');
    expectRefusal(await replay('nothing'), 404, 'WEBHOOK_NOT_FOUND');
    expectRefusal(
      await on.holdfast.call('POST', `/v1/admin/webhooks/${id}/replay`, { key: tenant.key, body: {} }),
      401,
      'UNAUTHORIZED',
    );
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    expectRefusal(await replay(id), 409, 'TENANT_CLOSED');
    expect(await deliveries(id)).toEqual([]);
  });
});

test('nothing is replayed to a paused subscription, whatever the window holds', async () => {
  shows('replay count');
  const tenant = await withBudgets(3);
  const id = await subscribe(tenant.id);
  expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/webhooks/${id}`, { status: 'PAUSED' }), 200);
  const before = await replays('inactive');
  for (const body of [{}, { max_events: 1 }]) {
    expect(expectStatus(await replay(id, body), 202)).toEqual({
      replay_id: expect.stringMatching(/^rpl_/),
      events_queued: 0,
    });
  }
  expect(await deliveries(id)).toEqual([]);
  expect(await replays('inactive')).toBe(before + 2);
  expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/webhooks/${id}`, { status: 'ACTIVE' }), 200);
  expect(expectStatus(await replay(id), 202).events_queued).toBe(3);
});
