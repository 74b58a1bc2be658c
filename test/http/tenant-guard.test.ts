import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, newKey, type Answer, type TestTenant } from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

async function held(): Promise<{ tenant: TestTenant; id: string }> {
  const tenant = await on.holdfast.fundedTenant(100);
  const id = await on.holdfast.hold(tenant, 10);
  return { tenant, id: id };
}

const VERBS = {
  commit: { actual: { unit: 'TOKENS', amount: 4 } },
  release: {},
  extend: { extend_by_ms: 1000 },
} as const;
type Verb = keyof typeof VERBS;
const settle = (verb: Verb, tenant: TestTenant, id: string, idempotency_key = newKey()): Promise<Answer> =>
  on.holdfast.settle(tenant, verb, id, { ...VERBS[verb], idempotency_key });

describe('a closed tenant', () => {
  test.each(Object.keys(VERBS) as Verb[])(
    'still gets the response to an earlier %s, and TENANT_CLOSED for a new one, whatever happened to the hold',
    async (verb) => {
      shows('closed before reservation', 'replay after close');
      const { tenant, id } = await held();
      const key = newKey();
      const first = await settle(verb, tenant, id, key);
      expectStatus(first, 200);
      await on.stored.setTenantStatus(tenant.id, 'CLOSED');
      const { remaining_ttl_ms: _, ...again } = expectStatus(await settle(verb, tenant, id, key), 200);
      expect(first.body).toMatchObject(again);
      expectRefusal(await settle(verb, tenant, id), 409, 'TENANT_CLOSED');
    },
  );

  test('can be read: its reservations one by one and as a list, and its balances', async () => {
    shows('reads of closed tenant', 'reads after close');
    const { tenant, id } = await held();
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    expectStatus(await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }), 200);
    expectStatus(await on.holdfast.admin('GET', `/v1/reservations/${id}`), 200);
    for (const answer of [
      await on.holdfast.call('GET', '/v1/reservations', { key: tenant.key }),
      await on.holdfast.admin('GET', `/v1/reservations?tenant=${tenant.id}`),
    ]) {
      expect(expectStatus(answer, 200).reservations).toMatchObject([{ reservation_id: id }]);
    }
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
  });
});

describe('a tenant without a record is not guarded', () => {
  const lost = async (): Promise<{ tenant: TestTenant; id: string; key: string }> => {
    const { tenant, id } = await held();
    const { key_secret: key } = expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenant.id, name: 'unused' }),
      201,
    );
    await on.stored.redis.del(on.stored.tenantKey(tenant.id));
    // A key that is not in any cache.
    return { tenant: { id: tenant.id, key: key as string }, id, key: key as string };
  };

  test.each(['reserve', ...(Object.keys(VERBS) as Verb[])])('its %s works', async (verb) => {
    shows('tenant without record');
    const { tenant, id } = await lost();
    expectStatus(
      verb === 'reserve' ? await on.holdfast.reserve(tenant, 1) : await settle(verb as Verb, tenant, id),
      200,
    );
  });

  test('its decisions, dry runs, debits and reads work, with the defaults of the protocol', async () => {
    shows('tenant without record');
    const { tenant, id, key } = await lost();
    const request = { subject: { tenant: tenant.id }, action: { kind: 'k', name: 'n' } };
    const ask = (path: string, body: object): Promise<Answer> =>
      on.holdfast.call('POST', path, { key, body: { ...request, idempotency_key: newKey(), ...body } });
    expect(
      expectStatus(await ask('/v1/decide', { estimate: { unit: 'TOKENS', amount: 1 } }), 200),
    ).toMatchObject({ decision: 'ALLOW' });
    expect(expectStatus(await on.holdfast.reserve(tenant, 1, { dry_run: true }), 200)).toMatchObject({
      decision: 'ALLOW',
    });
    expectStatus(await ask('/v1/events', { actual: { unit: 'TOKENS', amount: 1 } }), 201);
    const fresh = expectStatus(
      await ask('/v1/reservations', { estimate: { unit: 'TOKENS', amount: 1 } }),
      200,
    );
    expect(fresh.remaining_ttl_ms).toBe(60_000);
    expectStatus(await on.holdfast.call('GET', `/v1/reservations/${id}`, { key }), 200);
    expect(
      expectStatus(await on.holdfast.call('GET', '/v1/reservations', { key }), 200).reservations,
    ).toHaveLength(2);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '88 11 1 0' });
  });

  test('changes of its policies and subscriptions work, and leave no record without a status', async () => {
    shows('tenant without record');
    const { tenant } = await held();
    const scope_pattern = `tenant:${tenant.id}`;
    const { policy_id: policy } = expectStatus(
      await on.holdfast.call('POST', '/v1/admin/policies', {
        key: tenant.key,
        body: { name: 'p', scope_pattern },
      }),
      201,
    );
    const { subscription } = expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, {
        url: PUBLIC_URL,
        event_types: ['budget.threshold_crossed'],
      }),
      201,
    );
    await on.stored.redis.del(on.stored.tenantKey(tenant.id));
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/policies/${policy}`, {
        priority: 5,
        rate_limits: { max_commits_per_minute: 1 },
      }),
      200,
    );
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/webhooks/${subscription.subscription_id}`, {
        thresholds: { budget_utilization: [0.5] },
      }),
      200,
    );
    expect(await on.stored.redis.exists(on.stored.tenantKey(tenant.id))).toBe(0);
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
  });

  test('its settings apply again once it is created again', async () => {
    shows('tenant without record');
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(
      await on.holdfast.call('POST', '/v1/admin/policies', {
        key: tenant.key,
        body: {
          name: 'p',
          scope_pattern: `tenant:${tenant.id}`,
          rate_limits: { max_commits_per_minute: 1 },
          denied_action_kinds: ['code.exec'],
        },
      }),
      201,
    );
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, {
        url: PUBLIC_URL,
        event_types: ['budget.threshold_crossed'],
        thresholds: { budget_utilization: [0.5] },
      }),
      201,
    );
    await on.stored.redis.del(on.stored.tenantKey(tenant.id));
    expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: tenant.id, name: 'n' }),
      201,
    );
    const action = { kind: 'code.exec', name: 'n' };
    expectRefusal(await on.holdfast.reserve(tenant, 1, { action }), 409, 'ACTION_KIND_DENIED');
    expectStatus(await on.holdfast.reserve(tenant, 55), 200);
    const crossings = (await on.stored.events(tenant.id)).filter(
      ({ type }) => type === 'budget.threshold_crossed',
    );
    expect(crossings).toHaveLength(1);
    const record = on.stored.redis.hmget(on.stored.tenantKey(tenant.id), 'policies', 'commit_rates', 'th');
    expect(await record).toEqual(['1', '1', '0.5,0.8,0.95,1']);
  });

  test('its key is valid', async () => {
    const { tenant, key } = await lost();
    const valid = expectStatus(
      await on.holdfast.admin('POST', '/v1/auth/validate', { key_secret: key }),
      200,
    );
    expect(valid).toMatchObject({ valid: true, tenant_id: tenant.id });
  });
});

test.each(['reserve', ...(Object.keys(VERBS) as Verb[])])(
  'an unreadable tenant status fails a %s with 500, and nothing changes',
  async (verb) => {
    shows('unreadable tenant status');
    const { tenant, id } = await held();
    await on.stored.setTenantStatus(tenant.id, 'ASLEEP');
    expectRefusal(
      verb === 'reserve' ? await on.holdfast.reserve(tenant, 1) : await settle(verb as Verb, tenant, id),
      500,
      'INTERNAL_ERROR',
    );
    await on.stored.setTenantStatus(tenant.id, 'ACTIVE');
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
  },
);
