import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { eventsOf, expectSound, HOUR_MS, TestClock, timeOf } from '../support/test-clock.js';

/** The procedures of docs/backup.md. */
const LOG = 'appendonlydir';

let redis: RedisServer;
let holdfast: Holdfast;
let tenant: TestTenant;
let live: string;
let backup: string;

beforeEach(async () => {
  backup = mkdtempSync(join(tmpdir(), 'holdfast-test-backup-'));
  // With everysec, Redis may answer before it writes to the log, while the disk is busy.
  redis = await startRedis({ appendonly: true, args: ['--appendfsync', 'always'] });
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1000);
  expectStatus(await holdfast.commit(tenant, await hold(100), 70), 200);
  live = await hold(50);
});

afterEach(async () => {
  await holdfast.stop();
  await stopAllRedis();
  rmSync(backup, { recursive: true, force: true });
});

const hold = (amount: number): Promise<string> => holdfast.hold(tenant, amount);

/** Starts from the content of the backup directory, as on another machine. */
async function restore(more: Record<string, string> = {}): Promise<void> {
  await holdfast.stop();
  await redis.stop();
  redis = await startRedis({ appendonly: true, dir: backup });
  holdfast = await Holdfast.start({ REDIS_URL: redis.url, ...more });
}

async function expectWhole(): Promise<void> {
  expect(await holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '880 50 70 0' });
  expect(expectStatus(await holdfast.admin('GET', `/ops/verify?tenant=${tenant.id}`), 200)).toMatchObject({
    ok: true,
    budgets: 1,
    drift: [],
  });
  expectStatus(await holdfast.commit(tenant, live, 50), 200);
}

test('a copy of the log that was made while requests ran is a sound ledger, with everything that was acknowledged before', async () => {
  const busy = await holdfast.fundedTenant(1_000_000);
  let copying = true;
  let operations = 0;
  const client = async (): Promise<void> => {
    while (copying) {
      expectStatus(await holdfast.reserve(busy, 1), 200);
      operations += 1;
    }
  };
  const clients = [client(), client()];
  await eventually('requests run', () => operations > 20);
  await cp(join(redis.dir, LOG), join(backup, LOG), { recursive: true });
  copying = false;
  await Promise.all(clients);
  await restore();
  expect(expectStatus(await holdfast.admin('GET', `/ops/verify?tenant=${busy.id}`), 200)).toMatchObject({
    ok: true,
    budgets: 1,
  });
  await expectWhole();
});

test('a dump that is made the base of a log is restored', async () => {
  const client = new Redis(redis.url);
  await client.save();
  await client.quit();
  mkdirSync(join(backup, LOG));
  cpSync(join(redis.dir, 'dump.rdb'), join(backup, LOG, 'appendonly.aof.1.base.rdb'));
  writeFileSync(
    join(backup, LOG, 'appendonly.aof.manifest'),
    'file appendonly.aof.1.base.rdb seq 1 type b\n',
  );
  await restore();
  await expectWhole();
});

test('a restored copy has its credits as they were, and lets them end again, with what holds need', async () => {
  await holdfast.stop();
  const clocked = { HOLDFAST_TEST_CLOCK: 'true' };
  holdfast = await Holdfast.start({ REDIS_URL: redis.url, ...clocked });
  const clock = new TestClock(() => holdfast);
  const customer = await clock.tenant(10);
  const at = `scope=tenant:${customer.id}&unit=TOKENS`;
  const ends = (await clock.nowMs()) + HOUR_MS;
  const terms = { name: 'Prepaid', expires_at: timeOf(ends), amount: { unit: 'TOKENS', amount: 50 } };
  const body = {
    idempotency_key: 'one',
    tenant_id: customer.id,
    scope: `tenant:${customer.id}`,
    unit: 'TOKENS',
  };
  const grant = () => holdfast.admin('POST', '/ops/budgets/credits', { ...body, ...terms });
  const granted = await grant();
  expectStatus(granted, 201);
  const { reservation_id: id } = expectStatus(
    await holdfast.reserve(customer, 30, { ttl_ms: 2 * HOUR_MS }),
    200,
  );
  await cp(join(redis.dir, LOG), join(backup, LOG), { recursive: true });
  const end = async (): Promise<void> => {
    await clock.advanceTo(ends);
    expectStatus(await holdfast.commit(customer, id, 18), 200);
    const { credits } = expectStatus(await holdfast.admin('GET', `/ops/budgets/credits?${at}`), 200);
    expect(credits).toMatchObject([
      { status: 'ENDED', consumed: { amount: 18 }, lapsed: { amount: 32 }, pinned: { amount: 0 } },
    ]);
    expect(await eventsOf(holdfast, customer, 'custom.credit.ended')).toHaveLength(1);
    expect(await holdfast.balances(customer)).toEqual({ [`tenant:${customer.id}`]: '10 0 18 0' });
    await expectSound(holdfast, customer);
  };
  await end();
  await restore(clocked);
  expect((await grant()).text).toBe(granted.text);
  const { credits } = expectStatus(await holdfast.admin('GET', `/ops/budgets/credits?${at}`), 200);
  expect(credits).toMatchObject([{ status: 'ACTIVE', remaining: { amount: 50 } }]);
  await end();
});
