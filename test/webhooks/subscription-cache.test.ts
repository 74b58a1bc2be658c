import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { CyclesEvent } from '../../src/events/event.js';
import { categoryOf } from '../../src/ledger/event-types.js';
import { webhookRevisionKey } from '../../src/redis/keyspace.js';
import { LOGGER, type Logger } from '../../src/telemetry/logger.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import type { DispatchTarget } from '../../src/webhooks/subscriptions/dispatch-target.js';
import { SubscriptionCache } from '../../src/webhooks/subscriptions/subscription-cache.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import { HeldReplies } from '../support/held-replies.js';
import { expectStatus, type Json } from '../support/holdfast.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';
import { PUBLIC_URL, storedWebhookKey, Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
let running: RunningService;
let book: SubscriptionCache;

beforeAll(async () => {
  running = await startRedisService({ REDIS_URL: on.redis.url });
});

afterAll(() => stopAllRedisServices());

beforeEach(() => {
  book = newBook();
});

/** Operators' subscriptions see every tenant, so they must not outlive their test. */
afterEach(async () => {
  const body = {
    filter: { tenant_id: '__system__' },
    action: 'DELETE',
    idempotency_key: `end-${performance.now()}`,
  };
  expectStatus(await on.holdfast.admin('POST', '/v1/admin/webhooks/bulk-action', body), 200);
});

function newBook(): SubscriptionCache {
  return new SubscriptionCache(
    running.service,
    on.holdfast.app.get(MetricsRegistry),
    on.holdfast.app.get<Logger>(LOGGER),
  );
}

const subscriber = (): Promise<Subscriber> => Subscriber.make(on.holdfast, on.stored);
const ofOperators = async (more: Record<string, unknown> = {}): Promise<Json> =>
  expectStatus(
    await on.holdfast.admin('POST', '/v1/admin/webhooks', {
      url: PUBLIC_URL,
      event_types: ['reservation.expired'],
      ...more,
    }),
    201,
  ).subscription;

function event(tenantId: string, type: string, more: Partial<CyclesEvent> = {}): CyclesEvent {
  const timestamp = new Date(8_640_000_000_000_000).toISOString();
  return {
    event_id: 'evt_1',
    event_type: type,
    category: categoryOf(type),
    timestamp,
    tenant_id: tenantId,
    source: 'holdfast',
    data: {},
    ...more,
  };
}

/** The names of the subscriptions that get an event. */
async function toldOf(told: CyclesEvent): Promise<string[]> {
  await book.refresh([told.tenant_id]);
  return book
    .matching(told)
    .map(({ subscriptionId }) => subscriptionId)
    .sort();
}

describe('an event is for the subscriptions', () => {
  test('that name its type or its category', async () => {
    shows('subscription filters');
    const tenant = await subscriber();
    const byType = await tenant.made({ event_types: ['budget.funded', 'tenant.updated'] });
    const byBoth = await tenant.made({ event_types: ['tenant.updated'], event_categories: ['budget'] });
    const byCategory = await tenant.made();
    expectStatus(
      await tenant.patch(byCategory.subscription_id, { event_types: [], event_categories: ['budget'] }),
      200,
    );
    const [one, two, three] = [byType, byBoth, byCategory].map(({ subscription_id: id }) => id as string) as [
      string,
      string,
      string,
    ];
    expect(await toldOf(event(tenant.id, 'budget.funded'))).toEqual([one, two, three].sort());
    expect(await toldOf(event(tenant.id, 'budget.created'))).toEqual([two, three].sort());
    expect(await toldOf(event(tenant.id, 'tenant.updated'))).toEqual([one, two].sort());
    expect(await toldOf(event(tenant.id, 'reservation.expired'))).toEqual([]);
  });

  test('of its own tenant, and of the operators, who see all tenants', async () => {
    shows('no foreign events');
    const [one, two] = [await subscriber(), await subscriber()];
    const own = await one.made();
    const everybody = await ofOperators();
    expect(await toldOf(event(one.id, 'reservation.expired'))).toEqual(
      [own.subscription_id, everybody.subscription_id].sort(),
    );
    expect(await toldOf(event(two.id, 'reservation.expired'))).toEqual([everybody.subscription_id]);
    expect(await toldOf(event('__system__', 'reservation.expired'))).toEqual([everybody.subscription_id]);
  });

  test("and never for a tenant's when it is the operators' own, whatever its stored selectors say", async () => {
    shows('no foreign events');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const types = [
      'api_key.created',
      'policy.updated',
      'webhook.deleted',
      'system.high_latency',
      'custom.anything',
    ];
    await on.stored.redis.hset(storedWebhookKey(id), {
      et: ['reservation.expired', ...types].join(','),
      ec: 'api_key,policy,webhook,system',
    });
    const monitor = await ofOperators({ event_types: types.slice(0, 4), event_categories: ['system'] });
    for (const type of types) {
      expect([type, await toldOf(event(tenant.id, type))]).toEqual([type, [monitor.subscription_id]]);
    }
    expect(await toldOf(event(tenant.id, 'reservation.expired'))).toEqual([id]);
  });

  test('whose scope filter matches, a wildcard standing for any characters; events without a scope match none', async () => {
    shows('subscription filters');
    const tenant = await subscriber();
    const filters = {
      all: `tenant:${tenant.id}*`,
      below: `tenant:${tenant.id}/*`,
      exact: `tenant:${tenant.id}/Workspace:Prod`,
      agents: '*/agent:bot',
      foreign: 'tenant:other/*',
    };
    const ids = new Map<string, string>();
    for (const [name, filter] of Object.entries(filters)) {
      ids.set((await tenant.made({ scope_filter: filter })).subscription_id as string, name);
    }
    ids.set((await tenant.made()).subscription_id as string, 'unfiltered');
    const names = async (scope: string | undefined): Promise<string[]> =>
      (await toldOf(event(tenant.id, 'reservation.expired', scope === undefined ? {} : { scope })))
        .map((id) => ids.get(id) as string)
        .sort();
    expect(await names(`tenant:${tenant.id}`)).toEqual(['all', 'unfiltered']);
    expect(await names(`tenant:${tenant.id}/workspace:prod`)).toEqual([
      'all',
      'below',
      'exact',
      'unfiltered',
    ]);
    expect(await names(`tenant:${tenant.id}/workspace:prod/agent:bot`)).toEqual([
      'agents',
      'all',
      'below',
      'unfiltered',
    ]);
    expect(await names(undefined)).toEqual(['unfiltered']);
  });

  test('that select this threshold: their own ones, or else the default ones', async () => {
    shows('utilization thresholds');
    const tenant = await subscriber();
    const { subscription_id: usual } = await tenant.made({ event_types: ['budget.threshold_crossed'] });
    const { subscription_id: half } = await tenant.made({
      event_types: ['budget.threshold_crossed'],
      thresholds: { budget_utilization: [0.5, 1] },
    });
    const at = (threshold: number): Promise<string[]> =>
      toldOf(event(tenant.id, 'budget.threshold_crossed', { data: { threshold } }));
    expect(await at(0.5)).toEqual([half]);
    expect(await at(0.8)).toEqual([usual]);
    expect(await at(1)).toEqual([usual, half].sort());
  });

  test('that select this rate over this window: their own ones, or else the default ones', async () => {
    shows('rate spikes');
    const tenant = await subscriber();
    const select = { event_types: ['reservation.denial_rate_spike'] };
    const { subscription_id: usual } = await tenant.made(select);
    const { subscription_id: own } = await tenant.made({
      ...select,
      thresholds: { denial_rate_threshold: 0.25, rate_window_seconds: 60 },
    });
    const at = (threshold: number, seconds: number): Promise<string[]> =>
      toldOf(
        event(tenant.id, 'reservation.denial_rate_spike', {
          data: { threshold_rate: threshold, window_seconds: BigInt(seconds) },
        }),
      );
    expect(await at(0.1, 300)).toEqual([usual]);
    expect(await at(0.25, 60)).toEqual([own]);
    expect(await at(0.25, 300)).toEqual([]);
  });

  test('that select this burn rate: from their own multiplier on, over their own window', async () => {
    shows('burn rate');
    const tenant = await subscriber();
    const select = { event_types: ['budget.burn_rate_anomaly'] };
    const { subscription_id: usual } = await tenant.made(select);
    const { subscription_id: own } = await tenant.made({
      ...select,
      thresholds: { burn_rate_multiplier: 5 },
    });
    const at = (multiplier: number, seconds: number): Promise<string[]> =>
      toldOf(
        event(tenant.id, 'budget.burn_rate_anomaly', {
          data: { multiplier, window_seconds: BigInt(seconds) },
        }),
      );
    expect(await at(2.9, 300)).toEqual([]);
    expect(await at(3, 300)).toEqual([usual]);
    expect(await at(5, 300)).toEqual([usual, own].sort());
    expect(await at(5, 60)).toEqual([]);
  });

  test('that are active, and were created before it', async () => {
    const tenant = await subscriber();
    const { subscription_id: id, created_at: madeAt } = await tenant.made();
    const earlier = new Date(Date.parse(madeAt as string) - 1).toISOString();
    expect(await toldOf(event(tenant.id, 'reservation.expired', { timestamp: earlier }))).toEqual([]);
    expect(await toldOf(event(tenant.id, 'reservation.expired', { timestamp: madeAt as string }))).toEqual([
      id,
    ]);
    expectStatus(await tenant.patch(id, { status: 'PAUSED' }), 200);
    expect(await toldOf(event(tenant.id, 'reservation.expired'))).toEqual([]);
    expectStatus(await tenant.patch(id, { status: 'ACTIVE' }), 200);
    expect(await toldOf(event(tenant.id, 'reservation.expired'))).toEqual([id]);
    expect((await tenant.remove(id)).status).toBe(204);
    expect(await toldOf(event(tenant.id, 'reservation.expired'))).toEqual([]);
  });
});

describe('the cache of subscriptions', () => {
  test("is read again for an owner only after a change of that owner's", async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    await book.refresh([tenant.id]);
    const [first] = book.matching(event(tenant.id, 'reservation.expired'));
    await on.stored.redis.hset(storedWebhookKey(id), 'ur', 'https://93.184.216.34/behind-the-back');
    await book.refresh([tenant.id]);
    expect(book.matching(event(tenant.id, 'reservation.expired'))[0]).toBe(first);
    const other = await tenant.made();
    await book.refresh([tenant.id]);
    expect(
      book.matching(event(tenant.id, 'reservation.expired')).map(({ subscriptionId }) => subscriptionId),
    ).toEqual([id, other.subscription_id]);
    expect(book.matching(event(tenant.id, 'reservation.expired'))[0]).toBe(first);
    expectStatus(await tenant.patch(id, { name: 'changed' }), 200);
    await book.refresh([tenant.id]);
    expect(book.matching(event(tenant.id, 'reservation.expired'))[0]?.url).toBe(
      'https://93.184.216.34/behind-the-back',
    );
  });

  test.each([
    ['the first', false],
    ['a later', true],
  ])(
    'keeps the later of two readings, also if the earlier one is %s and is answered last',
    async (_, isKnown) => {
      const tenant = await subscriber();
      const first = await tenant.made();
      if (isKnown) {
        await book.refresh([tenant.id]);
      }
      const earlier = new HeldReplies(running.service.scripts, 'call');
      const overtaken = book.refresh([tenant.id]);
      // Of the tenant and of the operators.
      await earlier.have(2);
      const second = await tenant.made();
      await book.refresh([tenant.id]);
      earlier.open();
      await overtaken;
      expect(
        book
          .matching(event(tenant.id, 'reservation.expired'))
          .map(({ subscriptionId }) => subscriptionId)
          .sort(),
      ).toEqual([first.subscription_id, second.subscription_id].sort());
    },
  );

  test("says whether any subscription could select a tenant's events", async () => {
    const [one, two] = [await subscriber(), await subscriber()];
    await one.made();
    await book.refresh([one.id, two.id]);
    expect([book.hasTargets(one.id), book.hasTargets(two.id), book.hasTargets('never-asked')]).toEqual([
      true,
      false,
      false,
    ]);
    await ofOperators();
    await book.refresh([two.id]);
    expect([book.hasTargets(two.id), book.hasTargets('never-asked')]).toEqual([true, true]);
  });

  test.each(['rp', 'ur', 'se', 'df', 'ca'])(
    'leaves out a subscription whose record lacks %s, logs it, and keeps the others',
    async (field) => {
      const tenant = await subscriber();
      const [damaged, sound] = [await tenant.made(), await tenant.made()];
      await on.stored.redis.hdel(storedWebhookKey(damaged.subscription_id), field);
      const before = await on.holdfast.metric('holdfast_webhook_subscriptions_unreadable_total');
      expect(await toldOf(event(tenant.id, 'reservation.expired'))).toEqual([sound.subscription_id]);
      expect(await on.holdfast.metric('holdfast_webhook_subscriptions_unreadable_total')).toBeGreaterThan(
        before ?? 0,
      );
    },
  );

  test('is read for many tenants at once', async () => {
    const tenants = await Promise.all(Array.from({ length: 6 }, () => subscriber()));
    const ids = await Promise.all(
      tenants.map(async (tenant) => (await tenant.made()).subscription_id as string),
    );
    await book.refresh(tenants.map(({ id }) => id));
    expect(
      tenants.map(({ id }) =>
        book.matching(event(id, 'reservation.expired')).map(({ subscriptionId }) => subscriptionId),
      ),
    ).toEqual(ids.map((id) => [id]));
  });
});

describe('one subscription', () => {
  const find = (id: string): Promise<DispatchTarget | undefined> => newBook().find(id);

  test('returns a subscription in any status, with what a delivery needs, encrypted', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made({
      headers: { 'X-A': '1' },
      disable_after_failures: 4,
      retry_policy: { max_retries: 1, initial_delay_ms: 100, backoff_multiplier: 3, max_delay_ms: 1000 },
    });
    expectStatus(await tenant.patch(id, { status: 'PAUSED' }), 200);
    expect(await find(id)).toMatchObject({
      subscriptionId: id,
      owner: tenant.id,
      status: 'PAUSED',
      url: PUBLIC_URL,
      headers: expect.stringMatching(/^enc2:/),
      secrets: [expect.stringMatching(/^enc2:/)],
      retry: { maxRetries: 1, initialDelayMs: 100, multiplier: 3, maxDelayMs: 1000 },
      disableAfterFailures: 4,
    });
    expect((await tenant.remove(id)).status).toBe(204);
    expect(await find(id)).toBeUndefined();
    expect(await find('whsub_nothing')).toBeUndefined();
  });

  test('is checked again before the last check has lapsed, while attempts go on with what is known', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const target = await book.find(id);
    const { scripts } = running.service;
    const call = scripts.call.bind(scripts);
    let asked = 0;
    let answer: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    const holding = async (...given: Parameters<typeof call>) => {
      asked += 1;
      await held;
      return call(...given);
    };
    Object.assign(scripts, { call: holding });
    /** As if the last check were so old. */
    const checkedAgo = (ms: number): void => {
      for (const check of (book as unknown as { checks: Map<string, { at: number }> }).checks.values()) {
        check.at = performance.now() - ms;
      }
    };
    try {
      checkedAgo(0);
      expect(await book.find(id)).toBe(target);
      expect(asked).toBe(0);
      checkedAgo(30);
      expect([await book.find(id), await book.find(id)]).toEqual([target, target]);
      expect(asked).toBe(1);
      expectStatus(await tenant.patch(id, { status: 'PAUSED' }), 200);
      checkedAgo(50);
      const next = book.find(id);
      answer();
      expect(await next).toMatchObject({ status: 'PAUSED' });
      expect(asked).toBe(2);
    } finally {
      answer();
      Object.assign(scripts, { call });
    }
  });

  test('is as old as the question about it, however late the answer comes', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const reply = new HeldReplies(running.service.scripts, 'call');
    const asked = performance.now();
    const first = book.find(id);
    await reply.have(1);
    expectStatus(await tenant.patch(id, { status: 'PAUSED' }), 200);
    await eventually('a check of then has lapsed', () => performance.now() - asked > 50);
    reply.open();
    expect(await first).toMatchObject({ status: 'ACTIVE' });
    expect(await book.find(id)).toMatchObject({ status: 'PAUSED' });
  });

  test('has two secrets during a rotation, the new one first, and one after a day', async () => {
    shows('secret rotation');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const [before] = (await find(id))?.secrets ?? [];
    expectStatus(await tenant.patch(id, { signing_secret: 'another-secret' }), 200);
    const during = (await find(id))?.secrets ?? [];
    expect(during).toHaveLength(2);
    expect(during[1]).toBe(before);
    await on.stored.redis.hset(storedWebhookKey(id), 'su', 1);
    expect((await find(id))?.secrets).toEqual([during[0]]);
  });

  test('keeps the same object until it is changed, whatever deliveries write into its record', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const first = await book.find(id);
    await on.stored.redis.hset(storedWebhookKey(id), { cf: '3', lt: '1' });
    await on.stored.redis.incr(webhookRevisionKey(on.stored.tagOf(tenant.id)));
    expect(await book.find(id)).toBe(first);
    expectStatus(await tenant.patch(id, { disable_after_failures: 7 }), 200);
    await eventually('the edit counts', async () => (await book.find(id)) !== first);
    expect(await book.find(id)).toMatchObject({ disableAfterFailures: 7 });
  });
});
