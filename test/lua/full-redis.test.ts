import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { budgetIndexKey } from '../../src/redis/keyspace.js';
import { debit } from '../support/admission-client.js';
import { became, grant, granted, updateCredit, voidCredit } from '../support/credit-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { fund, rollOver } from '../support/governance-client.js';
import { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { setTemplate } from '../support/template-client.js';

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

const T = Date.UTC(2100, 0, 2);
const FULL = { name: 'StoreUnavailable', reason: 'memory' };

/** A full ledger with two credits, which end at T + 10 and T + 20, and two holds that need both. */
async function fullOfCredits(): Promise<{ ledger: LedgerClient; credits: string[]; holds: string[] }> {
  const ledger = await fullLedger();
  await ledger.makeTenant();
  await redis.hset(ledger.budgetKeyOf(), { tenant_id: ledger.tenant, ledger_id: 'ldg_1' });
  const at = clockAt(ledger, T);
  const credits = [await granted(at, 50, { ends: T + 10 }), await granted(at, 40, { ends: T + 20 })];
  const holds: string[] = [];
  for (const amount of [1040, 50]) {
    holds.push((await at.hold({ amount, ttlMs: 86_400_000 })).id);
  }
  await fill();
  return { ledger, credits, holds };
}

test('on a full Redis, credits end on access and by the job, pay what they have pinned, and lapse', async () => {
  const { ledger, credits, holds } = await fullOfCredits();
  const [first, second] = [clockAt(ledger, T + 10), clockAt(ledger, T + 20)];
  expect((await first.commit(holds[0] as string, 20))[0]).toBe('COMMITTED');
  expect(await became(first, ...credits)).toEqual(['ENDED 0 30 20 0 0', 'ACTIVE 40 0 0 0 0']);
  await rollOver(second);
  expect(await became(second, ...credits)).toEqual(['ENDED 0 30 20 0 0', 'ENDED 0 20 0 20 0']);
  expect((await second.release(holds[1] as string))[0]).toBe('RELEASED');
  expect(await became(second, ...credits)).toEqual(['ENDED 0 0 20 30 0', 'ENDED 0 0 0 40 0']);
  expect(await ledger.figures()).toBe('1000,0,20,1020,0,0,0');
  expect((await second.refund(holds[0] as string, 20))[0]).toBe('REFUNDED');
  await assertInvariants(ledger);
});

test('on a full Redis, no credit is granted, changed or voided, and nothing of it stays', async () => {
  const { ledger, credits } = await fullOfCredits();
  const [id] = credits as [string];
  const template = await redis
    .config('SET', 'maxmemory', '0')
    .then(() =>
      setTemplate(ledger, { fields: { credits: ['5', '1000', 'Trial', '', '50', '', ''].join('\x1f') } }),
    );
  expect(template[0]).toBe('CREATED');
  await fill();
  const before = await snapshot(ledger);
  for (const refused of [
    () => grant(ledger, 5),
    () => voidCredit(ledger, id),
    () => updateCredit(ledger, id, { name: 'other' }),
    () => fund(ledger, 5),
    () => debit(ledger, { amount: 0 }),
    () => ledger.reserve({ amount: 0, subject: { agent: 'new' } }),
  ]) {
    await expect(refused()).rejects.toMatchObject(FULL);
  }
  expect(await snapshot(ledger)).toEqual(before);
});
