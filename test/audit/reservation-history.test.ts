import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventPlaceOf } from '../../src/events/event.js';
import { FIELD } from '../../src/redis/index.js';
import { eventLogKey, journalKey, quarantineKey, reservationKey, tagOf } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { expectRefusal, expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';

const LEVELS = { workspace: 'Prod', agent: 'bot' };
const DAY_MS = 86_400_000;

let redis: Store;
let holdfast: Holdfast;
let stored: StoredHolds;
let tenant: TestTenant;

beforeAll(async () => {
  // A store of its own: requests of another file could expire the holds that this file makes overdue.
  redis = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1_000_000);
  await holdfast.createBudget(tenant, '/workspace:prod/agent:bot', 1_000_000);
});

afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await redis.stop();
});

async function hold(amount: number, more: Record<string, unknown> = {}): Promise<string> {
  const answer = await holdfast.reserve(tenant, amount, {
    subject: { tenant: tenant.id, ...LEVELS },
    ...more,
  });
  return expectStatus(answer, 200).reservation_id as string;
}

async function historyOf(id: string): Promise<Json> {
  return expectStatus(await holdfast.admin('GET', `/ops/reservations/${id}`), 200);
}

async function packAll(id: string): Promise<void> {
  const tag = tagOf(id.slice(4, 6));
  while ((await stored.redis.xlen(journalKey(tag))) > 0) {
    await holdfast.app.get(RedisService).scripts.run('pack_records', [journalKey(tag)], [50]);
  }
  expect(await stored.redis.hexists(reservationKey(tag, id), '0')).toBe(1);
}

const returned = (amount: number): Json[] => [
  { scope: `tenant:${tenant.id}`, unit: 'TOKENS', amount },
  { scope: `tenant:${tenant.id}/workspace:prod/agent:bot`, unit: 'TOKENS', amount },
];

describe('the history of a reservation', () => {
  test('that is live has the request, the scopes and every extension with its key', async () => {
    const id = await hold(100, {
      ttl_ms: 60_000,
      grace_period_ms: 7000,
      metadata: { run: 1 },
      idempotency_key: `k-history-${tenant.id}`,
    });
    const other = { id: tenant.id, key: await holdfast.createKey(tenant.id) };
    expectStatus(await holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 }), 200);
    expectStatus(await holdfast.settle(other, 'extend', id, { extend_by_ms: 2000 }), 200);
    const history = await historyOf(id);
    expect(history).toMatchObject({
      reservation_id: id,
      state: 'ACTIVE',
      tenant_id: tenant.id,
      request: {
        idempotency_key: `k-history-${tenant.id}`,
        key_id: expect.stringMatching(/^key_/),
        subject: { tenant: tenant.id, ...LEVELS },
        action: { kind: 'llm.completion', name: 'test-model' },
        estimate: { unit: 'TOKENS', amount: 100 },
        overage_policy: 'ALLOW_IF_AVAILABLE',
        ttl_ms: 60_000,
        grace_period_ms: 7000,
        metadata: { run: 1 },
      },
      scopes: [
        { scope: `tenant:${tenant.id}`, budgeted: true },
        { scope: `tenant:${tenant.id}/workspace:prod`, budgeted: false },
        { scope: `tenant:${tenant.id}/workspace:prod/agent:bot`, budgeted: true },
      ],
      expires_at_ms: history.created_at_ms + 63_000,
      reclaim_at_ms: history.created_at_ms + 70_000,
      extensions: [
        { granted_ms: 1000, expires_at_ms: history.created_at_ms + 61_000, key_id: history.request.key_id },
        {
          granted_ms: 2000,
          expires_at_ms: history.created_at_ms + 63_000,
          key_id: expect.not.stringMatching(history.request.key_id),
        },
      ],
    });
    expect(history).not.toHaveProperty('end');
    expect(history).not.toHaveProperty('record_goes_at_ms');
  });

  test('that was committed has the charge, the amount returned to each scope, and the event if there was one', async () => {
    const within = await hold(100);
    const metrics = { tokens_input: 50, latency_ms: 9, model_version: 'm-1', custom: { tries: 2 } };
    expectStatus(await holdfast.commit(tenant, within, 70, { metadata: { tokens: 70 }, metrics }), 200);
    const history = await historyOf(within);
    expect(history.end).toMatchObject({
      how: 'COMMITTED',
      by: { type: 'api_key', key_id: history.request.key_id },
      charged: { unit: 'TOKENS', amount: 70 },
      committed_metadata: { tokens: 70 },
      committed_metrics: metrics,
      returned: returned(30),
    });
    expect(history.end).not.toHaveProperty('event');
    expect(history.record_goes_at_ms - history.end.at_ms).toBeGreaterThanOrEqual(30 * DAY_MS);
    expect(history.record_goes_at_ms - history.end.at_ms).toBeLessThan(30 * DAY_MS + 1000);
    const beyond = await hold(100);
    expectStatus(await holdfast.commit(tenant, beyond, 130), 200);
    const { end } = await historyOf(beyond);
    expect(end).toMatchObject({
      charged: { amount: 130 },
      returned: returned(0),
      event: { event_type: 'reservation.commit_overage', figures: { overage: '30' } },
    });
    const place = eventPlaceOf(end.event.event_id as string);
    expect(place?.partition).toBe(beyond.slice(4, 6));
    const [entry] = await stored.redis.xrange(
      eventLogKey(tagOf(beyond.slice(4, 6))),
      place?.entryId as string,
      place?.entryId as string,
    );
    expect(entry?.[1]).toEqual(expect.arrayContaining(['reservation.commit_overage', beyond]));
  });

  test('that was released has the reason', async () => {
    const id = await hold(40);
    expectStatus(await holdfast.settle(tenant, 'release', id, { reason: 'not needed' }), 200);
    expect((await historyOf(id)).end).toMatchObject({
      how: 'RELEASED',
      reason: 'not needed',
      returned: returned(40),
    });
  });

  test('that is overdue is expired by the read, once, and returned in full, though the protocol returns 410', async () => {
    const id = await hold(50);
    await stored.expireIn(id, -60_000);
    const [before, counted] = [
      await holdfast.balances(tenant),
      await holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id }),
    ];
    const history = await historyOf(id);
    expect(history).toMatchObject({
      state: 'EXPIRED',
      end: {
        how: 'EXPIRED',
        by: { type: 'system' },
        returned: returned(50),
        event: { event_type: 'reservation.expired' },
      },
    });
    expect(await historyOf(id)).toEqual(history);
    expect(await holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(
      counted + 1,
    );
    expect(await holdfast.balances(tenant)).not.toEqual(before);
    expectRefusal(
      await holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
  });

  test('is the same when the record has been packed, and so are the responses of the protocol', async () => {
    const ids = await Promise.all([
      hold(60, { metadata: { a: 'ü' }, action: { kind: 'a', name: 'b', tags: ['x'] } }),
      hold(61, { idempotency_key: '7c9e6679-7425-40de-944b-e07fc1f90ae7' }),
      hold(62),
    ]);
    expectStatus(await holdfast.settle(tenant, 'extend', ids[0], { extend_by_ms: 1000 }), 200);
    const commit = { idempotency_key: 'packed-commit', actual: { unit: 'TOKENS', amount: 77 } };
    const first = await holdfast.settle(tenant, 'commit', ids[0], commit);
    expectStatus(await holdfast.settle(tenant, 'release', ids[1], { reason: 'why | not' }), 200);
    await stored.expireIn(ids[2], -60_000);
    const list = (): Promise<Json> =>
      holdfast
        .call('GET', `/v1/reservations?limit=200&include=metadata`, { key: tenant.key })
        .then(({ body }) => body);
    const before = [await historyOf(ids[0]), await historyOf(ids[1]), await historyOf(ids[2]), await list()];
    const got = await holdfast.call('GET', `/v1/reservations/${ids[0]}`, { key: tenant.key });
    for (const id of ids) {
      await packAll(id);
    }
    expect([await historyOf(ids[0]), await historyOf(ids[1]), await historyOf(ids[2]), await list()]).toEqual(
      before,
    );
    expect((await holdfast.call('GET', `/v1/reservations/${ids[0]}`, { key: tenant.key })).body).toEqual(
      got.body,
    );
    expect((await holdfast.settle(tenant, 'commit', ids[0], commit)).text).toBe(first.text);
    expectRefusal(await holdfast.commit(tenant, ids[1], 1), 409, 'RESERVATION_FINALIZED');
    const confined = await holdfast.createKey(tenant.id, { scope_filter: ['workspace:other'] });
    expectRefusal(
      await holdfast.call('GET', `/v1/reservations/${ids[0]}`, { key: confined }),
      403,
      'FORBIDDEN',
    );
    const allowed = await holdfast.createKey(tenant.id, { scope_filter: ['workspace:prod'] });
    expectStatus(await holdfast.call('GET', `/v1/reservations/${ids[0]}`, { key: allowed }), 200);
  });

  test('that is damaged shows the record as it is, and the quarantine once there is one', async () => {
    const id = await hold(5);
    await stored.set(id, { am: 'much' });
    expect(await historyOf(id)).toMatchObject({
      state: 'ACTIVE',
      defect: 'INVALID_ESTIMATE',
      stored: { am: 'much', tn: tenant.id },
    });
    await stored.expireIn(id, -60_000);
    const history = await historyOf(id);
    expect(history).toMatchObject({
      state: 'ACTIVE',
      defect: 'INVALID_ESTIMATE',
      quarantine: { reason: 'INVALID_ESTIMATE', waiting: true, at_ms: expect.any(Number) },
    });
    expect(await stored.redis.hexists(quarantineKey(tagOf(id.slice(4, 6))), id)).toBe(1);
    await stored.set(id, { am: '5' });
    // Repaired, but still an operator's decision: the read does not change it.
    expect(await historyOf(id)).toMatchObject({
      state: 'ACTIVE',
      quarantine: { waiting: true },
      reserved: { amount: 5 },
    });
  });

  test.each(['{"half', '[1]'])('whose metadata is damaged shows the stored text %s', async (text) => {
    const id = await hold(5, { metadata: { run: 1 } });
    await stored.set(id, { [FIELD.metadata]: text });
    expect((await historyOf(id)).request.metadata).toEqual(text);
    await stored.set(id, { [FIELD.metadata]: '{"run":2}' });
    expect((await historyOf(id)).request.metadata).toEqual({ run: 2 });
  });

  test('is for operators, and does not exist for an unknown reservation', async () => {
    const id = await hold(1);
    expectRefusal(
      await holdfast.call('GET', `/ops/reservations/${id}`, { key: tenant.key }),
      401,
      'UNAUTHORIZED',
    );
    expectRefusal(await holdfast.admin('GET', `/ops/reservations/${id.slice(0, -1)}~`), 404, 'NOT_FOUND');
    expectRefusal(
      await holdfast.admin('GET', `/ops/reservations/${id.slice(0, 6)}${'0'.repeat(16)}`),
      404,
      'NOT_FOUND',
    );
  });
});
