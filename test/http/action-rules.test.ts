import { describe, expect, test } from '@jest/globals';
import { stringifyJson } from '../../src/wire/exact-json.js';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

const rootOf = (tenant: TestTenant): string => `tenant:${tenant.id}`;
const create = (tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/admin/policies', {
    key: tenant.key,
    body: { name: newKey(), scope_pattern: rootOf(tenant), ...more },
  });
const patch = (tenant: TestTenant, id: string, body: Record<string, unknown>): Promise<Answer> =>
  on.holdfast.call('PATCH', `/v1/admin/policies/${id}`, { key: tenant.key, body });
const made = async (tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Json> =>
  expectStatus(await create(tenant, more), 201);

/** Sends a request as a caller that uses the extensions. */
const send = (path: string, tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Answer> =>
  on.holdfast.call('POST', path, { key: tenant.key, body: reserveBody(tenant, 1, more), extended: true });
const decide = (tenant: TestTenant, more?: Record<string, unknown>): Promise<Answer> =>
  send('/v1/decide', tenant, more);
const reserve = (tenant: TestTenant, more?: Record<string, unknown>): Promise<Answer> =>
  send('/v1/reservations', tenant, more);

describe('the rules of a policy on actions', () => {
  const rules = (policy: Json): Json => ({
    action_quotas: policy.action_quotas,
    risk_class_quotas: policy.risk_class_quotas,
    allowed_action_kinds: policy.allowed_action_kinds,
    denied_action_kinds: policy.denied_action_kinds,
  });

  test('are replaced by a PATCH, and cleared by an empty list', async () => {
    shows('policy rule lists');
    const tenant = await on.holdfast.createTenant();
    const none = {
      action_quotas: [],
      risk_class_quotas: [],
      allowed_action_kinds: [],
      denied_action_kinds: [],
    };
    const policy = await made(tenant);
    expect(rules(policy)).toEqual(none);
    const quotas = [{ action_kind: 'http.get', max_calls: 1, window: 'per_minute_tumbling' }];
    const changed = { action_quotas: quotas, denied_action_kinds: ['code.exec'] };
    expect(rules(expectStatus(await patch(tenant, policy.policy_id, changed), 200))).toEqual({
      ...none,
      ...changed,
    });
    const listed = on.holdfast.call('GET', '/v1/admin/policies', { key: tenant.key });
    expect(rules(expectStatus(await listed, 200).policies[0])).toEqual({ ...none, ...changed });
    const swapped = { denied_action_kinds: [], allowed_action_kinds: ['http.get'] };
    expect(rules(expectStatus(await patch(tenant, policy.policy_id, swapped), 200))).toEqual({
      ...none,
      action_quotas: quotas,
      allowed_action_kinds: ['http.get'],
    });
    const updates = (await on.stored.events(tenant.id)).filter(({ type }) => type === 'policy.updated');
    expect(updates.map(({ fields }) => fields['changed_fields'])).toEqual([
      'action_quotas,denied_action_kinds',
      'allowed_action_kinds,denied_action_kinds',
    ]);
  });

  test('select policies of a list', async () => {
    shows('policy filters');
    const tenant = await on.holdfast.createTenant();
    const quota = { max_calls: 1, window: 'per_day_tumbling' };
    const names = { none: {}, kind: { action_quotas: [{ ...quota, action_kind: 'a.b' }] } };
    const more = {
      risk: { risk_class_quotas: [{ ...quota, risk_class: 'high_risk' }] },
      list: { denied_action_kinds: ['a.b'] },
    };
    for (const [name, given] of Object.entries({ ...names, ...more })) {
      await made(tenant, { name, ...given });
    }
    const found = async (filter: string): Promise<string[]> => {
      const answer = await on.holdfast.call('GET', `/v1/admin/policies?${filter}`, { key: tenant.key });
      return (expectStatus(answer, 200).policies as Json[]).map(({ name }) => name as string).sort();
    };
    expect(await found('has_action_quotas=true')).toEqual(['kind', 'risk']);
    expect(await found('has_action_quotas=false')).toEqual(['list', 'none']);
    expect(await found('references_action_kind=a.b')).toEqual(['kind', 'list']);
    expect(await found('references_action_kind=a')).toEqual([]);
  });

  test.each([
    [{ allowed_action_kinds: ['a.b'], denied_action_kinds: ['c.d'] }],
    [{ denied_action_kinds: ['http.*'] }],
    [{ denied_action_kinds: ['high_risk'] }],
    [{ denied_action_kinds: [''] }],
    [{ allowed_action_kinds: Array.from({ length: 201 }, (_, index) => `a.b${index}`) }],
    [{ action_quotas: [{ action_kind: 'http.get', max_calls: 1 }] }],
    [{ action_quotas: [{ action_kind: 'http.get', max_calls: 0, window: 'per_run' }] }],
    [{ action_quotas: [{ action_kind: 'http.*', max_calls: 1, window: 'per_run' }] }],
    [
      {
        action_quotas: [
          {
            action_kind: 'http.get',
            max_calls: 1,
            window: 'per_hour_tumbling',
            per_run_counter_ttl_ms: 60_000,
          },
        ],
      },
    ],
    [{ risk_class_quotas: [{ risk_class: 'grave', max_calls: 1, window: 'per_run' }] }],
    [{ risk_class_quotas: [{ risk_class: 'high_risk', max_calls: 1, window: 'per_run', threshold_pct: 1 }] }],
  ])('are refused when they are not valid: %j', async (given) => {
    shows('one list of kinds');
    const tenant = await on.holdfast.createTenant();
    expectRefusal(await create(tenant, given), 400, 'INVALID_REQUEST');
    const policy = await made(tenant);
    expectRefusal(await patch(tenant, policy.policy_id, given), 400, 'INVALID_REQUEST');
  });

  test('deny what they do not permit, and name the policy and the reason', async () => {
    shows('deny detail');
    const tenant = await on.holdfast.fundedTenant();
    const { policy_id: id } = await made(tenant, { denied_action_kinds: ['code.exec'] });
    const action = { kind: 'code.exec', name: 'python', policy_keys: { path_prefix: '/tmp' } };
    const detail = {
      reason_code: 'ACTION_KIND_DENIED',
      blocked_by_scope: rootOf(tenant),
      blocked_by_policy: id,
      suggested_fix: `Remove code.exec from denied_action_kinds of policy '${id}'`,
    };
    expect(expectStatus(await decide(tenant, { action }), 200)).toMatchObject({
      decision: 'DENY',
      reason_code: 'ACTION_KIND_DENIED',
      deny_detail: detail,
    });
    const live = await reserve(tenant, { action });
    expectRefusal(live, 409, 'ACTION_KIND_DENIED');
    expect(live.body.details).toEqual({ deny_detail: detail });
    expect(expectStatus(await reserve(tenant, { action, dry_run: true }), 200)).toMatchObject({
      decision: 'DENY',
      deny_detail: detail,
    });
    const labels = { tenant: tenant.id, decision: 'DENY', reason: 'ACTION_KIND_DENIED' };
    expect(await on.holdfast.metric('cycles_reservations_reserve_total', labels)).toBe(2);
  });
});

describe('a quota', () => {
  test('refuses with what it counted, and tells of its threshold', async () => {
    shows('deny detail', 'quota thresholds');
    const tenant = await on.holdfast.fundedTenant();
    const quotas = [{ action_kind: 'message.email.send', max_calls: 1, window: 'per_run' }];
    const { policy_id: id } = await made(tenant, { action_quotas: quotas });
    const email = {
      action: { kind: 'message.email.send', name: 'mail' },
      subject: { tenant: tenant.id, dimensions: { run_id: 'run 1' } },
    };
    expectRefusal(await reserve(tenant, { action: email.action }), 400, 'INVALID_REQUEST');
    expect(expectStatus(await reserve(tenant, email), 200).decision).toBe('ALLOW');
    const detail = {
      reason_code: 'ACTION_QUOTA_EXCEEDED',
      quota_violation: {
        action_kind: 'message.email.send',
        window: 'per_run',
        window_key: 'run 1',
        used: 1n,
        limit: 1n,
        scope: rootOf(tenant),
        policy_id: id,
      },
      blocked_by_scope: rootOf(tenant),
      blocked_by_policy: id,
      suggested_fix: expect.stringContaining('message.email.send above 1 per_run'),
    };
    const seen = (found: unknown): unknown => JSON.parse(stringifyJson(found));
    const live = await reserve(tenant, email);
    expectRefusal(live, 409, 'ACTION_QUOTA_EXCEEDED');
    const wanted = { ...detail, quota_violation: { ...detail.quota_violation, used: 1, limit: 1 } };
    expect(seen(live.body.details.deny_detail)).toEqual(wanted);
    expect(seen(expectStatus(await decide(tenant, email), 200).deny_detail)).toEqual(wanted);
    const { body } = await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`);
    const events = (body.events as Json[]).filter(
      (event: Json) => event.event_type === 'quota.threshold_approaching',
    );
    expect(events.map((event: Json) => seen(event.data))).toEqual([
      {
        scope: rootOf(tenant),
        action_kind: 'message.email.send',
        window: 'per_run',
        window_key: 'run 1',
        used: 1,
        limit: 1,
        threshold_pct: 0.8,
        policy_id: id,
      },
    ]);
    const denials = (body.events as Json[]).filter(
      (event: Json) => event.event_type === 'reservation.denied',
    );
    expect(seen(denials[0]?.data.deny_detail)).toEqual(wanted);
  });

  test('of a host covers only kinds that declare a host', async () => {
    shows('policy keys');
    const tenant = await on.holdfast.fundedTenant();
    const quota = { max_calls: 1, window: 'per_tenant_per_day', host_allowlist: ['api.example.com'] };
    await made(tenant, {
      action_quotas: [
        { ...quota, action_kind: 'http.post' },
        { ...quota, action_kind: 'web.search' },
      ],
    });
    const to = (kind: string, keys?: object): Record<string, unknown> => ({
      action: { kind, name: 'call', ...(keys === undefined ? {} : { policy_keys: keys }) },
    });
    const here = { host: 'API.example.com' };
    expectStatus(await reserve(tenant, to('http.post', here)), 200);
    expectRefusal(await reserve(tenant, to('http.post', here)), 409, 'ACTION_QUOTA_EXCEEDED');
    expectStatus(await reserve(tenant, to('http.post')), 200);
    expectStatus(await reserve(tenant, to('http.post', { host: 'example.com' })), 200);
    expectStatus(await reserve(tenant, to('web.search', here)), 200);
    expectStatus(await reserve(tenant, to('web.search', here)), 200);
  });
});
