import { describe, expect, test } from '@jest/globals';
import { eventPlaceOf } from '../../src/events/event.js';
import {
  deliveryIndexKey,
  deliveryKey,
  partitionOfTenant,
  tagOf,
  tagOfTenant,
} from '../../src/redis/keyspace.js';
import { DeliveryFeed } from '../../src/webhooks/deliveries/deliveries.service.js';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const PARTITIONS = 64;
const NOON = Date.parse('2026-03-01T12:00:00Z');
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
let sequence = 0;

interface Stored {
  /** Determines the partition. */
  readonly tenant: string;
  readonly createdMs?: number;
  readonly eventMs?: number;
  readonly fields?: Record<string, string>;
}

/** Stores a delivery with any time and outcome, as lua/webhooks/lib/delivery_record.lua does. */
async function keep(
  subscriptionId: string,
  { tenant, createdMs = NOON, eventMs = createdMs - 5, fields = {} }: Stored,
): Promise<string> {
  const tag = tagOfTenant(tenant, PARTITIONS);
  sequence += 1;
  const ref = `${eventMs}-${sequence}:${subscriptionId}`;
  await on.stored.redis.hset(deliveryKey(tag, ref), {
    st: 'SUCCESS',
    at: '1',
    ca: createdMs,
    ty: 'reservation.expired',
    ...fields,
  });
  await on.stored.redis.zadd(deliveryIndexKey(tag, subscriptionId), createdMs, ref);
  return ref;
}

async function subscribed(): Promise<{ subscriber: Subscriber; id: string }> {
  const subscriber = await Subscriber.make(on.holdfast, on.stored);
  const { subscription } = expectStatus(await subscriber.create(), 201);
  return { subscriber, id: subscription.subscription_id };
}

async function systemSubscription(): Promise<string> {
  const answer = await on.holdfast.admin('POST', '/v1/admin/webhooks', {
    url: 'https://93.184.216.34/hook',
    event_types: ['system.webhook_delivery_failed'],
  });
  return expectStatus(answer, 201).subscription.subscription_id as string;
}

const list = (id: string, query = ''): Promise<Answer> =>
  on.holdfast.admin('GET', `/v1/admin/webhooks/${id}/deliveries${query}`);
const rowsOf = async (id: string, query = ''): Promise<Json[]> =>
  expectStatus(await list(id, query), 200).deliveries as Json[];

/** The rows of all pages of this size. */
async function walk(id: string, limit: number, filter = ''): Promise<Json[]> {
  const rows: Json[] = [];
  for (let cursor = ''; ;) {
    const page = expectStatus(await list(id, `?limit=${limit}&cursor=${cursor}${filter}`), 200);
    rows.push(...(page.deliveries as Json[]));
    if (page.has_more !== true) {
      expect(page).not.toHaveProperty('next_cursor');
      return rows;
    }
    cursor = page.next_cursor as string;
  }
}

describe('a delivery', () => {
  test('is shown with everything that is known about it', async () => {
    shows('deliveries', 'listWebhookDeliveries');
    const { subscriber, id } = await subscribed();
    await keep(id, {
      tenant: subscriber.id,
      fields: {
        st: 'RETRYING',
        at: '2',
        fa: String(NOON + 10),
        rs: '503',
        rt: '42',
        em: 'the endpoint answered 503',
        nr: String(NOON + 4000),
        tr: `${TRACE}-00`,
      },
    });
    expect(await rowsOf(id)).toEqual([
      {
        delivery_id: expect.stringMatching(/^dlv_/),
        subscription_id: id,
        event_id: expect.stringMatching(/^evt_[0-9a-f]{16}/),
        event_type: 'reservation.expired',
        status: 'RETRYING',
        attempts: 2,
        attempted_at: '2026-03-01T12:00:00.010Z',
        next_retry_at: '2026-03-01T12:00:04.000Z',
        response_status: 503,
        response_time_ms: 42,
        error_message: 'the endpoint answered 503',
        trace_id: TRACE,
        trace_flags: '00',
      },
    ]);
  });

  test('that succeeded after failures no longer shows their errors, and a waiting one shows when it was queued', async () => {
    const { subscriber, id } = await subscribed();
    await keep(id, {
      tenant: subscriber.id,
      createdMs: NOON,
      fields: { rs: '200', rt: '3', em: '', fa: String(NOON + 1), co: String(NOON + 9000), at: '3' },
    });
    await keep(id, { tenant: subscriber.id, createdMs: NOON + 1, fields: { st: 'PENDING', at: '0' } });
    const [waiting, done] = await rowsOf(id);
    expect(done).toMatchObject({
      status: 'SUCCESS',
      attempts: 3,
      completed_at: '2026-03-01T12:00:09.000Z',
      response_status: 200,
    });
    expect(done).not.toHaveProperty('error_message');
    expect(waiting).toMatchObject({
      status: 'PENDING',
      attempts: 0,
      attempted_at: '2026-03-01T12:00:00.001Z',
    });
    expect(waiting).not.toHaveProperty('response_status');
  });

  test('whose record has expired is not listed', async () => {
    const { subscriber, id } = await subscribed();
    const ref = await keep(id, { tenant: subscriber.id });
    await keep(id, { tenant: subscriber.id });
    await on.stored.redis.del(deliveryKey(on.stored.tagOf(subscriber.id), ref));
    expect(await rowsOf(id)).toHaveLength(1);
  });
});

describe('the list of deliveries', () => {
  test('is newest first, and its pages neither repeat nor skip deliveries, even of one millisecond', async () => {
    shows('deliveries');
    const { subscriber, id } = await subscribed();
    for (const createdMs of [NOON, NOON + 2, NOON + 2, NOON + 2, NOON + 2, NOON + 2, NOON + 7]) {
      await keep(id, { tenant: subscriber.id, createdMs });
    }
    const all = await rowsOf(id);
    expect(all).toHaveLength(7);
    const times = all.map(({ attempted_at: at }) => Date.parse(at as string));
    expect(times).toEqual([...times].sort((a, b) => b - a));
    expect(new Set(all.map(({ delivery_id: one }) => one as string)).size).toBe(7);
    for (const limit of [1, 2, 3, 6, 7]) {
      expect(await walk(id, limit)).toEqual(all);
    }
    expect(await rowsOf(id, '?limit=100000')).toEqual(all);
  });

  test('has the latest event first if several were queued in one millisecond', async () => {
    const { subscriber, id } = await subscribed();
    for (const eventMs of [NOON - 9, NOON - 7, NOON - 8, NOON - 6]) {
      await keep(id, { tenant: subscriber.id, eventMs });
    }
    for (const rows of [await rowsOf(id), await walk(id, 1), await walk(id, 3)]) {
      const entryIds = rows.map(({ event_id: eventId }) => eventPlaceOf(eventId as string)?.entryId ?? '');
      expect(entryIds.map((entryId) => NOON - Number.parseInt(entryId, 10))).toEqual([6, 7, 8, 9]);
    }
  });

  test('has the events of one millisecond by number, on pages of any size, even if there are more than one read returns', async () => {
    const { subscriber, id } = await subscribed();
    await keep(id, { tenant: subscriber.id, createdMs: NOON - 1 });
    const first = sequence + 1;
    for (let count = 0; count < 300; count += 1) {
      await keep(id, { tenant: subscriber.id });
    }
    await keep(id, { tenant: subscriber.id, createdMs: NOON + 1 });
    const numbers = Array.from({ length: 302 }, (_, index) => first - 1 + index).reverse();
    for (const limit of [7, 100]) {
      const rows = await walk(id, limit);
      expect(
        rows.map(({ event_id: eventId }) => Number(eventPlaceOf(eventId as string)?.entryId.split('-')[1])),
      ).toEqual(numbers);
    }
  });

  test("of the operators' subscription merges all partitions", async () => {
    const id = await systemSubscription();
    const tenants = Array.from({ length: 25 }, (_, index) => `merge-${index}`);
    for (const [index, tenant] of tenants.entries()) {
      await keep(id, { tenant, createdMs: NOON + (index % 4) });
      await keep(id, { tenant, createdMs: NOON + (index % 4) });
    }
    const all = await rowsOf(id);
    expect(all).toHaveLength(50);
    const times = all.map(({ attempted_at: at }) => Date.parse(at as string));
    expect(times).toEqual([...times].sort((a, b) => b - a));
    for (const limit of [1, 7, 25, 49]) {
      expect(await walk(id, limit)).toEqual(all);
    }
  });

  test('is filtered by status and by a window that includes both ends', async () => {
    shows('deliveries');
    const { subscriber, id } = await subscribed();
    for (const [index, st] of ['SUCCESS', 'FAILED', 'SUCCESS', 'PENDING', 'FAILED'].entries()) {
      await keep(id, { tenant: subscriber.id, createdMs: NOON + index * 1000, fields: { st } });
    }
    const times = async (query: string): Promise<number[]> =>
      (await rowsOf(id, query)).map(({ attempted_at: at }) => (Date.parse(at as string) - NOON) / 1000);
    expect(await times('?status=FAILED')).toEqual([4, 1]);
    expect(await times('?status=RETRYING')).toEqual([]);
    expect(await times('?from=2026-03-01T12:00:01Z&to=2026-03-01T12:00:03Z')).toEqual([3, 2, 1]);
    expect(await times('?from=2026-03-01T12:00:03Z')).toEqual([4, 3]);
    expect(await times('?from=&to=2026-03-01T12:00:00Z&status=SUCCESS')).toEqual([0]);
    expect(
      (await walk(id, 1, '&status=FAILED&to=2026-03-01T12:00:03Z')).map(({ status }) => status as string),
    ).toEqual(['FAILED']);
  });

  test('ends a page early when little matches, and loses nothing', async () => {
    const { subscriber, id } = await subscribed();
    for (let index = 0; index < 600; index += 1) {
      await keep(id, {
        tenant: subscriber.id,
        createdMs: NOON + Math.floor(index / 40),
        fields: { st: index % 300 === 0 ? 'FAILED' : 'SUCCESS' },
      });
    }
    const feed = on.holdfast.app.get(DeliveryFeed, { strict: false });
    const question = { subscriptionId: id, status: 'FAILED' as const, fromMs: undefined, toMs: undefined };
    const found: string[] = [];
    let pages = 0;
    const cuts = await on.holdfast.metric('holdfast_webhook_delivery_pages_cut_total');
    for (let after: Parameters<DeliveryFeed['page']>[3]; ;) {
      const { rows, next } = await feed.page(
        question,
        [partitionOfTenant(subscriber.id, PARTITIONS)],
        10,
        after,
        100,
      );
      found.push(...rows.map(({ ref }) => ref));
      pages += 1;
      if (next === undefined) {
        break;
      }
      after = next;
    }
    expect(found).toHaveLength(2);
    expect(await on.holdfast.metric('holdfast_webhook_delivery_pages_cut_total')).toBe(cuts + pages - 1);
    expect(pages).toBeGreaterThan(1);
  });

  test('accepts only its own cursors, and refuses other text', async () => {
    const [{ subscriber, id }, other] = [await subscribed(), await subscribed()];
    for (let index = 0; index < 3; index += 1) {
      await keep(id, { tenant: subscriber.id, createdMs: NOON + index });
    }
    const { next_cursor: cursor } = expectStatus(await list(id, '?limit=1'), 200);
    expectRefusal(await list(id, `?limit=1&status=SUCCESS&cursor=${cursor}`), 400, 'INVALID_REQUEST');
    expectRefusal(await list(other.id, `?limit=1&cursor=${cursor}`), 400, 'INVALID_REQUEST');
    for (const query of [
      '?cursor=abc',
      '?status=DONE',
      '?status=success',
      '?from=yesterday',
      '?limit=0',
      '?limit=many',
    ]) {
      expectRefusal(await list(id, query), 400, 'INVALID_REQUEST');
    }
  });
});

describe('on the plane of tenants', () => {
  const listAs = (subscriber: Subscriber, id: string): Promise<Answer> =>
    on.holdfast.call('GET', `/v1/webhooks/${id}/deliveries`, { key: subscriber.key });

  test('a tenant and the operator see the same', async () => {
    shows('foreign deliveries', 'listTenantWebhookDeliveries');
    const { subscriber, id } = await subscribed();
    await keep(id, { tenant: subscriber.id });
    const seen = expectStatus(await list(id), 200);
    expect(expectStatus(await listAs(subscriber, id), 200)).toEqual(seen);
    expect(expectStatus(await on.holdfast.admin('GET', `/v1/webhooks/${id}/deliveries`), 200)).toEqual(seen);
    expect(seen.deliveries).toHaveLength(1);
  });

  test("another tenant's subscription is not found, nor one that was never created", async () => {
    shows('foreign deliveries');
    const [{ id }, { subscriber: stranger }] = [await subscribed(), await subscribed()];
    expectRefusal(await listAs(stranger, id), 404, 'WEBHOOK_NOT_FOUND');
    expectRefusal(await listAs(stranger, await systemSubscription()), 404, 'WEBHOOK_NOT_FOUND');
    expectRefusal(await listAs(stranger, 'whsub_00aaaaaaaaaaaaaaaa'), 404, 'WEBHOOK_NOT_FOUND');
    expectRefusal(await list('nothing'), 404, 'WEBHOOK_NOT_FOUND');
    const weak = await stranger.confined({ permissions: ['webhooks:write'] });
    expectRefusal(await listAs(weak, id), 403, 'INSUFFICIENT_PERMISSIONS');
  });

  test('the deliveries of a closed tenant can still be read', async () => {
    shows('test after close');
    const { subscriber, id } = await subscribed();
    await keep(id, { tenant: subscriber.id });
    await on.stored.setTenantStatus(subscriber.id, 'CLOSED');
    expect(await rowsOf(id)).toHaveLength(1);
  });
});

/** The id of the event of a tenant's only budget. */
async function eventOf(holdfast: Holdfast, { id }: TestTenant): Promise<string> {
  const path = `/v1/admin/events?tenant_id=${id}&event_type=budget.created`;
  return expectStatus(await holdfast.admin('GET', path), 200).events[0].event_id as string;
}

describe('who was told of an event', () => {
  const told = (eventId: string): Promise<Answer> =>
    on.holdfast.admin('GET', `/ops/events/${eventId}/deliveries`);

  test('is found among any number of other deliveries, with the subscriptions that were not', async () => {
    const { subscriber, id } = await subscribed();
    await subscribed();
    const system = await systemSubscription();
    await on.holdfast.createBudget(subscriber, '', 100);
    const eventId = await eventOf(on.holdfast, subscriber);
    const { subscriptions_looked_at: count, ...none } = expectStatus(await told(eventId), 200);
    expect(none).toEqual({ deliveries: [], still_kept: true });
    const { partition, entryId } = eventPlaceOf(eventId) as { partition: string; entryId: string };
    for (const [index, of] of [id, system].entries()) {
      const ref = `${entryId}:${of}`;
      const fields = { st: index === 0 ? 'SUCCESS' : 'PENDING', at: '1', ca: NOON, ty: 'budget.created' };
      await on.stored.redis.hset(deliveryKey(tagOf(partition), ref), fields);
      await on.stored.redis.zadd(deliveryIndexKey(tagOf(partition), of), NOON, ref);
    }
    for (let index = 0; index < 120; index += 1) {
      await keep(id, { tenant: subscriber.id, createdMs: NOON + index });
    }
    const answer = expectStatus(await told(eventId), 200);
    expect(answer.subscriptions_looked_at).toBe(count);
    expect(answer.deliveries).toHaveLength(2);
    expect(answer.deliveries).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          subscription_id: id,
          event_id: eventId,
          status: 'SUCCESS',
          url: expect.any(String),
        }),
        expect.objectContaining({
          subscription_id: system,
          status: 'PENDING',
          url: 'https://93.184.216.34/hook',
        }),
      ]),
    );
    const rows = await rowsOf(id, '?limit=100');
    expect(rows.map(({ event_id: of }) => of)).not.toContain(eventId);
  });

  test('is told without a record that is damaged, which is counted', async () => {
    const { subscriber, id } = await subscribed();
    await on.holdfast.createBudget(subscriber, '', 100);
    const eventId = await eventOf(on.holdfast, subscriber);
    const { partition, entryId } = eventPlaceOf(eventId) as { partition: string; entryId: string };
    await on.stored.redis.set(deliveryKey(tagOf(partition), `${entryId}:${id}`), 'no record');
    const before = await on.holdfast.metric('holdfast_records_skipped_total', { kind: 'delivery' });
    expect(expectStatus(await told(eventId), 200).deliveries).toEqual([]);
    expect(await on.holdfast.metric('holdfast_records_skipped_total', { kind: 'delivery' })).toBe(before + 1);
  });

  test('says when deliveries of so old an event are no longer kept', async () => {
    const brief = await Holdfast.start({ webhookDeliveryRetentionMs: 1 });
    try {
      const tenant = await brief.fundedTenant();
      const answer = await brief.admin('GET', `/ops/events/${await eventOf(brief, tenant)}/deliveries`);
      expect(expectStatus(answer, 200)).toMatchObject({ deliveries: [], still_kept: false });
    } finally {
      await brief.stop();
    }
  });

  test('of an event that does not exist is 404', async () => {
    expectRefusal(await told('evt_00000000000000000'), 404, 'EVENT_NOT_FOUND');
    expectRefusal(await told('nothing'), 404, 'EVENT_NOT_FOUND');
  });
});
