import { describe, expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import { budgetKey, budgetTemplateKey, periodPlansKey } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Json,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { DAY_MS, expectSound, HOUR_MS, TestClock } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCK: 'true' });
const clock = new TestClock(() => on.holdfast);
const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });
const DAILY = { every: 'day', time_zone: 'UTC' };
const HOURLY = { name: 'hour', limit: tokens(5), every: 'hour', time_zone: 'UTC' };

const bodyOf = (tenant: TestTenant, more: Json = {}): Json => ({
  tenant_id: tenant.id,
  scope_pattern: `tenant:${tenant.id}/agent:*`,
  unit: 'TOKENS',
  allocated: tokens(50),
  ...more,
});
const put = (tenant: TestTenant, more: Json = {}, id = 'per-agent'): Promise<Answer> =>
  on.holdfast.admin('PUT', `/ops/budget-templates/${id}`, bodyOf(tenant, more));
const at = (tenant: TestTenant, id = 'per-agent'): string =>
  `/ops/budget-templates/${id}?tenant_id=${tenant.id}`;

async function withTemplate(more: Json = {}): Promise<TestTenant> {
  const tenant = await clock.tenant(1000);
  expectStatus(await put(tenant, more), 201);
  return tenant;
}

const reserve = (tenant: TestTenant, agent: string, amount: number, more: Json = {}): Promise<Answer> =>
  on.holdfast.reserve(tenant, amount, { subject: { tenant: tenant.id, agent }, ...more });
const scopeOf = (tenant: TestTenant, agent: string): string => `tenant:${tenant.id}/agent:${agent}`;
const query = (tenant: TestTenant, agent: string): string => `scope=${scopeOf(tenant, agent)}&unit=TOKENS`;
const budget = async (tenant: TestTenant, agent: string): Promise<Json> =>
  expectStatus(await on.holdfast.admin('GET', `/v1/admin/budgets/lookup?${query(tenant, agent)}`), 200);
const spend = async (tenant: TestTenant, agent: string, amount: number): Promise<void> => {
  const { reservation_id: id } = expectStatus(await reserve(tenant, agent, amount), 200);
  expectStatus(await on.holdfast.commit(tenant, id, amount), 200);
};
const tagOfTenant = ({ id }: TestTenant): string => on.stored.tagOf(id);

async function told(tenant: TestTenant): Promise<string[]> {
  const path = `/v1/admin/events?tenant_id=${tenant.id}&limit=100`;
  const { events } = expectStatus(await on.holdfast.admin('GET', path), 200);
  return (events as Json[]).map(({ event_type: type }) => type as string).reverse();
}

describe('a template', () => {
  test('is shown as it was set, listed, replaced as a whole, and deleted, with rows and events', async () => {
    const tenant = await clock.tenant(1000);
    const more = {
      overdraft_limit: tokens(9),
      commit_overage_policy: 'ALLOW_WITH_OVERDRAFT',
      rollover_policy: 'CARRY_FORWARD',
      metadata: { team: 'chat' },
      recurrence: { every: 'week', time_zone: 'Asia/Kolkata', anchor_day: 3 },
      windows: [HOURLY, { name: 'day', limit: tokens(20), ...DAILY }],
    };
    const made = expectStatus(await put(tenant, more), 201);
    expect(made).toMatchObject({ template_id: 'per-agent', ...bodyOf(tenant, more) });
    expect(expectStatus(await on.holdfast.admin('GET', at(tenant)), 200)).toEqual(made);
    // The same again changes nothing.
    expect(expectStatus(await put(tenant, more), 200)).toEqual(made);
    expectStatus(await put(tenant, {}, 'other'), 201);
    const list = async (more = ''): Promise<Json> =>
      expectStatus(
        await on.holdfast.admin('GET', `/ops/budget-templates?tenant_id=${tenant.id}${more}`),
        200,
      );
    expect((await list()).templates.map(({ template_id: id }: Json) => id)).toEqual(['per-agent', 'other']);
    expect((await list('&search=oth')).templates.map(({ template_id: id }: Json) => id)).toEqual(['other']);
    const page = await list('&limit=1');
    expect(page).toMatchObject({ has_more: true, templates: [made] });
    const plain = expectStatus(await put(tenant), 200);
    expect(plain).toMatchObject({ ...bodyOf(tenant), overdraft_limit: tokens(0), rollover_policy: 'NONE' });
    for (const member of Object.keys(more).filter(
      (name) => name !== 'overdraft_limit' && name !== 'rollover_policy',
    )) {
      expect(plain).not.toHaveProperty(member);
    }
    expectStatus(await on.holdfast.admin('DELETE', at(tenant)), 204);
    expectRefusal(await on.holdfast.admin('GET', at(tenant)), 404, 'NOT_FOUND');
    expectRefusal(await on.holdfast.admin('DELETE', at(tenant)), 404, 'NOT_FOUND');
    const own = (await told(tenant)).filter((type) => type.startsWith('custom.budget_template.'));
    expect(own.map((type) => type.split('.')[2])).toEqual(['created', 'created', 'updated', 'deleted']);
    const rows = await on.holdfast.admin(
      'GET',
      `/v1/admin/audit/logs?tenant_id=${tenant.id}&resource_type=budget_template`,
    );
    expect(
      expectStatus(rows, 200)
        .logs.map(({ operation, status }: Json) => `${operation} ${status}`)
        .slice(0, 2),
    ).toEqual(['deleteBudgetTemplate 204', 'setBudgetTemplate 200']);
  });

  const bad: readonly (readonly [string, Json, string])[] = [
    ['a pattern of another tenant', { scope_pattern: 'tenant:other-tenant/agent:*' }, 'scope_pattern'],
    ['an open tenant', { scope_pattern: 'tenant:*/agent:*' }, 'scope_pattern'],
    ['a pattern that is no scope', { scope_pattern: 'agent:*' }, 'scope_pattern'],
    ['part of a value', { scope_pattern: 'tenant:ID/agent:a*' }, 'scope_pattern'],
    ['a value after *', { scope_pattern: 'tenant:ID/app:*/agent:a' }, 'scope_pattern'],
    ['an amount in another unit', { allocated: { unit: 'CREDITS', amount: 1 } }, 'allocated.unit'],
    ['two kinds of periods', { period_ms: DAY_MS, recurrence: DAILY }, 'period_ms'],
    ['a short period', { period_ms: 59_999 }, 'period_ms'],
    [
      'a zone that nobody knows',
      { recurrence: { every: 'day', time_zone: 'Mars/North' } },
      'recurrence.time_zone',
    ],
    ['windows of one name', { windows: [HOURLY, HOURLY] }, 'windows'],
    ['an application without a key', { apply_to_existing: true }, 'idempotency_key'],
  ];
  test.each(bad)('with %s is refused by name, and leaves nothing', async (_, more, field) => {
    const tenant = await clock.tenant(1000);
    const text = JSON.stringify(bodyOf(tenant, more)).replace('tenant:ID', `tenant:${tenant.id}`);
    const answer = await on.holdfast.admin('PUT', '/ops/budget-templates/x', JSON.parse(text));
    expect(answer.status).toBe(400);
    expect(answer.body.details).toMatchObject({ field });
    expectRefusal(await on.holdfast.admin('GET', at(tenant, 'x')), 404, 'NOT_FOUND');
  });

  test('keeps its pattern and unit, needs its tenant, and a tenant has 200 at most', async () => {
    const tenant = await withTemplate();
    const other = { scope_pattern: `tenant:${tenant.id}/app:*` };
    expect(expectRefusal(await put(tenant, other), 400, 'INVALID_REQUEST').details).toMatchObject({
      field: 'scope_pattern',
    });
    expectRefusal(await put({ ...tenant, id: 'no-such-tenant' }), 404, 'TENANT_NOT_FOUND');
    expectRefusal(await put(tenant, {}, 'a%20b'), 400, 'INVALID_REQUEST');
    for (let number = 1; number < 200; number += 1) {
      expectStatus(await put(tenant, {}, `t-${number}`), 201);
    }
    expect(expectRefusal(await put(tenant, {}, 'one-more'), 400, 'INVALID_REQUEST').details).toMatchObject({
      limit: 200,
    });
    expectStatus(await on.holdfast.admin('DELETE', at(tenant, 't-1')), 204);
    expectStatus(await put(tenant, {}, 'one-more'), 201);
  });

  test('that changes applies to the budgets that it makes afterwards, at once', async () => {
    const tenant = await withTemplate();
    for (let allocated = 1; allocated <= 20; allocated += 1) {
      expectRefusal(await reserve(tenant, `a-${allocated}`, 100), 409, 'BUDGET_EXCEEDED');
      expectStatus(await put(tenant, { allocated: tokens(allocated) }), 200);
      expectRefusal(await reserve(tenant, `a-${allocated}`, allocated + 1), 409, 'BUDGET_EXCEEDED');
      expectStatus(await reserve(tenant, `a-${allocated}`, allocated), 200);
    }
    expect((await budget(tenant, 'a-1')).allocated).toEqual(tokens(1));
    expectStatus(await on.holdfast.admin('DELETE', at(tenant)), 204);
    expectStatus(await reserve(tenant, 'b', 100), 200);
    expectRefusal(
      await on.holdfast.admin('GET', `/v1/admin/budgets/lookup?${query(tenant, 'b')}`),
      404,
      'BUDGET_NOT_FOUND',
    );
  });

  test('that is damaged fails the requests that need it, loudly, and no others', async () => {
    const tenant = await withTemplate();
    expectStatus(await reserve(tenant, 'anna', 1), 200);
    await on.stored.redis.hdel(budgetTemplateKey(tagOfTenant(tenant), tenant.id, 'per-agent'), 'allocated');
    expectRefusal(await reserve(tenant, 'bert', 1), 500, 'INTERNAL_ERROR');
    expectStatus(await reserve(tenant, 'anna', 1), 200);
    const list = await on.holdfast.admin('GET', `/ops/budget-templates?tenant_id=${tenant.id}`);
    expect(expectStatus(list, 200).templates).toEqual([]);
    expect(list.headers.get('x-holdfast-skipped-records')).toBe('budget_template=per-agent');
  });
});

describe('the periods and windows of a budget that a template makes', () => {
  test('begin with the budget, and the next one at the boundary of the calendar', async () => {
    // Just after midnight, so that no hour ends unasked, and the next one does not end with the day.
    await clock.advanceTo((Math.floor((await clock.nowMs()) / DAY_MS) + 1) * DAY_MS);
    const tenant = await withTemplate({ recurrence: DAILY, windows: [HOURLY] });
    await spend(tenant, 'anna', 5);
    expect(expectRefusal(await reserve(tenant, 'anna', 1), 409, 'BUDGET_EXCEEDED').details).toMatchObject({
      window: 'hour',
    });
    const born = Date.parse((await budget(tenant, 'anna')).created_at);
    const midnight = (Math.floor(born / DAY_MS) + 1) * DAY_MS;
    expect(await budget(tenant, 'anna')).toMatchObject({
      period_start: new Date(born).toISOString(),
      period_end: new Date(midnight).toISOString(),
    });
    await clock.advanceTo((Math.floor(born / HOUR_MS) + 1) * HOUR_MS);
    await spend(tenant, 'anna', 5);
    await clock.advanceTo(midnight);
    expect(await budget(tenant, 'anna')).toMatchObject({ spent: tokens(0), remaining: tokens(50) });
    const calendar = await on.holdfast.admin('GET', `/ops/budgets/recurrence?${query(tenant, 'anna')}`);
    expect(expectStatus(calendar, 200)).toMatchObject({
      ...DAILY,
      period_end: new Date(midnight + DAY_MS).toISOString(),
    });
    await expectSound(on.holdfast, tenant);
  });

  test('are planned even if the budget comes long after the template', async () => {
    const tenant = await withTemplate({ recurrence: DAILY, windows: [HOURLY] });
    await clock.advanceBy(150 * DAY_MS);
    await spend(tenant, 'late', 5);
    const born = Date.parse((await budget(tenant, 'late')).created_at);
    const midnight = (Math.floor(born / DAY_MS) + 1) * DAY_MS;
    expect((await budget(tenant, 'late')).period_end).toBe(new Date(midnight).toISOString());
    await clock.advanceBy(100 * DAY_MS);
    expect(await budget(tenant, 'late')).toMatchObject({ spent: tokens(0) });
    await expectSound(on.holdfast, tenant);
    expectStatus(await on.holdfast.admin('DELETE', at(tenant)), 204);
    expect(
      await on.stored.redis.zscore(periodPlansKey(tagOfTenant(tenant)), `template ${tenant.id} per-agent`),
    ).toBeNull();
  });

  test('are planned by the first request if nothing has run for days', async () => {
    const tenant = await withTemplate({ recurrence: DAILY, windows: [HOURLY] });
    const app = `tenant:${tenant.id}/app:*`;
    expectStatus(await put(tenant, { scope_pattern: app, windows: [HOURLY] }, 'per-app'), 201);
    const key = (id: string): string => budgetTemplateKey(tagOfTenant(tenant), tenant.id, id);
    const forget = async (): Promise<void> => {
      await on.stored.redis.hset(key('per-agent'), 'boundaries', '1,2,3', 'window_plans', '1,2,3');
      await on.stored.redis.hset(key('per-app'), 'window_plans', '1,2,3');
    };
    const both = (agent: string): Json => ({ subject: { tenant: tenant.id, app: 'chat', agent } });
    const post = (path: string, body: Json): Promise<Answer> => {
      const action = { kind: 'llm.completion', name: 'chat' };
      return on.holdfast.call('POST', path, {
        key: tenant.key,
        body: { idempotency_key: newKey(), action, ...body },
      });
    };
    const planned = (): Promise<number> =>
      on.holdfast.metric('holdfast_budget_plans_total', { outcome: 'PLANNED' });
    const before = await planned();
    await forget();
    expect(
      expectStatus(
        await post('/v1/decide', {
          subject: { tenant: tenant.id, agent: 'anna' },
          estimate: tokens(6),
        }),
        200,
      ),
    ).toMatchObject({ decision: 'DENY', reason_code: 'BUDGET_EXCEEDED' });
    expect(await planned()).toBeGreaterThan(before);
    await forget();
    // Each level has a template of its own.
    expectStatus(await on.holdfast.reserve(tenant, 5, both('bert')), 200);
    await forget();
    expectRefusal(await reserve(tenant, 'carl', 6), 409, 'BUDGET_EXCEEDED');
    await forget();
    expectStatus(
      await post('/v1/events', {
        subject: { tenant: tenant.id, agent: 'dora' },
        actual: tokens(5),
      }),
      201,
    );
    const { period_end: end } = await budget(tenant, 'dora');
    expect(Date.parse(end) % DAY_MS).toBe(0);
    await forget();
    const pair = [2, 3].map((amount) =>
      reserveBody(tenant, amount, { subject: { tenant: tenant.id, agent: 'emil' } }),
    );
    const set = { key: tenant.key, body: { reservations: pair } };
    expectStatus(await on.holdfast.call('POST', '/v1/reservation-sets', set), 200);
    expectRefusal(await reserve(tenant, 'emil', 1), 409, 'BUDGET_EXCEEDED');
    await forget();
    const change = { recurrence: DAILY, windows: [{ ...HOURLY, limit: tokens(7) }] };
    expectStatus(await put(tenant, change), 200);
    await forget();
    const applied = { ...change, apply_to_existing: true, idempotency_key: newKey() };
    expect(expectStatus(await put(tenant, applied), 200).existing.failed).toEqual([]);
    await expectSound(on.holdfast, tenant);
  });

  test('are planned for each template that a set needs', async () => {
    const tenant = await withTemplate({ recurrence: DAILY });
    const workspaces = Array.from({ length: 8 }, (_, index) => `w${index}`);
    for (const workspace of workspaces) {
      const own = { scope_pattern: `tenant:${tenant.id}/workspace:${workspace}`, recurrence: DAILY };
      expectStatus(await put(tenant, own, workspace), 201);
      const record = budgetTemplateKey(tagOfTenant(tenant), tenant.id, workspace);
      await on.stored.redis.hset(record, 'boundaries', '1,2,3');
    }
    const reservations = workspaces.map((workspace) =>
      reserveBody(tenant, 1, { subject: { tenant: tenant.id, workspace } }),
    );
    const set = { key: tenant.key, body: { reservations } };
    expectStatus(await on.holdfast.call('POST', '/v1/reservation-sets', set), 200);
    await expectSound(on.holdfast, tenant);
  });

  test('of a closed tenant leave the plans', async () => {
    const tenant = await withTemplate({ recurrence: DAILY });
    const plans = periodPlansKey(tagOfTenant(tenant));
    const entry = `template ${tenant.id} per-agent`;
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }),
      200,
    );
    await on.stored.redis.zadd(plans, 1, entry);
    await eventually('the entry to be gone', async () => {
      await on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
      return (await on.stored.redis.zscore(plans, entry)) === null;
    });
  });

  test('of a template that is gone leave the plans', async () => {
    const tenant = await withTemplate();
    const plans = periodPlansKey(tagOfTenant(tenant));
    await on.stored.redis.zadd(plans, 1, `template ${tenant.id} gone`);
    await eventually('the entry to be gone', async () => {
      await on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
      return (await on.stored.redis.zscore(plans, `template ${tenant.id} gone`)) === null;
    });
  });

  test('of a fixed length follow each other from its birth on', async () => {
    const tenant = await withTemplate({ period_ms: 3 * HOUR_MS, rollover_policy: 'CARRY_FORWARD' });
    await spend(tenant, 'anna', 20);
    const { period_start: start, period_end: end } = await budget(tenant, 'anna');
    expect(Date.parse(end) - Date.parse(start)).toBe(3 * HOUR_MS);
    await clock.advanceTo(Date.parse(end));
    expect(await budget(tenant, 'anna')).toMatchObject({
      allocated: tokens(80),
      spent: tokens(0),
      period_start: end,
    });
  });
});

describe('a change that is applied to what a template has made', () => {
  const apply = (tenant: TestTenant, more: Json = {}, key = newKey()): Promise<Answer> =>
    put(tenant, { ...more, apply_to_existing: true, idempotency_key: key });

  test('gives each budget what it sets now, keeps what is used, and names each outcome', async () => {
    const tenant = await withTemplate({ windows: [{ ...HOURLY, limit: tokens(40) }] });
    await spend(tenant, 'anna', 10);
    expectStatus(await reserve(tenant, 'anna', 5), 200);
    expectStatus(await reserve(tenant, 'bert', 1), 200);
    expectStatus(await reserve(tenant, 'frozen', 1), 200);
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?${query(tenant, 'frozen')}`, {}),
      200,
    );
    await on.holdfast.createBudget(tenant, '/agent:own', 7);
    const change = {
      allocated: tokens(80),
      overdraft_limit: tokens(3),
      recurrence: DAILY,
      windows: [{ ...HOURLY, limit: tokens(12) }],
    };
    const key = newKey();
    const answer = expectStatus(await apply(tenant, change, key), 200);
    const ids = Object.fromEntries(
      await Promise.all(
        ['anna', 'bert', 'frozen'].map(async (agent) => [
          agent,
          (await budget(tenant, agent)).ledger_id as string,
        ]),
      ),
    ) as Record<string, string>;
    expect(answer).toMatchObject({
      allocated: tokens(80),
      // Another request cannot change the frozen one.
      existing_left: 0,
      existing: { action: 'APPLY_TEMPLATE', total_matched: 3, skipped: [] },
    });
    expect(answer.existing.succeeded.map(({ id }: Json) => id as string).sort()).toEqual(
      [ids.anna, ids.bert].sort(),
    );
    expect(answer.existing.failed).toEqual([
      { id: ids.frozen, error_code: 'INVALID_TRANSITION', message: 'the budget is frozen' },
    ]);
    expect(await budget(tenant, 'anna')).toMatchObject({
      allocated: tokens(80),
      spent: tokens(10),
      reserved: tokens(5),
      remaining: tokens(65),
      overdraft_limit: tokens(3),
    });
    const windows = await on.holdfast.admin('GET', `/ops/budgets/windows?${query(tenant, 'anna')}`);
    expect(expectStatus(windows, 200).windows).toMatchObject([{ limit: tokens(12), spent: tokens(10) }]);
    expect((await budget(tenant, 'anna')).period_end).toBeDefined();
    expect((await budget(tenant, 'frozen')).allocated).toEqual(tokens(50));
    expect((await budget(tenant, 'own')).allocated).toEqual(tokens(7));
    // The same request again changes nothing; another key only tries what is left.
    const before = await told(tenant);
    expect(expectStatus(await apply(tenant, change, key), 200).existing).toEqual(answer.existing);
    expect(await told(tenant)).toEqual(before);
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/budgets/unfreeze?${query(tenant, 'frozen')}`, {}),
      200,
    );
    expect(expectStatus(await apply(tenant, change), 200)).toMatchObject({
      existing_left: 0,
      existing: { succeeded: [{ id: ids.frozen }] },
    });
    expect((await told(tenant)).filter((type) => type === 'budget.reset')).toHaveLength(3);
    await expectSound(on.holdfast, tenant);
    // Without periods and windows again.
    expectStatus(await apply(tenant, { allocated: tokens(80) }), 200);
    expect(await budget(tenant, 'anna')).not.toHaveProperty('period_end');
    const none = await on.holdfast.admin('GET', `/ops/budgets/windows?${query(tenant, 'anna')}`);
    expect(expectStatus(none, 200).windows).toEqual([]);
    await expectSound(on.holdfast, tenant);
    expectStatus(await apply(tenant, { allocated: tokens(80), period_ms: HOUR_MS }), 200);
    const { period_start: start } = await budget(tenant, 'anna');
    await clock.advanceBy(60_000);
    expectStatus(await apply(tenant, { allocated: tokens(81), period_ms: HOUR_MS }), 200);
    expect(await budget(tenant, 'anna')).toMatchObject({ allocated: tokens(81), period_start: start });
    await expectSound(on.holdfast, tenant);
  });

  test('comes to the others first if many of them are frozen', async () => {
    const tenant = await withTemplate();
    for (let from = 0; from < 500; from += 100) {
      const agents = Array.from({ length: 100 }, (_, index) => `frozen-${from + index}`);
      (await Promise.all(agents.map((agent) => reserve(tenant, agent, 1)))).forEach((one) =>
        expectStatus(one, 200),
      );
      const writes = on.stored.redis.pipeline();
      for (const agent of agents) {
        writes.hset(budgetKey(tagOfTenant(tenant), 'TOKENS', scopeOf(tenant, agent)), 'status', 'FROZEN');
      }
      await writes.exec();
    }
    expectStatus(await reserve(tenant, 'zoe', 1), 200);
    const { existing, existing_left: left } = expectStatus(
      await apply(tenant, { allocated: tokens(60) }),
      200,
    );
    expect(left).toBe(0);
    expect(existing.total_matched).toBe(500);
    expect(existing.succeeded).toMatchObject([{ id: (await budget(tenant, 'zoe')).ledger_id }]);
    expect((await budget(tenant, 'zoe')).allocated).toEqual(tokens(60));
  });

  test('sets the allocation of the periods to come even if the current one already has it', async () => {
    const tenant = await withTemplate({ recurrence: DAILY });
    expectStatus(await reserve(tenant, 'anna', 1), 200);
    const credit = { operation: 'CREDIT', amount: tokens(10), idempotency_key: newKey() };
    expectStatus(
      await on.holdfast.admin(
        'POST',
        `/v1/admin/budgets/fund?tenant_id=${tenant.id}&${query(tenant, 'anna')}`,
        credit,
      ),
      200,
    );
    expectStatus(await apply(tenant, { allocated: tokens(60), recurrence: DAILY }), 200);
    const calendar = await on.holdfast.admin('GET', `/ops/budgets/recurrence?${query(tenant, 'anna')}`);
    expect(expectStatus(calendar, 200).period_allocated).toEqual(tokens(60));
    await expectSound(on.holdfast, tenant);
  });

  test('leaves the budgets that another template of its id has made, but for those that it would make', async () => {
    const tenant = await withTemplate();
    expectStatus(await put(tenant, { scope_pattern: `tenant:${tenant.id}/app:*` }, 'of-apps'), 201);
    expectStatus(await reserve(tenant, 'anna', 1), 200);
    expectStatus(await on.holdfast.reserve(tenant, 1, { subject: { tenant: tenant.id, app: 'chat' } }), 200);
    const again = async (id: string, more: Json): Promise<Json> => {
      expectStatus(await on.holdfast.admin('DELETE', at(tenant, id)), 204);
      const body = { ...more, apply_to_existing: true, idempotency_key: newKey() };
      return expectStatus(await put(tenant, body, id), 201);
    };
    const none = { existing_left: 0, existing: { total_matched: 0 } };
    expect(await again('of-apps', { scope_pattern: `tenant:${tenant.id}/workspace:*` })).toMatchObject(none);
    const credits = { unit: 'CREDITS', amount: 3 };
    expect(await again('per-agent', { unit: 'CREDITS', allocated: credits })).toMatchObject(none);
    expect((await budget(tenant, 'anna')).allocated).toEqual(tokens(50));
    expect(await again('per-agent', { allocated: tokens(60) })).toMatchObject({
      existing_left: 0,
      existing: { total_matched: 1 },
    });
    expect((await budget(tenant, 'anna')).allocated).toEqual(tokens(60));
  });

  test('uses a key for one change', async () => {
    const tenant = await withTemplate();
    const key = newKey();
    expectStatus(await apply(tenant, { allocated: tokens(1) }, key), 200);
    const first = expectStatus(await apply(tenant, { allocated: tokens(1) }, key), 200);
    expectRefusal(await apply(tenant, { allocated: tokens(2) }, key), 409, 'IDEMPOTENCY_MISMATCH');
    expect(expectStatus(await on.holdfast.admin('GET', at(tenant)), 200).allocated).toEqual(tokens(1));
    // A late repetition does not take back what came after it.
    expectStatus(await put(tenant, { allocated: tokens(3) }), 200);
    const late = expectStatus(await apply(tenant, { allocated: tokens(1) }, key), 200);
    expect(late).toMatchObject({ allocated: tokens(3), existing: first.existing });
  });
});
