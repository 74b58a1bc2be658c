import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const HOUR_MS = 3_600_000;

const rootOf = (tenant: TestTenant): string => `tenant:${tenant.id}`;
const create = (tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/admin/policies', {
    key: tenant.key,
    body: { name: newKey(), scope_pattern: rootOf(tenant), ...more },
  });
const createAsAdmin = (more: Record<string, unknown>): Promise<Answer> =>
  on.holdfast.admin('POST', '/v1/admin/policies', { name: newKey(), ...more });
const patch = (tenant: TestTenant, id: string, body: Record<string, unknown>): Promise<Answer> =>
  on.holdfast.call('PATCH', `/v1/admin/policies/${id}`, { key: tenant.key, body });
const list = (tenant: TestTenant, query = ''): Promise<Answer> =>
  on.holdfast.call('GET', `/v1/admin/policies${query}`, { key: tenant.key });
const decide = (tenant: TestTenant, more: Record<string, unknown> = {}, extended = false): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/decide', { key: tenant.key, body: reserveBody(tenant, 1, more), extended });

/** Sends up to two requests, because a minute may end before the first of them. */
async function firstRefused(send: () => Promise<Answer>): Promise<Answer> {
  const answer = await send();
  return answer.status === 200 ? send() : answer;
}

async function made(tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Json> {
  return expectStatus(await create(tenant, more), 201);
}

/** An instant at this offset from the server's clock. */
async function at(offsetMs: number): Promise<string> {
  const [seconds] = await on.stored.redis.time();
  return new Date(Number(seconds) * 1000 + offsetMs).toISOString();
}

const policyEvents = async (tenant: TestTenant): Promise<Readonly<Record<string, string>>[]> =>
  (await on.stored.events(tenant.id))
    .filter(({ type }) => type.startsWith('policy.'))
    .map(({ fields }) => fields);

describe('a policy', () => {
  test('is created and listed with all its settings', async () => {
    shows('createPolicy');
    const tenant = await on.holdfast.createTenant();
    const settings = {
      name: 'Engineering default',
      description: 'for all of engineering',
      priority: 10,
      caps: {
        max_tokens: 4096,
        max_steps_remaining: 9223372036854775807n,
        tool_allowlist: ['web.search', 'Ünïcode "x"'],
        tool_denylist: [],
        cooldown_ms: 0,
      },
      commit_overage_policy: 'REJECT',
      reservation_ttl_override: { default_ttl_ms: 1000, max_ttl_ms: 86_400_000, max_extensions: 0 },
      rate_limits: { max_reservations_per_minute: 600, max_commits_per_minute: 1 },
      action_quotas: [
        {
          action_kind: 'message.email.send',
          max_calls: 5,
          window: 'per_run',
          per_run_counter_ttl_ms: 60_000,
          host_allowlist: ['api.example.com'],
          threshold_pct: 0.5,
        },
      ],
      risk_class_quotas: [{ risk_class: 'high_risk', max_calls: 100_000, window: 'per_hour_tumbling' }],
      allowed_action_kinds: ['llm.completion', 'message.email.send'],
      denied_action_kinds: [],
      effective_from: '2026-02-01T00:00:00.000Z',
      effective_until: '2036-02-01T00:00:00.000Z',
    };
    const policy = await made(tenant, {
      ...settings,
      scope_pattern: `tenant:${tenant.id.toUpperCase()}/Workspace:Eng/*`,
    });
    expect(policy).toEqual({
      ...settings,
      policy_id: expect.stringMatching(/^pol_[0-9a-f]{2}[0-9A-Za-z]{16}$/),
      scope_pattern: `${rootOf(tenant)}/workspace:eng/*`,
      status: 'ACTIVE',
      created_at: expect.stringMatching(/Z$/),
      updated_at: policy.created_at,
    });
    expect(expectStatus(await list(tenant), 200)).toEqual({ policies: [policy], has_more: false });
    expect(await policyEvents(tenant)).toEqual([
      expect.objectContaining({
        ty: 'policy.created',
        policy_id: policy.policy_id,
        name: settings.name,
        scope_pattern: policy.scope_pattern,
        ac: 'api_key',
      }),
    ]);
  });

  test('has priority 0 unless one is given, and never a negative one', async () => {
    const tenant = await on.holdfast.createTenant();
    const policy = await made(tenant);
    expect(policy.priority).toBe(0);
    expect(Object.keys(policy).sort()).toEqual([
      'action_quotas',
      'allowed_action_kinds',
      'created_at',
      'denied_action_kinds',
      'name',
      'policy_id',
      'priority',
      'risk_class_quotas',
      'scope_pattern',
      'status',
      'updated_at',
    ]);
    expectRefusal(await create(tenant, { priority: -1 }), 400, 'INVALID_REQUEST');
    expectRefusal(await patch(tenant, policy.policy_id, { priority: -1 }), 400, 'INVALID_REQUEST');
    expect(expectStatus(await list(tenant), 200).policies).toEqual([policy]);
  });

  test('accepts a scope of its tenant, or all scopes below one, and no other pattern', async () => {
    const tenant = await on.holdfast.createTenant();
    for (const below of ['', '/*', '/agent:bot', '/workspace:a/agent:b/*']) {
      expect((await made(tenant, { scope_pattern: rootOf(tenant) + below })).scope_pattern).toBe(
        rootOf(tenant) + below,
      );
    }
    const root = rootOf(tenant);
    const malformed = [
      '*',
      'agent:*',
      '*/agent:a',
      `${root}/*/agent:a`,
      `${root}/agent:*`,
      `${root}/agent:b*`,
      `${root}/**`,
      `${root}/`,
      `${root}//*`,
      `${root}/agent:a/workspace:b`,
      `${root}*`,
      'tenant:*',
      '',
    ];
    for (const pattern of malformed) {
      expectRefusal(await create(tenant, { scope_pattern: pattern }), 400, 'INVALID_REQUEST');
      expectRefusal(
        await createAsAdmin({ tenant_id: tenant.id, scope_pattern: pattern }),
        400,
        'INVALID_REQUEST',
      );
    }
    expectRefusal(await create(tenant, { scope_pattern: 'tenant:somebody-else/*' }), 403, 'FORBIDDEN');
    expectRefusal(
      await createAsAdmin({ tenant_id: tenant.id, scope_pattern: 'tenant:somebody-else/*' }),
      400,
      'INVALID_REQUEST',
    );
    expect(expectStatus(await list(tenant), 200).policies).toHaveLength(4);
  });

  test('limits the reserves and commits of a minute, at every instance, with 429 and the time to retry', async () => {
    shows('policy limits');
    const tenant = await on.holdfast.fundedTenant();
    const policy = await made(tenant, {
      rate_limits: { max_reservations_per_minute: 1, max_commits_per_minute: 1 },
    });
    const other = await Holdfast.start({ REDIS_URL: on.redis.url });
    try {
      const denied = (): Promise<number> =>
        on.holdfast.metric('cycles_reservations_reserve_total', {
          tenant: tenant.id,
          reason: 'LIMIT_EXCEEDED',
        });
      const counted = await denied();
      expectStatus(await other.reserve(tenant, 1), 200);
      const refused = await firstRefused(() => on.holdfast.reserve(tenant, 1));
      expect(expectRefusal(refused, 429, 'LIMIT_EXCEEDED')).toMatchObject({
        message: expect.stringMatching(
          /^the governing policy's max_reservations_per_minute of 1 is reached; retry in \d+ s$/,
        ),
        details: { limit: 'max_reservations_per_minute', allowed: 1 },
      });
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(60);
      expect(await denied()).toBe(counted + 1);

      expectStatus(
        await patch(tenant, policy.policy_id, { rate_limits: { max_commits_per_minute: 1 } }),
        200,
      );
      const held = await Promise.all([1, 2, 3].map(() => on.holdfast.reserve(tenant, 1)));
      const ids = held.map((answer) => expectStatus(answer, 200).reservation_id as string);
      let id = ids.shift() as string;
      expectStatus(await other.commit(tenant, id, 1), 200);
      expectRefusal(
        await firstRefused(() => on.holdfast.commit(tenant, (id = ids.shift() as string), 1)),
        429,
        'LIMIT_EXCEEDED',
      );
      const without = expectStatus(await patch(tenant, policy.policy_id, { rate_limits: {} }), 200);
      expect(without.rate_limits).toBeUndefined();
      expectStatus(await on.holdfast.commit(tenant, id, 1), 200);
    } finally {
      await other.stop();
    }
  });

  test('has a unique name within its tenant', async () => {
    const [one, two] = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
    const first = await made(one, { name: 'a' });
    expectRefusal(await create(one, { name: 'a', priority: 7 }), 409, 'DUPLICATE_RESOURCE');
    await made(two, { name: 'a' });
    const other = await made(one, { name: 'b' });
    expectRefusal(await patch(one, other.policy_id, { name: 'a' }), 409, 'DUPLICATE_RESOURCE');
    expectStatus(await patch(one, first.policy_id, { name: 'c' }), 200);
    expectStatus(await patch(one, other.policy_id, { name: 'a' }), 200);
  });

  test('with settings out of bounds is refused', async () => {
    shows('policy limits');
    const tenant = await on.holdfast.createTenant();
    const policy = await made(tenant, { effective_from: '2026-01-01T00:00:00Z' });
    const bad: Record<string, unknown>[] = [
      { rate_limits: { max_reservations_per_minute: 0 } },
      { rate_limits: { max_commits_per_minute: 1.5 } },
      { rate_limits: { max_extensions_per_minute: 1 } },
      { caps: { max_tokens: -1 } },
      { caps: { speed: 1 } },
      { caps: { tool_allowlist: ['x'.repeat(257)] } },
      { caps: { tool_allowlist: Array<string>(20).fill('x'.repeat(250)) } },
      { commit_overage_policy: 'MAYBE' },
      { reservation_ttl_override: { default_ttl_ms: 999 } },
      { reservation_ttl_override: { max_ttl_ms: 86_400_001 } },
      { reservation_ttl_override: { max_extensions: -1 } },
      { reservation_ttl_override: { default_ttl_ms: 3000, max_ttl_ms: 2000 } },
      { effective_from: '2026-02-31T00:00:00Z' },
      { effective_from: '' },
      { effective_from: '2026-01-02T00:00:00Z', effective_until: '2026-01-02T00:00:00Z' },
      { name: '' },
      { priority: 1.5 },
      { status: 'ENDED' },
      { caps: null },
    ];
    for (const settings of bad) {
      expectRefusal(await create(tenant, settings), 400, 'INVALID_REQUEST');
      expectRefusal(await patch(tenant, policy.policy_id, settings), 400, 'INVALID_REQUEST');
    }
    expectRefusal(
      await patch(tenant, policy.policy_id, { effective_until: '2026-01-01T00:00:00Z' }),
      400,
      'INVALID_REQUEST',
    );
    expectRefusal(
      await patch(tenant, policy.policy_id, { scope_pattern: `${rootOf(tenant)}/*` }),
      400,
      'INVALID_REQUEST',
    );
    expectRefusal(await create(tenant, { status: 'DISABLED' }), 400, 'INVALID_REQUEST');
    expect(expectStatus(await list(tenant), 200).policies).toEqual([policy]);
  });

  test('changes where a PATCH says so; an object replaces the former one', async () => {
    shows('updatePolicy');
    const tenant = await on.holdfast.createTenant();
    const policy = await made(tenant, {
      description: 'd',
      caps: { max_tokens: 1, cooldown_ms: 2 },
      reservation_ttl_override: { default_ttl_ms: 5000, max_extensions: 3 },
    });
    const changed = expectStatus(
      await patch(tenant, policy.policy_id, {
        caps: { max_tokens: 9 },
        reservation_ttl_override: { max_ttl_ms: 9000 },
        status: 'DISABLED',
      }),
      200,
    );
    expect(changed).toEqual({
      ...policy,
      caps: { max_tokens: 9 },
      reservation_ttl_override: { max_ttl_ms: 9000 },
      status: 'DISABLED',
      updated_at: changed.updated_at,
    });
    const cleared = expectStatus(
      await patch(tenant, policy.policy_id, { caps: {}, reservation_ttl_override: {}, description: '' }),
      200,
    );
    for (const name of ['caps', 'reservation_ttl_override', 'description']) {
      expect(cleared).not.toHaveProperty(name);
    }
    expectStatus(await patch(tenant, policy.policy_id, {}), 200);
    expectStatus(await patch(tenant, policy.policy_id, { status: 'DISABLED', priority: 0 }), 200);
    expect((await policyEvents(tenant)).map((fields) => fields['changed_fields'])).toEqual([
      undefined,
      'status,caps,reservation_ttl_override',
      'description,caps,reservation_ttl_override',
    ]);
  });
});

describe('who may', () => {
  test('an operator acts on behalf of the tenant that it names', async () => {
    shows('operator names owner', 'acting for tenant', 'policy lists');
    const tenant = await on.holdfast.createTenant();
    expectRefusal(await createAsAdmin({ scope_pattern: rootOf(tenant) }), 400, 'INVALID_REQUEST');
    const policy = expectStatus(
      await createAsAdmin({ tenant_id: tenant.id, scope_pattern: rootOf(tenant) }),
      201,
    );
    expectRefusal(await on.holdfast.admin('GET', '/v1/admin/policies'), 400, 'INVALID_REQUEST');
    expect(
      expectStatus(await on.holdfast.admin('GET', `/v1/admin/policies?tenant_id=${tenant.id}`), 200).policies,
    ).toEqual([policy]);
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/policies/${policy.policy_id}`, { priority: 3 }),
      200,
    );
    expect((await policyEvents(tenant)).map((fields) => [fields['ty'], fields['ac']])).toEqual([
      ['policy.created', 'admin_on_behalf_of'],
      ['policy.updated', 'admin_on_behalf_of'],
    ]);
    const nobody = { tenant_id: 'no-such-tenant', scope_pattern: 'tenant:no-such-tenant' };
    expectRefusal(await createAsAdmin(nobody), 400, 'INVALID_REQUEST');
  });

  test("an API key names no tenant, and reaches no other tenant's policy", async () => {
    shows('operator names owner', 'policy lists');
    const [one, two] = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
    expectRefusal(await create(one, { tenant_id: one.id }), 400, 'INVALID_REQUEST');
    const policy = await made(one);
    expectRefusal(await patch(two, policy.policy_id, { priority: 5 }), 404, 'NOT_FOUND');
    expectRefusal(await patch(two, 'pol_nothing', { priority: 5 }), 404, 'NOT_FOUND');
    expectRefusal(await list(two, `?tenant_id=${one.id}`), 403, 'FORBIDDEN');
    expect(expectStatus(await list(one, `?tenant_id=${one.id}`), 200).policies).toEqual([policy]);
  });

  test('a key needs the permissions for policies, and its own PATCH works', async () => {
    const tenant = await on.holdfast.createTenant();
    const policy = await made(tenant);
    const as = async (...permissions: string[]): Promise<TestTenant> => ({
      id: tenant.id,
      key: await on.holdfast.createKey(tenant.id, { permissions }),
    });
    const reader = await as('policies:read');
    expectStatus(await list(reader), 200);
    expectRefusal(await create(reader), 403, 'INSUFFICIENT_PERMISSIONS');
    expectRefusal(await patch(reader, policy.policy_id, { priority: 1 }), 403, 'INSUFFICIENT_PERMISSIONS');
    const writer = await as('policies:write');
    expectStatus(await patch(writer, policy.policy_id, { priority: 1 }), 200);
    expectRefusal(await list(writer), 403, 'INSUFFICIENT_PERMISSIONS');
    expectRefusal(await list(await as('balances:read')), 403, 'INSUFFICIENT_PERMISSIONS');
    expectRefusal(await on.holdfast.call('GET', '/v1/admin/policies'), 401, 'UNAUTHORIZED');
  });

  test('a confined key sees, creates and changes only policies inside its scopes', async () => {
    const tenant = await on.holdfast.createTenant();
    const root = await made(tenant);
    const inside = await made(tenant, { scope_pattern: `${rootOf(tenant)}/workspace:eng/*` });
    const confined = {
      id: tenant.id,
      key: await on.holdfast.createKey(tenant.id, { scope_filter: ['workspace:eng'] }),
    };
    expect(expectStatus(await list(confined), 200).policies).toEqual([inside]);
    expectRefusal(await create(confined), 403, 'INSUFFICIENT_PERMISSIONS');
    expectStatus(await create(confined, { scope_pattern: `${rootOf(tenant)}/workspace:eng/agent:a` }), 201);
    expectRefusal(await patch(confined, root.policy_id, { priority: 1 }), 403, 'INSUFFICIENT_PERMISSIONS');
    expectStatus(await patch(confined, inside.policy_id, { priority: 1 }), 200);
  });

  test('the policies of a closed tenant cannot be changed, and can still be read', async () => {
    shows('change after close', 'reads after close');
    const tenant = await on.holdfast.createTenant();
    const policy = await made(tenant);
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    expectRefusal(await create(tenant), 409, 'TENANT_CLOSED');
    expectRefusal(await patch(tenant, policy.policy_id, { priority: 1 }), 409, 'TENANT_CLOSED');
    expectRefusal(
      await on.holdfast.admin('PATCH', `/v1/admin/policies/${policy.policy_id}`, { priority: 1 }),
      409,
      'TENANT_CLOSED',
    );
    expect(expectStatus(await list(tenant), 200).policies).toEqual([policy]);
  });
});

describe('the list', () => {
  test('is sorted by priority, filtered, and listed page by page without gaps', async () => {
    shows('listPolicies');
    const tenant = await on.holdfast.createTenant();
    const made12: Json[] = [];
    for (let count = 0; count < 12; count += 1) {
      made12.push(
        await made(tenant, {
          priority: count % 4,
          scope_pattern: `${rootOf(tenant)}${count % 2 === 0 ? '' : '/*'}`,
        }),
      );
    }
    const seen: Json[] = [];
    for (let query = '?limit=5'; ;) {
      const page = expectStatus(await list(tenant, query), 200);
      seen.push(...page.policies);
      if (!page.has_more) {
        break;
      }
      query = `?limit=5&cursor=${page.next_cursor}`;
    }
    expect(seen.map(({ policy_id }) => policy_id).sort()).toEqual(
      made12.map(({ policy_id }) => policy_id).sort(),
    );
    expect(seen.map(({ priority }) => priority)).toEqual([3, 3, 3, 2, 2, 2, 1, 1, 1, 0, 0, 0]);
    expect(
      expectStatus(await list(tenant, `?scope_pattern=${encodeURIComponent(`${rootOf(tenant)}/*`)}`), 200)
        .policies,
    ).toHaveLength(6);
    expectStatus(await patch(tenant, made12[0].policy_id, { status: 'DISABLED' }), 200);
    expect(
      expectStatus(await list(tenant, '?status=DISABLED'), 200).policies.map(
        ({ policy_id }: Json) => policy_id,
      ),
    ).toEqual([made12[0].policy_id]);
    expect(
      expectStatus(await list(tenant, '?status=ACTIVE&limit=2000&unknown_filter=true'), 200).policies,
    ).toHaveLength(11);
    expectRefusal(await list(tenant, '?status=foo'), 400, 'INVALID_REQUEST');
    expectRefusal(await list(tenant, '?limit=0'), 400, 'INVALID_REQUEST');
  });
});

describe('a reserve or decision under a policy', () => {
  const CAPS = { max_tokens: 4096, tool_allowlist: ['web.search', 'Ünïcode "x"'] };

  test('is ALLOW_WITH_CAPS with the caps, live, dry and decided, and replays them after they changed', async () => {
    const tenant = await on.holdfast.fundedTenant();
    const policy = await made(tenant, { caps: CAPS });
    const body = reserveBody(tenant, 10);
    const post = (path: string, more: Record<string, unknown> = {}): Promise<Answer> =>
      on.holdfast.call('POST', path, { key: tenant.key, body: { ...body, ...more } });
    const dryKey = { idempotency_key: newKey(), dry_run: true };
    const calls: [string, Record<string, unknown>][] = [
      ['/v1/reservations', {}],
      ['/v1/reservations', dryKey],
      ['/v1/decide', {}],
    ];
    const stable = ({ text }: Answer): string => text.replace(/"remaining_ttl_ms":\d+/, '');
    const first: Answer[] = [];
    for (const [path, more] of calls) {
      first.push(await post(path, more));
    }
    for (const answer of first) {
      expect(expectStatus(answer, 200)).toMatchObject({ decision: 'ALLOW_WITH_CAPS', caps: CAPS });
    }
    expect(first[0]?.body).toMatchObject({
      reservation_id: expect.any(String),
      balances: [expect.objectContaining({ scope_path: rootOf(tenant) })],
    });
    expect(first[1]?.body).not.toHaveProperty('reservation_id');
    expectStatus(await patch(tenant, policy.policy_id, { caps: { max_tokens: 1 } }), 200);
    for (const [index, [path, more]] of calls.entries()) {
      expect(stable(await post(path, more))).toBe(stable(first[index] as Answer));
    }
    expect(expectStatus(await decide(tenant), 200).caps).toEqual({ max_tokens: 1 });
    const counted = (reason: string): Promise<number> =>
      on.holdfast.metric('cycles_reservations_reserve_total', {
        tenant: tenant.id,
        decision: 'ALLOW_WITH_CAPS',
        reason,
      });
    expect([await counted('OK'), await counted('IDEMPOTENT_REPLAY')]).toEqual([2, 2]);
  });

  test('is DENY without caps when the budget refuses', async () => {
    shows('caps');
    const tenant = await on.holdfast.fundedTenant();
    await made(tenant, { caps: CAPS });
    expect(expectStatus(await decide(tenant, { estimate: { unit: 'TOKENS', amount: 1001 } }), 200)).toEqual({
      decision: 'DENY',
      reason_code: 'BUDGET_EXCEEDED',
      affected_scopes: [rootOf(tenant)],
    });
  });

  test('follows the policy of the highest priority that matches and is in force', async () => {
    shows('policy precedence');
    const tenant = await on.holdfast.fundedTenant();
    const subject = { subject: { tenant: tenant.id, workspace: 'eng', agent: 'bot' } };
    const capsOf = async (): Promise<unknown> =>
      expectStatus(await decide(tenant, subject), 200).caps?.max_tokens;
    const caps = (max_tokens: number): Json => ({ caps: { max_tokens } });
    await made(tenant, { ...caps(1), priority: 1 });
    expect(await capsOf()).toBe(1);
    await made(tenant, { ...caps(2), priority: 1, scope_pattern: `${rootOf(tenant)}/workspace:eng/*` });
    expect(await capsOf()).toBe(2);
    await made(tenant, {
      ...caps(3),
      priority: 0,
      scope_pattern: `${rootOf(tenant)}/workspace:eng/agent:bot`,
    });
    await made(tenant, { ...caps(4), priority: 9, scope_pattern: `${rootOf(tenant)}/workspace:sales/*` });
    await made(tenant, { ...caps(5), priority: 9, effective_from: await at(HOUR_MS) });
    await made(tenant, { ...caps(6), priority: 9, effective_until: await at(-HOUR_MS) });
    expect(await capsOf()).toBe(2);
    const strong = await made(tenant, {
      ...caps(7),
      priority: 8,
      effective_from: await at(-HOUR_MS),
      effective_until: await at(HOUR_MS),
    });
    expect(await capsOf()).toBe(7);
    expectStatus(await patch(tenant, strong.policy_id, { status: 'DISABLED' }), 200);
    expect(await capsOf()).toBe(2);
  });

  test('takes lease and overage policy from it unless the request has its own', async () => {
    const tenant = await on.holdfast.fundedTenant();
    await made(tenant, {
      commit_overage_policy: 'REJECT',
      reservation_ttl_override: { default_ttl_ms: 20_000, max_ttl_ms: 30_000, max_extensions: 1 },
    });
    const held = expectStatus(await on.holdfast.reserve(tenant, 10), 200);
    expect(held).toMatchObject({ decision: 'ALLOW', remaining_ttl_ms: 20_000 });
    expect(expectStatus(await on.holdfast.reserve(tenant, 1, { ttl_ms: 60_000 }), 200).remaining_ttl_ms).toBe(
      30_000,
    );
    const id = held.reservation_id as string;
    expectRefusal(await on.holdfast.commit(tenant, id, 11), 409, 'BUDGET_EXCEEDED');
    expect(
      expectStatus(await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 86_400_000 }), 200)
        .expires_at_ms,
    ).toBe(held.expires_at_ms + 30_000);
    expectRefusal(
      await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1 }),
      409,
      'MAX_EXTENSIONS_EXCEEDED',
    );
    const free = expectStatus(
      await on.holdfast.reserve(tenant, 10, { overage_policy: 'ALLOW_IF_AVAILABLE' }),
      200,
    );
    expectStatus(await on.holdfast.commit(tenant, free.reservation_id, 11), 200);
  });

  test('costs nothing for a tenant without policies', async () => {
    const tenant = await on.holdfast.fundedTenant();
    expect(expectStatus(await on.holdfast.reserve(tenant, 1), 200).decision).toBe('ALLOW');
    expect(await on.stored.redis.hget(on.stored.tenantKey(tenant.id), 'policies')).toBeNull();
  });
});
