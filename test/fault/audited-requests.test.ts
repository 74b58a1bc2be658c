import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { briefAuditLogKey, SYSTEM_OWNER, tagOfTenant } from '../../src/redis/keyspace.js';
import { ADMIN_API_KEY, expectRefusal, Holdfast } from '../support/holdfast.js';
import { eventually } from '../support/eventually.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { connectTo } from '../support/store.js';
import { runningMs } from '../support/time-bound.js';
import { patience } from '../support/time-limits.js';

const SYSTEM_TAG = tagOfTenant(SYSTEM_OWNER, 64);

const writes = (holdfast: Holdfast, pathClass: string, outcome: string): Promise<number> =>
  holdfast.metric('cycles_admin_audit_writes_total', { path_class: pathClass, outcome });

describe('while Redis', () => {
  let server: RedisServer;
  let holdfast: Holdfast;
  beforeAll(async () => {
    server = await startRedis();
    holdfast = await Holdfast.start({ REDIS_URL: server.url });
  });
  afterAll(async () => {
    await holdfast.stop();
    await server.stop();
  });

  test('is full, no row makes it fuller, each is counted, and responses arrive as usual', async () => {
    const redis = connectTo(server.url);
    const { length } = await redis.xrange(briefAuditLogKey(SYSTEM_TAG), '-', '+');
    await redis.config('SET', 'maxmemory', '1');
    const lost = await writes(holdfast, 'unauthenticated', 'error');
    expectRefusal(await holdfast.call('GET', '/v1/admin/tenants'), 401, 'UNAUTHORIZED');
    await holdfast.app.get(AuditedRequests).settled();
    expect(await writes(holdfast, 'unauthenticated', 'error')).toBe(lost + 1);
    expect(await redis.xlen(briefAuditLogKey(SYSTEM_TAG))).toBe(length);
    await redis.config('SET', 'maxmemory', '0');
    expectRefusal(await holdfast.call('GET', '/v1/admin/tenants'), 401, 'UNAUTHORIZED');
    await holdfast.app.get(AuditedRequests).settled();
    expect(await redis.xlen(briefAuditLogKey(SYSTEM_TAG))).toBe(length + 1);
    await eventually('health shows it', async () =>
      (await holdfast.call('GET', '/health/ready')).text.includes('"audit":{"rows_lost":1,"failing":false'),
    );
    await redis.quit();
  });

  test('does not reply, refusals still come immediately, and rows that cannot be stored are counted', async () => {
    server.pause();
    const startedAt = runningMs();
    const headers = { 'x-admin-api-key': ADMIN_API_KEY };
    const lost = await writes(holdfast, 'failure', 'error');
    for (let index = 0; index < 20; index += 1) {
      expect((await holdfast.call('GET', '/v1/admin/tenants?limit=0', { headers })).status).toBe(400);
    }
    const tookMs = runningMs() - startedAt;
    await eventually(
      'every row is counted as lost',
      async () => (await writes(holdfast, 'failure', 'error')) === lost + 20,
    );
    server.resume();
    // If each waited for Redis, all of them would take 18 seconds.
    expect(tookMs).toBeLessThan(Math.min(patience(1900), 15_000));
  });
});

test('a shutdown writes the rows that still wait, and the summary of the current window', async () => {
  const server = await startRedis();
  const holdfast = await Holdfast.start({ REDIS_URL: server.url });
  for (let attempt = 0; attempt < 8; attempt += 1) {
    await holdfast.call('GET', '/v1/admin/tenants');
  }
  await holdfast.stop();
  const redis = connectTo(server.url);
  const rows = await redis.xrange(briefAuditLogKey(SYSTEM_TAG), '-', '+');
  expect(rows.map(([, fields]) => fields[1])).toEqual([
    ...new Array<string>(5).fill('GET:/v1/admin/tenants'),
    'summary:unauthenticated',
  ]);
  await redis.quit();
  await server.stop();
});
