import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { eventPlaceOf } from '../../src/events/index.js';
import { deliveryKey, eventLogKey, tagOf } from '../../src/redis/keyspace.js';
import { retryDelayMs } from '../../src/webhooks/dispatch/attempts.js';
import { deliveryPlaceOf } from '../../src/webhooks/dispatch/delivery.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import { expectRefusal, expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import { storedWebhookKey } from '../support/subscriber.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  causeEvents,
  deliveries,
  endedDeliveries,
  startDispatcher,
  subscribe,
  subscription,
  SYSTEM,
} from './dispatching.js';

const QUICK = { initial_delay_ms: 100, backoff_multiplier: 2, max_delay_ms: 1000 };
const PARKED = { max_retries: 5, initial_delay_ms: 60_000, max_delay_ms: 60_000 };

let server: Store;
let redis: StoreClient;
let holdfast: Holdfast;
let receiver: WebhookReceiver;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  // Attempts that a test holds must not time out meanwhile.
  holdfast = await startDispatcher({ REDIS_URL: server.url, WEBHOOK_TIMEOUT_MS: '60000' });
  await allowLoopback(holdfast);
});

beforeEach(async () => {
  receiver = await WebhookReceiver.start();
  tenant = await holdfast.fundedTenant();
});

afterEach(async () => {
  await receiver.stop();
});

afterAll(async () => {
  await holdfast.stop();
  redis.disconnect();
  await server.stop();
});

function refuseWith(status: number, headers: Record<string, string> = {}): void {
  receiver.react = (response) => response.writeHead(status, headers).end();
}

function failures(labels: Record<string, string>): Promise<number> {
  return holdfast.metric('cycles_webhook_delivery_failed_total', { tenant: tenant.id, ...labels });
}

function patch(id: string, body: Json): Promise<Json> {
  return holdfast
    .admin('PATCH', `/v1/admin/webhooks/${id}`, body)
    .then((answer) => expectStatus(answer, 200));
}

/** The delivery, once its first attempt has failed and another one is planned. */
function planned(id: string): Promise<Json> {
  return eventually('a retry is planned', async () => {
    const [delivery] = await deliveries(holdfast, id);
    return delivery?.status === 'RETRYING' && delivery;
  });
}

/** The request and the trace that an event belongs to. */
async function causeOf(eventId: string): Promise<{ request_id: string; trace_id: string }> {
  const { request_id, trace_id } = expectStatus(
    await holdfast.admin('GET', `/v1/admin/events/${eventId}`),
    200,
  );
  expect([request_id, trace_id]).toEqual([expect.any(String), expect.any(String)]);
  return { request_id, trace_id };
}

describe('a delivery that fails', () => {
  test('has exactly as many attempts as its policy allows, never too early, and is then given up with an event', async () => {
    shows('delivery retries', 'delivery failed');
    const alarm = await WebhookReceiver.start();
    const alarms = await subscribe(holdfast, SYSTEM, alarm.url, {
      event_types: ['system.webhook_delivery_failed'],
    });
    const deadLetters = await holdfast.metric('holdfast_webhook_dead_letters_total');
    const times: number[] = [];
    receiver.react = (response) => {
      times.push(performance.now());
      response.writeHead(500).end();
    };
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 2, ...QUICK },
    });
    await causeEvent(holdfast, tenant);
    const [delivery] = await endedDeliveries(holdfast, id, 1);
    expect(delivery).toMatchObject({
      status: 'FAILED',
      attempts: 3,
      response_status: 500,
      error_message: 'the endpoint answered 500',
    });
    expect(delivery.next_retry_at).toBeUndefined();
    expect(times).toHaveLength(3);
    const [first = 0, second = 0, third = 0] = times;
    // Redis counts whole milliseconds, and the receiver records an attempt slightly after its start.
    expect([second - first, third - second].map((gap, index) => gap >= 100 * 2 ** index - 30)).toEqual([
      true,
      true,
    ]);
    const [told] = await eventually('it is reported', () => alarm.received.length > 0 && alarm.received);
    expect(JSON.parse((told as { body: string }).body)).toMatchObject({
      event_type: 'system.webhook_delivery_failed',
      tenant_id: SYSTEM,
      actor: { type: 'system' },
      ...(await causeOf(delivery.event_id as string)),
      data: {
        component: 'webhook_dispatcher',
        severity: 'warning',
        details: { subscription_id: id, delivery_id: delivery.delivery_id, event_id: delivery.event_id },
      },
    });
    expect(await failures({ reason: 'http_5xx' })).toBe(3);
    expect(await holdfast.metric('cycles_webhook_delivery_retried_total', { tenant: tenant.id })).toBe(2);
    expect(await holdfast.metric('holdfast_webhook_dead_letters_total')).toBe(deadLetters + 1);
    expect(
      await holdfast.metric('cycles_webhook_delivery_latency_seconds_count', {
        tenant: tenant.id,
        outcome: 'failure',
      }),
    ).toBe(3);
    // If a failed delivery of this event were reported as well, that would never end.
    alarm.react = (response) => response.writeHead(500).end();
    await patch(alarms, { retry_policy: { max_retries: 0 } });
    await causeEvent(holdfast, tenant);
    await endedDeliveries(holdfast, id, 2);
    await endedDeliveries(holdfast, alarms, 2);
    expect((await holdfast.admin('DELETE', `/v1/admin/webhooks/${alarms}`)).status).toBe(204);
    await alarm.stop();
  });

  test('shows its request and the answer to each attempt, and is sent again on request', async () => {
    const statuses = [503, 500];
    receiver.react = (response) =>
      response.writeHead(statuses.shift() ?? 200).end(`why: ${'ü'.repeat(3000)}`);
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 1, ...QUICK },
    });
    await causeEvent(holdfast, tenant);
    const [failed] = await endedDeliveries(holdfast, id, 1);
    const path = `/ops/webhook-deliveries/${failed.delivery_id}`;
    const answer = await holdfast.admin('GET', path);
    const details = expectStatus(answer, 200);
    expect(details).toMatchObject(failed);
    expect(details.attempts_made).toEqual([
      {
        attempted_at: failed.attempted_at,
        response_time_ms: expect.any(Number),
        response_status: 503,
        error_message: 'the endpoint answered 503',
      },
      {
        attempted_at: expect.any(String),
        response_time_ms: failed.response_time_ms,
        response_status: 500,
        error_message: 'the endpoint answered 500',
      },
    ]);
    const [sent] = receiver.received;
    expect(details.request).toEqual({ url: receiver.url, headers: expect.any(Object), body: sent?.body });
    expect(sent?.headers).toMatchObject(details.request.headers);
    expect(Object.keys(details.request.headers)).not.toContain('webhook-signature');
    // Five bytes, 1,021 characters of two bytes, and one that was cut.
    expect(details.answer_text).toBe(`why: ${'ü'.repeat(1021)}\uFFFD`);
    const lists = [`/v1/admin/webhooks/${id}/deliveries`, '/v1/admin/events?search=webhook'];
    for (const list of lists) {
      expect((await holdfast.admin('GET', list)).text).not.toContain('ü');
    }

    const resent = (): Promise<number> =>
      holdfast.metric('holdfast_webhook_replays_total', { result: 'one_delivery' });
    const before = await resent();
    const again = expectStatus(await holdfast.admin('POST', `${path}/resend`), 202);
    expect(again.delivery_id).not.toBe(failed.delivery_id);
    const [first] = await endedDeliveries(holdfast, id, 2);
    expect(first).toMatchObject({
      delivery_id: again.delivery_id,
      event_id: failed.event_id,
      status: 'SUCCESS',
    });
    expect(receiver.received.at(-1)?.body).toBe(sent?.body);
    expect(await resent()).toBe(before + 1);
    const { attempts_made: made, ...rest } = expectStatus(
      await holdfast.admin('GET', `/ops/webhook-deliveries/${again.delivery_id}`),
      200,
    );
    expect(made).toEqual([
      { attempted_at: first.attempted_at, response_time_ms: expect.any(Number), response_status: 200 },
    ]);
    expect(rest).not.toHaveProperty('answer_text');
  });

  test('is not sent again to a subscription that is not active, and an unknown one is not found', async () => {
    const id = await subscribe(holdfast, tenant, receiver.url);
    await causeEvent(holdfast, tenant);
    const [delivery] = await endedDeliveries(holdfast, id, 1);
    await patch(id, { status: 'PAUSED' });
    const path = `/ops/webhook-deliveries/${delivery.delivery_id}`;
    expectRefusal(await holdfast.admin('POST', `${path}/resend`), 400, 'INVALID_REQUEST');
    const { entryId = '' } = eventPlaceOf(delivery.event_id as string) ?? {};
    await patch(id, { status: 'ACTIVE' });
    const { partition = '' } = deliveryPlaceOf(delivery.delivery_id as string) ?? {};
    await redis.xdel(eventLogKey(tagOf(partition)), entryId);
    expectRefusal(await holdfast.admin('POST', `${path}/resend`), 404, 'EVENT_NOT_FOUND');
    expect(expectStatus(await holdfast.admin('GET', path), 200)).not.toHaveProperty('request');
    for (const unknown of ['dlv_1', path.slice(24).replace(/..$/, 'zz')]) {
      expectRefusal(await holdfast.admin('GET', `/ops/webhook-deliveries/${unknown}`), 404, 'NOT_FOUND');
    }
    expect(receiver.received).toHaveLength(1);
  });

  test.each([400, 404, 429, 500, 503])('with %i is retried and succeeds', async (status) => {
    shows('delivery retries');
    const codes = [status, 200];
    receiver.react = (response) => response.writeHead(codes.shift() ?? 200).end();
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 5, ...QUICK },
    });
    await causeEvent(holdfast, tenant);
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([
      { status: 'SUCCESS', attempts: 2, response_status: 200 },
    ]);
    expect(receiver.received.map(({ headers }) => headers['webhook-id'])).toEqual(
      Array.from({ length: 2 }, () => receiver.received[0]?.headers['webhook-id']),
    );
  });

  test('waits as long as its endpoint asks', async () => {
    refuseWith(503, { 'retry-after': '120' });
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 5, ...QUICK },
    });
    await causeEvent(holdfast, tenant);
    const { next_retry_at: next, attempted_at: attempted, response_time_ms: tookMs } = await planned(id);
    const pauseMs = Date.parse(next as string) - Date.parse(attempted as string) - (tookMs as number);
    expect(pauseMs).toBeGreaterThanOrEqual(120_000);
    expect(pauseMs).toBeLessThanOrEqual(120_000 * 1.1);
    expect(
      await eventually(
        'the gauge shows it',
        async () => (await holdfast.metric('holdfast_webhook_deliveries_waiting', { for: 'retry' })) > 0,
      ),
    ).toBe(true);
  });

  test('goes to the current address, and an edit during its attempts survives them', async () => {
    const moved = await WebhookReceiver.start();
    receiver.react = (response) => {
      void patch(id, { url: moved.url }).then(() => response.writeHead(500).end());
    };
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 5, ...QUICK },
    });
    await causeEvent(holdfast, tenant);
    await endedDeliveries(holdfast, id, 1);
    expect([receiver.received.length, moved.received.length]).toEqual([1, 1]);
    await eventually(
      'the counts are written',
      async () => (await subscription(holdfast, id)).last_success_at !== undefined,
    );
    expect((await subscription(holdfast, id)).url).toBe(moved.url);
    await moved.stop();
  });

  test('is given up if it is too old when its turn comes', async () => {
    let answerFirst = (): unknown => undefined;
    receiver.react = (response) => (answerFirst = () => response.writeHead(500).end());
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 5, ...QUICK },
    });
    await causeEvent(holdfast, tenant);
    await eventually('the first attempt has started', () => receiver.received.length === 1);
    const [delivery] = await deliveries(holdfast, id);
    const place = deliveryPlaceOf(delivery?.delivery_id);
    await redis.hset(deliveryKey(tagOf(place?.partition ?? ''), place?.ref ?? ''), 'ca', '1000');
    answerFirst();
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([{ status: 'FAILED', attempts: 1 }]);
    expect(await holdfast.metric('cycles_webhook_delivery_stale_total')).toBe(1);
    expect(await failures({ reason: 'stale' })).toBe(1);
  });
});

describe('retry delays', () => {
  const policy = { maxRetries: 10, initialDelayMs: 1000, multiplier: 2, maxDelayMs: 5000 };

  test('grow by the multiplier up to the maximum, and are spread by at most a tenth', () => {
    shows('delivery retries');
    for (const [index, base] of [1000, 2000, 4000, 5000, 5000].entries()) {
      const delayMs = retryDelayMs(policy, index + 1);
      expect([delayMs >= base, delayMs <= base * 1.1]).toEqual([true, true]);
    }
  });

  test('are never shorter than the endpoint asked for', () => {
    expect(retryDelayMs(policy, 1, 60_000)).toBeGreaterThanOrEqual(60_000);
    expect(retryDelayMs(policy, 3, 10)).toBeGreaterThanOrEqual(4000);
  });
});

describe('a subscription', () => {
  test('is disabled after the given number of failures in a row, with one event, and is sent nothing more', async () => {
    shows('delivery disables', 'inactive subscription');
    const alarm = await WebhookReceiver.start();
    const alarms = await subscribe(holdfast, SYSTEM, alarm.url, { event_types: ['webhook.disabled'] });
    const codes = [500, 200, 500, 500];
    receiver.react = (response) => response.writeHead(codes.shift() ?? 200).end();
    const id = await subscribe(holdfast, tenant, receiver.url, {
      disable_after_failures: 2,
      retry_policy: { max_retries: 0 },
    });
    await causeEvent(holdfast, tenant);
    await endedDeliveries(holdfast, id, 1);
    await eventually(
      'one failure is counted',
      async () => (await subscription(holdfast, id)).consecutive_failures === 1,
    );
    await causeEvent(holdfast, tenant);
    await endedDeliveries(holdfast, id, 2);
    await eventually(
      'a success starts the count anew',
      async () => (await subscription(holdfast, id)).consecutive_failures === 0,
    );
    const counted = await holdfast.metric('cycles_webhook_subscription_auto_disabled_total');
    await causeEvents(holdfast, tenant, 2);
    await eventually('it is disabled', async () => (await subscription(holdfast, id)).status === 'DISABLED');
    await eventually('that is reported', () => alarm.received.length > 0);
    const last = (await endedDeliveries(holdfast, id, 4)).sort((a, b) =>
      a.event_id < b.event_id ? 1 : -1,
    )[0];
    expect(JSON.parse(alarm.received[0]?.body ?? '')).toMatchObject({
      event_type: 'webhook.disabled',
      tenant_id: tenant.id,
      ...(await causeOf(last.event_id as string)),
      correlation_id: `webhook_auto_disable:${id}:${last.delivery_id}`,
      data: {
        subscription_id: id,
        previous_status: 'ACTIVE',
        new_status: 'DISABLED',
        disable_reason: 'consecutive_failures_exceeded_threshold',
      },
    });
    expect(
      await holdfast.metric('cycles_webhook_subscription_auto_disabled_total', {
        reason: 'consecutive_failures',
      }),
    ).toBe(counted + 1);
    await causeEvent(holdfast, tenant);
    const witness = await subscribe(holdfast, tenant, alarm.url);
    await causeEvent(holdfast, tenant);
    await endedDeliveries(holdfast, witness, 1);
    expect(await deliveries(holdfast, id)).toHaveLength(4);
    expect(
      alarm.received.filter(({ headers }) => headers['x-cycles-event-type'] === 'webhook.disabled'),
    ).toHaveLength(1);
    expect((await holdfast.admin('DELETE', `/v1/admin/webhooks/${alarms}`)).status).toBe(204);
    await alarm.stop();
  });

  test.each([
    [
      'paused',
      'subscription_inactive',
      (id: string) => holdfast.admin('PATCH', `/v1/admin/webhooks/${id}`, { status: 'PAUSED' }),
    ],
    [
      'deleted',
      'subscription_not_found',
      (id: string) => holdfast.admin('DELETE', `/v1/admin/webhooks/${id}`),
    ],
  ])('that is %s does not receive what was queued for it', async (_how, reason, end) => {
    shows('inactive subscription');
    let release = (): void => undefined;
    receiver.react = (response) => {
      release = () => void response.writeHead(200).end();
    };
    const id = await subscribe(holdfast, tenant, receiver.url);
    await causeEvents(holdfast, tenant, 3);
    await eventually(
      'the first attempt has started and the others are queued',
      async () => receiver.received.length === 1 && (await deliveries(holdfast, id)).length === 3,
    );
    expect([200, 204]).toContain((await end(id)).status);
    // A delivery to another subscription of the tenant shows that the dispatcher knows the new status.
    const witness = await WebhookReceiver.start();
    const told = await subscribe(holdfast, tenant, witness.url);
    await causeEvent(holdfast, tenant);
    await endedDeliveries(holdfast, told, 1);
    await witness.stop();
    release();
    await eventually('the others are given up', async () => (await failures({ reason })) === 2);
    expect(receiver.received).toHaveLength(1);
  });

  test('whose secret cannot be decrypted is sent nothing, the delivery fails, and its retry keeps its place for a while', async () => {
    const pauses = (): Promise<number> =>
      holdfast.metric('holdfast_webhook_failure_pauses_total', { for: 'retry' });
    const before = await pauses();
    const id = await subscribe(holdfast, tenant, receiver.url, {
      retry_policy: { max_retries: 1, ...QUICK },
    });
    await redis.hset(storedWebhookKey(id), 'se', 'enc:bm90IG9mIHRoaXMga2V5IGF0IGFsbCwgYnV0IGxvbmcgZW5vdWdo');
    await causeEvent(holdfast, tenant);
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([{ status: 'FAILED', attempts: 2 }]);
    expect(await failures({ reason: 'signing_key_unavailable' })).toBe(2);
    expect(receiver.received).toEqual([]);
    await eventually('the pause is counted', async () => (await pauses()) > before);
  });

  test('whose address is no longer allowed is sent nothing, and the delivery fails', async () => {
    const id = await subscribe(holdfast, tenant, receiver.url, { retry_policy: { max_retries: 0 } });
    expectStatus(
      await holdfast.admin('PUT', '/v1/admin/config/webhook-security', {
        blocked_cidr_ranges: ['127.0.0.0/8'],
        allow_http: true,
      }),
      200,
    );
    await causeEvent(holdfast, tenant);
    expect(await endedDeliveries(holdfast, id, 1)).toMatchObject([{ status: 'FAILED' }]);
    expect(await failures({ reason: 'target_blocked' })).toBe(1);
    expect(receiver.received).toEqual([]);
    await allowLoopback(holdfast);
  });

  test('keeps a parked retry over a restart of the dispatcher', async () => {
    refuseWith(500);
    const id = await subscribe(holdfast, tenant, receiver.url, { retry_policy: PARKED });
    await causeEvent(holdfast, tenant);
    const before = await planned(id);
    await holdfast.stop();
    holdfast = await startDispatcher({ REDIS_URL: server.url });
    expect(await planned(id)).toEqual(before);
  });
});
