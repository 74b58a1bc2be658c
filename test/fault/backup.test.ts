import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';

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
async function restore(): Promise<void> {
  await holdfast.stop();
  await redis.stop();
  redis = await startRedis({ appendonly: true, dir: backup });
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
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
