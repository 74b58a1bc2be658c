import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { EventWindow } from '../../src/overview/event-window.js';
import { OverviewService } from '../../src/overview/overview.service.js';
import { treeOrder } from '../../src/ledger/scopes.js';
import { budgetIndexKey, eventLogKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { StoredHolds } from '../support/stored-holds.js';
import { storedWebhookKey, Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const PATH = '/v1/admin/overview';
const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });

describe('the overview', () => {
  const on = useGovernance();

  const read = async (): Promise<Json> => expectStatus(await on.holdfast.admin('GET', PATH), 200);
  const patch = async (tenant: TestTenant, status: string): Promise<Json> =>
    expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status }), 200);

  test('is 429 until everything has been counted once, and then up to date; metrics count both', async () => {
    const figures = (name: string): Promise<number> =>
      on.holdfast.metric('holdfast_overviews_total', { figures: name });
    await expect(on.holdfast.app.get(OverviewService).read(0)).rejects.toThrow('for the first time');
    expect([await figures('none'), await figures('fresh')]).toEqual([1, 0]);
    await read();
    expect([await figures('none'), await figures('fresh')]).toEqual([1, 1]);
  });

  test('of an empty deployment has zeros and empty lists, and every member that dashboards read', async () => {
    shows('getAdminOverview');
    expect(await read()).toEqual({
      as_of: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      event_window_seconds: 3600,
      tenant_counts: { total: 0, active: 0, suspended: 0, closed: 0, in_observe_mode: 0 },
      budget_counts: {
        total: 0,
        active: 0,
        frozen: 0,
        closed: 0,
        over_limit: 0,
        with_debt: 0,
        by_unit: { USD_MICROCENTS: 0, TOKENS: 0, CREDITS: 0, RISK_POINTS: 0 },
      },
      over_limit_scopes: [],
      debt_scopes: [],
      webhook_counts: { total: 0, active: 0, disabled: 0, with_failures: 0 },
      failing_webhooks: [],
      event_counts: {
        total_recent: 0,
        by_category: { budget: 0, tenant: 0, api_key: 0, policy: 0, reservation: 0, system: 0, webhook: 0 },
      },
      recent_denials: [],
      recent_expiries: [],
      held_by_unit: { USD_MICROCENTS: 0, TOKENS: 0, CREDITS: 0, RISK_POINTS: 0 },
      recent_denials_by_reason: {},
      quota_health: { counters_above_80pct: 0, counters_at_limit: 0, top_offenders: [] },
      access_control_stats: { policies_with_allow_list: 0, policies_with_deny_list: 0 },
    });
  });

  test('counts tenants and budgets by status and unit, with each change immediately', async () => {
    shows('overview counts', 'getAdminOverview');
    const before = await read();
    const [active, suspended, closed] = [
      await on.holdfast.createTenant(),
      await on.holdfast.createTenant(),
      await on.holdfast.createTenant(),
    ];
    await on.holdfast.createBudget(active, '', 100);
    await on.holdfast.createBudget(active, '/agent:a', 5, {
      unit: 'CREDITS',
      allocated: { unit: 'CREDITS', amount: 5 },
    });
    await on.holdfast.createBudget(closed, '', 100);
    const query = `scope=tenant:${active.id}/agent:a&unit=CREDITS`;
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?${query}`), 200);
    await patch(suspended, 'SUSPENDED');
    await patch(closed, 'CLOSED');
    const after = await read();
    const difference = (group: string, name: string): number => after[group][name] - before[group][name];
    expect(
      ['total', 'active', 'suspended', 'closed'].map((name) => difference('tenant_counts', name)),
    ).toEqual([3, 1, 1, 1]);
    expect(['total', 'active', 'frozen', 'closed'].map((name) => difference('budget_counts', name))).toEqual([
      3, 1, 1, 1,
    ]);
    expect(after.budget_counts.by_unit.CREDITS - before.budget_counts.by_unit.CREDITS).toBe(1);
    expect(after.budget_counts.by_unit.TOKENS - before.budget_counts.by_unit.TOKENS).toBe(2);
    await patch(suspended, 'ACTIVE');
    expect((await read()).tenant_counts.suspended).toBe(before.tenant_counts.suspended);
  });

  test('counts tenants in observe mode, lists of action kinds, and quotas that are nearly used up', async () => {
    shows('overview of extensions');
    const before = await read();
    await on.holdfast.createTenant({ observe_mode: 'OBSERVE' });
    await on.holdfast.createTenant({ observe_mode: 'ENFORCE' });
    const tenant = await on.holdfast.createTenant();
    const scope = `tenant:${tenant.id}`;
    await on.holdfast.createBudget(tenant, '', 100);
    const quota = { action_kind: 'llm.completion', window: 'per_tenant_per_day' };
    for (const [place, more] of [
      {
        denied_action_kinds: ['code.exec'],
        action_quotas: [
          { ...quota, max_calls: 5 },
          { ...quota, max_calls: 4, window: 'per_run' },
        ],
      },
      { allowed_action_kinds: ['llm.completion'], priority: 0 },
      { priority: 0 },
    ].entries()) {
      const body = { tenant_id: tenant.id, name: `p${place}`, scope_pattern: scope, priority: 9, ...more };
      expectStatus(await on.holdfast.admin('POST', '/v1/admin/policies', body), 201);
    }
    const subject = { tenant: tenant.id, dimensions: { run_id: 'r1' } };
    for (let index = 0; index < 4; index += 1) {
      expectStatus(await on.holdfast.reserve(tenant, 1, { subject }), 200);
    }
    const after = await read();
    expect(after.tenant_counts.in_observe_mode - before.tenant_counts.in_observe_mode).toBe(1);
    expect(after.access_control_stats).toEqual({ policies_with_allow_list: 1, policies_with_deny_list: 1 });
    expect(after.quota_health).toEqual({
      counters_above_80pct: 2,
      counters_at_limit: 1,
      top_offenders: [
        { scope, action_kind: 'llm.completion', window: 'per_run', used: 4, limit: 4, utilization_pct: 1 },
        {
          scope,
          action_kind: 'llm.completion',
          window: 'per_tenant_per_day',
          used: 4,
          limit: 5,
          utilization_pct: 0.8,
        },
      ],
    });
    const other = await on.holdfast.fundedTenant(100);
    const rules = { name: 'p', scope_pattern: `tenant:${other.id}`, allowed_action_kinds: ['http.get'] };
    expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/policies', { tenant_id: other.id, ...rules }),
      201,
    );
    const action = { kind: 'code.exec', name: 'n' };
    expectRefusal(await on.holdfast.reserve(tenant, 1, { subject, action }), 409, 'ACTION_KIND_DENIED');
    expectRefusal(await on.holdfast.reserve(tenant, 1, { subject }), 409, 'ACTION_QUOTA_EXCEEDED');
    expectRefusal(await on.holdfast.reserve(other, 1), 409, 'ACTION_KIND_NOT_ALLOWED');
    expect((await read()).recent_denials_by_reason).toMatchObject({
      ACTION_KIND_DENIED: 1,
      ACTION_QUOTA_EXCEEDED: 1,
      ACTION_KIND_NOT_ALLOWED: 1,
    });
  });

  test('sums what is held by unit, each reservation once, exactly', async () => {
    const before = (await read()).held_by_unit;
    const tenant = await on.holdfast.createTenant();
    const large = 9_007_199_254_740_993n;
    const inProd = { subject: { tenant: tenant.id, workspace: 'prod', agent: 'a' } };
    await on.holdfast.createBudget(tenant, '/workspace:prod', 100, { unit: 'CREDITS' });
    await on.holdfast.createBudget(tenant, '/workspace:prod/agent:a', 100, { unit: 'CREDITS' });
    await on.holdfast.createBudget(tenant, '', 2n * large);
    await on.holdfast.createBudget(tenant, '/workspace:prod', large);
    await on.holdfast.createBudget(tenant, '/workspace:prod/agent:a', large);
    const credits = { unit: 'CREDITS', amount: 30 };
    expectStatus(await on.holdfast.reserve(tenant, 0, { ...inProd, estimate: credits }), 200);
    const held = expectStatus(await on.holdfast.reserve(tenant, large - 1n, inProd), 200);
    expectStatus(await on.holdfast.reserve(tenant, 2), 200);
    const after = (await read()).held_by_unit;
    expect(BigInt(after.TOKENS) - BigInt(before.TOKENS)).toBe(large + 1n);
    expect(after.CREDITS - before.CREDITS).toBe(30);
    expectStatus(await on.holdfast.commit(tenant, held.reservation_id as string, 1), 200);
    expect((await read()).held_by_unit.TOKENS - Number(before.TOKENS)).toBe(2);
  });

  test('lists budgets over their limit or in debt, the highest debt first, without closed ones', async () => {
    shows('overview lists');
    const debts = [30, 7, 12];
    const tenants: TestTenant[] = [];
    for (const debt of debts) {
      const tenant = await on.holdfast.fundedTenant(100, {}, { overdraft_limit: tokens(50) });
      const held = expectStatus(
        await on.holdfast.reserve(tenant, 100, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
        200,
      );
      expectStatus(await on.holdfast.commit(tenant, held.reservation_id as string, 100 + debt), 200);
      tenants.push(tenant);
    }
    const [first, second, third] = tenants as [TestTenant, TestTenant, TestTenant];
    const query = `scope=tenant:${first.id}&unit=TOKENS`;
    const lower = { overdraft_limit: tokens(20) };
    expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/budgets?${query}`, lower), 200);
    const overview = await read();
    expect(overview.budget_counts).toMatchObject({ over_limit: 1, with_debt: 3 });
    expect(overview.over_limit_scopes).toEqual([
      { scope: `tenant:${first.id}`, unit: 'TOKENS', allocated: 100, remaining: -30, debt: 30 },
    ]);
    expect(overview.debt_scopes).toEqual([
      { scope: `tenant:${first.id}`, unit: 'TOKENS', debt: 30, overdraft_limit: 20 },
      { scope: `tenant:${third.id}`, unit: 'TOKENS', debt: 12, overdraft_limit: 50 },
      { scope: `tenant:${second.id}`, unit: 'TOKENS', debt: 7, overdraft_limit: 50 },
    ]);
    for (const tenant of tenants) {
      await patch(tenant, 'CLOSED');
    }
    expect(await read()).toMatchObject({
      budget_counts: { over_limit: 0, with_debt: 0 },
      over_limit_scopes: [],
      debt_scopes: [],
    });
  });

  test('lists the ten worst of each', async () => {
    shows('overview lists');
    const tenant = await on.holdfast.fundedTenant(1);
    const template = await on.stored.redis.hgetall(on.stored.budgetKey(tenant.id));
    const index = budgetIndexKey(on.stored.tagOf(tenant.id), tenant.id);
    for (let debt = 1; debt <= 12; debt += 1) {
      const fields = { ...template, debt: `${debt}0000000000000001`, is_over_limit: '1' };
      await on.stored.redis.hset(on.stored.budgetKey(tenant.id, `/agent:n${debt}`), fields);
      await on.stored.redis.zadd(index, 0, treeOrder(`tenant:${tenant.id}/agent:n${debt} TOKENS`));
    }
    const { text } = await on.holdfast.admin('GET', PATH);
    const highest = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3].map((debt) => `${debt}0000000000000001`);
    expect([...text.matchAll(/"debt":(\d+)/g)].map(([, debt]) => debt)).toEqual(
      ['over limit', 'in debt'].flatMap(() => highest),
    );
    await on.stored.redis.del(index);
  });

  test('counts subscriptions of tenants and operators, and lists those that fail, except disabled ones', async () => {
    shows('overview counts', 'overview lists');
    const before = (await read()).webhook_counts;
    const subscriber = await Subscriber.make(on.holdfast, on.stored);
    const ids: string[] = [];
    for (let made = 0; made < 4; made += 1) {
      ids.push((await subscriber.made()).subscription_id as string);
    }
    const [healthy, paused, failing, disabled] = ids as [string, string, string, string];
    const own = expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/webhooks', {
        url: 'https://93.184.216.34/operators',
        event_types: ['tenant.closed'],
      }),
      201,
    ).subscription.subscription_id as string;
    expectStatus(await subscriber.patch(paused, { status: 'PAUSED' }), 200);
    await on.stored.redis.hset(storedWebhookKey(failing), { cf: '3', lf: '1700000000000' });
    await on.stored.redis.hset(storedWebhookKey(own), { cf: '5' });
    await on.stored.redis.hset(storedWebhookKey(disabled), { cf: '10', st: 'DISABLED' });
    const { webhook_counts: counts, failing_webhooks: listed } = await read();
    expect(counts).toEqual({
      total: before.total + 5,
      active: before.active + 3,
      disabled: before.disabled + 1,
      with_failures: 2,
    });
    expect(listed).toEqual([
      { subscription_id: own, url: 'https://93.184.216.34/operators', consecutive_failures: 5 },
      {
        subscription_id: failing,
        url: expect.stringContaining('https://'),
        consecutive_failures: 3,
        last_failure_at: '2023-11-14T22:13:20.000Z',
      },
    ]);
    expect([healthy, paused, failing, disabled, own].every((id) => id.startsWith('whsub_'))).toBe(true);
  });

  test('counts the events of the last hour by category, and shows the latest denials and expirations', async () => {
    shows('overview events');
    const before = await read();
    const tenant = await on.holdfast.fundedTenant(100);
    const asked: Json[] = [];
    for (let amount = 101; amount <= 112; amount += 1) {
      const answer = await on.holdfast.reserve(tenant, amount, { dry_run: true });
      expect(expectStatus(answer, 200)).toMatchObject({ decision: 'DENY', reason_code: 'BUDGET_EXCEEDED' });
      asked.push(answer.body);
    }
    const held = expectStatus(await on.holdfast.reserve(tenant, 5, { grace_period_ms: 0 }), 200);
    const holds = new StoredHolds(on.redis.url);
    await holds.expireIn(held.reservation_id as string, -1000);
    holds.close();
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${held.reservation_id}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
    const after = await read();
    const since = (name: string): number =>
      after.event_counts.by_category[name] - before.event_counts.by_category[name];
    expect([since('reservation'), since('tenant'), since('api_key'), since('webhook')]).toEqual([
      13, 1, 1, 0,
    ]);
    expect(after.event_counts.total_recent).toBe(
      Object.values(after.event_counts.by_category as Record<string, number>).reduce(
        (sum, count) => sum + count,
        0,
      ),
    );
    expect(after.recent_denials).toHaveLength(10);
    expect((after.recent_denials as Json[]).map(({ data }) => data.requested_amount)).toEqual([
      112, 111, 110, 109, 108, 107, 106, 105, 104, 103,
    ]);
    expect(after.recent_denials[0]).toMatchObject({
      event_type: 'reservation.denied',
      tenant_id: tenant.id,
      data: { reason_code: 'BUDGET_EXCEEDED' },
    });
    const { recent_denials_by_reason: reasons } = after;
    expect(reasons.BUDGET_EXCEEDED - (before.recent_denials_by_reason.BUDGET_EXCEEDED ?? 0)).toBe(12);
    expect(after.recent_expiries[0]).toMatchObject({
      event_type: 'reservation.expired',
      tenant_id: tenant.id,
      data: { reservation_id: held.reservation_id },
    });
    const again = await read();
    expect(again.event_counts).toEqual(after.event_counts);
    expect(again.recent_denials).toEqual(after.recent_denials);
  });

  test('counts a damaged record as far as it can be read', async () => {
    shows('overview counts');
    const tenant = await on.holdfast.fundedTenant(100);
    const before = await read();
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id), { debt: 'much', status: 'FROZEN' });
    await on.stored.setTenantStatus(tenant.id, 'BROKEN');
    const { tenant_counts: tenants, budget_counts: budgets } = await read();
    expect(tenants).toEqual({ ...before.tenant_counts, active: before.tenant_counts.active - 1 });
    expect(budgets).toEqual({
      ...before.budget_counts,
      active: before.budget_counts.active - 1,
      frozen: before.budget_counts.frozen + 1,
    });
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id), { debt: '0', status: 'ACTIVE' });
    await on.stored.setTenantStatus(tenant.id, 'ACTIVE');
  });

  test('is for operators', async () => {
    shows('overview operators only');
    const tenant = await on.holdfast.createTenant();
    const key = await on.holdfast.createKey(tenant.id, { permissions: ['admin:read', 'admin:write'] });
    expectRefusal(await on.holdfast.call('GET', PATH, { key }), 401, 'UNAUTHORIZED');
    expectRefusal(await on.holdfast.call('GET', PATH), 401, 'UNAUTHORIZED');
  });

  describe('however much is stored', () => {
    const RECORDS = 2600;
    let many: TestTenant;
    beforeAll(async () => {
      many = await on.holdfast.createTenant();
      await on.holdfast.createBudget(many, '', 1);
      const template = await on.stored.redis.hgetall(on.stored.budgetKey(many.id));
      const pipeline = on.stored.redis.pipeline();
      for (let index = 1; index < RECORDS; index += 1) {
        pipeline
          .hset(on.stored.budgetKey(many.id, `/agent:n${index}`), template)
          .zadd(
            budgetIndexKey(on.stored.tagOf(many.id), many.id),
            0,
            treeOrder(`tenant:${many.id}/agent:n${index} TOKENS`),
          );
      }
      await pipeline.exec();
    });

    test('requested by many at once is counted at most twice', async () => {
      shows('overview cheap');
      const { queries } = on.holdfast.app.get(RedisService);
      const call = jest.spyOn(queries, 'call');
      const partitions = on.holdfast.app.get(RedisService).partitions;
      try {
        const answers = await Promise.all(Array.from({ length: 12 }, () => on.holdfast.admin('GET', PATH)));
        expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
        const runs = call.mock.calls.filter(([name]) => (name as string) === 'census');
        expect(runs.length).toBeLessThanOrEqual(2 * (partitions + Math.ceil(RECORDS / 250) + 5));
      } finally {
        call.mockRestore();
      }
    });

    test('is counted anew for the first who comes after a while, who waits for it', async () => {
      const total = (await read()).budget_counts.total as number;
      const service = on.holdfast.app.get(OverviewService);
      await on.holdfast.createBudget(many, '/workspace:late', 1);
      // As if the latest count had ended nine minutes ago.
      const { latest } = service as unknown as { latest: object };
      Object.assign(latest, { endedAt: performance.now() - 540_000 });
      expect((await read()).budget_counts.total).toBe(total + 1);
    });

    test('then comes from the last count, whose time is as_of, and is counted again later', async () => {
      shows('overview cheap');
      const total = (await read()).budget_counts.total as number;
      expect(total).toBeGreaterThanOrEqual(RECORDS);
      const earlier = await on.holdfast.metric('holdfast_overviews_total', { figures: 'earlier' });
      const first = await read();
      await on.holdfast.createBudget(many, '/workspace:new', 1);
      const second = await read();
      if (second.as_of === first.as_of) {
        expect(second.budget_counts.total).toBe(first.budget_counts.total);
        expect(await on.holdfast.metric('holdfast_overviews_total', { figures: 'earlier' })).toBeGreaterThan(
          earlier,
        );
      }
      const until = performance.now() + 60_000;
      let last = second;
      while (last.budget_counts.total === total && performance.now() < until) {
        await new Promise((done) => setTimeout(done, 200));
        last = await read();
      }
      expect(last.budget_counts.total).toBe(total + 1);
      expect(last.as_of > first.as_of).toBe(true);
    });
  });
});

describe('the window of events', () => {
  const on = useGovernance({}, { PARTITIONS: '64' });
  const LISTED = 10;
  const TAG = '{p07}';

  async function now(): Promise<number> {
    const [seconds, microseconds] = await on.stored.redis.time();
    return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
  }

  /** Appends events to a log at a fixed rate, starting at a given time. */
  async function append(
    fromMs: number,
    count: number,
    stepMs: number,
    type = 'budget.funded',
  ): Promise<void> {
    const pipeline = on.stored.redis.pipeline();
    for (let index = 0; index < count; index += 1) {
      pipeline.xadd(
        eventLogKey(TAG),
        `${fromMs + index * stepMs}-${index}`,
        'ty',
        type,
        'tn',
        'acme',
        'reason_code',
        'X',
      );
    }
    await pipeline.exec();
  }

  async function examined<T>(work: () => Promise<T>): Promise<{ result: T; entries: number }> {
    const { queries } = on.holdfast.app.get(RedisService);
    const call = jest.spyOn(queries, 'call');
    try {
      const result = await work();
      const replies = await Promise.all(
        call.mock.results.map(({ value }) => value as Promise<{ examined?: number; counts?: unknown }>),
      );
      const entries = replies.reduce(
        (sum, { examined: one, counts }) => sum + (counts === undefined ? 0 : (one ?? 0)),
        0,
      );
      return { result, entries };
    } finally {
      call.mockRestore();
    }
  }

  test('is read once: the next refresh reads what is new, and events that have left the window no longer count', async () => {
    shows('overview events', 'overview cheap');
    await on.stored.redis.del(eventLogKey(TAG));
    const nowMs = await now();
    await append(nowMs - 3_700_000, 100, 100);
    await append(nowMs - 3_000_000, 600, 1000);
    await append(nowMs - 60_000, 20, 1, 'reservation.denied');
    const window = new EventWindow(on.holdfast.app.get(RedisService), LISTED);
    const first = await examined(() => window.refresh(nowMs));
    expect(first.entries).toBe(620);
    expect(first.result).toMatchObject({ windowS: 3600, total: 620 });
    expect(Object.fromEntries(first.result.byCategory)).toEqual({ budget: 600, reservation: 20 });
    expect(Object.fromEntries(first.result.denialsByReason)).toEqual({ X: 20 });
    expect(first.result.denials).toHaveLength(10);
    await append(nowMs - 50_000, 5, 1, 'reservation.expired');
    const second = await examined(() => window.refresh(nowMs));
    expect(second.entries).toBe(5);
    expect(second.result).toMatchObject({ windowS: 3600, total: 625 });
    expect(second.result.expiries).toHaveLength(5);
    expect(second.result.denials.map(({ event_id }) => event_id)).toEqual(
      first.result.denials.map(({ event_id }) => event_id),
    );
    const later = await window.refresh(nowMs + 1_800_000);
    expect(later).toMatchObject({ windowS: 3600 });
    expect(later.total).toBeLessThan(625);
    expect((await window.refresh(nowMs + 7_200_000)).total).toBe(0);
  });

  test('is as long as one bounded refresh can read, says so, and grows with each refresh', async () => {
    shows('overview events', 'overview cheap');
    await on.stored.redis.del(eventLogKey(TAG));
    const nowMs = await now();
    // One per second for 50 minutes.
    await append(nowMs - 3_000_000, 3000, 1000);
    const window = new EventWindow(on.holdfast.app.get(RedisService), LISTED, 1000);
    const first = await examined(() => window.refresh(nowMs));
    expect(first.entries).toBeLessThanOrEqual(1250);
    expect(first.result.windowS).toBeGreaterThan(900);
    expect(first.result.windowS).toBeLessThan(1300);
    expect(Math.abs(first.result.total - first.result.windowS)).toBeLessThanOrEqual(10);
    const second = await window.refresh(nowMs);
    expect(second.windowS).toBeGreaterThan(1800);
    expect(Math.abs(second.total - second.windowS)).toBeLessThanOrEqual(10);
    await window.refresh(nowMs);
    expect(await window.refresh(nowMs)).toMatchObject({ windowS: 3600, total: 3000 });
  });

  test('starts over when more has arrived than one request can read', async () => {
    shows('overview events');
    await on.stored.redis.del(eventLogKey(TAG));
    const nowMs = await now();
    await append(nowMs - 3_000_000, 300, 1000);
    const window = new EventWindow(on.holdfast.app.get(RedisService), LISTED, 1000);
    expect((await window.refresh(nowMs)).total).toBe(300);
    await append(nowMs - 1_900_000, 1900, 1000);
    const gap = await window.refresh(nowMs);
    expect(gap.windowS).toBeLessThan(1400);
    expect(gap.total).toBeLessThanOrEqual(gap.windowS + 10);
    await window.refresh(nowMs);
    await window.refresh(nowMs);
    expect(await window.refresh(nowMs)).toMatchObject({ windowS: 3600, total: 2200 });
  });
});
