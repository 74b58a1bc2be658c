import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { outcomesKey, tagOf } from '../../src/redis/keyspace.js';
import { type DeliveryPlace, deliveryPlaceOf } from '../../src/webhooks/dispatch/delivery.js';
import { eventually } from '../support/eventually.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Holdfast,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { connectTo, startStore, type Store } from '../support/store.js';
import { storedWebhookKey } from '../support/subscriber.js';
import { eventsOf } from '../support/test-clock.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  endedDeliveries,
  startDispatcher,
  subscribe,
  subscription,
  SYSTEM,
} from './dispatching.js';

const QUICK = { max_retries: 1, initial_delay_ms: 100, max_delay_ms: 1000 };
const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });

let server: Store;
let holdfast: Holdfast;
let receiver: WebhookReceiver;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startStore();
  holdfast = await startDispatcher({ REDIS_URL: server.url });
  await allowLoopback(holdfast);
});

beforeEach(async () => {
  receiver = await WebhookReceiver.start();
  tenant = await holdfast.fundedTenant(1000);
});

afterEach(() => receiver.stop());

afterAll(async () => {
  await holdfast.stop();
  await server.stop();
});

const put = (id: string, options: Json): Promise<Answer> =>
  holdfast.admin('PUT', `/ops/webhooks/${id}/options`, options);
const shown = async (id: string): Promise<Json> =>
  expectStatus(await holdfast.admin('GET', `/ops/webhooks/${id}/options`), 200);

async function subscribeWith(options: Json, more: Json = {}): Promise<string> {
  const id = await subscribe(holdfast, tenant, receiver.url, more);
  expectStatus(await put(id, options), 200);
  return id;
}

/** The payloads that the receiver got, once there are so many, in the order in which they came. */
async function payloads(count: number): Promise<Json[]> {
  await eventually(`${count} events arrive`, () => Promise.resolve(receiver.received.length >= count));
  return receiver.received.map(({ body }) => JSON.parse(body));
}

describe('the options of a subscription', () => {
  test('are off until they are set, are replaced as a whole, and each change has its event and audit row', async () => {
    const id = await subscribe(holdfast, tenant, receiver.url);
    const off = {
      subscription_id: id,
      end_on_gone: false,
      events_per_request: 1,
      thresholds_once_a_period: false,
      payload_filter: {},
      used_amounts: [],
    };
    expect(await shown(id)).toEqual(off);
    const options = {
      end_on_gone: true,
      events_per_request: 100,
      thresholds_once_a_period: true,
      payload_filter: { unit: 'TOKENS', action_kind: 'llm.completion', state: 'ACTIVE' },
      used_amounts: [tokens(500), { unit: 'CREDITS', amount: 9_007_199_254_740_991 }],
    };
    const set = await put(id, options);
    expect(expectStatus(set, 200)).toEqual({ subscription_id: id, ...options });
    expect(await shown(id)).toEqual({ subscription_id: id, ...options });
    const before = await subscription(holdfast, id);
    expect(expectStatus(await put(id, {}), 200)).toEqual(off);
    const { updated_at: _, ...same } = before;
    expect(await subscription(holdfast, id)).toMatchObject(same);
    const updates = await eventsOf(holdfast, tenant, 'webhook.updated');
    expect(updates.map(({ data }) => [...data.changed_fields].sort())).toEqual([
      ['end_on_gone', 'events_per_request', 'payload_filter', 'thresholds_once_a_period', 'used_amounts'],
      ['end_on_gone', 'events_per_request', 'payload_filter', 'thresholds_once_a_period', 'used_amounts'],
    ]);
    const rows = await holdfast.admin(
      'GET',
      `/v1/admin/audit/logs?request_id=${set.headers.get('x-request-id')}`,
    );
    expect(expectStatus(rows, 200).logs).toMatchObject([
      { operation: 'setWebhookOptions', resource_id: id, status: 200 },
    ]);
  });

  test.each([
    [{ end_on_gone: 'yes' }, 'end_on_gone'],
    [{ events_per_request: 0 }, 'events_per_request'],
    [{ events_per_request: 101 }, 'events_per_request'],
    [{ payload_filter: { scope: 'tenant:a' } }, 'payload_filter'],
    [{ payload_filter: { unit: 'EUR' } }, 'payload_filter.unit'],
    [{ used_amounts: [tokens(0)] }, 'used_amounts[0].amount'],
    [{ used_amounts: [tokens(9_007_199_254_740_992)] }, 'used_amounts[0].amount'],
    [{ used_amounts: Array.from({ length: 21 }, (_, index) => tokens(index + 1)) }, 'used_amounts'],
  ])('are refused as %j, naming %s', async (options, field) => {
    const id = await subscribe(holdfast, tenant, receiver.url);
    const refusal = expectRefusal(await put(id, options), 400, 'INVALID_REQUEST');
    expect(refusal.message + JSON.stringify(refusal.details)).toContain(field);
    expect(await shown(id)).toMatchObject({ end_on_gone: false, used_amounts: [] });
  });

  test('have no amounts for operators, whose subscriptions belong to no budget', async () => {
    const id = await subscribe(holdfast, SYSTEM, receiver.url);
    expectRefusal(await put(id, { used_amounts: [tokens(5)] }), 400, 'INVALID_REQUEST');
    expectStatus(await put(id, { end_on_gone: true }), 200);
  });

  test('need a subscription, and few enough thresholds of all subscriptions of a tenant', async () => {
    expectRefusal(await put('whsub_000000000000000000', {}), 404, 'WEBHOOK_NOT_FOUND');
    const more = { event_types: ['budget.threshold_crossed'] };
    const amounts = (from: number): Json[] => Array.from({ length: 20 }, (_, index) => tokens(from + index));
    await subscribeWith({ used_amounts: amounts(1) }, more);
    await subscribeWith({ used_amounts: amounts(21) }, more);
    const id = await subscribe(holdfast, tenant, receiver.url, more);
    const refusal = expectRefusal(await put(id, { used_amounts: amounts(41) }), 400, 'INVALID_REQUEST');
    expect(refusal.details).toMatchObject({ field: 'used_amounts', limit: 50 });
    expect(refusal.message).toContain('used_amounts');
    expectStatus(await put(id, { used_amounts: amounts(11) }), 200);
  });
});

describe('an endpoint that answers 410', () => {
  const disabled = (reason: string): Promise<number> =>
    holdfast.metric('cycles_webhook_subscription_auto_disabled_total', { tenant: tenant.id, reason });

  beforeEach(() => {
    receiver.react = (response) => response.writeHead(410).end();
  });

  test('ends a subscription that says so after one attempt, which is counted and has its event', async () => {
    const id = await subscribeWith({ end_on_gone: true });
    const request = await causeEvent(holdfast, tenant);
    const [delivery] = await endedDeliveries(holdfast, id, 1);
    expect(delivery).toMatchObject({ status: 'FAILED', attempts: 1, response_status: 410 });
    await eventually('it is disabled', async () => (await subscription(holdfast, id)).status === 'DISABLED');
    expect(await subscription(holdfast, id)).toMatchObject({ consecutive_failures: 1 });
    expect(await eventsOf(holdfast, tenant, 'webhook.disabled')).toMatchObject([
      {
        request_id: request,
        actor: { type: 'system' },
        data: {
          subscription_id: id,
          previous_status: 'ACTIVE',
          new_status: 'DISABLED',
          disable_reason: 'endpoint_gone',
        },
      },
    ]);
    await eventually('it is counted', async () => (await disabled('endpoint_gone')) === 1);
    expect(await disabled('consecutive_failures')).toBe(0);
    expect((await shown(id)).stopped).toEqual({
      reason: 'endpoint_gone',
      at: expect.any(String),
      by: 'system',
    });
    await causeEvent(holdfast, tenant);
    expect(receiver.received).toHaveLength(1);
  });

  test('is tried again for a subscription that does not say so', async () => {
    const id = await subscribe(holdfast, tenant, receiver.url, { retry_policy: QUICK });
    await causeEvent(holdfast, tenant);
    const [delivery] = await endedDeliveries(holdfast, id, 1);
    expect(delivery).toMatchObject({ status: 'FAILED', attempts: 2, response_status: 410 });
    await eventually(
      'it is counted',
      async () => (await subscription(holdfast, id)).consecutive_failures === 1,
    );
    expect(await subscription(holdfast, id)).toMatchObject({ status: 'ACTIVE' });
  });

  test('ends it although the process died before it could, since the delivery keeps the answer', async () => {
    const id = await subscribe(holdfast, tenant, receiver.url, { retry_policy: { max_retries: 0 } });
    await causeEvent(holdfast, tenant);
    const [delivery = {}] = await endedDeliveries(holdfast, id, 1);
    await eventually(
      'it is counted',
      async () => (await subscription(holdfast, id)).consecutive_failures === 1,
    );
    expectStatus(await put(id, { end_on_gone: true }), 200);
    const { partition, ref } = deliveryPlaceOf(delivery.delivery_id as string) as DeliveryPlace;
    // As if the failure had not been counted.
    const redis = connectTo(server.url);
    await redis.hdel(storedWebhookKey(id), 'cf', 'ld');
    await redis.zadd(outcomesKey(tagOf(partition)), 1000, ref);
    await eventually('it is disabled', async () => (await subscription(holdfast, id)).status === 'DISABLED');
    redis.disconnect();
  });

  test('with another status ends nothing', async () => {
    receiver.react = (response) => response.writeHead(404).end();
    const id = await subscribeWith({ end_on_gone: true }, { retry_policy: QUICK });
    await causeEvent(holdfast, tenant);
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([{ attempts: 2, response_status: 404 }]);
    expect(await subscription(holdfast, id)).toMatchObject({ status: 'ACTIVE' });
  });
});

test('a subscription that somebody paused says who and when, and one that is active nothing', async () => {
  const id = await subscribe(holdfast, tenant, receiver.url);
  expect(await shown(id)).not.toHaveProperty('stopped');
  const path = `/v1/admin/webhooks/${id}`;
  expectStatus(await holdfast.admin('PATCH', path, { status: 'PAUSED' }), 200);
  expect((await shown(id)).stopped).toMatchObject({ reason: 'paused', at: expect.any(String) });
  expectStatus(await holdfast.admin('PATCH', path, { status: 'ACTIVE' }), 200);
  expect(await shown(id)).not.toHaveProperty('stopped');
});

describe('a filter of payloads', () => {
  test('by unit passes only events in that unit', async () => {
    await holdfast.createBudget(tenant, '', 10, {
      unit: 'CREDITS',
      allocated: { unit: 'CREDITS', amount: 10 },
    });
    await subscribeWith({ payload_filter: { unit: 'CREDITS' } });
    await causeEvent(holdfast, tenant);
    await holdfast.reserve(tenant, 0, { estimate: { unit: 'CREDITS', amount: 11 } });
    expect(await payloads(1)).toMatchObject([{ data: { unit: 'CREDITS' } }]);
    await causeEvent(holdfast, tenant);
    await holdfast.reserve(tenant, 0, { estimate: { unit: 'CREDITS', amount: 12 } });
    expect((await payloads(2)).map(({ data }) => data.requested_amount)).toEqual([11, 12]);
  });

  test('by the kind of action passes only events about that kind', async () => {
    await subscribeWith({ payload_filter: { action_kind: 'tool.search' } });
    for (const kind of ['llm.completion', 'tool.search', 'llm.embedding', 'tool.search']) {
      await holdfast.reserve(tenant, 1_000_000, { action: { kind, name: 'n' } });
    }
    expect((await payloads(2)).map(({ data }) => data.action.kind)).toEqual(['tool.search', 'tool.search']);
  });

  test('by state passes only events after which the budget is in it', async () => {
    await subscribeWith({ payload_filter: { state: 'FROZEN' } }, { event_categories: ['budget'] });
    const at = `scope=tenant:${tenant.id}&unit=TOKENS`;
    for (const change of ['freeze', 'unfreeze', 'freeze']) {
      expectStatus(await holdfast.admin('POST', `/v1/admin/budgets/${change}?${at}`, {}), 200);
    }
    expect((await payloads(2)).map(({ event_type: type }) => type)).toEqual([
      'budget.frozen',
      'budget.frozen',
    ]);
  });

  test('passes no event that lacks the member', async () => {
    const id = await subscribeWith(
      { payload_filter: { unit: 'TOKENS' } },
      { event_types: ['tenant.updated', 'reservation.denied'] },
    );
    expectStatus(await holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { name: 'other' }), 200);
    await causeEvent(holdfast, tenant);
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([{ event_type: 'reservation.denied' }]);
  });
});

describe('an amount as a threshold', () => {
  async function release(id: string): Promise<void> {
    const request = { key: tenant.key, body: { idempotency_key: id } };
    expectStatus(await holdfast.call('POST', `/v1/reservations/${id}/release`, request), 200);
  }

  test('is crossed by what is spent and held, in both directions, and told to those who asked for it', async () => {
    const id = await subscribeWith(
      { used_amounts: [tokens(100), tokens(250), { unit: 'CREDITS', amount: 50 }] },
      { event_types: ['budget.threshold_crossed'] },
    );
    const others = await WebhookReceiver.start();
    await subscribe(holdfast, tenant, others.url, { event_types: ['budget.threshold_crossed'] });
    const held = await holdfast.hold(tenant, 99);
    await release(await holdfast.hold(tenant, 200));
    expectStatus(await holdfast.commit(tenant, held, 100), 200);
    const told = await payloads(5);
    expect(told.map(({ data }) => [data.threshold_amount, data.direction, data.utilization])).toEqual([
      [100, 'rising', 0.299],
      [250, 'rising', 0.299],
      [100, 'falling', 0.099],
      [250, 'falling', 0.099],
      [100, 'rising', 0.1],
    ]);
    expect(told.every(({ data }) => data.threshold === undefined && data.unit === 'TOKENS')).toBe(true);
    const most = await holdfast.hold(tenant, 800);
    await eventually('shares are told to the other', () => Promise.resolve(others.received.length > 0));
    expect(others.received.map(({ body }) => JSON.parse(body).data.threshold)).not.toContain(undefined);
    await others.stop();
    expectStatus(await put(id, {}), 200);
    const before = (await eventsOf(holdfast, tenant, 'budget.threshold_crossed')).length;
    await release(most);
    const later = (await eventsOf(holdfast, tenant, 'budget.threshold_crossed')).slice(before);
    expect(later.map(({ data }) => [data.threshold, data.direction])).toEqual([[0.8, 'falling']]);
  });
});

test('a threshold that is told once a period is one event, however often use crosses it', async () => {
  await subscribeWith({ thresholds_once_a_period: true }, { event_types: ['budget.threshold_crossed'] });
  const held = await holdfast.hold(tenant, 795);
  for (let turn = 0; turn < 5; turn += 1) {
    const id = await holdfast.hold(tenant, 10);
    const body = { idempotency_key: id };
    expectStatus(
      await holdfast.call('POST', `/v1/reservations/${id}/release`, { key: tenant.key, body }),
      200,
    );
  }
  expectStatus(await holdfast.commit(tenant, held, 960), 200);
  const told = await payloads(2);
  expect(told.map(({ data }) => [data.threshold, data.direction, data.first_in_period])).toEqual([
    [0.8, 'rising', true],
    [0.95, 'rising', true],
  ]);
  expect(await eventsOf(holdfast, tenant, 'budget.threshold_crossed')).toHaveLength(12);
});
