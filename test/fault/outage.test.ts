import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { budgetKey, tagOfReservationId, tenantKey } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { damageHold } from '../support/hold-record.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { expectUnavailable } from '../support/unavailable.js';

let redis: RedisServer;
let holdfast: Holdfast;
let stored: StoredHolds;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startRedis({ appendonly: true, args: ['--appendfsync', 'always'] });
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
  stored.redis.on('error', () => undefined);
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1_000_000_000);
});

afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await redis.stop();
});

describe('while Redis is unavailable', () => {
  test.each(['paused', 'killed'])(
    '(%s) requests get 503 in time, nothing is lost or done twice, and everything recovers',
    async (how) => {
      const held = await holdfast.hold(tenant, 10);
      const before = await holdfast.balances(tenant);
      if (how === 'paused') {
        redis.pause();
      } else {
        await redis.kill();
      }
      const commit = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 10 } };
      const sendCommit = () =>
        holdfast.call('POST', `/v1/reservations/${held}/commit`, { key: tenant.key, body: commit });
      const reserve = reserveBody(tenant, 10);
      const sendReserve = () => holdfast.call('POST', '/v1/reservations', { key: tenant.key, body: reserve });
      const sendBalances = () =>
        holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key });
      await Promise.all([
        expectUnavailable(sendCommit),
        expectUnavailable(sendReserve),
        expectUnavailable(sendBalances),
        expectUnavailable(() => holdfast.admin('GET', '/v1/admin/tenants')),
      ]);
      await eventually(
        'readiness turns red',
        async () => (await holdfast.call('GET', '/health/ready')).status === 503,
      );
      expect((await holdfast.call('GET', '/health/live')).status).toBe(200);
      if (how === 'paused') {
        redis.resume();
      } else {
        await redis.restart();
      }
      await eventually(
        'readiness turns green',
        async () => (await holdfast.call('GET', '/health/ready')).status === 200,
      );
      await eventually('the commit is settled', async () => (await sendCommit()).status === 200);
      const reserved = await eventually('the reserve is settled', async () => {
        const answer = await sendReserve();
        return answer.status === 200 && answer;
      });
      // Queries have a separate connection, which may recover later.
      await eventually('queries succeed', async () => (await sendBalances()).status === 200);
      const again = expectStatus(await sendReserve(), 200);
      expect(again.reservation_id).toBe(reserved.body.reservation_id);
      const [remaining, held0, spent] = (before[`tenant:${tenant.id}`] as string).split(' ').map(Number) as [
        number,
        number,
        number,
      ];
      expect(await holdfast.balances(tenant)).toEqual({
        [`tenant:${tenant.id}`]: `${remaining - 10} ${held0} ${spent + 10} 0`,
      });
    },
  );
});

describe('scripts that the server forgets', () => {
  /** Sends a request again if a busy machine made the store late, which is not what this is about. */
  async function inTime(send: () => Promise<Answer>): Promise<Answer> {
    const answer = await send();
    const isLate = answer.status === 503 && ['timeout', 'connection'].includes(answer.body.details.reason);
    return isLate ? delay(50).then(() => inTime(send)) : answer;
  }

  test('are loaded again, under load, without a failed request', async () => {
    const working = Array.from({ length: 8 }, async () => {
      for (let round = 0; round < 20; round += 1) {
        const key = { idempotency_key: newKey() };
        const reserved = await inTime(() => holdfast.reserve(tenant, 1, key));
        const { reservation_id: id } = expectStatus(reserved, 200);
        expectStatus(await inTime(() => holdfast.commit(tenant, id, 1, key)), 200);
      }
    });
    const flushing = (async () => {
      for (let round = 0; round < 20; round += 1) {
        await stored.redis.function('FLUSH');
        await stored.redis.script('FLUSH');
      }
    })();
    await Promise.all([...working, flushing]);
  });
});

describe('damaged records', () => {
  test.each([
    [
      'a budget',
      (id: string) =>
        stored.redis.hset(
          budgetKey(tagOfReservationId(id, 64) as string, 'TOKENS', `tenant:${damaged.id}`),
          'remaining',
          'lots',
        ),
    ],
    [
      'a tenant',
      (id: string) =>
        stored.redis.hset(tenantKey(tagOfReservationId(id, 64) as string, damaged.id), 'status', 'ODD'),
    ],
  ])('%s: the operation fails loudly, counted, and changes nothing', async (_what, damage) => {
    damaged = await holdfast.createTenant();
    await holdfast.createBudget(damaged, '', 100);
    const id = await holdfast.hold(damaged, 10);
    await damage(id);
    const before = await stored.record(id);
    const count = await holdfast.metric('holdfast_unexpected_errors_total');
    expectRefusal(await holdfast.commit(damaged, id, 5), 500, 'INTERNAL_ERROR');
    expect(await holdfast.metric('holdfast_unexpected_errors_total')).toBe(count + 1);
    expect(await stored.record(id)).toEqual(before);
  });

  test('a reservation: a commit is 503 and may be repeated, the hold goes into quarantine, counted, and no budget moves', async () => {
    damaged = await holdfast.createTenant();
    await holdfast.createBudget(damaged, '', 100);
    const id = await holdfast.hold(damaged, 10);
    await damageHold(stored.redis, `${tagOfReservationId(id, 64) as string}r:${id}`, 'bm');
    const before = await holdfast.balances(damaged);
    const count = await holdfast.metric('cycles_reservations_quarantined_total', { tenant: damaged.id });
    const answer = await holdfast.commit(damaged, id, 5);
    expect(expectRefusal(answer, 503, 'INTERNAL_ERROR').details).toEqual({ reason: 'quarantine' });
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await holdfast.metric('cycles_reservations_quarantined_total', { tenant: damaged.id })).toBe(
      count + 1,
    );
    expect(await stored.record(id)).toMatchObject({ st: 'ACTIVE', qr: expect.any(String) });
    expect(await holdfast.balances(damaged)).toEqual(before);
  });

  let damaged: TestTenant;
});

describe('a full Redis', () => {
  let full: RedisServer;
  let instance: Holdfast;

  beforeAll(async () => {
    full = await startRedis({ maxmemory: '100mb' });
    instance = await Holdfast.start({ REDIS_URL: full.url });
  });

  afterAll(async () => {
    await instance.stop();
    await full.stop();
  });

  test('refuses requests that need memory with 503, still settles holds, and readiness says memory', async () => {
    const owner = await instance.fundedTenant(1000);
    const ids: string[] = [];
    for (let index = 0; index < 4; index += 1) {
      ids.push(await instance.hold(owner, 10, { grace_period_ms: 0 }));
    }
    const holds = new StoredHolds(full.url);
    try {
      await holds.redis.config('SET', 'maxmemory', '1mb');
      const before = await instance.balances(owner);
      expectRefusal(await instance.reserve(owner, 10), 503, 'INTERNAL_ERROR');
      expect((await instance.reserve(owner, 10)).headers.get('retry-after')).toMatch(/^\d+$/);
      expectRefusal(
        await instance.settle(owner, 'extend', ids[0] as string, { extend_by_ms: 1000 }),
        503,
        'INTERNAL_ERROR',
      );
      expect(await instance.balances(owner)).toEqual(before);
      expectStatus(await instance.commit(owner, ids[0] as string, 10), 200);
      expectStatus(await instance.settle(owner, 'release', ids[1] as string), 200);
      const health = await instance.call('GET', '/health/ready');
      expect(health.status).toBe(503);
      expect(health.text).toContain('memory');
      expect(await instance.balances(owner)).toEqual({ [`tenant:${owner.id}`]: '970 20 10 0' });
      await holds.redis.config('SET', 'maxmemory', '100mb');
      expectStatus(await instance.reserve(owner, 10), 200);
      await eventually(
        'readiness turns green',
        async () => (await instance.call('GET', '/health/ready')).status === 200,
      );
    } finally {
      holds.close();
    }
  });
});
