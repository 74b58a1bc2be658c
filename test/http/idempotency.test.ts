import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { idempotencyKey } from '../../src/redis/keyspace.js';
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
import { sharedStoreUrl } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';

let holdfast: Holdfast;
let stored: StoredHolds;

beforeAll(async () => {
  holdfast = await Holdfast.start();
  stored = new StoredHolds(sharedStoreUrl());
});

afterAll(async () => {
  stored.close();
  await holdfast.stop();
});

const post = (tenant: TestTenant, path: string, body: unknown): Promise<Answer> =>
  holdfast.call('POST', path, { key: tenant.key, body });

/** The response's text without the only field that may differ in a replay. */
const stable = ({ text }: Answer): string => text.replace(/"remaining_ttl_ms":\d+/, '"remaining_ttl_ms":_');

interface Operation {
  readonly path: (id: string) => string;
  readonly body: () => Record<string, unknown>;
  readonly other: Record<string, unknown>;
}

const OPERATIONS: Record<string, Operation> = {
  commit: {
    path: (id) => `/v1/reservations/${id}/commit`,
    body: () => ({ idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 7 } }),
    other: { actual: { unit: 'TOKENS', amount: 8 } },
  },
  release: {
    path: (id) => `/v1/reservations/${id}/release`,
    body: () => ({ idempotency_key: newKey(), reason: 'a' }),
    other: { reason: 'b' },
  },
  extend: {
    path: (id) => `/v1/reservations/${id}/extend`,
    body: () => ({ idempotency_key: newKey(), extend_by_ms: 1000 }),
    other: { extend_by_ms: 1001 },
  },
};

describe('a repeated idempotency key', () => {
  test.each(Object.keys(OPERATIONS))(
    'repeats the first response of a %s, byte for byte, after other traffic',
    async (name) => {
      shows('replay', 'idempotency mismatch', 'commitReservation');
      const operation = OPERATIONS[name] as Operation;
      const tenant = await holdfast.fundedTenant();
      const id = await holdfast.hold(tenant, 10);
      const body = operation.body();
      const first = await post(tenant, operation.path(id), body);
      expectStatus(first, 200);
      expectStatus(await holdfast.reserve(tenant, 100), 200);
      const before = await holdfast.balances(tenant);
      const again = await post(tenant, operation.path(id), body);
      expect(again.status).toBe(200);
      expect(stable(again)).toBe(stable(first));
      expect(await holdfast.balances(tenant)).toEqual(before);
      expectRefusal(
        await post(tenant, operation.path(id), { ...body, ...operation.other }),
        409,
        'IDEMPOTENCY_MISMATCH',
      );
      expect(
        await holdfast.metric(`cycles_reservations_${name}_total`, {
          tenant: tenant.id,
          reason: 'IDEMPOTENT_REPLAY',
        }),
      ).toBe(1);
    },
  );

  test('returns the same reservation, whatever the order of the members', async () => {
    shows('createReservation');
    const tenant = await holdfast.fundedTenant();
    const body = reserveBody(tenant, 10, { metadata: { a: 1, b: { c: 2, d: [1, 2] } } });
    const first = await post(tenant, '/v1/reservations', body);
    const turned = Object.fromEntries(
      Object.entries({ ...body, metadata: { b: { d: [1, 2], c: 2 }, a: 1 } }).reverse(),
    );
    const again = await post(tenant, '/v1/reservations', turned);
    expectStatus(again, 200);
    expect(stable(again)).toBe(stable(first));
    expect(await holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '990 10 0 0' });
    expectRefusal(
      await post(tenant, '/v1/reservations', { ...body, ttl_ms: 2000 }),
      409,
      'IDEMPOTENCY_MISMATCH',
    );
  });

  test("reports the time that is left now, and none after the hold's end", async () => {
    shows('replay remaining ttl');
    const tenant = await holdfast.fundedTenant();
    const body = reserveBody(tenant, 10, { ttl_ms: 50_000 });
    const { reservation_id: id, expires_at_ms: expiresAt } = (await post(tenant, '/v1/reservations', body))
      .body;
    const replayed = expectStatus(await post(tenant, '/v1/reservations', body), 200);
    expect(replayed.expires_at_ms).toBe(expiresAt);
    expect(replayed.remaining_ttl_ms).toBeLessThanOrEqual(50_000);
    expect(replayed.remaining_ttl_ms).toBeGreaterThan(0);
    const extension = { idempotency_key: newKey(), extend_by_ms: 1000 };
    const extended = (await post(tenant, `/v1/reservations/${id}/extend`, extension)).body;
    expectStatus(await holdfast.commit(tenant, id, 1), 200);
    expect((await post(tenant, '/v1/reservations', body)).body.remaining_ttl_ms).toBe(0);
    const replayedExtension = expectStatus(
      await post(tenant, `/v1/reservations/${id}/extend`, extension),
      200,
    );
    expect(replayedExtension).toEqual({ ...extended, remaining_ttl_ms: 0 });
  });

  test('is one namespace for live and dry runs', async () => {
    shows('idempotency mismatch');
    const tenant = await holdfast.fundedTenant();
    const dry = reserveBody(tenant, 10, { dry_run: true });
    const first = await post(tenant, '/v1/reservations', dry);
    expect((await post(tenant, '/v1/reservations', dry)).text).toBe(first.text);
    expectRefusal(
      await post(tenant, '/v1/reservations', { ...dry, dry_run: false }),
      409,
      'IDEMPOTENCY_MISMATCH',
    );
    const live = reserveBody(tenant, 10);
    expectStatus(await post(tenant, '/v1/reservations', live), 200);
    expectRefusal(
      await post(tenant, '/v1/reservations', { ...live, dry_run: true }),
      409,
      'IDEMPOTENCY_MISMATCH',
    );
  });

  test('sent many times at once creates one reservation', async () => {
    shows('replay');
    const tenant = await holdfast.fundedTenant();
    const body = reserveBody(tenant, 10);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => post(tenant, '/v1/reservations', body)),
    );
    expect(new Set(answers.map(({ body: { reservation_id: id } }) => id as string)).size).toBe(1);
    expect(new Set(answers.map(stable)).size).toBe(1);
    expect(await holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '990 10 0 0' });
  });

  test('of a refused request can be used again', async () => {
    const tenant = await holdfast.fundedTenant();
    const body = reserveBody(tenant, 2000);
    expectRefusal(await post(tenant, '/v1/reservations', body), 409, 'BUDGET_EXCEEDED');
    await holdfast.admin(
      'POST',
      `/v1/admin/budgets/fund?tenant_id=${tenant.id}&scope=tenant:${tenant.id}&unit=TOKENS`,
      {
        operation: 'CREDIT',
        amount: { unit: 'TOKENS', amount: 5000 },
        idempotency_key: newKey(),
      },
    );
    expectStatus(await post(tenant, '/v1/reservations', body), 200);
  });

  test('belongs to its tenant and to its reservation', async () => {
    shows('idempotency scope');
    const [one, two] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
    const body = { ...reserveBody(one, 10), subject: { agent: 'a' } };
    const first = expectStatus(await post(one, '/v1/reservations', body), 200);
    const second = expectStatus(await post(two, '/v1/reservations', body), 200);
    expect(second.reservation_id).not.toBe(first.reservation_id);
    const third = expectStatus(await holdfast.reserve(one, 10), 200);
    const commit = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 1 } };
    expectStatus(await post(one, `/v1/reservations/${first.reservation_id}/commit`, commit), 200);
    expectStatus(await post(one, `/v1/reservations/${third.reservation_id}/commit`, commit), 200);
  });

  test('of a reserve outlives the hold, however often it is extended', async () => {
    const day = 86_400_000;
    const tenant = await holdfast.fundedTenant(1000, { max_reservation_ttl_ms: day });
    const body = reserveBody(tenant, 10, { ttl_ms: day });
    const { reservation_id: id } = expectStatus(await post(tenant, '/v1/reservations', body), 200);
    const key = idempotencyKey.reserve(
      stored.tagOfTenant(tenant.id),
      tenant.id,
      body['idempotency_key'] as string,
    );
    expect(await stored.redis.pttl(key)).toBeGreaterThan(day - 60_000);
    expectStatus(await holdfast.settle(tenant, 'extend', id, { extend_by_ms: day }), 200);
    expect(await stored.redis.pttl(key)).toBeGreaterThan(2 * day - 60_000);
    const replayed = expectStatus(await post(tenant, '/v1/reservations', body), 200);
    expect(replayed.reservation_id).toBe(id);
  });

  test.each([
    ['in lower case', '0190a5a2-8f3a-7b1c-9d4e-5f60718293ff'],
    ['in upper case', '0190A5A2-8F3A-7B1C-9D4E-5F60718293FF'],
  ])('that is a UUID %s is returned as it was sent', async (_, sentKey) => {
    const day = 86_400_000;
    const tenant = await holdfast.fundedTenant(1000, { max_reservation_ttl_ms: day });
    const body = reserveBody(tenant, 10, { idempotency_key: sentKey, ttl_ms: day });
    const { reservation_id: id } = expectStatus(await post(tenant, '/v1/reservations', body), 200);
    const get = async (path: string): Promise<Json> =>
      expectStatus(await holdfast.call('GET', path, { key: tenant.key }), 200);
    expect((await get(`/v1/reservations/${id}`)).idempotency_key).toBe(sentKey);
    const { reservations } = await get(`/v1/reservations?idempotency_key=${sentKey}`);
    expect(reservations).toMatchObject([{ reservation_id: id, idempotency_key: sentKey }]);
    expectStatus(await holdfast.settle(tenant, 'extend', id, { extend_by_ms: day }), 200);
    const record = idempotencyKey.reserve(stored.tagOfTenant(tenant.id), tenant.id, sentKey);
    expect(await stored.redis.pttl(record)).toBeGreaterThan(2 * day - 60_000);
    expect(expectStatus(await post(tenant, '/v1/reservations', body), 200).reservation_id).toBe(id);
  });

  test('whose record is damaged gets a retryable 500 and has no second effect', async () => {
    const tenant = await holdfast.fundedTenant();
    const body = reserveBody(tenant, 10);
    expectStatus(await post(tenant, '/v1/reservations', body), 200);
    const key = idempotencyKey.reserve(
      stored.tagOfTenant(tenant.id),
      tenant.id,
      body['idempotency_key'] as string,
    );
    await stored.redis.set(key, 'x', 'KEEPTTL');
    expectRefusal(await post(tenant, '/v1/reservations', body), 500, 'INTERNAL_ERROR');
    expect(await holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '990 10 0 0' });
  });
});
