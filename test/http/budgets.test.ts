import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const MAX = 9223372036854775807n;
const CENTURY = { period_start: '2000-01-01T00:00:00.000Z', period_end: '2100-01-01T00:00:00.000Z' };

describe('budgets', () => {
  const on = useGovernance();

  const rootOf = (tenant: TestTenant): string => `tenant:${tenant.id}`;
  const bodyOf = (tenant: TestTenant, more: Record<string, unknown> = {}): Record<string, unknown> => ({
    scope: rootOf(tenant),
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: 100 },
    ...more,
  });
  const createAs = (tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Answer> =>
    on.holdfast.call('POST', '/v1/admin/budgets', { key: tenant.key, body: bodyOf(tenant, more) });
  const createAsAdmin = (tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Answer> =>
    on.holdfast.admin('POST', '/v1/admin/budgets', { tenant_id: tenant.id, ...bodyOf(tenant, more) });
  const lookUp = (tenant: TestTenant, scope = rootOf(tenant), unit = 'TOKENS'): Promise<Answer> =>
    on.holdfast.call('GET', `/v1/admin/budgets/lookup?scope=${encodeURIComponent(scope)}&unit=${unit}`, {
      key: tenant.key,
    });
  const credit = (
    tenant: TestTenant,
    amount: bigint | number,
    more: Record<string, unknown> = {},
    query = '',
  ): Promise<Answer> =>
    on.holdfast.call('POST', `/v1/admin/budgets/fund?scope=${rootOf(tenant)}&unit=TOKENS${query}`, {
      key: tenant.key,
      body: { operation: 'CREDIT', amount: { unit: 'TOKENS', amount }, idempotency_key: newKey(), ...more },
    });

  describe('creation', () => {
    test('a new ledger has all of its allocation remaining, and is found by scope and unit', async () => {
      shows('ledger tenant', 'createBudget', 'lookupBudget');
      const tenant = await on.holdfast.createTenant();
      const amount = (value: number): Json => ({ unit: 'TOKENS', amount: value });
      const ledger = expectStatus(
        await createAs(tenant, {
          overdraft_limit: amount(5),
          commit_overage_policy: 'REJECT',
          metadata: { cost_centre: 7 },
          rollover_policy: 'NONE',
        }),
        201,
      );
      expect(ledger).toEqual({
        ledger_id: expect.stringMatching(/^ldg_[0-9a-f]{2}[0-9A-Za-z]{16}$/),
        tenant_id: tenant.id,
        scope: rootOf(tenant),
        scope_path: rootOf(tenant),
        unit: 'TOKENS',
        allocated: amount(100),
        remaining: amount(100),
        reserved: amount(0),
        spent: amount(0),
        debt: amount(0),
        overdraft_limit: amount(5),
        is_over_limit: false,
        commit_overage_policy: 'REJECT',
        status: 'ACTIVE',
        rollover_policy: 'NONE',
        created_at: expect.stringMatching(/Z$/),
        updated_at: expect.stringMatching(/Z$/),
      });
      expect(expectStatus(await lookUp(tenant), 200)).toEqual(ledger);
      expect(await on.stored.redis.hget(on.stored.budgetKey(tenant.id), 'metadata')).toBe(
        '{"cost_centre":7}',
      );
    });

    test('a period and a rollover policy are stored, shown and part of the event', async () => {
      const tenant = await on.holdfast.createTenant();
      const period = { ...CENTURY, rollover_policy: 'CARRY_FORWARD' };
      expect(expectStatus(await createAs(tenant, period), 201)).toMatchObject(period);
      expect(expectStatus(await lookUp(tenant), 200)).toMatchObject(period);
      const listed = await on.holdfast.call('GET', '/v1/admin/budgets', { key: tenant.key });
      expect(expectStatus(listed, 200).ledgers).toMatchObject([period]);
      const events = await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`);
      const created = expectStatus(events, 200).events.find(
        (event: Json) => event.event_type === 'budget.created',
      );
      expect(created.data.new_state).toMatchObject(CENTURY);
    });

    test('the event has the figures and the creator', async () => {
      const tenant = await on.holdfast.createTenant();
      expectStatus(await createAs(tenant), 201);
      expectStatus(await createAsAdmin(tenant, { scope: `${rootOf(tenant)}/app:x` }), 201);
      const events = (await on.stored.events(tenant.id)).filter(({ type }) => type === 'budget.created');
      expect(
        events.map(({ fields }) => [
          fields['ac'],
          fields['sc'],
          fields['operation'],
          fields['new_allocated'],
          fields['unit'],
        ]),
      ).toEqual([
        ['api_key', rootOf(tenant), 'CREATE', '100', 'TOKENS'],
        ['admin_on_behalf_of', `${rootOf(tenant)}/app:x`, 'CREATE', '100', 'TOKENS'],
      ]);
    });

    test('the largest int64 is stored and returned exactly', async () => {
      const tenant = await on.holdfast.fundedTenant(MAX);
      const ledger = expectStatus(await lookUp(tenant), 200);
      expect(ledger.allocated.amount).toBe(MAX);
      expect(ledger.remaining.amount).toBe(MAX);
    });

    test('scopes are lower case, so the same scope in upper case is a duplicate', async () => {
      const tenant = await on.holdfast.createTenant();
      const ledger = expectStatus(await createAs(tenant, { scope: `TENANT:${tenant.id}/Agent:Bot` }), 201);
      expect(ledger.scope).toBe(`${rootOf(tenant)}/agent:bot`);
      expectRefusal(
        await createAs(tenant, { scope: `${rootOf(tenant)}/agent:bot` }),
        409,
        'DUPLICATE_RESOURCE',
      );
      expectStatus(await lookUp(tenant, `${rootOf(tenant)}/AGENT:BOT`), 200);
    });

    test('a duplicate is refused and changes nothing; another unit of the scope is another ledger', async () => {
      shows('new ledger');
      const tenant = await on.holdfast.fundedTenant(100);
      expectRefusal(
        await createAs(tenant, { allocated: { unit: 'TOKENS', amount: 7 } }),
        409,
        'DUPLICATE_RESOURCE',
      );
      expect(expectStatus(await lookUp(tenant), 200).allocated.amount).toBe(100);
      expectStatus(
        await createAs(tenant, { unit: 'CREDITS', allocated: { unit: 'CREDITS', amount: 7 } }),
        201,
      );
    });

    test('of parallel creations one wins', async () => {
      const tenant = await on.holdfast.createTenant();
      const answers = await Promise.all(Array.from({ length: 10 }, () => createAs(tenant)));
      expect(answers.map(({ status }) => status).sort()).toEqual([
        201,
        ...Array.from({ length: 9 }, () => 409),
      ]);
    });

    test.each<[string, (tenant: TestTenant) => Record<string, unknown>, string]>([
      ['a scope without a tenant', () => ({ scope: 'workspace:eng' }), 'scope'],
      ['a scope in the wrong order', ({ id }) => ({ scope: `tenant:${id}/agent:a/app:b` }), 'scope'],
      ['a scope that repeats a level', ({ id }) => ({ scope: `tenant:${id}/app:a/app:b` }), 'scope'],
      ['a scope with an unknown level', ({ id }) => ({ scope: `tenant:${id}/team:a` }), 'scope'],
      ['a scope with a space', ({ id }) => ({ scope: `tenant:${id}/app:a b` }), 'scope'],
      ['a scope with an empty segment', ({ id }) => ({ scope: `tenant:${id}/` }), 'scope'],
      ['an unknown unit', () => ({ unit: 'EUR' }), 'unit'],
      ['a negative allocation', () => ({ allocated: { unit: 'TOKENS', amount: -1 } }), 'allocated.amount'],
      ['a fractional allocation', () => ({ allocated: { unit: 'TOKENS', amount: 0.5 } }), 'allocated.amount'],
      [
        'an allocation beyond int64',
        () => ({ allocated: { unit: 'TOKENS', amount: MAX + 1n } }),
        'allocated.amount',
      ],
      [
        'an overdraft limit beyond int64',
        () => ({ overdraft_limit: { unit: 'TOKENS', amount: MAX + 1n } }),
        'overdraft_limit.amount',
      ],
      ['an unknown rollover policy', () => ({ rollover_policy: 'CARRY' }), 'rollover_policy'],
      ['a period without an end', () => ({ period_start: '2020-01-01T00:00:00Z' }), 'period_end'],
      ['a period that has ended', () => ({ period_end: '2020-01-01T00:00:00Z' }), 'period_end'],
      [
        'a period that has not begun',
        () => ({ period_start: '2100-01-01T00:00:00Z', period_end: '2100-02-01T00:00:00Z' }),
        'period_start',
      ],
      ['a period before 1970', () => ({ ...CENTURY, period_start: '1969-12-31T00:00:00Z' }), 'period_start'],
      [
        'a period that ends before it begins',
        () => ({ ...CENTURY, period_end: '1999-01-01T00:00:00Z' }),
        'period_end',
      ],
      ['a period that is not an instant', () => ({ period_end: '2100-01-01' }), 'period_end'],
      ['an unknown overage policy', () => ({ commit_overage_policy: 'ALLOW' }), 'commit_overage_policy'],
      ['an unknown field', () => ({ colour: 'red' }), 'colour'],
    ])('%s is refused, naming the field', async (_what, more, field) => {
      shows('new ledger');
      const tenant = await on.holdfast.createTenant();
      expect(expectRefusal(await createAs(tenant, more(tenant)), 400, 'INVALID_REQUEST').message).toContain(
        field,
      );
    });

    test('amounts in another unit are a unit mismatch', async () => {
      const tenant = await on.holdfast.createTenant();
      expectRefusal(
        await createAs(tenant, { allocated: { unit: 'CREDITS', amount: 1 } }),
        400,
        'UNIT_MISMATCH',
      );
      expectRefusal(
        await createAs(tenant, { overdraft_limit: { unit: 'CREDITS', amount: 1 } }),
        400,
        'UNIT_MISMATCH',
      );
    });

    test('an operator must name the tenant, a key must not, and the scope must agree', async () => {
      shows('operator names owner');
      const [tenant, other] = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
      expectRefusal(
        await on.holdfast.admin('POST', '/v1/admin/budgets', bodyOf(tenant)),
        400,
        'INVALID_REQUEST',
      );
      expectRefusal(await createAs(tenant, { tenant_id: tenant.id }), 400, 'INVALID_REQUEST');
      expectRefusal(await createAsAdmin(tenant, { scope: rootOf(other) }), 400, 'INVALID_REQUEST');
      expectRefusal(await createAs(tenant, { scope: rootOf(other) }), 403, 'FORBIDDEN');
      const nobody = { id: 'nobody-here', key: '' };
      expectRefusal(await createAsAdmin(nobody), 400, 'INVALID_REQUEST');
    });

    test('closed and suspended tenants get no budgets', async () => {
      shows('new ledger');
      const tenant = await on.holdfast.createTenant();
      await on.stored.setTenantStatus(tenant.id, 'SUSPENDED');
      expectRefusal(await createAsAdmin(tenant), 400, 'INVALID_REQUEST');
      await on.stored.setTenantStatus(tenant.id, 'CLOSED');
      expectRefusal(await createAsAdmin(tenant), 409, 'TENANT_CLOSED');
      expectRefusal(await createAs(tenant), 409, 'TENANT_CLOSED');
    });
  });

  describe('lookup', () => {
    test("no key sees another tenant's budget, but an operator sees every budget", async () => {
      shows('budget access');
      const [tenant, other] = [await on.holdfast.fundedTenant(100), await on.holdfast.createTenant()];
      const refused = await lookUp(other, rootOf(tenant));
      expectRefusal(refused, 403, 'FORBIDDEN');
      expect(refused.body.details).toEqual({ field: 'scope' });
      expectStatus(
        await on.holdfast.admin('GET', `/v1/admin/budgets/lookup?scope=${rootOf(tenant)}&unit=TOKENS`),
        200,
      );
    });

    test('an unknown budget is 404, an invalid scope or unit is 400', async () => {
      const tenant = await on.holdfast.createTenant();
      expectRefusal(await lookUp(tenant), 404, 'BUDGET_NOT_FOUND');
      expectRefusal(await lookUp(tenant, 'odd'), 400, 'INVALID_REQUEST');
      expectRefusal(await lookUp(tenant, rootOf(tenant), 'EUR'), 400, 'INVALID_REQUEST');
      expectRefusal(await on.holdfast.admin('GET', '/v1/admin/budgets/lookup'), 400, 'INVALID_REQUEST');
    });
  });

  describe('a record that Holdfast did not write this way', () => {
    test.each(['remaining', 'allocated', 'status', 'ledger_id', 'created_at'])(
      'with a damaged %s is a 500, and is not changed',
      async (field) => {
        const tenant = await on.holdfast.fundedTenant(100);
        const key = on.stored.budgetKey(tenant.id);
        const sound = (await on.stored.redis.hget(key, field)) as string;
        await on.stored.redis.hdel(key, field);
        const damaged = await on.stored.redis.hgetall(key);
        try {
          expectRefusal(await lookUp(tenant), 500, 'INTERNAL_ERROR');
          if (['remaining', 'allocated', 'status'].includes(field)) {
            expectRefusal(await credit(tenant, 1), 500, 'INTERNAL_ERROR');
            expectRefusal(await createAs(tenant), 500, 'INTERNAL_ERROR');
            expect(await on.stored.redis.hgetall(key)).toEqual(damaged);
          }
        } finally {
          await on.stored.redis.hset(key, field, sound);
        }
      },
    );
  });
});
