import { describe, expect, test } from '@jest/globals';
import { stringifyJson } from '../../src/wire/exact-json.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const on = useGovernance({}, { HOLDFAST_ROLES: 'api,dispatcher' });

const requestIdOf = (answer: Answer): string => answer.headers.get('x-request-id') as string;
const setMode = (id: string, mode: string): Promise<Answer> =>
  on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { observe_mode: mode });

describe('the observe mode of a tenant', () => {
  test('is ENFORCE until it is set, is returned as set, and its change is reported once', async () => {
    shows('tenant observe mode');
    const { id } = await on.holdfast.createTenant();
    const read = async (): Promise<string> =>
      expectStatus(await on.holdfast.admin('GET', `/v1/admin/tenants/${id}`), 200).observe_mode;
    expect(await read()).toBe('ENFORCE');
    // Not a change: an unset mode means this.
    expect(expectStatus(await setMode(id, 'ENFORCE'), 200).observe_mode).toBe('ENFORCE');
    for (const mode of ['OBSERVE', 'OBSERVE', 'DISABLED', 'ENFORCE']) {
      expect(expectStatus(await setMode(id, mode), 200).observe_mode).toBe(mode);
      expect(await read()).toBe(mode);
    }
    const { body } = await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${id}&category=tenant`);
    const changes = (body.events as Json[]).filter(({ event_type: type }) => type !== 'tenant.created');
    expect(changes.map((event) => [event.event_type, event.data.changed_fields])).toEqual(
      Array.from({ length: 3 }, () => ['tenant.settings_changed', ['observe_mode']]),
    );
  });

  test('is set at creation, and other settings leave it alone', async () => {
    shows('tenant observe mode');
    const { id } = await on.holdfast.createTenant({ observe_mode: 'OBSERVE' });
    const patched = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { name: 'Other' });
    expect(expectStatus(patched, 200).observe_mode).toBe('OBSERVE');
  });

  test('has an audit row for its change', async () => {
    const { id } = await on.holdfast.createTenant();
    const answer = await setMode(id, 'OBSERVE');
    expectStatus(answer, 200);
    const rows = await on.holdfast.admin('GET', `/v1/admin/audit/logs?request_id=${requestIdOf(answer)}`);
    expect(expectStatus(rows, 200).logs).toMatchObject([
      { operation: 'updateTenant', tenant_id: id, status: 200, metadata: { changed_fields: 'observe_mode' } },
    ]);
  });

  test.each([['SHADOW'], ['observe'], [null], [true], ['']])('%j is refused', async (mode) => {
    const { id } = await on.holdfast.createTenant();
    const answer = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { observe_mode: mode });
    expect(expectRefusal(answer, 400, 'INVALID_REQUEST').details.field).toBe('observe_mode');
  });

  test('selects tenants of the list', async () => {
    shows('observe mode filters');
    const { id: parent } = await on.holdfast.createTenant();
    const unset = await on.holdfast.createTenant({ parent_tenant_id: parent });
    const modes: string[] = ['DISABLED', 'OBSERVE', 'ENFORCE'];
    const ids: string[] = [];
    for (const mode of modes) {
      ids.push((await on.holdfast.createTenant({ parent_tenant_id: parent, observe_mode: mode })).id);
    }
    const found = async (mode: string): Promise<string[]> => {
      const query = `parent_tenant_id=${parent}&observe_mode=${mode}&sort_dir=asc`;
      const { tenants } = expectStatus(await on.holdfast.admin('GET', `/v1/admin/tenants?${query}`), 200);
      return tenants.map((tenant: Json) => tenant.tenant_id);
    };
    expect(await found('DISABLED')).toEqual([ids[0]]);
    expect(await found('OBSERVE')).toEqual([ids[1]]);
    expect(await found('ENFORCE')).toEqual([unset.id, ids[2]]);
  });
});

/** Sends a reserve as a caller that uses the extensions. */
const reserve = (tenant: TestTenant, more: Record<string, unknown> = {}, amount = 1): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, amount, more),
    extended: true,
  });

const plain = (value: unknown): Json => JSON.parse(stringifyJson(value));

async function eventsOf({ id }: TestTenant): Promise<Json[]> {
  const { body } = await on.holdfast.admin(
    'GET',
    `/v1/admin/events?tenant_id=${id}&category=reservation&sort_dir=asc`,
  );
  return (body.events as unknown[]).map(plain);
}

const ACTION = { kind: 'message.email.send', name: 'mail', policy_keys: { recipient_domain: 'example.com' } };

describe('a reserve in observe mode', () => {
  interface Case {
    readonly tenant?: string;
    readonly asks?: string;
    readonly dryRun?: boolean;
    readonly outcome: 'observed' | 'dry run' | 'live';
  }
  test.each<Case>([
    { outcome: 'live' },
    { dryRun: true, outcome: 'dry run' },
    { tenant: 'OBSERVE', outcome: 'observed' },
    { tenant: 'OBSERVE', dryRun: true, outcome: 'observed' },
    { tenant: 'OBSERVE', asks: 'ENFORCE', outcome: 'live' },
    { tenant: 'OBSERVE', asks: 'DISABLED', outcome: 'live' },
    { tenant: 'OBSERVE', asks: 'ENFORCE', dryRun: true, outcome: 'dry run' },
    { tenant: 'DISABLED', outcome: 'live' },
    { tenant: 'ENFORCE', asks: 'OBSERVE', outcome: 'observed' },
    { asks: 'OBSERVE', outcome: 'observed' },
    { asks: 'OBSERVE', dryRun: true, outcome: 'observed' },
    { asks: 'ENFORCE', dryRun: true, outcome: 'dry run' },
  ])('follows the request, then the tenant: %j', async ({ tenant: mode, asks, dryRun, outcome }) => {
    shows('observe mode precedence');
    const tenant = await on.holdfast.fundedTenant(100, mode === undefined ? {} : { observe_mode: mode });
    const before = await on.holdfast.balances(tenant);
    const more = { observe_mode: asks, dry_run: dryRun };
    const answer = expectStatus(await reserve(tenant, more), 200);
    expect(answer.decision).toBe('ALLOW');
    expect('reservation_id' in answer).toBe(outcome === 'live');
    expect('expires_at_ms' in answer).toBe(outcome === 'live');
    expect(answer.affected_scopes).toEqual([`tenant:${tenant.id}`]);
    const after = await on.holdfast.balances(tenant);
    const scope = `tenant:${tenant.id}`;
    expect([before[scope], after[scope]]).toEqual([
      '100 0 0 0',
      outcome === 'live' ? '99 1 0 0' : '100 0 0 0',
    ]);
    const types = (await eventsOf(tenant)).map(({ event_type: type }) => type);
    expect(types).toEqual(outcome === 'observed' ? ['reservation.observed_allowed'] : []);

    const denied = await reserve(tenant, more, 1000);
    expect(denied.status).toBe(outcome === 'live' ? 409 : 200);
    const told = (await eventsOf(tenant)).map(({ event_type: type }) => type).slice(types.length);
    expect(told).toEqual([outcome === 'observed' ? 'reservation.observed_denied' : 'reservation.denied']);
  });

  test('that would be denied says why, and emits an event', async () => {
    shows('observed denials');
    const tenant = await on.holdfast.fundedTenant(100, { observe_mode: 'OBSERVE' });
    const labels = { tenant: tenant.id, decision: 'DENY', reason: 'BUDGET_EXCEEDED' };
    const body = plain(expectStatus(await reserve(tenant, { action: ACTION }, 1000), 200));
    const scope = `tenant:${tenant.id}`;
    const detail = {
      reason_code: 'BUDGET_EXCEEDED',
      blocked_by_scope: scope,
      suggested_fix: `Fund ${scope} by at least 900 tokens`,
      budget_remaining: 100,
    };
    expect(body).toEqual({
      decision: 'DENY',
      affected_scopes: [scope],
      scope_path: scope,
      reason_code: 'BUDGET_EXCEEDED',
      deny_detail: detail,
    });
    const [event, ...others] = await eventsOf(tenant);
    expect(others).toEqual([]);
    expect(event).toMatchObject({
      event_type: 'reservation.observed_denied',
      category: 'reservation',
      scope,
    });
    expect(event?.data).toEqual({
      scope,
      unit: 'TOKENS',
      deny_detail: detail,
      action: ACTION,
      subject: { tenant: tenant.id },
      estimated_amount: 1000,
      idempotency_key: expect.any(String),
      observe_mode: 'OBSERVE',
      would_have_blocked_at: scope,
    });
    expect(await on.holdfast.metric('holdfast_observed_reserves_total', labels)).toBe(1);
    expect(await on.holdfast.metric('cycles_reservations_reserve_total', labels)).toBe(0);
  });

  test('has the correlation id of the denial that follows when the tenant enforces again', async () => {
    shows('observed denials', 'observe mode transitions');
    const tenant = await on.holdfast.fundedTenant(100, { observe_mode: 'OBSERVE' });
    await reserve(tenant, {}, 1000);
    await reserve(tenant, {}, 2000);
    await reserve(tenant, { action: { kind: 'code.exec', name: 'python' } }, 1000);
    expectStatus(await setMode(tenant.id, 'ENFORCE'), 200);
    expectRefusal(await reserve(tenant, {}, 1000), 409, 'BUDGET_EXCEEDED');
    const events = await eventsOf(tenant);
    const [first, second, other, enforced] = events.map(({ correlation_id: id }) => id);
    expect(first).toMatch(/^denial:[0-9a-f]{40}$/);
    expect([second, enforced]).toEqual([first, first]);
    expect(other).not.toBe(first);
    expect(events.map(({ event_type: type }) => type)).toEqual([
      ...Array.from({ length: 3 }, () => 'reservation.observed_denied'),
      'reservation.denied',
    ]);
    const found = await on.holdfast.admin('GET', `/v1/admin/events?correlation_id=${first}`);
    expect(expectStatus(found, 200).events).toHaveLength(3);
  });

  test('that would be allowed emits an event with its caps and the correlation id of its run', async () => {
    shows('observed allowances');
    const tenant = await on.holdfast.fundedTenant(100);
    const scope = `tenant:${tenant.id}`;
    const policy = { name: 'capped', scope_pattern: scope, caps: { max_tokens: 5, tool_denylist: ['ü r'] } };
    expectStatus(
      await on.holdfast.call('POST', '/v1/admin/policies', { key: tenant.key, body: policy }),
      201,
    );
    const subject = { tenant: tenant.id, dimensions: { run_id: 'run 7' } };
    const more = { action: ACTION, subject, observe_mode: 'OBSERVE' };
    const body = plain(expectStatus(await reserve(tenant, more, 5), 200));
    expect(body).toMatchObject({ decision: 'ALLOW_WITH_CAPS', caps: policy.caps });
    expectStatus(await reserve(tenant, more, 6), 200);
    expectStatus(await reserve(tenant, { observe_mode: 'OBSERVE' }, 6), 200);
    const events = await eventsOf(tenant);
    expect(events[0]?.data).toEqual({
      scope,
      decision: 'ALLOW_WITH_CAPS',
      idempotency_key: expect.any(String),
      unit: 'TOKENS',
      action: ACTION,
      subject,
      estimated_amount: 5,
      observe_mode: 'OBSERVE',
      caps_applied: policy.caps,
    });
    const ids = events.map(({ correlation_id: id }) => id);
    expect(ids[0]).toMatch(/^observed:[0-9a-f]{40}$/);
    expect(ids).toEqual([ids[0], ids[0], undefined]);
    const labels = { tenant: tenant.id, decision: 'ALLOW_WITH_CAPS', reason: 'OK' };
    expect(await on.holdfast.metric('holdfast_observed_reserves_total', labels)).toBe(3);
  });

  test('counts toward no quota, and reports no threshold', async () => {
    shows('observe mode side effects');
    const tenant = await on.holdfast.fundedTenant(100);
    const quotas = [{ action_kind: ACTION.kind, max_calls: 1, window: 'per_tenant_per_day' }];
    const policy = { name: 'quota', scope_pattern: `tenant:${tenant.id}`, action_quotas: quotas };
    expectStatus(
      await on.holdfast.call('POST', '/v1/admin/policies', { key: tenant.key, body: policy }),
      201,
    );
    const more = { action: ACTION, observe_mode: 'OBSERVE' };
    expect(expectStatus(await reserve(tenant, more), 200).decision).toBe('ALLOW');
    expect(expectStatus(await reserve(tenant, more), 200).decision).toBe('ALLOW');
    expect(expectStatus(await reserve(tenant, { action: ACTION }), 200).decision).toBe('ALLOW');
    const denied = plain(expectStatus(await reserve(tenant, more), 200));
    expect(denied.deny_detail).toMatchObject({
      reason_code: 'ACTION_QUOTA_EXCEEDED',
      quota_violation: { used: 1 },
    });
    const { body } = await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`);
    const types = (body.events as Json[]).map(({ event_type: type }) => type);
    expect(types.filter((type) => type === 'quota.threshold_approaching')).toHaveLength(1);
    expect(types.slice(0, 2)).toEqual(['reservation.observed_denied', 'quota.threshold_approaching']);
  });

  test('is replayed as it was, whatever the mode is by then, and emits nothing again', async () => {
    shows('observe mode transitions');
    const tenant = await on.holdfast.fundedTenant(100, { observe_mode: 'OBSERVE' });
    const [allowed, denied] = [{ idempotency_key: 'a' }, { idempotency_key: 'd' }];
    const first = [await reserve(tenant, allowed), await reserve(tenant, denied, 1000)];
    expectStatus(await setMode(tenant.id, 'ENFORCE'), 200);
    const again = [await reserve(tenant, allowed), await reserve(tenant, denied, 1000)];
    expect(again.map(({ text }) => text)).toEqual(first.map(({ text }) => text));
    expect(await eventsOf(tenant)).toHaveLength(2);
    const other = await reserve(tenant, { ...allowed, observe_mode: 'OBSERVE' });
    expectRefusal(other, 409, 'IDEMPOTENCY_MISMATCH');
  });

  test('does not change earlier reservations', async () => {
    shows('observe mode transitions');
    const tenant = await on.holdfast.fundedTenant(100);
    const { reservation_id: id } = expectStatus(await reserve(tenant, {}, 10), 200);
    expectStatus(await setMode(tenant.id, 'OBSERVE'), 200);
    expectStatus(await on.holdfast.commit(tenant, id, 10), 200);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 0 10 0' });
  });

  test.each([['SHADOW'], [null], [1]])('with the mode %j is refused', async (mode) => {
    const tenant = await on.holdfast.fundedTenant(100);
    const answer = await reserve(tenant, { observe_mode: mode });
    expect(expectRefusal(answer, 400, 'INVALID_REQUEST').details.field).toBe('observe_mode');
  });
});

test('a client of 0.1.25 notices nothing: its responses, refusals and events stay the same', async () => {
  shows('clients of 0.1.25');
  const tenant = await on.holdfast.fundedTenant(100);
  const scope = `tenant:${tenant.id}`;
  // Not `extended`: the call fails if there are members that the published clients do not know.
  const live = expectStatus(await on.holdfast.reserve(tenant, 1), 200);
  expect(Object.keys(live).sort()).toEqual([
    'affected_scopes',
    'balances',
    'decision',
    'expires_at_ms',
    'remaining_ttl_ms',
    'reservation_id',
    'reserved',
    'scope_path',
  ]);
  expect(expectStatus(await on.holdfast.reserve(tenant, 1000, { dry_run: true }), 200)).toEqual({
    decision: 'DENY',
    affected_scopes: [scope],
    scope_path: scope,
    reason_code: 'BUDGET_EXCEEDED',
  });
  expectRefusal(await on.holdfast.reserve(tenant, 1000), 409, 'BUDGET_EXCEEDED');
  const events = await eventsOf(tenant);
  expect(events.map(({ event_type: type }) => type)).toEqual(['reservation.denied', 'reservation.denied']);
  expect(events.some((event) => 'correlation_id' in event || 'observe_mode' in event.data)).toBe(false);
});

test('a tenant can subscribe to what is observed, and receives it', async () => {
  shows('observed denials', 'observed allowances');
  const local = { allow_http: true, blocked_cidr_ranges: [] };
  expectStatus(await on.holdfast.admin('PUT', '/v1/admin/config/webhook-security', local), 200);
  const receiver = await WebhookReceiver.start();
  try {
    const tenant = await on.holdfast.fundedTenant(10, { observe_mode: 'OBSERVE' });
    const key = await on.holdfast.createKey(tenant.id, { permissions: ['webhooks:write', 'webhooks:read'] });
    const types = ['reservation.observed_denied', 'reservation.observed_allowed'];
    const body = { url: receiver.url, event_types: types };
    const answer = expectStatus(await on.holdfast.call('POST', '/v1/webhooks', { key, body }), 201);
    expect(answer.subscription.event_types).toEqual(types);
    for (const amount of [11, 1]) {
      const reserve = { key: tenant.key, body: reserveBody(tenant, amount), extended: true };
      expectStatus(await on.holdfast.call('POST', '/v1/reservations', reserve), 200);
    }
    await eventually('two deliveries', () => receiver.received.length === 2);
    const [denied, allowed] = receiver.received.map((received) => JSON.parse(received.body));
    expect(denied).toMatchObject({
      event_type: 'reservation.observed_denied',
      tenant_id: tenant.id,
      correlation_id: expect.stringMatching(/^denial:/),
      data: {
        observe_mode: 'OBSERVE',
        deny_detail: { reason_code: 'BUDGET_EXCEEDED' },
        estimated_amount: 11,
      },
    });
    expect(allowed).toMatchObject({
      event_type: 'reservation.observed_allowed',
      tenant_id: tenant.id,
      data: { observe_mode: 'OBSERVE', decision: 'ALLOW', estimated_amount: 1 },
    });
  } finally {
    await receiver.stop();
  }
});

test('a sample of the allowed reserves in observe mode emits events, which name the sample rate', async () => {
  const sampling = await Holdfast.start({ REDIS_URL: on.redis.url, OBSERVE_ALLOW_SAMPLE_RATE: '0.5' });
  try {
    const tenant = await sampling.fundedTenant(1000, { observe_mode: 'OBSERVE' });
    for (let reserve = 0; reserve < 60; reserve += 1) {
      expectStatus(await sampling.reserve(tenant, 1), 200);
    }
    const query = `tenant_id=${tenant.id}&event_type=reservation.observed_allowed&limit=100`;
    const { events } = expectStatus(await sampling.admin('GET', `/v1/admin/events?${query}`), 200);
    // Each of the 60 is chosen with a probability of one half, so all or none happens once in 10^17 runs.
    expect(events.length).toBeGreaterThan(0);
    expect(events.length).toBeLessThan(60);
    expect(new Set(events.map(({ data }: Json) => data.sample_rate))).toEqual(new Set([0.5]));
  } finally {
    await sampling.stop();
  }
});
