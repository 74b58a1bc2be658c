import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

const decideAs = (tenant: TestTenant, body: Record<string, unknown>): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/decide', { key: tenant.key, body });
const decide = (
  tenant: TestTenant,
  amount: bigint | number,
  more: Record<string, unknown> = {},
): Promise<Answer> => decideAs(tenant, reserveBody(tenant, amount, more));

const setBudget = (tenant: TestTenant, fields: Record<string, string>): Promise<unknown> =>
  on.stored.redis.hset(on.stored.budgetKey(tenant.id), fields);
const eventsOf = async (tenant: TestTenant): Promise<Readonly<Record<string, string>>[]> =>
  (await on.stored.events(tenant.id))
    .filter(({ type }) => type === 'reservation.denied')
    .map(({ fields }) => fields);

describe('decide', () => {
  test('answers ALLOW with the affected scopes and holds nothing', async () => {
    shows('decide');
    const tenant = await on.holdfast.fundedTenant(100);
    const scope = `tenant:${tenant.id}`;
    const answer = await decide(tenant, 100, { subject: { tenant: tenant.id, agent: 'Bot' } });
    expect(expectStatus(answer, 200)).toEqual({
      decision: 'ALLOW',
      affected_scopes: [scope, `${scope}/agent:bot`],
    });
    expect(answer.headers.get('x-cycles-tenant')).toBe(tenant.id);
    expect(await on.holdfast.balances(tenant)).toEqual({ [scope]: '100 0 0 0' });
    expect(
      await on.holdfast.metric('holdfast_decisions_total', {
        tenant: tenant.id,
        decision: 'ALLOW',
        reason: 'OK',
      }),
    ).toBe(1);
  });

  test("assumes the key's own tenant for a subject without one", async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const answer = await decide(tenant, 1, { subject: { agent: 'bot' } });
    expect(expectStatus(answer, 200).affected_scopes).toEqual([
      `tenant:${tenant.id}`,
      `tenant:${tenant.id}/agent:bot`,
    ]);
  });

  const states: [string, Record<string, string>, number][] = [
    ['BUDGET_EXCEEDED', {}, 101],
    ['BUDGET_FROZEN', { status: 'FROZEN' }, 1],
    ['BUDGET_CLOSED', { status: 'CLOSED' }, 1],
    ['OVERDRAFT_LIMIT_EXCEEDED', { is_over_limit: '1' }, 0],
    ['DEBT_OUTSTANDING', { debt: '1', remaining: '99' }, 0],
  ];
  test.each(states)(
    'answers 200 DENY %s for the state of a budget, and emits one event',
    async (reason, fields, amount) => {
      shows('decision on debt');
      const tenant = await on.holdfast.fundedTenant(100);
      await setBudget(tenant, { status: 'ACTIVE', ...fields });
      const body = reserveBody(tenant, amount, {
        subject: { tenant: tenant.id, agent: 'Bot' },
        metadata: { a: 1 },
      });
      const scope = `tenant:${tenant.id}`;
      const first = await decideAs(tenant, body);
      expect(expectStatus(first, 200)).toEqual({
        decision: 'DENY',
        reason_code: reason,
        affected_scopes: [scope, `${scope}/agent:bot`],
      });
      expect((await decideAs(tenant, body)).text).toBe(first.text);
      expect(await eventsOf(tenant)).toEqual([
        expect.objectContaining({
          reason_code: reason,
          sc: scope,
          requested_amount: String(amount),
          unit: 'TOKENS',
          ag: 'Bot',
          ak: 'llm.completion',
          an: 'test-model',
          remaining: fields['remaining'] ?? '100',
          ac: 'api_key',
          rq: first.headers.get('x-request-id'),
        }),
      ]);
      expect(
        await on.holdfast.metric('holdfast_decisions_total', { tenant: tenant.id, decision: 'DENY', reason }),
      ).toBe(1);
    },
  );

  test('answers 200 DENY BUDGET_NOT_FOUND where there is no budget, and 400 where there is one in another unit', async () => {
    shows('wrong unit');
    const tenant = await on.holdfast.createTenant();
    expect(expectStatus(await decide(tenant, 1), 200)).toMatchObject({
      decision: 'DENY',
      reason_code: 'BUDGET_NOT_FOUND',
    });
    await on.holdfast.createBudget(tenant, '', 100, { unit: 'CREDITS' });
    expect(expectRefusal(await decide(tenant, 1), 400, 'UNIT_MISMATCH').details).toEqual({
      scope: `tenant:${tenant.id}`,
      requested_unit: 'TOKENS',
      expected_units: ['CREDITS'],
    });
  });

  test('answers 200 DENY TENANT_CLOSED, as a dry run does, and replays its earlier decisions', async () => {
    shows('closed tenant denies');
    const tenant = await on.holdfast.fundedTenant(100);
    const body = reserveBody(tenant, 1);
    const before = await decideAs(tenant, body);
    expect(before.body.decision).toBe('ALLOW');
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    expect(expectStatus(await decide(tenant, 1), 200)).toMatchObject({
      decision: 'DENY',
      reason_code: 'TENANT_CLOSED',
    });
    expect(expectStatus(await on.holdfast.reserve(tenant, 1, { dry_run: true }), 200)).toMatchObject({
      decision: 'DENY',
      reason_code: 'TENANT_CLOSED',
    });
    expect((await decideAs(tenant, body)).text).toBe(before.text);
    expect((await eventsOf(tenant)).map((fields) => fields['reason_code'])).toEqual([
      'TENANT_CLOSED',
      'TENANT_CLOSED',
    ]);
  });

  test("answers 500 when the tenant's record cannot be trusted, and emits no event", async () => {
    shows('unreadable tenant status');
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(await decide(tenant, 1), 200);
    await on.stored.setTenantStatus(tenant.id, 'ASLEEP');
    for (const answer of [await decide(tenant, 1), await on.holdfast.reserve(tenant, 1, { dry_run: true })]) {
      expectRefusal(answer, 500, 'INTERNAL_ERROR');
    }
    expect(await eventsOf(tenant)).toEqual([]);
    await on.stored.setTenantStatus(tenant.id, 'ACTIVE');
  });

  test('replays byte for byte whatever happened since, and refuses another request under the same key', async () => {
    shows('replay', 'idempotency mismatch');
    const tenant = await on.holdfast.fundedTenant(100);
    const body = reserveBody(tenant, 60);
    const first = await decideAs(tenant, body);
    expectStatus(await on.holdfast.reserve(tenant, 100), 200);
    const again = await decideAs(tenant, body);
    expect([again.status, again.text]).toEqual([200, first.text]);
    expectRefusal(
      await decideAs(tenant, { ...body, estimate: { unit: 'TOKENS', amount: 61 } }),
      409,
      'IDEMPOTENCY_MISMATCH',
    );
    expect(expectStatus(await decide(tenant, 60), 200).decision).toBe('DENY');
    expect(
      await on.holdfast.metric('holdfast_decisions_total', {
        tenant: tenant.id,
        reason: 'IDEMPOTENT_REPLAY',
      }),
    ).toBe(1);
  });

  test('does not share its keys with reserves', async () => {
    shows('idempotency scope');
    const tenant = await on.holdfast.fundedTenant(100);
    const body = reserveBody(tenant, 10);
    expect(expectStatus(await decideAs(tenant, body), 200).decision).toBe('ALLOW');
    expect(
      expectStatus(await on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body }), 200)
        .decision,
    ).toBe('ALLOW');
    expect(expectStatus(await decideAs(tenant, body), 200).decision).toBe('ALLOW');
  });

  test('evaluates twenty equal concurrent requests once', async () => {
    const tenant = await on.holdfast.fundedTenant(1);
    const body = reserveBody(tenant, 2);
    const answers = await Promise.all(Array.from({ length: 20 }, () => decideAs(tenant, body)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(await eventsOf(tenant)).toHaveLength(1);
  });

  test('is exact for the largest int64', async () => {
    const tenant = await on.holdfast.fundedTenant(9223372036854775806n);
    expect(expectStatus(await decide(tenant, 9223372036854775806n), 200).decision).toBe('ALLOW');
    expect(expectStatus(await decide(tenant, 9223372036854775807n), 200).decision).toBe('DENY');
  });

  test('refuses another tenant, a subject of dimensions only, and what is out of bounds', async () => {
    shows('subject of another tenant');
    const tenant = await on.holdfast.fundedTenant(100);
    expectRefusal(await decide(tenant, 1, { subject: { tenant: 'other-tenant' } }), 403, 'FORBIDDEN');
    expectRefusal(await decide(tenant, 1, { subject: { dimensions: { a: 'b' } } }), 400, 'INVALID_REQUEST');
    expectRefusal(await decide(tenant, -1), 400, 'INVALID_REQUEST');
    expectRefusal(await decide(tenant, 1, { idempotency_key: '' }), 400, 'INVALID_REQUEST');
    expectRefusal(await decide(tenant, 1, { ttl_ms: 1000 }), 400, 'INVALID_REQUEST');
    const body = reserveBody(tenant, 1);
    const headers = { 'x-idempotency-key': newKey() };
    expectRefusal(
      await on.holdfast.call('POST', '/v1/decide', { key: tenant.key, body, headers }),
      400,
      'INVALID_REQUEST',
    );
    expectRefusal(await on.holdfast.call('POST', '/v1/decide', { body }), 401, 'UNAUTHORIZED');
  });

  test("needs the permission to reserve, inside the key's scopes", async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const reader = await on.holdfast.createKey(tenant.id, {
      permissions: ['balances:read', 'reservations:commit'],
    });
    expectRefusal(await decide({ id: tenant.id, key: reader }, 1), 403, 'FORBIDDEN');
    const confined = {
      id: tenant.id,
      key: await on.holdfast.createKey(tenant.id, { scope_filter: ['agent:a'] }),
    };
    expectRefusal(await decide(confined, 1), 403, 'FORBIDDEN');
    expectStatus(await decide(confined, 1, { subject: { tenant: tenant.id, agent: 'a' } }), 200);
  });
});
