import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { StoredHolds } from '../support/stored-holds.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
let holds: StoredHolds;
beforeAll(() => {
  holds = new StoredHolds(on.redis.url);
});
afterAll(() => {
  holds.close();
});

const MAX = 9223372036854775807n;

function eventBody(
  tenant: TestTenant,
  amount: bigint | number,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    idempotency_key: newKey(),
    subject: { tenant: tenant.id, agent: 'Bot' },
    action: { kind: 'llm.completion', name: 'test-model' },
    actual: { unit: 'TOKENS', amount },
    ...more,
  };
}

const post = (tenant: TestTenant, body: unknown): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/events', { key: tenant.key, body });
const record = (
  tenant: TestTenant,
  amount: bigint | number,
  more: Record<string, unknown> = {},
): Promise<Answer> => post(tenant, eventBody(tenant, amount, more));

/** A tenant with a budget at its root and one at its agent. */
async function funded(
  root: bigint | number,
  agent: bigint | number,
  limits: { root?: number; agent?: number } = {},
): Promise<TestTenant> {
  const tenant = await on.holdfast.createTenant();
  const overdraft = (amount: number): Json => ({ overdraft_limit: { unit: 'TOKENS', amount } });
  await on.holdfast.createBudget(tenant, '', root, overdraft(limits.root ?? 0));
  await on.holdfast.createBudget(tenant, '/agent:bot', agent, overdraft(limits.agent ?? 0));
  return tenant;
}

/** Remaining, reserved, spent and debt at the root and at the agent. */
async function figures(tenant: TestTenant): Promise<[string, string]> {
  const balances = await on.holdfast.balances(tenant);
  return [balances[`tenant:${tenant.id}`] ?? '', balances[`tenant:${tenant.id}/agent:bot`] ?? ''];
}

const metric = (tenant: TestTenant, labels: Record<string, string>): Promise<number> =>
  on.holdfast.metric('cycles_events_total', { tenant: tenant.id, ...labels });

describe('a direct debit', () => {
  test('is 201 APPLIED with its own kind of id, and charges every budgeted scope', async () => {
    shows('direct debit atomic', 'createEvent');
    const tenant = await funded(100, 60);
    const body = expectStatus(await record(tenant, 25), 201);
    expect(body).toEqual({
      status: 'APPLIED',
      event_id: expect.stringMatching(/^evn_[0-9a-f]{2}[0-9A-Za-z]{9}[0-9a-f]{11}$/),
      balances: expect.any(Array),
    });
    expect(
      body.balances.map(({ scope_path, spent, remaining }: Json) => [
        scope_path,
        spent.amount,
        remaining.amount,
      ]),
    ).toEqual([
      [`tenant:${tenant.id}`, 25, 75],
      [`tenant:${tenant.id}/agent:bot`, 25, 35],
    ]);
    expect(await figures(tenant)).toEqual(['75 0 25 0', '35 0 25 0']);
    expect(await metric(tenant, { decision: 'APPLIED', reason: 'OK', overage_policy: 'DEFAULT' })).toBe(1);
  });

  test('is kept in the event log with everything in its request', async () => {
    const tenant = await funded(100, 60);
    const more = {
      metadata: { recovered_reservation_id: 'rsv_x' },
      metrics: { tokens_input: 7 },
      client_time_ms: 1,
      overage_policy: 'REJECT',
    };
    const { event_id: id } = expectStatus(await record(tenant, 25, more), 201);
    const told = (await on.stored.events(tenant.id)).filter(
      ({ type }) => type === 'custom.direct_debit.applied',
    );
    expect(told.map(({ fields }) => fields)).toEqual([
      expect.objectContaining({
        event_id: id,
        actual_amount: '25',
        charged: '25',
        unit: 'TOKENS',
        overage_policy: 'REJECT',
        ag: 'Bot',
        ak: 'llm.completion',
        md: '{"recovered_reservation_id":"rsv_x"}',
        metrics: '{"tokens_input":7}',
        client_time_ms: '1',
        sc: `tenant:${tenant.id}/agent:bot`,
      }),
    ]);
  });

  test('REJECT: 409 BUDGET_EXCEEDED when one scope has too little, and nothing changes', async () => {
    shows('direct debit refusals');
    const tenant = await funded(100, 60);
    const refused = await record(tenant, 61, { overage_policy: 'REJECT', metadata: { secret: 1 } });
    expectRefusal(refused, 409, 'BUDGET_EXCEEDED');
    expect(await figures(tenant)).toEqual(['100 0 0 0', '60 0 0 0']);
    const denials = await on.holdfast.admin(
      'GET',
      `/v1/admin/events?tenant_id=${tenant.id}&event_type=custom.direct_debit.denied`,
    );
    expect(expectStatus(denials, 200).events).toEqual([
      expect.objectContaining({
        category: 'budget',
        scope: `tenant:${tenant.id}/agent:bot`,
        actor: { type: 'api_key', key_id: expect.any(String) },
        request_id: refused.headers.get('x-request-id'),
        data: expect.objectContaining({ requested_amount: 61, remaining: 60 }),
      }),
    ]);
    expect(denials.text).not.toContain('secret');
    expectStatus(await record(tenant, 60, { overage_policy: 'REJECT' }), 201);
    expect(
      await metric(tenant, { decision: 'DENY', reason: 'BUDGET_EXCEEDED', overage_policy: 'REJECT' }),
    ).toBe(1);
  });

  test('ALLOW_IF_AVAILABLE: is charged as far as every scope can pay, and the scope with too little is over its limit', async () => {
    const tenant = await funded(100, 60);
    const body = expectStatus(await record(tenant, 80), 201);
    expect(body.charged).toEqual({ unit: 'TOKENS', amount: 60 });
    expect(body.balances.map(({ is_over_limit }: Json) => is_over_limit)).toEqual([undefined, true]);
    expect(await figures(tenant)).toEqual(['40 0 60 0', '0 0 60 0']);
    const subject = { tenant: tenant.id, agent: 'bot' };
    expectRefusal(await on.holdfast.reserve(tenant, 0, { subject }), 409, 'OVERDRAFT_LIMIT_EXCEEDED');
    const capped = eventBody(tenant, 5, { subject });
    const answer = await post(tenant, capped);
    expect(expectStatus(answer, 201).charged).toEqual({ unit: 'TOKENS', amount: 0 });
    expect((await post(tenant, capped)).text).toBe(answer.text);
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
  });

  test('ALLOW_WITH_OVERDRAFT: what is unfunded becomes debt, up to the limit of every scope', async () => {
    shows('direct debit refusals');
    const tenant = await funded(50, 30, { root: 100, agent: 40 });
    const body = expectStatus(await record(tenant, 60, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }), 201);
    expect(body).not.toHaveProperty('charged');
    expect(await figures(tenant)).toEqual(['-10 0 50 10', '-30 0 30 30']);
    expectRefusal(
      await record(tenant, 11, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
      409,
      'OVERDRAFT_LIMIT_EXCEEDED',
    );
    expect(await figures(tenant)).toEqual(['-10 0 50 10', '-30 0 30 30']);
    expectStatus(await record(tenant, 10, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }), 201);
    expect(await on.holdfast.metric('cycles_overdraft_incurred_total', { tenant: tenant.id })).toBe(2);
    expect(
      await metric(tenant, {
        decision: 'DENY',
        reason: 'OVERDRAFT_LIMIT_EXCEEDED',
        overage_policy: 'ALLOW_WITH_OVERDRAFT',
      }),
    ).toBe(1);
  });

  test('is accepted with debt outstanding or over the limit: only its own policy limits it', async () => {
    const tenant = await funded(100, 100);
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id), {
      debt: '10',
      remaining: '90',
      is_over_limit: '1',
    });
    expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'OVERDRAFT_LIMIT_EXCEEDED');
    expectStatus(await record(tenant, 90, { overage_policy: 'REJECT' }), 201);
  });

  test("takes the tenant's default policy, and its debt event says so", async () => {
    const tenant = await on.holdfast.fundedTenant(
      5,
      { default_commit_overage_policy: 'ALLOW_WITH_OVERDRAFT' },
      { overdraft_limit: { unit: 'TOKENS', amount: 50 } },
    );
    expectStatus(await record(tenant, 10), 201);
    const told = (await on.stored.events(tenant.id)).filter(({ type }) => type === 'budget.debt_incurred');
    expect(told.map(({ fields }) => fields)).toEqual([
      expect.objectContaining({
        debt_incurred: '5',
        total_debt: '5',
        overage_policy: 'ALLOW_WITH_OVERDRAFT',
      }),
    ]);
  });

  test('is 409 on a frozen or closed budget, 404 without one, 400 in another unit', async () => {
    shows('wrong unit');
    const tenant = await funded(100, 60);
    const key = on.stored.budgetKey(tenant.id, '/agent:bot');
    await on.stored.redis.hset(key, 'status', 'FROZEN');
    expectRefusal(await record(tenant, 1), 409, 'BUDGET_FROZEN');
    await on.stored.redis.hset(key, 'status', 'CLOSED');
    expectRefusal(await record(tenant, 1), 409, 'BUDGET_CLOSED');
    const refusal = expectRefusal(
      await record(tenant, 1, { actual: { unit: 'CREDITS', amount: 1 } }),
      400,
      'UNIT_MISMATCH',
    );
    expect(refusal.details).toEqual({
      scope: `tenant:${tenant.id}/agent:bot`,
      requested_unit: 'CREDITS',
      expected_units: ['TOKENS'],
    });
    const poor = await on.holdfast.createTenant();
    expect(expectRefusal(await record(poor, 1), 404, 'NOT_FOUND').message).toContain(
      'Budget not found for provided scope',
    );
  });

  test('is 409 TENANT_CLOSED for a closed tenant with no debit, while an earlier one still replays as 201', async () => {
    shows('closed tenant refuses');
    const tenant = await funded(100, 60);
    const body = eventBody(tenant, 25);
    const first = await post(tenant, body);
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    expectRefusal(await record(tenant, 1), 409, 'TENANT_CLOSED');
    const again = await post(tenant, body);
    expect([again.status, again.text]).toEqual([201, first.text]);
    expect(await on.stored.redis.hget(on.stored.budgetKey(tenant.id), 'spent')).toBe('25');
  });

  test("is 500 and no debit when the tenant's record cannot be trusted", async () => {
    shows('unreadable tenant status');
    const tenant = await funded(100, 60);
    expectStatus(await record(tenant, 1), 201);
    await on.stored.setTenantStatus(tenant.id, 'ASLEEP');
    expectRefusal(await record(tenant, 1), 500, 'INTERNAL_ERROR');
    await on.stored.setTenantStatus(tenant.id, 'ACTIVE');
    expect(await figures(tenant)).toEqual(['99 0 1 0', '59 0 1 0']);
  });

  test('replays byte for byte after other traffic, debits once, and refuses another request under the same key', async () => {
    shows('replay', 'idempotency mismatch');
    const tenant = await funded(100, 60);
    const body = eventBody(tenant, 80, { metadata: { a: 1, b: 2 } });
    const first = await post(tenant, body);
    expectStatus(await on.holdfast.reserve(tenant, 10), 200);
    const before = await figures(tenant);
    const again = await post(tenant, { ...body, metadata: { b: 2, a: 1 } });
    expect([again.status, again.text]).toEqual([201, first.text]);
    expect(await figures(tenant)).toEqual(before);
    expectRefusal(await post(tenant, { ...body, overage_policy: 'REJECT' }), 409, 'IDEMPOTENCY_MISMATCH');
    expect(await metric(tenant, { decision: 'APPLIED', reason: 'IDEMPOTENT_REPLAY' })).toBe(1);
    expect(await metric(tenant, { decision: 'APPLIED', reason: 'OK' })).toBe(1);
  });

  test('twenty equal requests at once debit once', async () => {
    const tenant = await funded(100, 60);
    const body = eventBody(tenant, 3);
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(tenant, body)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(await figures(tenant)).toEqual(['97 0 3 0', '57 0 3 0']);
  });

  test('fifty at once against a budget for ten: under REJECT ten succeed', async () => {
    const tenant = await funded(1000, 100);
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => record(tenant, 10, { overage_policy: 'REJECT' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([
      ...Array<number>(10).fill(201),
      ...Array<number>(40).fill(409),
    ]);
    expect(await figures(tenant)).toEqual(['900 0 100 0', '0 0 100 0']);
  });

  test('records, under the same key, usage whose commit came too late', async () => {
    const tenant = await funded(100, 60);
    const subject = { tenant: tenant.id, agent: 'bot' };
    const id = await on.holdfast.hold(tenant, 20, { subject, grace_period_ms: 0 });
    await holds.expireIn(id, -1000);
    const key = newKey();
    const commit = { idempotency_key: key, actual: { unit: 'TOKENS', amount: 15 } };
    expectRefusal(await on.holdfast.settle(tenant, 'commit', id, commit), 410, 'RESERVATION_EXPIRED');
    const metadata = { recovered_reservation_id: id, recovery_reason: 'RESERVATION_EXPIRED' };
    const recovery = eventBody(tenant, 15, { idempotency_key: key, subject, metadata });
    const first = await post(tenant, recovery);
    expect(expectStatus(first, 201)).not.toHaveProperty('charged');
    expect((await post(tenant, recovery)).text).toBe(first.text);
    expectRefusal(await on.holdfast.settle(tenant, 'commit', id, commit), 410, 'RESERVATION_EXPIRED');
    expect(await figures(tenant)).toEqual(['85 0 15 0', '45 0 15 0']);
  });

  test('with the key of a commit that succeeded is a debit of its own', async () => {
    const tenant = await funded(100, 60);
    const id = await on.holdfast.hold(tenant, 20);
    const key = newKey();
    expectStatus(
      await on.holdfast.settle(tenant, 'commit', id, {
        idempotency_key: key,
        actual: { unit: 'TOKENS', amount: 20 },
      }),
      200,
    );
    expectStatus(await record(tenant, 5, { idempotency_key: key, subject: { tenant: tenant.id } }), 201);
    expect(await figures(tenant)).toEqual(['75 0 25 0', '60 0 0 0']);
  });

  test('is exact for the largest int64', async () => {
    const tenant = await on.holdfast.fundedTenant(MAX);
    expect(expectStatus(await record(tenant, 9007199254740993n), 201).balances[0].spent.amount).toBe(
      9007199254740993n,
    );
    const rest = MAX - 9007199254740993n;
    const body = eventBody(tenant, rest);
    const answer = await post(tenant, body);
    expect(expectStatus(answer, 201).balances[0].spent.amount).toBe(MAX);
    expect((await post(tenant, body)).text).toBe(answer.text);
    expectRefusal(await record(tenant, MAX + 1n), 400, 'INVALID_REQUEST');
  });

  test('refuses another tenant, a subject of dimensions only, and what is out of bounds', async () => {
    shows('subject of another tenant');
    const tenant = await funded(100, 60);
    expectRefusal(await record(tenant, 1, { subject: { tenant: 'other-tenant' } }), 403, 'FORBIDDEN');
    expectRefusal(await record(tenant, 1, { subject: { dimensions: { a: 'b' } } }), 400, 'INVALID_REQUEST');
    expectRefusal(await record(tenant, -1), 400, 'INVALID_REQUEST');
    expectRefusal(await record(tenant, 1, { client_time_ms: -1 }), 400, 'INVALID_REQUEST');
    expectRefusal(await record(tenant, 1, { overage_policy: 'MAYBE' }), 400, 'INVALID_REQUEST');
    expectRefusal(await record(tenant, 1, { dry_run: true }), 400, 'INVALID_REQUEST');
    const headers = { 'x-idempotency-key': newKey() };
    expectRefusal(
      await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body: eventBody(tenant, 1), headers }),
      400,
      'INVALID_REQUEST',
    );
    expect(await figures(tenant)).toEqual(['100 0 0 0', '60 0 0 0']);
  });

  test("needs the permission to commit, inside the key's scopes", async () => {
    const tenant = await funded(100, 60);
    const creator = await on.holdfast.createKey(tenant.id, { permissions: ['reservations:create'] });
    expectRefusal(await record({ id: tenant.id, key: creator }, 1), 403, 'FORBIDDEN');
    const settler = await on.holdfast.createKey(tenant.id, {
      permissions: ['reservations:commit'],
      scope_filter: ['agent:bot'],
    });
    expectStatus(await record({ id: tenant.id, key: settler }, 1), 201);
    expectRefusal(
      await record({ id: tenant.id, key: settler }, 1, { subject: { tenant: tenant.id } }),
      403,
      'FORBIDDEN',
    );
  });
});
