import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  burnRateKey,
  burnRatesCheckedKey,
  reservationKey,
  tagOfReservationId,
} from '../../src/redis/keyspace.js';
import { BurnRates } from '../../src/spikes/burn-rates.js';
import { ServiceRates } from '../../src/spikes/service-rates.js';
import { TenantRates } from '../../src/spikes/tenant-rates.js';
import { RequestMetrics } from '../../src/telemetry/index.js';
import { shows } from '../compatibility/shows.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const PARTITIONS = 64;

describe('two instances', () => {
  const on = useGovernance();
  let other: Holdfast;
  beforeAll(async () => {
    other = await Holdfast.start({ REDIS_URL: on.redis.url });
  });
  afterAll(() => other.stop());

  const instances = (): Holdfast[] => [on.holdfast, other];
  const countTenants = (): Promise<unknown> =>
    Promise.all(instances().map((instance) => instance.app.get(TenantRates).count(10_000)));
  const countService = (): Promise<unknown> =>
    Promise.all(instances().map((instance) => instance.app.get(ServiceRates).count()));

  const eventsOf = async (tenantId: string, type: string): Promise<Json[]> =>
    expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenantId}&event_type=${type}`),
      200,
    ).events.map(({ data }: Json) => data);

  const emitted = async (type: string): Promise<number> => {
    const counts = await Promise.all(
      instances().map((instance) => instance.metric('holdfast_spike_events_total', { event_type: type })),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  };

  const deny = async (
    tenant: TestTenant,
    times: number,
    more: Record<string, unknown> = {},
  ): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await on.holdfast.reserve(tenant, 1_000_000, more);
    }
  };
  const subscribe = async (tenantId: string, type: string, thresholds: object): Promise<void> => {
    const body = { url: PUBLIC_URL, event_types: [type], thresholds };
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenantId}`, body), 201);
  };

  test('emit a spike of denials once per window, and again in the next one', async () => {
    shows('rate spikes', 'event payload');
    const type = 'reservation.denial_rate_spike';
    const before = await emitted(type);
    const tenant = await on.holdfast.fundedTenant();
    for (let made = 0; made < 4; made += 1) {
      expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    }
    await deny(tenant, 12);
    await countTenants();
    const spike = {
      metric: 'denial_rate',
      current_rate: 2.4,
      threshold_rate: 0.1,
      window_seconds: 300,
      sample_count: 12,
      current_fraction: 0.75,
    };
    expect(await eventsOf(tenant.id, type)).toEqual([spike]);
    await deny(tenant, 1);
    await countTenants();
    expect(await eventsOf(tenant.id, type)).toHaveLength(1);
    // The window ends.
    const tag = on.stored.tagOf(tenant.id);
    await on.stored.redis.del(`${tag}rate-told:${tenant.id}:denial_rate:0.1:300`);
    await deny(tenant, 1);
    await countTenants();
    expect((await eventsOf(tenant.id, type)).map(({ sample_count: count }) => count)).toEqual([14, 12]);
    expect((await emitted(type)) - before).toBe(2);
  });

  test('emit none for few denials, for a low rate, and for decisions and dry runs', async () => {
    shows('rate spikes');
    const type = 'reservation.denial_rate_spike';
    const [few, low, evaluated] = [
      await on.holdfast.fundedTenant(),
      await on.holdfast.fundedTenant(),
      await on.holdfast.fundedTenant(),
    ];
    await deny(few, 9);
    await deny(evaluated, 12, { dry_run: true });
    await deny(low, 10);
    await subscribe(low.id, type, { denial_rate_threshold: 1 });
    await countTenants();
    for (const { id } of [few, low, evaluated]) {
      expect(await eventsOf(id, type)).toEqual([]);
    }
  });

  test('check each threshold and window that the subscriptions of a tenant and of operators name', async () => {
    shows('rate spikes');
    const type = 'reservation.denial_rate_spike';
    const tenant = await on.holdfast.fundedTenant();
    await subscribe(tenant.id, type, { denial_rate_threshold: 0.5, rate_window_seconds: 86_400 });
    await subscribe(tenant.id, type, { denial_rate_threshold: 0.25 });
    await subscribe(tenant.id, 'reservation.denied', { denial_rate_threshold: 0.01 });
    await deny(tenant, 10);
    await countTenants();
    const told = await eventsOf(tenant.id, type);
    expect(told.map((data) => [data.threshold_rate, data.window_seconds]).sort()).toEqual([
      [0.25, 300],
      [0.5, 86_400],
    ]);
  });

  test('emit a spike of expirations', async () => {
    shows('rate spikes', 'event payload');
    const type = 'reservation.expiry_rate_spike';
    const before = await emitted(type);
    const tenant = await on.holdfast.fundedTenant();
    for (let made = 0; made < 20; made += 1) {
      const id = await on.holdfast.hold(tenant, 1);
      if (made % 2 === 0) {
        await on.stored.redis.hset(reservationKey(tagOfReservationId(id, PARTITIONS) as string, id), {
          ex: '1000',
        });
        await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key });
      }
    }
    await countTenants();
    expect(await eventsOf(tenant.id, type)).toMatchObject([
      { metric: 'expiry_rate', threshold_rate: 0.05, sample_count: 10, current_fraction: 0.5 },
    ]);
    expect((await emitted(type)) - before).toBe(1);
  });

  test('add up their failed authentications, and emit their rate once', async () => {
    shows('rate spikes', 'event payload');
    const type = 'api_key.auth_failure_rate_spike';
    await subscribe('__system__', type, { auth_failure_rate_threshold: 0.0001 });
    for (const instance of instances()) {
      for (let time = 0; time < 6; time += 1) {
        await instance.call('GET', '/v1/balances?tenant=x', { key: 'wrong' });
      }
    }
    await countService();
    await countService();
    const told = await eventsOf('__system__', type);
    expect(told).toMatchObject([
      { metric: 'auth_failure_rate', threshold_rate: 0.0001, window_seconds: 300 },
    ]);
    expect(told[0].sample_count).toBeGreaterThanOrEqual(10);
    expect(told[0].current_fraction).toBeLessThan(1);
    expect(await emitted(type)).toBe(1);
  });

  test('add up the durations of an operation, and emit once that its 99th percentile is high', async () => {
    shows('high latency', 'event payload');
    const took = (instance: Holdfast, ms: number, url: string): void =>
      instance.app
        .get(RequestMetrics)
        .observe(
          { method: 'POST', is404: false, routeOptions: { url } } as FastifyRequest,
          { elapsedTime: ms, statusCode: 200, getHeader: () => undefined } as unknown as FastifyReply,
        );
    const [decide, debit] = ['/v1/decide', '/v1/events'];
    for (const instance of instances()) {
      for (let time = 0; time < 50; time += 1) {
        took(instance, 3, decide);
      }
    }
    took(on.holdfast, 2000, decide);
    // Too few to be evaluated.
    took(on.holdfast, 2000, debit);
    await countService();
    expect(await eventsOf('__system__', 'system.high_latency')).toEqual([]);
    took(other, 2000, decide);
    await countService();
    took(other, 2000, decide);
    await countService();
    expect(await eventsOf('__system__', 'system.high_latency')).toEqual([
      {
        component: 'api',
        message: 'the 99th percentile of decide exceeds the threshold',
        severity: 'warning',
        details: {
          operation: 'decide',
          p99_ms: expect.any(Number),
          threshold_ms: 1000,
          window_seconds: 300,
          sample_count: 102,
        },
      },
    ]);
    expect(await emitted('system.high_latency')).toBe(1);
  });

  test('report once that a budget is spent faster than before, if a subscription asks for it', async () => {
    shows('burn rate', 'event payload');
    const type = 'budget.burn_rate_anomaly';
    const [tenant, unwatched] = [await on.holdfast.fundedTenant(), await on.holdfast.fundedTenant()];
    const spend = async (amount: number): Promise<void> => {
      for (const who of [tenant, unwatched]) {
        const id = await on.holdfast.hold(who, amount);
        expectStatus(await on.holdfast.commit(who, id, amount), 200);
      }
    };
    const check = (): Promise<unknown> =>
      Promise.all(instances().map((instance) => instance.app.get(BurnRates).check(10_000)));
    await subscribe(tenant.id, type, { burn_rate_multiplier: 4, burn_rate_window_seconds: 60 });
    await subscribe(tenant.id, type, { burn_rate_multiplier: 5, burn_rate_window_seconds: 60 });
    const tag = on.stored.tagOf(tenant.id);
    const rates = (id: string): string => burnRateKey(tag, 60, 'TOKENS', `tenant:${id}`);
    /** Lets a window pass, and returns its minutes: one, and the time until the check. */
    const pass = async (): Promise<number> => {
      const look = async (): Promise<string[]> =>
        ((await on.stored.redis.get(rates(tenant.id))) ?? '').split(' ');
      const [at, ...rest] = await look();
      const began = Number(at) - 60_000;
      await on.stored.redis.set(rates(tenant.id), [began, ...rest].join(' '));
      await on.stored.redis.del(burnRatesCheckedKey(tag, tenant.id));
      await check();
      return (Number((await look())[0]) - began) / 60_000;
    };
    await spend(10);
    await check();
    let before = 0;
    for (const amount of [10, 10, 10]) {
      await spend(amount);
      before += amount / (await pass());
    }
    await spend(39);
    before += 39 / (await pass());
    expect(await eventsOf(tenant.id, type)).toEqual([]);
    await spend(100);
    const rate = 100 / (await pass());
    await check();
    expect(await eventsOf(tenant.id, type)).toEqual([
      {
        scope: `tenant:${tenant.id}`,
        unit: 'TOKENS',
        current_rate: expect.closeTo(rate, 3),
        baseline_rate: expect.closeTo(before / 4, 3),
        multiplier: expect.closeTo((rate * 4) / before, 3),
        window_seconds: 60,
        projected_exhaustion_minutes: expect.closeTo((1000 - 10 - 69 - 100) / rate, 2),
      },
    ]);
    expect(await emitted(type)).toBe(1);
    // A reset starts anew, and nothing is kept for a tenant that nobody watches.
    const fund = {
      operation: 'RESET_SPENT',
      amount: { unit: 'TOKENS', amount: 1000 },
      idempotency_key: 'reset',
    };
    const query = `tenant_id=${tenant.id}&scope=tenant:${tenant.id}&unit=TOKENS`;
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/fund?${query}`, fund), 200);
    await pass();
    expect(await eventsOf(tenant.id, type)).toHaveLength(1);
    expect(await on.stored.redis.get(rates(tenant.id))).toMatch(/^\d+ 0 \S+ 5$/);
    expect(
      await on.stored.redis.exists(
        burnRateKey(on.stored.tagOf(unwatched.id), 60, 'TOKENS', `tenant:${unwatched.id}`),
      ),
    ).toBe(0);
  });

  test('count the entries they read, and the runs that end because of the time limit', async () => {
    const sum = async (name: string): Promise<number> => {
      const counts = await Promise.all(instances().map((instance) => instance.metric(name)));
      return counts.reduce((total, count) => total + count, 0);
    };
    const [events, cuts] = ['holdfast_spike_events_counted_total', 'holdfast_spike_runs_cut_total'] as const;
    const before = [await sum(events), await sum(cuts)] as const;
    await deny(await on.holdfast.fundedTenant(), 2);
    await on.holdfast.app.get(TenantRates).count(-1);
    expect((await sum(cuts)) - before[1]).toBeGreaterThanOrEqual(1);
    await countTenants();
    expect((await sum(events)) - before[0]).toBe(2);
  });

  test('watch existing routes', async () => {
    const tenant = await on.holdfast.fundedTenant();
    const id = await on.holdfast.hold(tenant, 1);
    const commit = { actual: { unit: 'TOKENS', amount: 1 }, idempotency_key: 'k' };
    expectStatus(await on.holdfast.settle(tenant, 'commit', id, commit), 200);
    const requests = on.holdfast.app.get(RequestMetrics);
    for (const uri of ['/v1/reservations', '/v1/reservations/:reservation_id/commit']) {
      const counted = requests.bucketsOf('POST', uri).reduce((sum, bucket) => sum + bucket.requests, 0);
      expect(`${uri} ${counted > 0}`).toBe(`${uri} true`);
    }
  });
});
