import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  apiKeyExpiryKey,
  apiKeyHashKey,
  apiKeyIndexKey,
  apiKeyKey,
  budgetIndexKey,
  keyRevokedChannel,
  tenantIndexKey,
  tenantKey,
} from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { clockAt } from '../support/fixed-clock.js';
import {
  createBudget,
  createKey,
  createTenant,
  KEY_LIFE_MS,
  newKey,
  revoke,
} from '../support/governance-client.js';
import { LedgerClient, TRACE } from '../support/ledger-client.js';
import { readLedger, snapshot } from '../support/ledger-state.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { useConnections, useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

const validate = (ledger: LedgerClient, hash: string): Promise<Reply> =>
  ledger.scripts.run(
    'validate_api_key',
    [apiKeyHashKey(ledger.tag, hash)],
    ['0', 'admin', '', 'req_1', TRACE],
  );

const authenticate = (ledger: LedgerClient, hash: string): Promise<Reply> =>
  ledger.scripts.run('authenticate', [apiKeyHashKey(ledger.tag, hash)], []);

async function unchanged<T>(ledger: LedgerClient, act: () => Promise<T>): Promise<T> {
  const before = await snapshot(ledger);
  const result = await act();
  expect(await snapshot(ledger)).toEqual(before);
  return result;
}

async function eventTypes(ledger: LedgerClient): Promise<(string | undefined)[]> {
  return (await readLedger(ledger)).events.map(({ fields }) => fields['ty']);
}

describe('an index that is not a sorted set', () => {
  test.each<[string, (ledger: LedgerClient) => string, (ledger: LedgerClient) => Promise<Reply>]>([
    ['tenants, of a new tenant', ({ tag }) => tenantIndexKey(tag), (ledger) => createTenant(ledger)],
    [
      'budgets, of a new budget',
      ({ tag, tenant }) => budgetIndexKey(tag, tenant),
      (ledger) => createBudget(ledger),
    ],
    [
      'API keys, of a new key',
      ({ tag, tenant }) => apiKeyIndexKey(tag, tenant),
      (ledger) => createKey(ledger, newKey(ledger)),
    ],
    [
      'expiries, of a new key',
      ({ tag }) => apiKeyExpiryKey(tag),
      (ledger) => createKey(ledger, newKey(ledger)),
    ],
  ])('(%s) stops the script before anything is written', async (_what, indexOf, create) => {
    const ledger = await newLedger();
    if (indexOf(ledger) !== tenantIndexKey(ledger.tag)) {
      await ledger.makeTenant();
    }
    await ledger.redis.set(indexOf(ledger), 'broken');
    await unchanged(ledger, () => expect(create(ledger)).rejects.toThrow('WRONGTYPE'));
  });
});

describe('create_tenant', () => {
  test('creates the record, its index entry and one event, and finds them again without a write', async () => {
    shows('createTenant');
    const ledger = await newLedger();
    expect((await createTenant(ledger))[0]).toBe('CREATED');
    expect((await unchanged(ledger, () => createTenant(ledger)))[0]).toBe('EXISTS');
    expect(await unchanged(ledger, () => createTenant(ledger, 'Other'))).toEqual(['DUPLICATE']);
    expect(await eventTypes(ledger)).toEqual(['tenant.created']);
    expect(await ledger.redis.zrange(tenantIndexKey(ledger.tag), '0', '-1')).toEqual([ledger.tenant]);
  });

  test('dates the tenant by the server, not by its caller', async () => {
    const ledger = await newLedger();
    const before = await ledger.serverTime();
    await createTenant(ledger);
    const createdAt = Number(await ledger.redis.hget(tenantKey(ledger.tag, ledger.tenant), 'created_at'));
    expect(createdAt).toBeGreaterThanOrEqual(before);
    expect(createdAt).toBeLessThanOrEqual(await ledger.serverTime());
  });
});

describe('create_budget', () => {
  test('opens a ledger once', async () => {
    shows('createBudget');
    const ledger = await newLedger();
    expect(await unchanged(ledger, () => createBudget(ledger))).toEqual(['TENANT_NOT_FOUND']);
    await ledger.makeTenant();
    expect((await createBudget(ledger, '9223372036854775807'))[0]).toBe('CREATED');
    expect(await unchanged(ledger, () => createBudget(ledger))).toEqual(['DUPLICATE']);
    expect(await ledger.figures()).toBe('9223372036854775807,0,0,9223372036854775807,0,0,0');
    expect(await ledger.redis.zrange(budgetIndexKey(ledger.tag, ledger.tenant), '0', '-1')).toEqual([
      `${ledger.scope()} TOKENS`,
    ]);
    expect(await eventTypes(ledger)).toEqual(['budget.created']);
  });

  test('fails closed on a tenant with an unknown status', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ status: 'ODD' });
    await expect(
      unchanged(ledger, () => createBudget(ledger).catch((error: Error) => error.message)),
    ).resolves.toContain('corrupt tenant record');
  });
});

describe('API key scripts', () => {
  const connections = useConnections(1);

  test('the use of a key is noted once a minute, as long as its record exists', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const key = newKey(ledger);
    const record = apiKeyKey(ledger.tag, key.id);
    const note = (): Promise<Reply> => ledger.scripts.run('note_key_use', [record], []);
    expect(await unchanged(ledger, note)).toEqual(['UNCHANGED']);
    await createKey(ledger, key);
    expect(await note()).toEqual(['NOTED']);
    expect((await authenticate(ledger, key.hash)).at(-1)).toBe('1');
    expect(await unchanged(ledger, note)).toEqual(['UNCHANGED']);
    const [connection] = connections() as [Redis];
    const noted = Number(await connection.hget(record, 'last_used_at'));
    await connection.hset(record, 'last_used_at', String(noted - 60_000));
    expect((await authenticate(ledger, key.hash)).at(-1)).toBe('0');
    expect(await note()).toEqual(['NOTED']);
  });

  test('a key is valid from its creation until it is revoked, and its events hold neither secret nor hash', async () => {
    shows('createApiKey');
    const ledger = await newLedger();
    await ledger.makeTenant();
    const key = newKey(ledger);
    expect(await authenticate(ledger, key.hash)).toEqual(['UNKNOWN']);
    expect((await createKey(ledger, key))[0]).toBe('CREATED');
    const good = await unchanged(ledger, () => authenticate(ledger, key.hash));
    expect(good).toEqual([
      'OK',
      key.id,
      ledger.tenant,
      expect.stringMatching(/^\d{1,5}$/),
      '["balances:read"]',
      '[]',
      '1',
      '0',
    ]);
    expect(Number(good[3])).toBeLessThanOrEqual(KEY_LIFE_MS);
    expect((await revoke(ledger, key.id))[0]).toBe('REVOKED');
    expect(await authenticate(ledger, key.hash)).toEqual(['REVOKED']);
    expect(await unchanged(ledger, () => revoke(ledger, key.id))).toEqual(['ALREADY_REVOKED']);
    const { events } = await readLedger(ledger);
    expect(events.map(({ fields }) => fields['ty'])).toEqual(['api_key.created', 'api_key.revoked']);
    expect(JSON.stringify(events)).not.toContain(key.hash);
  });

  test('a revocation announces the hash of the secret', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const key = newKey(ledger);
    await createKey(ledger, key);
    const [subscriber] = connections() as [Redis];
    await subscriber.subscribe(keyRevokedChannel());
    const heard = new Promise<string>((done) => {
      subscriber.on('message', (_channel, hash) => hash === key.hash && done(hash));
    });
    await revoke(ledger, key.id);
    expect(await heard).toBe(key.hash);
  });

  test('expiry is decided by the server: a key has expired at that very instant', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const key = newKey(ledger);
    const ends = Date.UTC(2100, 0, 1);
    await createKey(ledger, key, ends);
    const at = (now: number): Promise<string[]> => {
      const then = clockAt(ledger, now);
      return Promise.all([
        authenticate(then, key.hash).then(([word, , , leftMs]) => `${word} ${leftMs}`),
        validate(then, key.hash).then((reply) => reply.slice(0, 2).join(' ')),
        then.scripts
          .run('expire_api_keys', [apiKeyExpiryKey(ledger.tag)], [9])
          .then((reply) => reply[1] ?? ''),
      ]);
    };
    expect(await at(ends - 1)).toEqual(['OK 1', `VALID ${key.id}`, '0']);
    expect(await at(ends)).toEqual(['EXPIRED undefined', 'INVALID EXPIRED', '1']);
  });

  test("a suspended tenant's key is not valid", async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const key = newKey(ledger);
    await createKey(ledger, key);
    await ledger.makeTenant({ status: 'SUSPENDED' });
    expect(await authenticate(ledger, key.hash)).toEqual(['TENANT_SUSPENDED']);
  });
});

describe('on a full Redis', () => {
  let server: RedisServer;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  test('a key is still revoked and verified, and nothing is created or funded', async () => {
    const ledger = await LedgerClient.make(redis);
    await redis.set('{test}ballast', 'x'.repeat(2_000_000));
    await createTenant(ledger);
    const key = newKey(ledger);
    await createKey(ledger, key);
    await ledger.scripts.load();
    await redis.config('SET', 'maxmemory', '1mb');
    const full = { name: 'StoreUnavailable', reason: 'memory' };
    const before = await snapshot(ledger);
    await expect(createTenant(ledger)).rejects.toMatchObject(full);
    await expect(createKey(ledger, newKey(ledger))).rejects.toMatchObject(full);
    await expect(createBudget(ledger)).rejects.toMatchObject(full);
    expect(await snapshot(ledger)).toEqual(before);
    expect((await authenticate(ledger, key.hash))[0]).toBe('OK');
    expect((await revoke(ledger, key.id))[0]).toBe('REVOKED');
    expect(await authenticate(ledger, key.hash)).toEqual(['REVOKED']);
  });
});
