import { describe, expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
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
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });

interface TemplateOptions {
  readonly id?: string;
  readonly pattern?: string;
  readonly allocated?: number;
  readonly more?: Json;
}

function put(tenant: TestTenant, options: TemplateOptions = {}): Promise<Answer> {
  const { id = 'per-agent', pattern = 'app:chat/agent:*', allocated = 50, more = {} } = options;
  return on.holdfast.admin('PUT', `/ops/budget-templates/${id}`, {
    tenant_id: tenant.id,
    scope_pattern: `tenant:${tenant.id}/${pattern}`,
    unit: 'TOKENS',
    allocated: tokens(allocated),
    ...more,
  });
}

async function withTemplate(options: TemplateOptions = {}): Promise<TestTenant> {
  const tenant = await on.holdfast.createTenant();
  expectStatus(await put(tenant, options), 201);
  return tenant;
}

const subject = (tenant: TestTenant, agent: string, more: Json = {}): Json => ({
  subject: { tenant: tenant.id, app: 'chat', agent, ...more },
});
const reserve = (tenant: TestTenant, agent: string, amount: number, more: Json = {}): Promise<Answer> =>
  on.holdfast.reserve(tenant, amount, { ...subject(tenant, agent), ...more });
const scopeOf = (tenant: TestTenant, agent: string): string => `tenant:${tenant.id}/app:chat/agent:${agent}`;

/** Allocated, remaining and reserved of a budget, or nothing. */
async function figures(tenant: TestTenant, scope: string, unit = 'TOKENS'): Promise<string | undefined> {
  const path = `/v1/admin/budgets/lookup?scope=${scope}&unit=${unit}`;
  const answer = await on.holdfast.admin('GET', path);
  if (answer.status === 404) {
    return undefined;
  }
  const { allocated, remaining, reserved } = expectStatus(answer, 200);
  return [allocated, remaining, reserved].map((amount: Json) => String(amount.amount)).join();
}

async function eventsOf(tenant: TestTenant, type: string): Promise<Json[]> {
  const path = `/v1/admin/events?tenant_id=${tenant.id}&event_type=${type}&limit=100`;
  return expectStatus(await on.holdfast.admin('GET', path), 200).events as Json[];
}

const budgetsOf = async (tenant: TestTenant): Promise<string[]> =>
  (
    expectStatus(
      await on.holdfast.admin(
        'GET',
        `/v1/admin/budgets?tenant_id=${tenant.id}&sort_by=scope&sort_dir=asc&limit=100`,
      ),
      200,
    ).ledgers as Json[]
  ).map(({ scope, allocated }) => `${scope.slice(`tenant:${tenant.id}`.length)} ${String(allocated.amount)}`);

describe('the first request at a scope without a budget', () => {
  test('finds the one that its template makes, and leaves it behind', async () => {
    const tenant = await withTemplate({ more: { overdraft_limit: tokens(7), metadata: { team: 'chat' } } });
    const body = expectStatus(await reserve(tenant, 'anna', 20), 200);
    expect(body.balances).toMatchObject([
      { scope: 'agent:anna', remaining: tokens(30), reserved: tokens(20) },
    ]);
    expect(await figures(tenant, scopeOf(tenant, 'anna'))).toBe('50,30,20');
    expectRefusal(await reserve(tenant, 'anna', 31), 409, 'BUDGET_EXCEEDED');
    expectStatus(await on.holdfast.commit(tenant, body.reservation_id, 5), 200);
    expect(await figures(tenant, scopeOf(tenant, 'anna'))).toBe('50,45,0');
    const [made, ...others] = await eventsOf(tenant, 'budget.created');
    expect(others).toEqual([]);
    expect(made).toMatchObject({
      actor: { type: 'system' },
      scope: scopeOf(tenant, 'anna'),
      data: { template_id: 'per-agent', operation: 'CREATE', new_state: { allocated: 50, remaining: 50 } },
    });
    const origin = await on.holdfast.admin('GET', `/ops/budgets/template?scope=${made.scope}&unit=TOKENS`);
    expect(expectStatus(origin, 200)).toEqual({
      scope: made.scope,
      unit: 'TOKENS',
      template_id: 'per-agent',
    });
  });

  test('makes nothing if it is refused, and says what the budget would have', async () => {
    const tenant = await withTemplate();
    const refusal = expectRefusal(await reserve(tenant, 'anna', 51), 409, 'BUDGET_EXCEEDED');
    expect(refusal.details).toMatchObject({ scope: scopeOf(tenant, 'anna') });
    expect(await budgetsOf(tenant)).toEqual([]);
    expectStatus(await reserve(tenant, 'anna', 50), 200);
  });

  test('of 200 at once for one user is granted exactly as far as the budget goes', async () => {
    const tenant = await withTemplate({ allocated: 55 });
    const before = await on.holdfast.metric('holdfast_budgets_made_by_templates_total');
    const answers = await Promise.all(Array.from({ length: 200 }, () => reserve(tenant, 'anna', 2)));
    const granted = answers.filter(({ status }) => status === 200);
    expect(granted).toHaveLength(27);
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    }
    expect(await figures(tenant, scopeOf(tenant, 'anna'))).toBe('55,1,54');
    expect(await eventsOf(tenant, 'budget.created')).toHaveLength(1);
    await eventually('the budget to be counted', async () => {
      await on.holdfast.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
      return (await on.holdfast.metric('holdfast_budgets_made_by_templates_total')) > before;
    });
  });

  test('of 200 at once for 100 users is granted or refused by the budget of each', async () => {
    const tenant = await withTemplate({ allocated: 50 });
    const users = Array.from({ length: 100 }, (_, index) => `user-${index}`);
    const answers = await Promise.all(
      [...users, ...users].map((user, index) => reserve(tenant, user, index % 3 === 0 ? 51 : 30)),
    );
    expect(answers.filter(({ status }) => status !== 200 && status !== 409)).toEqual([]);
    const granted = (user: string): number =>
      answers.filter(({ status }, index) => status === 200 && index % 100 === users.indexOf(user)).length;
    const wishes = (user: string): number[] =>
      [0, 100].map((more) => ((users.indexOf(user) + more) % 3 === 0 ? 51 : 30));
    for (const user of users) {
      const expected = wishes(user).includes(30) ? 1 : 0;
      expect([user, granted(user)]).toEqual([user, expected]);
      expect(await figures(tenant, scopeOf(tenant, user))).toBe(expected === 1 ? '50,20,30' : undefined);
    }
  });

  test('may be a debit, a member of a set, or one of a batch', async () => {
    const tenant = await withTemplate();
    const action = { kind: 'llm.completion', name: 'x' };
    const debit = { idempotency_key: newKey(), ...subject(tenant, 'debit'), action, actual: tokens(8) };
    expectStatus(await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body: debit }), 201);
    expect(await figures(tenant, scopeOf(tenant, 'debit'))).toBe('50,42,0');
    const member = (amount: number): Json => reserveBody(tenant, amount, subject(tenant, 'set'));
    const set = (...amounts: number[]): Promise<Answer> =>
      on.holdfast.call('POST', '/v1/reservation-sets', {
        key: tenant.key,
        body: { reservations: amounts.map(member) },
      });
    expectRefusal(await set(26, 26), 409, 'BUDGET_EXCEEDED');
    expect(await figures(tenant, scopeOf(tenant, 'set'))).toBeUndefined();
    expectStatus(await set(25, 25), 200);
    expect(await figures(tenant, scopeOf(tenant, 'set'))).toBe('50,0,50');
    const operations = [1, 2].map((amount) => ({
      op: 'reserve',
      body: reserveBody(tenant, amount, subject(tenant, 'batch')),
    }));
    const batch = { key: tenant.key, body: { operations } };
    expectStatus(await on.holdfast.call('POST', '/v1/batch', batch), 200);
    expect(await figures(tenant, scopeOf(tenant, 'batch'))).toBe('50,47,3');
    expect(await eventsOf(tenant, 'budget.created')).toHaveLength(3);
  });

  test('is answered as if there were a budget, but makes none, if it decides, is a dry run or is observed', async () => {
    const tenant = await withTemplate();
    const decide = (amount: number): Promise<Answer> =>
      on.holdfast.call('POST', '/v1/decide', {
        key: tenant.key,
        body: reserveBody(tenant, amount, subject(tenant, 'anna')),
      });
    expect(expectStatus(await decide(50), 200).decision).toBe('ALLOW');
    expect(expectStatus(await decide(51), 200)).toMatchObject({
      decision: 'DENY',
      reason_code: 'BUDGET_EXCEEDED',
    });
    const dry = expectStatus(await reserve(tenant, 'anna', 50, { dry_run: true }), 200);
    expect(dry.balances).toMatchObject([{ remaining: tokens(0), reserved: tokens(50) }]);
    const observed = await on.holdfast.call('POST', '/v1/reservations', {
      key: tenant.key,
      body: reserveBody(tenant, 51, { ...subject(tenant, 'anna'), observe_mode: 'OBSERVE' }),
      extended: true,
    });
    expect(expectStatus(observed, 200).decision).toBe('DENY');
    expect(await budgetsOf(tenant)).toEqual([]);
    expect(await eventsOf(tenant, 'budget.created')).toEqual([]);
  });

  test('gets its first answer again when it is repeated', async () => {
    const tenant = await withTemplate();
    const more = { idempotency_key: newKey() };
    const first = expectStatus(await reserve(tenant, 'anna', 20, more), 200);
    const { remaining_ttl_ms: _, ...again } = expectStatus(await reserve(tenant, 'anna', 20, more), 200);
    expect(first).toMatchObject(again);
    expect(await figures(tenant, scopeOf(tenant, 'anna'))).toBe('50,30,20');
  });
});

describe('of the templates that match a scope', () => {
  test('the one with the longest literal prefix makes the budget, and of equal ones the oldest', async () => {
    const tenant = await on.holdfast.createTenant();
    const templates = [
      ['any', 'app:*/agent:*', 10],
      ['chat', 'app:chat/agent:*', 20],
      ['chat-2', 'app:chat/agent:*', 21],
      ['vip', 'app:chat/agent:vip', 30],
      ['workspaces', 'workspace:*/agent:*', 40],
    ] as const;
    for (const [id, pattern, allocated] of templates) {
      expectStatus(await put(tenant, { id, pattern, allocated }), 201);
    }
    const at = (levels: Json): Promise<Answer> =>
      on.holdfast.reserve(tenant, 1, { subject: { tenant: tenant.id, ...levels } });
    expectStatus(await at({ app: 'mail', agent: 'a' }), 200);
    expectStatus(await at({ app: 'chat', agent: 'a' }), 200);
    expectStatus(await at({ app: 'chat', agent: 'VIP' }), 200);
    expectStatus(await at({ workspace: 'w', agent: 'a' }), 200);
    expectRefusal(await at({ workspace: 'w', app: 'chat', agent: 'a' }), 404, 'NOT_FOUND');
    expectRefusal(await at({ app: 'chat' }), 404, 'NOT_FOUND');
    expect(await budgetsOf(tenant)).toEqual([
      '/app:chat/agent:a 20',
      '/app:chat/agent:vip 30',
      '/app:mail/agent:a 10',
      '/workspace:w/agent:a 40',
    ]);
    expectStatus(await on.holdfast.admin('DELETE', `/ops/budget-templates/chat?tenant_id=${tenant.id}`), 204);
    expectStatus(await at({ app: 'chat', agent: 'b' }), 200);
    expect(await figures(tenant, scopeOf(tenant, 'b'))).toBe('21,20,1');
  });

  test('one of each level makes what is missing there, in its unit alone', async () => {
    const tenant = await on.holdfast.createTenant();
    expectStatus(await put(tenant, { id: 'apps', pattern: 'app:*', allocated: 100 }), 201);
    expectStatus(await put(tenant, { id: 'agents', pattern: 'app:*/agent:*', allocated: 30 }), 201);
    await on.holdfast.createBudget(tenant, '', 1000);
    expectStatus(await reserve(tenant, 'anna', 30), 200);
    expectStatus(await reserve(tenant, 'bert', 30), 200);
    expect(await budgetsOf(tenant)).toEqual([
      ' 1000',
      '/app:chat 100',
      '/app:chat/agent:anna 30',
      '/app:chat/agent:bert 30',
    ]);
    expect(await figures(tenant, `tenant:${tenant.id}/app:chat`)).toBe('100,40,60');
    const dollars = { estimate: { unit: 'USD_MICROCENTS', amount: 1 } };
    expectRefusal(await reserve(tenant, 'anna', 1, dollars), 400, 'UNIT_MISMATCH');
  });

  test('a budget that exists needs none, even if it is frozen', async () => {
    const tenant = await withTemplate();
    await on.holdfast.createBudget(tenant, '/app:chat/agent:anna', 5);
    expectRefusal(await reserve(tenant, 'anna', 6), 409, 'BUDGET_EXCEEDED');
    const query = `scope=${scopeOf(tenant, 'anna')}&unit=TOKENS`;
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?${query}`, {}), 200);
    expectRefusal(await reserve(tenant, 'anna', 1), 409, 'BUDGET_FROZEN');
    expect(expectStatus(await on.holdfast.admin('GET', `/ops/budgets/template?${query}`), 200)).toEqual({
      scope: scopeOf(tenant, 'anna'),
      unit: 'TOKENS',
    });
  });
});

describe('beyond the limit on budgets of its tenant', () => {
  test('a request that needs more budgets than the limit leaves is told so', async () => {
    const tenant = await withTemplate();
    expectStatus(await put(tenant, { id: 'apps', pattern: 'app:*' }), 201);
    expectStatus(await on.holdfast.admin('PUT', `/ops/tenants/${tenant.id}/limits`, { budgets: 1 }), 200);
    const refusal = expectRefusal(await reserve(tenant, 'anna', 1), 400, 'LIMIT_EXCEEDED');
    expect(refusal.details).toMatchObject({ limit: 'budgets', allowed: 1, used: 0 });
    expect(refusal.message).toContain('leaves fewer than the request needs: 0 of 1 are in use');
    expect(await budgetsOf(tenant)).toEqual([]);
  });

  test('a request is refused with the limit, and a million users of no budget fill nothing', async () => {
    const tenant = await withTemplate();
    expectStatus(await on.holdfast.admin('PUT', `/ops/tenants/${tenant.id}/limits`, { budgets: 3 }), 200);
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) => reserve(tenant, `user-${index}`, 1)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      const { details } = expectRefusal(answer, 400, 'LIMIT_EXCEEDED');
      expect(details).toMatchObject({ limit: 'budgets', allowed: 3, used: 3 });
    }
    expect(await budgetsOf(tenant)).toHaveLength(3);
    const [known] = await budgetsOf(tenant);
    expectStatus(await reserve(tenant, String(known).split(/:| /)[2] as string, 1), 200);
    const action = { kind: 'llm.completion', name: 'x' };
    const other = { idempotency_key: newKey(), ...subject(tenant, 'other'), action };
    const debit = await on.holdfast.call('POST', '/v1/events', {
      key: tenant.key,
      body: { ...other, actual: tokens(1) },
    });
    expectRefusal(debit, 400, 'LIMIT_EXCEEDED');
    const decision = await on.holdfast.call('POST', '/v1/decide', {
      key: tenant.key,
      body: { ...other, estimate: tokens(1) },
    });
    expect(expectStatus(decision, 200)).toMatchObject({ decision: 'DENY', reason_code: 'LIMIT_EXCEEDED' });
    const pair = [
      reserveBody(tenant, 1, subject(tenant, 'one')),
      reserveBody(tenant, 1, subject(tenant, 'two')),
    ];
    expectStatus(await on.holdfast.admin('PUT', `/ops/tenants/${tenant.id}/limits`, { budgets: 4 }), 200);
    const set = await on.holdfast.call('POST', '/v1/reservation-sets', {
      key: tenant.key,
      body: { reservations: pair },
    });
    expect(expectRefusal(set, 400, 'LIMIT_EXCEEDED').details).toMatchObject({
      limit: 'budgets',
      operation: 1,
    });
    expect(await budgetsOf(tenant)).toHaveLength(3);
  });
});
