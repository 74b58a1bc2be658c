import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { generateEvidenceKeys } from '../../src/config/evidence-keys.js';
import { expectStatus, Holdfast, newKey } from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

let server: RedisServer;
let redis: Redis;
let holdfast: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  await redis.set('{test}ballast', 'x'.repeat(2_000_000));
  holdfast = await Holdfast.start({
    REDIS_URL: server.url,
    EVIDENCE_SERVER_ID: 'https://cycles.example.com/v1',
    EVIDENCE_KEYS: generateEvidenceKeys(0),
  });
});
afterAll(async () => {
  await holdfast.stop();
  await redis.quit();
  await server.stop();
});

test('on a full Redis a settlement succeeds without evidence, and its repetition gets it once there is room', async () => {
  const tenant = await holdfast.fundedTenant(100);
  const reserved = expectStatus(await holdfast.reserve(tenant, 10), 200);
  const path = `/v1/reservations/${reserved.reservation_id}/commit`;
  const body = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 7 } };
  await redis.config('SET', 'maxmemory', '1mb');
  const committed = expectStatus(await holdfast.call('POST', path, { key: tenant.key, body }), 200);
  expect(committed).not.toHaveProperty('cycles_evidence');
  await redis.config('SET', 'maxmemory', '0');
  expect(
    await holdfast.metric('cycles_evidence_emit_failed_total', { artifact_type: 'commit', reason: 'store' }),
  ).toBe(1);
  const { cycles_evidence: evidence, ...again } = expectStatus(
    await holdfast.call('POST', path, { key: tenant.key, body }),
    200,
  );
  expect(again).toEqual(committed);
  const envelope = expectStatus(await holdfast.call('GET', `/v1/evidence/${evidence.evidence_id}`), 200);
  expect(envelope.payload.commit).toEqual({
    reservation_id: reserved.reservation_id,
    request: body,
    response: again,
  });
  const shown = expectStatus(
    await holdfast.call('GET', `/v1/reservations/${reserved.reservation_id}`, { key: tenant.key }),
    200,
  );
  expect(shown.evidence.commit).toEqual(evidence);
});

test('on a full Redis, operators can still stop many tenants at once', async () => {
  const tenant = await holdfast.createTenant();
  await redis.config('SET', 'maxmemory', '1mb');
  const answer = await holdfast.admin('POST', '/v1/admin/tenants/bulk-action', {
    action: 'SUSPEND',
    filter: { search: tenant.id },
    idempotency_key: newKey(),
  });
  await redis.config('SET', 'maxmemory', '0');
  expect(expectStatus(answer, 200).succeeded).toEqual([{ id: tenant.id }]);
  const shown = await holdfast.admin('GET', `/v1/admin/tenants/${tenant.id}`);
  expect(expectStatus(shown, 200).status).toBe('SUSPENDED');
});
