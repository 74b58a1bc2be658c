import { describe, expect, test } from '@jest/globals';
import { treeOrder } from '../../src/ledger/scopes.js';
import { budgetIndexKey } from '../../src/redis/keyspace.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { BulkActionTrace } from '../support/bulk-action-trace.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { auditEntriesOf } from '../support/stored-audit.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const BULK = '/v1/admin/budgets/bulk-action';
const MAX = 9223372036854775807n;
const tokens = (amount: number | bigint): Json => ({ unit: 'TOKENS', amount });

const act = (
  tenant: TestTenant,
  action: string,
  amount: number | bigint,
  more: Json = {},
): Promise<Answer> => {
  const { filter = {}, ...rest } = more as { filter?: object };
  return on.holdfast.admin('POST', BULK, {
    filter: { tenant_id: tenant.id, ...filter },
    action,
    amount: tokens(amount),
    idempotency_key: newKey(),
    ...rest,
  });
};
const stored = (tenant: TestTenant, below = '', unit = 'TOKENS'): Promise<Record<string, string>> =>
  on.stored.redis.hgetall(on.stored.budgetKey(tenant.id, below, unit));
const idOf = async (tenant: TestTenant, below = '', unit = 'TOKENS'): Promise<string> =>
  (await stored(tenant, below, unit))['ledger_id'] as string;
const figuresOf = async (tenant: TestTenant, below = ''): Promise<Record<string, string | undefined>> => {
  const { allocated, remaining, reserved, spent, debt } = await stored(tenant, below);
  return { allocated, remaining, reserved, spent, debt };
};
const requestIdOf = (answer: Answer): string => answer.headers.get('x-request-id') as string;
const idsIn = (rows: Json[]): string[] => rows.map(({ id }) => id as string).sort();

/** A tenant with a budget of 100 TOKENS at its root and at each of these agents. */
async function budgeted(...agents: string[]): Promise<TestTenant> {
  const tenant = await on.holdfast.createTenant();
  for (const below of ['', ...agents.map((agent) => `/agent:${agent}`)]) {
    await on.holdfast.createBudget(tenant, below, 100);
  }
  return tenant;
}

/** Spends 30 of the root budget and holds 10, without debt. */
async function used(tenant: TestTenant): Promise<void> {
  const id = await on.holdfast.hold(tenant, 30);
  expectStatus(await on.holdfast.commit(tenant, id, 30), 200);
  expectStatus(await on.holdfast.reserve(tenant, 10), 200);
}

/** A tenant whose root budget of 100 has a debt of 30. */
async function indebted(): Promise<TestTenant> {
  const tenant = await on.holdfast.fundedTenant(100, {}, { overdraft_limit: tokens(50) });
  const held = expectStatus(
    await on.holdfast.reserve(tenant, 100, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
    200,
  );
  expectStatus(await on.holdfast.commit(tenant, held.reservation_id as string, 130), 200);
  return tenant;
}

const toldOf = async (tenant: TestTenant, requestId: string) =>
  (await on.stored.events(tenant.id)).filter(({ fields }) => fields['rq'] === requestId);

describe('a bulk action on budgets', () => {
  test.each<[action: string, amount: number, more: Json, event: string, figures: object]>([
    ['CREDIT', 50, {}, 'budget.funded', { allocated: '150', remaining: '110', spent: '30' }],
    ['DEBIT', 60, {}, 'budget.debited', { allocated: '40', remaining: '0', spent: '30' }],
    ['RESET', 35, {}, 'budget.reset', { allocated: '35', remaining: '-5', spent: '30' }],
    ['RESET_SPENT', 200, {}, 'budget.reset_spent', { allocated: '200', remaining: '190', spent: '0' }],
    [
      'RESET_SPENT',
      200,
      { spent: tokens(195) },
      'budget.reset_spent',
      { allocated: '200', remaining: '-5', spent: '195' },
    ],
  ])('%s of %d changes each budget as funding it does', async (action, amount, more, event, figures) => {
    shows('bulk budgets', 'bulk events', 'bulkActionBudgets');
    const tenant = await budgeted('a');
    await used(tenant);
    const answer = await act(tenant, action, amount, { ...more, expected_count: 2, reason: 'because' });
    const ids = [await idOf(tenant), await idOf(tenant, '/agent:a')].sort();
    expect(expectStatus(answer, 200)).toEqual({
      action,
      total_matched: 2,
      succeeded: ids.map((id) => ({ id })),
      failed: [],
      skipped: [],
      idempotency_key: expect.any(String),
    });
    expect(await figuresOf(tenant)).toEqual({ reserved: '10', debt: '0', ...figures });
    const told = await toldOf(tenant, requestIdOf(answer));
    const others = ['budget.exhausted', 'budget.threshold_crossed'];
    expect(told.filter(({ type }) => !others.includes(type))).toHaveLength(2);
    expect(
      told.find(({ type, fields }) => type === event && fields['sc'] === `tenant:${tenant.id}`)?.fields,
    ).toMatchObject({
      operation: action,
      ledger_id: await idOf(tenant),
      previous_allocated: '100',
      reason: 'because',
      ac: 'admin_on_behalf_of',
      co: `budget_bulk_action:${action.toLowerCase()}:${requestIdOf(answer)}`,
    });
  });

  test('emits the same event for each budget as funding it alone, found by its correlation', async () => {
    shows('bulk budgets');
    const [one, other] = [await indebted(), await indebted()];
    const query = `scope=tenant:${one.id}&unit=TOKENS&tenant_id=${one.id}`;
    const body = { operation: 'CREDIT', amount: tokens(500), reason: 'same' };
    const single = await on.holdfast.admin('POST', `/v1/admin/budgets/fund?${query}`, body);
    expectStatus(single, 200);
    const bulk = await act(other, 'CREDIT', 500, { reason: 'same' });
    expectStatus(bulk, 200);
    const told = async (tenant: TestTenant, answer: Answer) =>
      (await toldOf(tenant, requestIdOf(answer))).map(({ type, fields }) => {
        const { rq: _rq, tr: _tr, co: _co, tn: _tn, sc: _sc, ledger_id: _ledger, ...rest } = fields;
        return [type, rest];
      });
    expect(await told(other, bulk)).toEqual(await told(one, single));
    expect(await figuresOf(other)).toEqual(await figuresOf(one));
    const found = await on.holdfast.admin(
      'GET',
      `/v1/admin/events?correlation_id=budget_bulk_action:credit:${requestIdOf(bulk)}`,
    );
    expect((expectStatus(found, 200).events as Json[]).map(({ event_type }) => event_type)).toContain(
      'budget.funded',
    );
  });

  test('repays debt with REPAY_DEBT, and skips budgets without any', async () => {
    shows('bulk budgets', 'bulk skipped budgets');
    const tenant = await indebted();
    await on.holdfast.createBudget(tenant, '/agent:a', 100);
    const [root, agent] = [await idOf(tenant), await idOf(tenant, '/agent:a')];
    const first = expectStatus(await act(tenant, 'REPAY_DEBT', 20), 200);
    const skipped = { id: agent, reason: 'ALREADY_IN_TARGET_STATE' };
    expect(first).toMatchObject({ succeeded: [{ id: root }], failed: [], skipped: [skipped] });
    expect(await figuresOf(tenant)).toMatchObject({ debt: '10', allocated: '100', remaining: '-10' });
    const second = await act(tenant, 'REPAY_DEBT', 25, { filter: { has_debt: true }, expected_count: 1 });
    expect(expectStatus(second, 200).succeeded).toEqual([{ id: root }]);
    expect(await figuresOf(tenant)).toMatchObject({ debt: '0', allocated: '115', remaining: '15' });
    expect((await toldOf(tenant, requestIdOf(second))).map(({ type }) => type)).toContain(
      'budget.debt_repaid',
    );
    expect(await figuresOf(tenant, '/agent:a')).toMatchObject({ allocated: '100', remaining: '100' });
  });

  test('skips a budget that would not change, without an event', async () => {
    shows('bulk skipped budgets');
    const tenant = await budgeted('a');
    await on.holdfast.createBudget(tenant, '/agent:b', 70);
    const answer = await act(tenant, 'RESET', 70);
    expect(expectStatus(answer, 200)).toMatchObject({
      failed: [],
      skipped: [{ id: await idOf(tenant, '/agent:b'), reason: 'ALREADY_IN_TARGET_STATE' }],
    });
    expect(await toldOf(tenant, requestIdOf(answer))).toHaveLength(2);
    const credit = expectStatus(await act(tenant, 'CREDIT', 0), 200);
    expect(credit).toMatchObject({ total_matched: 3, succeeded: [], failed: [] });
    expect(credit.skipped).toHaveLength(3);
  });

  test('changes a budget whose next periods would have another allocation', async () => {
    const tenant = await budgeted();
    const budget = `scope=tenant:${tenant.id}&unit=TOKENS`;
    const calendar = { every: 'day', time_zone: 'UTC' };
    expectStatus(await on.holdfast.admin('PUT', `/ops/budgets/recurrence?${budget}`, calendar), 200);
    expectStatus(await act(tenant, 'CREDIT', 10), 200);
    const answer = expectStatus(await act(tenant, 'RESET', 110), 200);
    expect(answer).toMatchObject({ succeeded: [{ id: await idOf(tenant) }], skipped: [] });
    expect(await stored(tenant)).toMatchObject({ allocated: '110', period_allocated: '110' });
    expect(expectStatus(await act(tenant, 'RESET', 110), 200).skipped).toHaveLength(1);
  });

  test('fails rows in another unit, closed, frozen or without enough funds, and continues with the others', async () => {
    shows('bulk failed budgets', 'bulk damaged row');
    const tenant = await budgeted('frozen', 'closed', 'poor', 'damaged', 'without-id');
    await on.holdfast.createBudget(tenant, '', 500, {
      unit: 'CREDITS',
      allocated: { unit: 'CREDITS', amount: 500 },
    });
    const ids = Object.fromEntries(
      await Promise.all(
        ['frozen', 'closed', 'poor', 'damaged'].map(async (agent) => [
          agent,
          await idOf(tenant, `/agent:${agent}`),
        ]),
      ),
    ) as Record<string, string>;
    const set = (agent: string, fields: Record<string, string>): Promise<number> =>
      on.stored.redis.hset(on.stored.budgetKey(tenant.id, `/agent:${agent}`), fields);
    await set('frozen', { status: 'FROZEN' });
    await set('closed', { status: 'CLOSED' });
    await set('poor', { allocated: '4', remaining: '4' });
    await set('damaged', { spent: 'some' });
    await on.stored.redis.hdel(on.stored.budgetKey(tenant.id, '/agent:without-id'), 'ledger_id');
    const answer = await act(tenant, 'DEBIT', 5, { expected_count: 7 });
    const body = expectStatus(answer, 200);
    const byId = (one: Json, other: Json): number => (one.id < other.id ? -1 : 1);
    expect(idsIn(body.succeeded)).toEqual(
      [await idOf(tenant), `tenant:${tenant.id}/agent:without-id TOKENS`].sort(),
    );
    expect((body.failed as Json[]).sort(byId)).toEqual(
      [
        {
          id: await idOf(tenant, '', 'CREDITS'),
          error_code: 'INVALID_TRANSITION',
          message: expect.stringContaining('CREDITS'),
        },
        { id: ids['frozen'], error_code: 'INVALID_TRANSITION', message: expect.stringContaining('frozen') },
        { id: ids['closed'], error_code: 'INVALID_TRANSITION', message: expect.stringContaining('closed') },
        { id: ids['poor'], error_code: 'BUDGET_EXCEEDED', message: expect.any(String) },
        { id: ids['damaged'], error_code: 'INTERNAL_ERROR', message: expect.any(String) },
      ].sort(byId),
    );
    expect(body.skipped).toEqual([]);
    expect(await figuresOf(tenant, '/agent:poor')).toMatchObject({ allocated: '4' });
    expect((await stored(tenant, '', 'CREDITS'))['allocated']).toBe('500');
    expect(await toldOf(tenant, requestIdOf(answer))).toHaveLength(2);
    const rows = await on.holdfast.metric('holdfast_bulk_action_rows_total', {
      operation: 'bulkActionBudgets',
      outcome: 'failed',
    });
    expect(rows).toBeGreaterThanOrEqual(5);
    await set('damaged', { spent: '0' });
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id, '/agent:without-id'), 'ledger_id', 'ldg_found');
  });

  test('is exact up to int64, and fails the row that would exceed it', async () => {
    shows('bulk failed budgets');
    const tenant = await budgeted('a');
    expectStatus(await act(tenant, 'RESET', MAX, { filter: { scope_prefix: `tenant:${tenant.id}/` } }), 200);
    expect(await figuresOf(tenant, '/agent:a')).toMatchObject({
      allocated: String(MAX),
      remaining: String(MAX),
    });
    const body = expectStatus(await act(tenant, 'CREDIT', 9007199254740993n), 200);
    expect(body.failed).toEqual([
      { id: await idOf(tenant, '/agent:a'), error_code: 'INVALID_REQUEST', message: expect.any(String) },
    ]);
    expect(await figuresOf(tenant)).toMatchObject({ allocated: '9007199254741093' });
  });

  test('fails all rows of a closed tenant, and nothing changes', async () => {
    shows('change after close', 'bulk failed budgets');
    const tenant = await budgeted('a');
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    const body = expectStatus(await act(tenant, 'CREDIT', 1), 200);
    expect(body.succeeded).toEqual([]);
    expect((body.failed as Json[]).map(({ error_code }) => error_code)).toEqual([
      'TENANT_CLOSED',
      'TENANT_CLOSED',
    ]);
    expect(await figuresOf(tenant)).toMatchObject({ allocated: '100' });
  });

  test('has exactly one audit row, in the log of the tenant, with the amount and the outcome of each budget', async () => {
    shows('bulk events', 'bulk budgets');
    const tenant = await budgeted();
    const answer = await act(tenant, 'RESET_SPENT', 70, { spent: tokens(3), reason: 'a\nnew period' });
    expectStatus(answer, 200);
    const listed = await on.holdfast.admin('GET', `/v1/admin/audit/logs?tenant_id=${tenant.id}`);
    const rows = (expectStatus(listed, 200).logs as Json[]).filter(
      ({ request_id: id }) => id === requestIdOf(answer),
    );
    expect(rows).toEqual([
      expect.objectContaining({
        operation: 'bulkActionBudgets',
        status: 200,
        resource_type: 'budget',
        resource_id: '*',
        tenant_id: tenant.id,
        metadata: expect.objectContaining({
          actor_type: 'admin_on_behalf_of',
          action: 'RESET_SPENT',
          unit: 'TOKENS',
          amount: '70',
          spent: '3',
          reason: 'a new period',
          succeeded_ids: [await idOf(tenant)],
          failed_rows: [],
          skipped_rows: [],
          filter: { tenant_id: tenant.id },
          duration_ms: expect.any(Number),
        }),
      }),
    ]);
    const all = await on.holdfast.admin('GET', `/v1/admin/audit/logs?request_id=${requestIdOf(answer)}`);
    expect(expectStatus(all, 200).logs).toHaveLength(1);
  });

  test('with a scope_prefix changes the scope itself and all below it, and no scope whose name only begins like it', async () => {
    shows('bulk filters');
    const tenant = await on.holdfast.createTenant();
    const within = ['/workspace:eng', '/workspace:eng/app:a', '/workspace:eng/app:a/agent:b'];
    const besides = [
      '',
      '/workspace:eng-2',
      '/workspace:eng-2/app:b',
      '/workspace:eng.b',
      '/workspace:engineering',
    ];
    for (const below of [...within, ...besides]) {
      await on.holdfast.createBudget(tenant, below, 100);
    }
    const filter = { scope_prefix: `tenant:${tenant.id}/workspace:ENG` };
    const { succeeded } = expectStatus(await act(tenant, 'RESET', 7, { filter }), 200);
    expect(succeeded).toHaveLength(3);
    for (const below of [...within, ...besides]) {
      const { allocated } = await figuresOf(tenant, below);
      expect([below, allocated]).toEqual([below, within.includes(below) ? '7' : '100']);
    }
  });

  test('filters as the list does', async () => {
    shows('bulk filters');
    const tenant = await budgeted('a', 'b');
    await on.holdfast.createBudget(tenant, '/workspace:w', 100);
    await on.holdfast.createBudget(tenant, '/workspace:w/agent:c', 100, {
      unit: 'CREDITS',
      allocated: { unit: 'CREDITS', amount: 7 },
    });
    await used(tenant);
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id, '/agent:a'), { is_over_limit: '1' });
    await on.stored.redis.hset(on.stored.budgetKey(tenant.id, '/agent:b'), { status: 'FROZEN' });
    const root = `tenant:${tenant.id}`;
    for (const filter of [
      {},
      { scope_prefix: `${root.toUpperCase()}/workspace:W` },
      { unit: 'CREDITS' },
      { status: 'FROZEN' },
      { over_limit: true },
      { over_limit: false, unit: 'TOKENS' },
      { has_debt: true },
      { has_debt: false },
      { utilization_min: 0.3 },
      { utilization_max: 0.29 },
      { search: 'AGENT:' },
    ]) {
      const query = new URLSearchParams({ tenant_id: tenant.id, ...(filter as Record<string, string>) });
      const listed = expectStatus(
        await on.holdfast.admin('GET', `/v1/admin/budgets?${query.toString()}`),
        200,
      ).ledgers as Json[];
      const body = expectStatus(
        await act(tenant, 'REPAY_DEBT', 1, { filter, expected_count: listed.length }),
        200,
      );
      expect(idsIn([...body.skipped, ...body.failed])).toEqual(
        listed.map(({ ledger_id }) => ledger_id as string).sort(),
      );
    }
  });
});

describe('a bulk action on budgets is refused', () => {
  // In order of precedence: each request has its own mistake and those of all that follow.
  const wrong = {
    count: { expected_count: 7 },
    tenant: { filter: { tenant_id: 'nobody' } },
    used: { idempotency_key: 'used-by-another-action' },
    spent: { action: 'RESET_SPENT', spent: { unit: 'CREDITS', amount: 1 } },
    range: { filter: { tenant_id: 'nobody', utilization_min: 0.5, utilization_max: 0.4 } },
    amount: { amount: undefined },
  };
  const all = [wrong.amount, wrong.range, wrong.spent, wrong.used, wrong.tenant, wrong.count];
  const since = (first: number): Json =>
    all.slice(first).reduceRight<Json>((merged, more) => ({ ...merged, ...more }), {});
  test.each<[string, Json, number, string]>([
    ['for its form first', since(0), 400, 'INVALID_REQUEST'],
    ['then for bounds that cross', since(1), 400, 'INVALID_REQUEST'],
    ['then for a spent in another unit', since(2), 400, 'UNIT_MISMATCH'],
    ['then for a key that another action used', since(3), 409, 'IDEMPOTENCY_MISMATCH'],
    ['then for a tenant that does not exist', since(4), 404, 'TENANT_NOT_FOUND'],
    ['then for the count', since(5), 409, 'COUNT_MISMATCH'],
  ])('%s', async (_what, more, status, code) => {
    shows('bulk refusals', 'bulk budget requests');
    const tenant = await budgeted();
    const first = await on.holdfast.createTenant();
    await act(first, 'CREDIT', 1, wrong.used);
    expectRefusal(await act(tenant, 'CREDIT', 1, more), status, code);
    expect(await figuresOf(tenant)).toMatchObject({ allocated: '100' });
  });

  test.each<[string, Json]>([
    ['no tenant', { filter: { tenant_id: undefined } }],
    ['an empty tenant', { filter: { tenant_id: '' } }],
    ['an unknown part of the filter', { filter: { scope: 'x' } }],
    ['a utilization above 1', { filter: { utilization_max: 1.1 } }],
    ['a long search', { filter: { search: 'x'.repeat(129) } }],
    ['an unknown action', { action: 'FREEZE' }],
    ['a negative amount', { amount: tokens(-1) }],
    ['an amount beyond int64', { amount: tokens(MAX + 1n) }],
    ['a negative spent', { action: 'RESET_SPENT', spent: tokens(-1) }],
    ['a long reason', { reason: 'x'.repeat(513) }],
    ['no idempotency key', { idempotency_key: undefined }],
    ['an endless idempotency key', { idempotency_key: 'x'.repeat(129) }],
    ['a negative count', { expected_count: -1 }],
  ])('with %s', async (_what, more) => {
    shows('bulk budget requests');
    expectRefusal(await act(await budgeted(), 'CREDIT', 1, more), 400, 'INVALID_REQUEST');
  });

  test('when the number of matches is not the expected one, and as a whole beyond 500 matches', async () => {
    shows('bulk refusals');
    const tenant = await budgeted();
    const mismatch = expectRefusal(
      await act(tenant, 'CREDIT', 1, { expected_count: 2 }),
      409,
      'COUNT_MISMATCH',
    );
    expect(mismatch.details).toEqual({ total_matched: 1, expected_count: 2 });
    const template = await stored(tenant);
    const pipeline = on.stored.redis.pipeline();
    for (let index = 0; index < 500; index += 1) {
      const below = `/agent:n${index}`;
      pipeline
        .hset(on.stored.budgetKey(tenant.id, below), { ...template, ledger_id: `ldg_${index}` })
        .zadd(
          budgetIndexKey(on.stored.tagOf(tenant.id), tenant.id),
          0,
          treeOrder(`tenant:${tenant.id}${below} TOKENS`),
        );
    }
    await pipeline.exec();
    const refusal = expectRefusal(await act(tenant, 'CREDIT', 1), 400, 'LIMIT_EXCEEDED');
    expect(refusal.details).toEqual({ total_matched: 501, limit: 500 });
    expect(await figuresOf(tenant)).toMatchObject({ allocated: '100' });
    const filter = { scope_prefix: `tenant:${tenant.id}/` };
    expect(expectStatus(await act(tenant, 'CREDIT', 1, { filter }), 200).succeeded).toHaveLength(500);
  });

  test('with an API key, whatever it may do', async () => {
    shows('bulk operators only');
    const tenant = await budgeted();
    const key = await on.holdfast.createKey(tenant.id, { permissions: ['admin:write', 'budgets:write'] });
    const body = {
      filter: { tenant_id: tenant.id },
      action: 'CREDIT',
      amount: tokens(1),
      idempotency_key: newKey(),
    };
    expectRefusal(await on.holdfast.call('POST', BULK, { key, body }), 401, 'UNAUTHORIZED');
    expect(await figuresOf(tenant)).toMatchObject({ allocated: '100' });
  });
});

describe('the same bulk action on budgets again', () => {
  test('is answered with the first response, and no budget is funded twice', async () => {
    shows('bulk idempotency');
    const tenant = await budgeted('a');
    const body = { idempotency_key: newKey() };
    const first = await act(tenant, 'CREDIT', 5, body);
    expectStatus(first, 200);
    const again = await act(tenant, 'CREDIT', 5, body);
    expect([again.status, again.text]).toEqual([200, first.text]);
    expect(await figuresOf(tenant)).toMatchObject({ allocated: '105' });
    for (const [other, more] of [
      [tenant, { ...body, amount: tokens(6) }],
      [tenant, { ...body, action: 'DEBIT' }],
      [tenant, { ...body, filter: { unit: 'TOKENS' } }],
      [await budgeted(), body],
    ] as [TestTenant, Json][]) {
      expectRefusal(await act(other, 'CREDIT', 5, more), 409, 'IDEMPOTENCY_MISMATCH');
    }
    expect(await figuresOf(tenant)).toMatchObject({ allocated: '105' });
  });

  test('by several at once happens once, and all get one response', async () => {
    shows('bulk idempotency');
    const tenant = await budgeted('a', 'b', 'c');
    const body = { idempotency_key: newKey() };
    const answers = await Promise.all(Array.from({ length: 4 }, () => act(tenant, 'CREDIT', 5, body)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(expectStatus(answers[0] as Answer, 200).succeeded).toHaveLength(4);
    for (const below of ['', '/agent:a', '/agent:b', '/agent:c']) {
      expect(await figuresOf(tenant, below)).toMatchObject({ allocated: '105' });
    }
    const rows = await on.holdfast.admin(
      'GET',
      `/v1/admin/audit/logs?tenant_id=${tenant.id}&operation=bulkActionBudgets`,
    );
    const written = (expectStatus(rows, 200).logs as Json[]).filter(({ metadata }) => 'filter' in metadata);
    expect(written).toHaveLength(1);
  });

  test("continues with one whose process died between rows, under the first one's correlation", async () => {
    shows('bulk idempotency');
    const tenant = await budgeted('a', 'b', 'c');
    const scopes = ['', '/agent:a', '/agent:b', '/agent:c'];
    const rows = await Promise.all(
      scopes.map(async (below) => `${await idOf(tenant, below)} tenant:${tenant.id}${below} TOKENS`),
    );
    const requestId = `req_${'f'.repeat(24)}`;
    const correlation = `budget_bulk_action:credit:${requestId}`;
    const trace = new BulkActionTrace(new ScriptRegistry(on.stored.redis), on.stored, requestId, correlation);
    const request = { filter: { tenant_id: tenant.id }, amount: tokens(5), idempotency_key: newKey() };
    await trace.begin('budgets', { ...request, action: 'CREDIT' }, rows);
    await trace.creditBudgets(
      tenant.id,
      scopes.slice(0, 2).map((below) => `tenant:${tenant.id}${below}`),
      5,
    );

    const { idempotency_key } = request;
    const first = await act(tenant, 'CREDIT', 5, { idempotency_key });
    expect(expectStatus(first, 200)).toMatchObject({ total_matched: 4, failed: [], skipped: [] });
    expect(first.body.succeeded).toHaveLength(4);
    for (const below of scopes) {
      expect(await figuresOf(tenant, below)).toMatchObject({ allocated: '105' });
    }
    const told = await toldOf(tenant, requestId);
    expect(told.map(({ type, fields }) => [type, fields['co']])).toEqual(
      Array(4).fill(['budget.funded', correlation]),
    );
    expect((await act(tenant, 'CREDIT', 5, { idempotency_key })).text).toBe(first.text);
    const audited = (await auditEntriesOf(on.holdfast, '*')).filter(({ request_id: id }) => id === requestId);
    expect(audited).toHaveLength(1);
  });
});
