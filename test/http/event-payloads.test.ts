import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { LogJanitor } from '../../src/retention/log-janitor.js';
import { categoryOf } from '../../src/ledger/event-types.js';
import { StoreOutages } from '../../src/events/store-outages.js';
import { Reconciler } from '../../src/expiry/reconciler.js';
import {
  apiKeyExpiryKey,
  eventLogKey,
  reservationKey,
  tagOfKeyId,
  tagOfReservationId,
  tenantEventsKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import type { MemberKind } from '../../src/events/event-members.js';
import { EVENT_PAYLOADS, membersOfEvent } from '../../src/events/event-payloads.js';
import { shows } from '../compatibility/shows.js';
import { eventPage } from '../support/event-page.js';
import { expectStatus, newKey, reserveBody, type Json, type TestTenant } from '../support/holdfast.js';
import { declaredEvents, scriptTexts } from '../support/script-text.js';
import {
  eventDataSchemaOf,
  loadSpec,
  specAbsence,
  type Spec,
  type SpecSchema,
} from '../support/spec/index.js';
import { Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const PARTITIONS = 64;
const on = useGovernance();
const tokens = (amount: number): object => ({ unit: 'TOKENS', amount });

/** Members that the schemas do not list but allow. */
const MORE: Readonly<Record<string, readonly string[]>> = {
  'budget.updated': ['changed_fields'],
  'budget.exhausted': ['reservation_id'],
  'budget.threshold_crossed': ['threshold_amount', 'first_in_period'],
  'reservation.denied': ['window', 'idempotency_key'],
  'reservation.observed_denied': ['idempotency_key'],
  'reservation.observed_allowed': ['idempotency_key'],
  'reservation.denial_rate_spike': ['current_fraction'],
  'reservation.expiry_rate_spike': ['current_fraction'],
  'api_key.auth_failure_rate_spike': ['current_fraction'],
};

async function admin(status: number, method: string, path: string, body?: unknown): Promise<Json> {
  return expectStatus(await on.holdfast.admin(method, path, body), status);
}

/**
 * Causes events about budgets: created, changed, funded in every way, in debt, over and under the limit,
 * exhausted, frozen.
 */
async function tellOfBudgets(tenant: TestTenant): Promise<void> {
  await on.holdfast.createBudget(tenant, '', 100, { overdraft_limit: tokens(50) });
  const at = `scope=tenant:${tenant.id}&unit=TOKENS`;
  const fund = (operation: string, amount: number): Promise<Json> =>
    admin(200, 'POST', `/v1/admin/budgets/fund?tenant_id=${tenant.id}&${at}`, {
      operation,
      amount: tokens(amount),
      idempotency_key: newKey(),
      reason: 'why',
    });
  const held = expectStatus(
    await on.holdfast.reserve(tenant, 100, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
    200,
  );
  expectStatus(await on.holdfast.commit(tenant, held.reservation_id as string, 120), 200);
  await admin(200, 'PATCH', `/v1/admin/budgets?${at}`, { overdraft_limit: tokens(10) });
  await fund('REPAY_DEBT', 20);
  for (const operation of ['CREDIT', 'DEBIT', 'RESET', 'RESET_SPENT']) {
    await fund(operation, operation === 'DEBIT' ? 10 : 500);
  }
  await admin(200, 'POST', `/v1/admin/budgets/freeze?${at}`, { reason: 'why' });
  await admin(200, 'POST', `/v1/admin/budgets/unfreeze?${at}`);
  await refund(`reservations/${held.reservation_id}`, 1);
}

/** An operator takes something of a charge back. */
const refund = (charge: string, amount: number): Promise<Json> =>
  admin(200, 'POST', `/v1/${charge}/refunds`, {
    idempotency_key: newKey(),
    amount: tokens(amount),
    reason: 'why',
    metadata: { invoice: 8 },
  });

/**
 * Causes events about reservations: refused, expired, quarantined and decided on, lost from the index and
 * found again. Includes a direct debit.
 */
async function tellOfReservations(tenant: TestTenant): Promise<void> {
  await on.holdfast.reserve(tenant, 1_000_000, { idempotency_key: randomUUID() });
  const overdue = async (fields: Record<string, string> = {}): Promise<string> => {
    const id = await on.holdfast.hold(tenant, 5);
    await on.stored.redis.hset(reservationKey(tagOfReservationId(id, PARTITIONS) as string, id), {
      ex: '1000',
      ...fields,
    });
    await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key });
    return id;
  };
  await overdue();
  const broken = await overdue({ am: 'odd' });
  await admin(200, 'POST', `/ops/quarantine/${broken}/decide`, { action: 'retry', reason: 'why' });
  const lost = await on.holdfast.hold(tenant, 5);
  await on.stored.redis.zrem(ttlIndexKey(tagOfReservationId(lost, PARTITIONS) as string), lost);
  await on.holdfast.app.get(Reconciler).reconcile();
  const { subject, action } = reserveBody(tenant, 1);
  const debit = { idempotency_key: newKey(), subject, action, actual: tokens(1), metadata: { invoice: 7 } };
  const debited = await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body: debit });
  await refund(`events/${expectStatus(debited, 201).event_id}`, 1);
  const refused = {
    ...debit,
    idempotency_key: newKey(),
    actual: tokens(1_000_000),
    overage_policy: 'REJECT',
  };
  expectStatus(await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body: refused }), 409);
}

/** Credits that start and end soon, one that is consumed, and one that is voided. */
async function tellOfCredits(tenant: TestTenant): Promise<void> {
  const at = { tenant_id: tenant.id, scope: `tenant:${tenant.id}`, unit: 'TOKENS' };
  const grant = (name: string, more: object): Promise<Json> =>
    admin(201, 'POST', '/ops/budgets/credits', {
      idempotency_key: newKey(),
      ...at,
      amount: tokens(3),
      name,
      ...more,
    });
  const day = 86_400_000;
  const expires = { expires_at: new Date(Date.now() + day).toISOString(), notify_before_ms: 2 * day };
  await grant('Welcome', { ...expires, category: 'promotion', metadata: { campaign: 'spring' } });
  const key = on.stored.budgetKey(tenant.id);
  const stored = String(await on.stored.redis.hget(key, 'credits'));
  await on.stored.redis.hset(key, 'credits', stored.replaceAll(/^\d+|(?<=,)\d+(?=,\|)/g, '1000'));
  const { credit_id: id } = await grant('By mistake', {});
  await admin(200, 'POST', `/ops/budgets/credits/${id}/void`, { reason: 'why' });
  await grant('Small', { priority: 0 });
  const held = expectStatus(await on.holdfast.reserve(tenant, 3), 200);
  expectStatus(await on.holdfast.commit(tenant, held.reservation_id as string, 3), 200);
}

/** A quota that the first reserve uses up and an operator resets. */
async function tellOfQuotas(tenant: TestTenant): Promise<void> {
  const quota = { action_kind: 'llm.completion', max_calls: 1, window: 'per_tenant_per_day' };
  const policy = await admin(201, 'POST', '/v1/admin/policies', {
    tenant_id: tenant.id,
    name: 'quotas',
    scope_pattern: `tenant:${tenant.id}`,
    action_quotas: [quota],
  });
  expectStatus(await on.holdfast.reserve(tenant, 1), 200);
  const { counters } = await admin(200, 'GET', `/v1/admin/action-quota-counters?tenant_id=${tenant.id}`);
  const { action_kind, scope, window, window_key } = counters[0];
  await admin(200, 'POST', '/v1/admin/action-quota-counters/reset', {
    tenant_id: tenant.id,
    action_kind,
    scope,
    window,
    window_key,
    reason: 'why',
  });
  await admin(200, 'PATCH', `/v1/admin/policies/${policy.policy_id}`, { status: 'DISABLED' });
}

/** Reserves in observe mode: one that would be allowed, and one that would not. */
async function tellOfObservations(tenant: TestTenant): Promise<void> {
  for (const amount of [1, 1_000_000]) {
    const body = reserveBody(tenant, amount, { observe_mode: 'OBSERVE', idempotency_key: randomUUID() });
    const answer = await on.holdfast.call('POST', '/v1/reservations', {
      key: tenant.key,
      body,
      extended: true,
    });
    expectStatus(answer, 200);
  }
}

/** A template that is made, changed and deleted. */
async function tellOfTemplates(tenant: TestTenant): Promise<void> {
  const path = '/ops/budget-templates/agents';
  for (const [status, amount] of [
    [201, 10],
    [200, 20],
  ] as const) {
    await admin(status, 'PUT', path, {
      tenant_id: tenant.id,
      scope_pattern: `tenant:${tenant.id}/agent:*`,
      unit: 'TOKENS',
      allocated: tokens(amount),
    });
  }
  await admin(204, 'DELETE', `${path}?tenant_id=${tenant.id}`);
}

async function tellOfKeysAndPolicies(tenant: TestTenant): Promise<void> {
  const { key_id: keyId } = await admin(201, 'POST', '/v1/admin/api-keys', {
    tenant_id: tenant.id,
    name: 'n',
  });
  await admin(200, 'PATCH', `/v1/admin/api-keys/${keyId}`, { permissions: ['balances:read'] });
  await admin(200, 'DELETE', `/v1/admin/api-keys/${keyId}`);
  const ending = await admin(201, 'POST', '/v1/admin/api-keys', { tenant_id: tenant.id, name: 'n' });
  await on.stored.redis.zadd(
    apiKeyExpiryKey(tagOfKeyId(ending.key_id as string, PARTITIONS) as string),
    1,
    ending.key_id as string,
  );
  await on.holdfast.app.get(LogJanitor).expireKeys(Infinity);
  await admin(200, 'POST', '/v1/auth/validate', { key_secret: 'odd' });
  const policy = await admin(201, 'POST', '/v1/admin/policies', {
    tenant_id: tenant.id,
    name: 'p',
    scope_pattern: `tenant:${tenant.id}/*`,
  });
  await admin(200, 'PATCH', `/v1/admin/policies/${policy.policy_id}`, { name: 'q' });
}

async function tellOfWebhooks(subscriber: Subscriber): Promise<void> {
  const { subscription_id: id } = await subscriber.made();
  for (const change of [{ name: 'other' }, { status: 'PAUSED' }, { status: 'ACTIVE' }]) {
    expectStatus(await subscriber.patch(id, change), 200);
  }
  expectStatus(await subscriber.remove(id), 204);
  await subscriber.made();
}

/** Appends an event that other tests let the scripts emit; here only the way it is read matters. */
async function put(tag: string, type: string, owner: string, figures: readonly string[]): Promise<void> {
  const envelope = ['ty', type, 'tn', owner, 'ac', 'system'];
  const id = (await on.stored.redis.xadd(eventLogKey(tag), '*', ...envelope, ...figures)) as string;
  await on.stored.redis.xadd(tenantEventsKey(tag, owner), id, 'y', type);
}

async function tellOfSpikes(tenant: TestTenant): Promise<void> {
  const tag = on.stored.tagOf(tenant.id);
  const figures = [
    'current_rate',
    '2.4',
    'threshold_rate',
    '0.1',
    'window_seconds',
    '300',
    'sample_count',
    '12',
  ];
  const spike = [...figures, 'current_fraction', '0.75'];
  await put(tag, 'reservation.denial_rate_spike', tenant.id, ['metric', 'denial_rate', ...spike]);
  await put(tag, 'reservation.expiry_rate_spike', tenant.id, ['metric', 'expiry_rate', ...spike]);
  await put(tag, 'budget.burn_rate_anomaly', tenant.id, [
    'unit',
    'TOKENS',
    'multiplier',
    '4',
    'baseline_rate',
    '1.5',
  ]);
  await put('{p00}', 'api_key.auth_failure_rate_spike', '__system__', [
    'metric',
    'auth_failure_rate',
    ...spike,
  ]);
  await put('{p00}', 'system.high_latency', '__system__', [
    'component',
    'api',
    'message',
    'm',
    'severity',
    'warning',
    'p99_ms',
    '1200',
  ]);
}

/** The events that the dispatcher emits after failed deliveries. */
async function tellOfDispatch(tenant: TestTenant): Promise<void> {
  const about = ['subscription_id', 'whsub_00a'];
  await put(on.stored.tagOf(tenant.id), 'webhook.disabled', tenant.id, [
    ...about,
    'tenant_id',
    tenant.id,
    'previous_status',
    'ACTIVE',
    'new_status',
    'DISABLED',
    'disable_reason',
    'consecutive_failures_exceeded_threshold',
  ]);
  await put('{p00}', 'system.webhook_delivery_failed', '__system__', [
    'component',
    'webhook_dispatcher',
    'message',
    'm',
    'severity',
    'warning',
    ...about,
    'attempts',
    '6',
    'response_status',
    '500',
  ]);
}

async function allEvents(): Promise<Json[]> {
  const seen: Json[] = [];
  let cursor = '';
  do {
    // Each response is compared with the schemas of Event and of its payload.
    const page = await admin(200, 'GET', `/v1/admin/events?sort_dir=asc&limit=100&cursor=${cursor}`);
    seen.push(...page.events);
    cursor = page.next_cursor ?? '';
  } while (cursor !== '');
  return seen;
}

function membersOf(schemaName: string): string[] {
  const { components } = (loadSpec() as Spec).documents.governance as unknown as {
    components: { schemas: Record<string, SpecSchema> };
  };
  return Object.keys(components.schemas[schemaName]?.properties ?? {});
}

/** Members of an event's payload that its type does not list, or that are of another kind. */
function strangersIn({ event_type: type, data }: Json): string[] {
  const known = new Map(membersOfEvent(EVENT_PAYLOADS[type as keyof typeof EVENT_PAYLOADS]));
  return Object.entries(data as object).flatMap(([name, value]: [string, unknown]) => {
    const { is } = known.get(name) ?? {};
    return is !== undefined && IS[is](value) ? [] : [`${type}: ${name} is ${JSON.stringify(value)}`];
  });
}

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const IS: Readonly<Record<MemberKind, (value: unknown) => boolean>> = {
  int64: (value) => Number.isInteger(value),
  number: (value) => typeof value === 'number',
  flag: (value) => typeof value === 'boolean',
  instant: (value) => typeof value === 'string' && value.endsWith('Z') && !Number.isNaN(Date.parse(value)),
  list: (value) => Array.isArray(value),
  json: isObject,
  text: (value) => typeof value === 'string',
  object: isObject,
};

const PAGE = new URL('../../docs/reference/events.md', import.meta.url);

async function compareEventPage(written: string): Promise<void> {
  if (process.env['WRITE_COMPATIBILITY'] === '1') {
    await writeFile(PAGE, written);
  }
  expect(await readFile(PAGE, 'utf8')).toBe(written);
}

test('every event that scripts emit has the payload of its type', async () => {
  shows('event payload', 'listEvents');
  const subscriber = await Subscriber.make(on.holdfast, on.stored);
  const tenant: TestTenant = { id: subscriber.id, key: await on.holdfast.createKey(subscriber.id) };
  await tellOfBudgets(tenant);
  await tellOfReservations(tenant);
  await tellOfCredits(tenant);
  await tellOfQuotas(tenant);
  await tellOfObservations(tenant);
  await tellOfTemplates(tenant);
  await tellOfKeysAndPolicies(tenant);
  await tellOfWebhooks(subscriber);
  await tellOfDispatch(tenant);
  await tellOfSpikes(tenant);
  await on.holdfast.app.get(StoreOutages).emit(0, 1500);
  for (const change of [
    { name: 'other' },
    { default_reservation_ttl_ms: 5000 },
    { status: 'SUSPENDED' },
    { status: 'ACTIVE' },
    { status: 'CLOSED' },
  ]) {
    await admin(200, 'PATCH', `/v1/admin/tenants/${tenant.id}`, change);
  }

  const events = await allEvents();
  const declared = new Set(scriptTexts().flatMap(({ own }) => declaredEvents(own)));
  const types = [...new Set(events.map(({ event_type: type }) => type as string))].sort();
  expect(types).toEqual([...declared].sort());
  expect(types).toEqual(Object.keys(EVENT_PAYLOADS).sort());
  expect(events.flatMap((event) => strangersIn(event))).toEqual([]);
  await compareEventPage(eventPage(events, tenant.id));
  for (const { event_type: type, category, data } of events) {
    expect(category).toBe(categoryOf(type));
    const schema = eventDataSchemaOf(type);
    if (schema !== undefined && specAbsence() === undefined) {
      const known = [...membersOf(schema), ...(MORE[type] ?? [])];
      expect(
        `${type}: ${Object.keys(data as object)
          .filter((name) => !known.includes(name))
          .join()}`,
      ).toBe(`${type}: `);
      expect(`${type}: ${Object.keys(data as object).length > 0}`).toBe(`${type}: true`);
    }
  }
  const told = (type: string): Json => events.find(({ event_type: found }) => found === type)?.data;
  for (const type of ['reservation.denied', 'reservation.observed_allowed']) {
    expect(told(type)).toHaveProperty('action');
    expect(told(type)).not.toHaveProperty('iu');
  }
  expect(told('budget.exhausted')).toMatchObject({
    threshold: 1,
    direction: 'rising',
    utilization: 1,
    allocated: 100,
    remaining: 0,
  });
  expect([told('tenant.created'), told('webhook.disabled')]).toEqual(
    [{ changed_fields: [] }, { changed_fields: [] }].map(expect.objectContaining),
  );
  expect(told('budget.over_limit_entered')).toMatchObject({
    debt: 20,
    overdraft_limit: 10,
    is_over_limit: true,
    debt_utilization: 2,
  });
  expect(told('budget.over_limit_exited')).toMatchObject({ is_over_limit: false });
  expect(told('budget.funded')).toMatchObject({
    operation: 'CREDIT',
    previous_state: { remaining: expect.any(Number) },
    new_state: { status: 'ACTIVE' },
  });
  expect(told('budget.reset_spent')).toMatchObject({ spent_override_provided: false });
  expect(told('reservation.expired')).toMatchObject({
    estimated_amount: 5,
    expired_at: expect.stringMatching(/Z$/),
    extensions_used: 0,
  });
  expect(told('tenant.settings_changed')).toMatchObject({ changed_fields: ['default_reservation_ttl_ms'] });
  expect(told('api_key.permissions_changed')).toMatchObject({ permissions: ['balances:read'] });
  expect(told('custom.direct_debit.applied')).toMatchObject({
    metadata: { invoice: 7 },
    charged: 1,
    idempotency_key: expect.any(String),
  });
  const credit = { credit_id: expect.stringMatching(/^crd_/), unit: 'TOKENS' };
  expect(told('custom.credit.granted')).toMatchObject({
    ...credit,
    amount: 3,
    priority: 50,
    category: 'promotion',
  });
  expect(told('custom.credit.ended')).toMatchObject({ ...credit, name: 'Welcome', lapsed: 0, pinned: 3 });
  expect(told('custom.credit.voided')).toMatchObject({ ...credit, voided: 0, pinned: 3 });
  expect(told('custom.credit.exhausted')).toMatchObject({ ...credit, name: 'Small', remaining: 0 });
  const refunded = {
    refunded: 1,
    refunded_total: 1,
    reason: 'why',
    unit: 'TOKENS',
  };
  expect(told('custom.direct_debit.refunded')).toEqual({
    ...{ event_id: expect.stringMatching(/^evn_/), charged: 1 },
    ...refunded,
  });
  expect(told('custom.reservation.refunded')).toEqual({
    ...{ reservation_id: expect.stringMatching(/^rsv_/), charged: 120 },
    ...refunded,
  });
  expect(told('custom.direct_debit.denied')).toEqual({
    scope: expect.any(String),
    unit: 'TOKENS',
    reason_code: 'BUDGET_EXCEEDED',
    requested_amount: 1_000_000,
    idempotency_key: expect.any(String),
    remaining: expect.any(Number),
    subject: expect.any(Object),
    action: expect.any(Object),
    deny_detail: expect.objectContaining({ reason_code: 'BUDGET_EXCEEDED' }),
  });
  expect(told('system.store_connection_restored')).toMatchObject({
    component: 'store',
    severity: 'info',
    details: { outage_ms: 1500, lost_at: expect.stringMatching(/Z$/) },
  });
  expect(told('system.webhook_delivery_failed')).toMatchObject({
    details: { attempts: 6, response_status: 500, subscription_id: 'whsub_00a' },
  });
});
