import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { budgetIndexKey } from '../../src/redis/keyspace.js';
import { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});
afterAll(async () => {
  // Functions may still be loading. A command sent after QUIT could reset the connection before its reply is
  // read.
  redis.disconnect();
  await server.stop();
});

/** Sets the memory limit below what is already stored. */
async function fill(): Promise<void> {
  await redis.config('SET', 'maxmemory', '1mb');
  const [used, limit] =
    (await redis.info('memory')).match(/(?<=used_memory:|maxmemory:)\d+/g)?.map(Number) ?? [];
  expect(used).toBeGreaterThan(limit as number);
}

async function fullLedger(): Promise<LedgerClient> {
  await redis.config('SET', 'maxmemory', '0');
  await redis.set('{test}ballast', 'x'.repeat(2_000_000));
  const ledger = await LedgerClient.make(redis);
  await ledger.makeBudget();
  await ledger.scripts.load();
  return ledger;
}

test('on a full Redis, reserve and extend are refused for memory before any write', async () => {
  const ledger = await fullLedger();
  const { id } = await ledger.hold();
  await fill();
  const before = await snapshot(ledger);
  await expect(ledger.reserve()).rejects.toMatchObject({ name: 'StoreUnavailable', reason: 'memory' });
  await expect(ledger.reserve({ dryRun: true })).rejects.toMatchObject({
    name: 'StoreUnavailable',
    reason: 'memory',
  });
  await expect(ledger.extend(id, 1000)).rejects.toMatchObject({ name: 'StoreUnavailable', reason: 'memory' });
  expect(await snapshot(ledger)).toEqual(before);
});

test('on a full Redis, commit, refund, release and expire still settle, replay included, and reads still work', async () => {
  const ledger = await fullLedger();
  const [toCommit, toRelease, toExpire, toMeet] = [
    await ledger.hold(),
    await ledger.hold(),
    await ledger.hold(),
    await ledger.hold(),
  ];
  await ledger.makeOverdue(toExpire.id);
  await ledger.makeOverdue(toMeet.id);
  await fill();
  expect((await ledger.commit(toCommit.id, 15, { key: 'c' })).slice(0, 3)).toEqual([
    'COMMITTED',
    'fresh',
    '15',
  ]);
  expect((await ledger.commit(toCommit.id, 15, { key: 'c' })).slice(0, 3)).toEqual([
    'COMMITTED',
    'replay',
    '15',
  ]);
  expect((await ledger.refund(toCommit.id, 5))[0]).toBe('REFUNDED');
  expect((await ledger.release(toRelease.id))[0]).toBe('RELEASED');
  expect((await ledger.expire(toExpire.id))[0]).toBe('EXPIRED');
  expect((await ledger.get(toMeet.id)).slice(0, 2)).toEqual(['RESERVATION_EXPIRED', 'now']);
  expect((await ledger.get(toCommit.id))[0]).toBe('FOUND');
  const balances = await ledger.scripts.run(
    'balances',
    [budgetIndexKey(ledger.tag, ledger.tenant)],
    ['', 10, 10, '0', `tenant:${ledger.tenant}`, `tenant:${ledger.tenant}`],
  );
  expect(balances).toEqual(['', '0', ledger.scope(), 'TOKENS', '990,0,10,1000,0,0,0']);
  await assertInvariants(ledger);
});

test('a full Redis that has lost the scripts gets them again and settles', async () => {
  const ledger = await fullLedger();
  const { id } = await ledger.hold();
  await fill();
  await redis.function('FLUSH');
  expect((await ledger.commit(id, 5))[0]).toBe('COMMITTED');
});
