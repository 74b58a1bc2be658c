import { describe, expect, test } from '@jest/globals';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const DEPLOYMENT = { budgets: 3, policies: 2, api_keys: 4, webhooks: 2 };
const on = useGovernance(
  {},
  {
    tenantMaxBudgets: 3,
    tenantMaxPolicies: 2,
    tenantMaxApiKeys: 4,
    tenantMaxWebhooks: 2,
  },
);

const limitsPath = (tenant: string): string => `/ops/tenants/${tenant}/limits`;
const put = (tenant: TestTenant, limits: object): Promise<Answer> =>
  on.holdfast.admin('PUT', limitsPath(tenant.id), limits);
const read = async (tenant: TestTenant): Promise<Json> =>
  expectStatus(await on.holdfast.admin('GET', limitsPath(tenant.id)), 200).limits;
const refusals = (limit: string): Promise<number> =>
  on.holdfast.metric('holdfast_tenant_limit_refusals_total', { limit });

type Create = (tenant: TestTenant) => Promise<Answer>;
const tokens = { unit: 'TOKENS', amount: 1 };

const CREATE: Record<keyof typeof DEPLOYMENT, Create> = {
  budgets: ({ id, key }) =>
    on.holdfast.call('POST', '/v1/admin/budgets', {
      key,
      body: { scope: `tenant:${id}/agent:${newKey()}`, unit: 'TOKENS', allocated: tokens },
    }),
  policies: ({ id, key }) =>
    on.holdfast.call('POST', '/v1/admin/policies', {
      key,
      body: { name: newKey(), scope_pattern: `tenant:${id}` },
    }),
  api_keys: ({ id }) => on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: id, name: 'a' }),
  webhooks: ({ id }) =>
    on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${id}`, {
      url: 'https://93.184.215.14/hook',
      event_types: ['reservation.expired'],
    }),
};
const LIMITS = Object.keys(DEPLOYMENT) as (keyof typeof DEPLOYMENT)[];

/** Creates until this many are in use. A new tenant already has one API key. */
async function fill(tenant: TestTenant, limit: keyof typeof DEPLOYMENT, used: number): Promise<void> {
  for (let have = (await read(tenant))[limit].used as number; have < used; have += 1) {
    expectStatus(await CREATE[limit](tenant), 201);
  }
}

describe('what a tenant may own', () => {
  test.each(LIMITS)(
    '%s: creates up to the limit, then 400 LIMIT_EXCEEDED, counted and with nothing written',
    async (limit) => {
      const tenant = await on.holdfast.createTenant();
      await fill(tenant, limit, DEPLOYMENT[limit]);
      const before = await refusals(limit);
      const { details, message } = expectRefusal(await CREATE[limit](tenant), 400, 'LIMIT_EXCEEDED');
      expect(details).toEqual({ limit, allowed: DEPLOYMENT[limit], used: DEPLOYMENT[limit] });
      expect(message).toContain(limit);
      expect(await refusals(limit)).toBe(before + 1);
      expect((await read(tenant))[limit]).toEqual({
        limit: DEPLOYMENT[limit],
        source: 'deployment',
        used: DEPLOYMENT[limit],
      });
    },
  );

  test.each(LIMITS)('%s: of many concurrent ones exactly as many as fit are created', async (limit) => {
    const tenant = await on.holdfast.createTenant();
    expectStatus(await put(tenant, { [limit]: 7 }), 200);
    await fill(tenant, limit, 4);
    const answers = await Promise.all(Array.from({ length: 12 }, () => CREATE[limit](tenant)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(3);
    expect(
      answers.filter(({ status, body }) => status === 400 && body.error === 'LIMIT_EXCEEDED'),
    ).toHaveLength(9);
    expect((await read(tenant))[limit].used).toBe(7);
  });

  test('a repeated creation gets its first response', async () => {
    const tenant = await on.holdfast.createTenant();
    const body = { scope: `tenant:${tenant.id}`, unit: 'TOKENS', allocated: tokens };
    const create = (): Promise<Answer> =>
      on.holdfast.call('POST', '/v1/admin/budgets', { key: tenant.key, body });
    expectStatus(await create(), 201);
    await fill(tenant, 'budgets', DEPLOYMENT.budgets);
    expectRefusal(await create(), 409, 'DUPLICATE_RESOURCE');
  });

  test('removing a subscription makes room for another', async () => {
    const tenant = await on.holdfast.createTenant();
    await fill(tenant, 'webhooks', 1);
    const { subscription } = expectStatus(await CREATE.webhooks(tenant), 201);
    expectRefusal(await CREATE.webhooks(tenant), 400, 'LIMIT_EXCEEDED');
    expectStatus(
      await on.holdfast.admin('DELETE', `/v1/admin/webhooks/${subscription.subscription_id}`),
      204,
    );
    expectStatus(await CREATE.webhooks(tenant), 201);
  });

  test("the operators' own subscriptions have no such limit", async () => {
    const body = { url: 'https://93.184.215.14/hook', event_types: ['reservation.expired'] };
    for (let made = 0; made <= DEPLOYMENT.webhooks; made += 1) {
      expectStatus(await on.holdfast.admin('POST', '/v1/admin/webhooks', body), 201);
    }
  });

  test('0 means no limit, and the defaults allow much', async () => {
    const without = await Holdfast.start({ REDIS_URL: on.redis.url, tenantMaxPolicies: 0 });
    try {
      const tenant = await without.createTenant();
      const limits = expectStatus(await without.admin('GET', limitsPath(tenant.id)), 200).limits;
      const shown = Object.fromEntries(
        Object.entries<Json>(limits).map(([name, state]) => [name, state.limit]),
      );
      expect(shown).toEqual({
        live_reservations: 1_000_000,
        budgets: 100_000,
        policies: 0,
        api_keys: 1000,
        webhooks: 100,
        stored_bytes: 68_719_476_736,
      });
      for (let made = 0; made <= DEPLOYMENT.policies; made += 1) {
        const body = { name: newKey(), scope_pattern: `tenant:${tenant.id}` };
        expectStatus(await without.call('POST', '/v1/admin/policies', { key: tenant.key, body }), 201);
      }
    } finally {
      await without.stop();
    }
  });
});

describe('what a tenant holds and stores', () => {
  async function limited(limits: object): Promise<TestTenant> {
    const tenant = await on.holdfast.fundedTenant(1000);
    expectStatus(await put(tenant, limits), 200);
    return tenant;
  }

  test('live reservations: one too many is 429 with the time to wait, and counted; settling, expiry and closing make room', async () => {
    const tenant = await limited({ live_reservations: 2 });
    const first = await on.holdfast.hold(tenant, 1);
    const second = await on.holdfast.hold(tenant, 1);
    const before = await refusals('live_reservations');
    const answer = await on.holdfast.reserve(tenant, 1);
    expect(expectRefusal(answer, 429, 'LIMIT_EXCEEDED').details).toEqual({
      limit: 'live_reservations',
      allowed: 2,
      used: 2,
    });
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(Number(answer.headers.get('x-ratelimit-reset'))).toBeGreaterThan(1_700_000_000);
    expect(await refusals('live_reservations')).toBe(before + 1);
    expect(
      await on.holdfast.metric('cycles_reservations_reserve_total', {
        tenant: tenant.id,
        reason: 'LIMIT_EXCEEDED',
      }),
    ).toBe(1);
    const dry = expectStatus(await on.holdfast.reserve(tenant, 1, { dry_run: true }), 200);
    expect([dry.decision, dry.reason_code]).toEqual(['DENY', 'LIMIT_EXCEEDED']);
    expectStatus(await on.holdfast.commit(tenant, first, 1), 200);
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    expectRefusal(await on.holdfast.reserve(tenant, 1), 429, 'LIMIT_EXCEEDED');
    expectStatus(await on.holdfast.settle(tenant, 'release', second), 200);
    expect((await read(tenant)).live_reservations).toEqual({ limit: 2, source: 'tenant', used: 1 });
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }),
      200,
    );
    expect((await read(tenant)).live_reservations.used).toBe(0);
  });

  test('stored bytes: a request beyond the limit is 429, while settling continues', async () => {
    const tenant = await limited({ stored_bytes: 20_000 });
    const metadata = { text: 'x'.repeat(8000) };
    const id = await on.holdfast.hold(tenant, 1, { metadata });
    expectStatus(await on.holdfast.reserve(tenant, 1, { metadata }), 200);
    const answer = await on.holdfast.reserve(tenant, 1, { metadata });
    expect(expectRefusal(answer, 429, 'LIMIT_EXCEEDED').details).toMatchObject({
      limit: 'stored_bytes',
      allowed: 20_000,
    });
    expect(answer.headers.get('retry-after')).toBe('60');
    expectStatus(await on.holdfast.commit(tenant, id, 1, { metadata }), 200);
    expect((await read(tenant)).stored_bytes.used).toBeGreaterThan(24_000);
  });
});

describe("a tenant's own limits", () => {
  const audited = async (tenant: TestTenant): Promise<Json[]> =>
    (
      expectStatus(
        await on.holdfast.admin('GET', `/v1/admin/audit/logs?tenant_id=${tenant.id}&limit=100`),
        200,
      ).logs as Json[]
    ).filter(({ operation }) => operation.endsWith('TenantLimits'));

  test("come before the deployment's, both ways, and each change is in the audit log", async () => {
    const tenant = await on.holdfast.createTenant();
    await fill(tenant, 'budgets', 2);
    const answer = expectStatus(await put(tenant, { budgets: 2, policies: 0 }), 200);
    expect(answer).toEqual({ tenant_id: tenant.id, limits: await read(tenant) });
    expect(answer.limits.budgets).toEqual({ limit: 2, source: 'tenant', used: 2 });
    expect(answer.limits.policies).toEqual({ limit: 0, source: 'tenant', used: 0 });
    expect(answer.limits.api_keys.source).toBe('deployment');
    expect(expectRefusal(await CREATE.budgets(tenant), 400, 'LIMIT_EXCEEDED').details).toEqual({
      limit: 'budgets',
      allowed: 2,
      used: 2,
    });
    await fill(tenant, 'policies', DEPLOYMENT.policies + 1);

    expectStatus(await put(tenant, { budgets: 4 }), 200);
    await fill(tenant, 'budgets', 4);
    expectRefusal(await CREATE.policies(tenant), 400, 'LIMIT_EXCEEDED');
    expectStatus(await put(tenant, { budgets: 4 }), 200);

    const removed = expectStatus(await on.holdfast.admin('DELETE', limitsPath(tenant.id)), 200);
    expect(removed.limits.budgets).toEqual({ limit: 3, source: 'deployment', used: 4 });
    expectRefusal(await CREATE.budgets(tenant), 400, 'LIMIT_EXCEEDED');
    expect(
      (await audited(tenant))
        .map(({ operation, metadata }) => [operation, metadata.previous_limits, metadata.new_limits])
        .reverse(),
    ).toEqual([
      ['replaceTenantLimits', undefined, 'budgets=2,policies=0'],
      ['replaceTenantLimits', 'budgets=2,policies=0', 'budgets=4'],
      ['removeTenantLimits', 'budgets=4', undefined],
    ]);
  });

  test.each([
    ['a negative number', { budgets: -1 }],
    ['a fraction', { budgets: 1.5 }],
    ['a text', { budgets: '5' }],
    ['null', { budgets: null }],
    ['an unknown limit', { tenants: 5 }],
    ['too large a number', { stored_bytes: 1_000_000_000_001 }],
  ])('are refused with %s, and do not change', async (_, limits) => {
    const tenant = await on.holdfast.createTenant();
    expectStatus(await put(tenant, { budgets: 1 }), 200);
    expectRefusal(await put(tenant, limits), 400, 'INVALID_REQUEST');
    expect((await read(tenant)).budgets.limit).toBe(1);
  });

  test('can only be set for existing tenants, and only by operators', async () => {
    for (const name of ['no-such-tenant', 'No:Tenant']) {
      expectRefusal(await on.holdfast.admin('GET', limitsPath(name)), 404, 'TENANT_NOT_FOUND');
      expectRefusal(
        await on.holdfast.admin('PUT', limitsPath(name), { budgets: 1 }),
        404,
        'TENANT_NOT_FOUND',
      );
      expectRefusal(await on.holdfast.admin('DELETE', limitsPath(name)), 404, 'TENANT_NOT_FOUND');
    }
    const tenant = await on.holdfast.createTenant();
    expectRefusal(
      await on.holdfast.call('GET', limitsPath(tenant.id), { key: tenant.key }),
      401,
      'UNAUTHORIZED',
    );
    expectRefusal(
      await on.holdfast.call('PUT', limitsPath(tenant.id), { key: tenant.key, body: { budgets: 0 } }),
      401,
      'UNAUTHORIZED',
    );
  });

  test('that are damaged refuse nothing', async () => {
    const tenant = await on.holdfast.createTenant();
    await on.stored.redis.set(
      (await on.stored.redis.keys(`*t:${tenant.id}`))[0]?.replace('t:', 'own:') as string,
      'damaged',
    );
    expectStatus(await CREATE.policies(tenant), 201);
  });
});
