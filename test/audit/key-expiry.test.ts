import { expect, test } from '@jest/globals';
import { LogJanitor } from '../../src/retention/log-janitor.js';
import { apiKeyExpiryKey, tagOfKeyId } from '../../src/redis/keyspace.js';
import { expectStatus, type Json } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const PARTITIONS = 64;
const on = useGovernance();

async function newKeyOf(tenantId: string): Promise<string> {
  return expectStatus(
    await on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenantId, name: 'short' }),
    201,
  ).key_id as string;
}

/** Moves a key's expiry into the past, in the record and in the index. */
async function end(keyId: string): Promise<void> {
  await on.stored.redis.hset(on.stored.apiKeyKey(keyId), 'expires_at', '1000');
  await on.stored.redis.zadd(apiKeyExpiryKey(tagOfKeyId(keyId, PARTITIONS) as string), 1000, keyId);
}

async function expired(tenantId: string): Promise<Json[]> {
  return expectStatus(
    await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenantId}&event_type=api_key.expired`),
    200,
  ).events as Json[];
}

test('an expired key emits one event and is counted; a live, revoked or damaged one does not', async () => {
  const tenant = await on.holdfast.createTenant();
  const [over, revoked, damaged] = [
    await newKeyOf(tenant.id),
    await newKeyOf(tenant.id),
    await newKeyOf(tenant.id),
  ];
  expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${revoked}`), 200);
  for (const keyId of [over, revoked, damaged]) {
    await end(keyId);
  }
  await on.stored.redis.hdel(on.stored.apiKeyKey(damaged), 'secret_hash');
  const janitor = on.holdfast.app.get(LogJanitor);
  await janitor.expireKeys(-1);
  expect(await expired(tenant.id)).toEqual([]);
  expect(await on.holdfast.metric('holdfast_maintenance_cut_total', { job: 'api_key_expiry' })).toBe(1);
  await janitor.expireKeys(Infinity);
  await janitor.expireKeys(Infinity);
  expect(await expired(tenant.id)).toMatchObject([
    {
      tenant_id: tenant.id,
      actor: { type: 'system' },
      data: { key_id: over, key_name: 'short', previous_status: 'ACTIVE', new_status: 'EXPIRED' },
    },
  ]);
  expect(await on.holdfast.metric('holdfast_api_keys_expired_total')).toBe(1);
});
