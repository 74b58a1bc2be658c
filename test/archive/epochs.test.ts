import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { ArchiveIdentity } from '../../src/archive/archive-identity.js';
import { readPlaces } from '../../src/archive/archive-places.js';
import { RedisService } from '../../src/redis/index.js';
import { verifyArchive } from '../../src/cli/archive-verify.js';
import { readArchive } from '../support/archive.js';
import { buildService, type ServiceProcess, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  expectStatus,
  Holdfast,
  HoldfastClient,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { type RedisServer, startRedis, stopAllRedis } from '../support/redis-server.js';
import type { Settings } from '../support/settings.js';
import { StoredHolds } from '../support/stored-holds.js';
import { advanceClock } from '../support/test-clock.js';

/** A Redis that was put back to an earlier state: reports and balances agree, and what was spent in the lost time is told apart. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LOG = 'appendonlydir';
/** Whatever the test has to wait for. */
const LONG = { ttl_ms: 3_600_000, grace_period_ms: 0 };
const QUICK = { archiveFlushMs: 0, archiveSettleMs: 0, archiveLeaseMs: 300, PARTITIONS: '4' } as const;

let folder: string;
let archive: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-epochs-'));
  archive = join(folder, 'archive');
});
afterEach(async () => {
  await stopAllRedis();
  rmSync(folder, { recursive: true, force: true });
});

/** What a client does, wherever the service runs. */
class Work {
  constructor(
    readonly client: HoldfastClient,
    readonly tenant: TestTenant,
    private readonly adminKey = ADMIN_API_KEY,
  ) {}

  async spend(amount: number): Promise<string> {
    const id = await this.client.hold(this.tenant, amount);
    expectStatus(await this.client.commit(this.tenant, id, amount), 200);
    return id;
  }

  async report(): Promise<Json> {
    const headers = { 'x-admin-api-key': this.adminKey };
    const answer = await this.client.call('GET', `/ops/usage?tenant_id=${this.tenant.id}`, { headers });
    return expectStatus(answer, 200);
  }

  /** Waits until the archive has begun: what is packed before is not in it. */
  async begin(): Promise<void> {
    await eventually('the archive to begin', async () => (await this.report()).complete_through_ms > 0);
  }

  /** Waits for a report of the figures, and compares it with the balance. */
  async expectReport(charged: number, superseded: readonly [number, number]): Promise<void> {
    const report = await eventually(
      `a report of ${charged}`,
      async () => {
        const found = await this.report();
        return found.totals[0]?.charged === charged && found;
      },
      60_000,
    );
    expect(report).toMatchObject({
      gaps: [],
      totals: [{ charged, superseded: superseded[0], superseded_count: superseded[1] }],
    });
    const [, , spent, debt] = Object.values(await this.client.balances(this.tenant))[0]?.split(' ') ?? [];
    expect(Number(spent) + Number(debt)).toBe(charged);
  }
}

const identity = (): ArchiveIdentity =>
  JSON.parse(readFileSync(join(archive, 'archive.json'), 'utf8')) as ArchiveIdentity;

async function verify(): Promise<{ isSound: boolean; said: string[] }> {
  const said: string[] = [];
  const tell = (text: string): void => void said.push(text);
  return { isSound: await verifyArchive({ folder: archive, print: tell, warn: tell }), said };
}

const startOn = (redis: RedisServer, more: Settings = {}): Promise<Holdfast> =>
  Holdfast.start({
    REDIS_URL: redis.url,
    ARCHIVE_DIR: archive,
    HOLDFAST_ROLES: 'api,janitor,sweeper,archiver',
    ...QUICK,
    ...more,
  });

test('put back by hand, twice, the same work done differently is charged once', async () => {
  const redis = await startRedis({ appendonly: true, args: ['--appendfsync', 'always'] });
  let holdfast = await startOn(redis);
  const tenant = await holdfast.fundedTenant(1_000_000);
  let work = new Work(holdfast, tenant);
  await work.begin();
  await work.spend(1000);
  const [committed, expires, kept] = [
    await holdfast.hold(tenant, 700, LONG),
    await holdfast.hold(tenant, 100_000, LONG),
    await holdfast.hold(tenant, 50, LONG),
  ];
  await work.expectReport(1000, [0, 0]);
  cpSync(join(redis.dir, LOG), join(folder, 'backup', LOG), { recursive: true });

  // The lost time.
  expectStatus(await holdfast.commit(tenant, committed, 700), 200);
  expectStatus(await holdfast.commit(tenant, expires, 100_000), 200);
  await work.spend(300);
  await work.expectReport(102_000, [0, 0]);
  await holdfast.stop();
  await redis.stop();

  const putBack = async (dir: string): Promise<RedisServer> => {
    cpSync(join(folder, 'backup'), join(folder, dir), { recursive: true });
    const server = await startRedis({
      appendonly: true,
      dir: join(folder, dir),
      args: ['--appendfsync', 'always'],
    });
    holdfast = await startOn(server);
    work = new Work(holdfast, tenant);
    return server;
  };
  const second = await putBack('second');
  const holds = new StoredHolds(second.url);
  await holds.expireIn(expires, -1000);
  holds.close();
  expectStatus(await holdfast.commit(tenant, committed, 400), 200);
  await work.spend(7);
  await eventually(
    'the hold expires',
    async () => (await holdfast.commit(tenant, expires, 1)).status === 410,
    60_000,
  );
  await work.expectReport(1407, [101_000, 3]);
  expect(identity().epochs).toHaveLength(2);
  expect(await holdfast.metric('holdfast_archive_epochs_total')).toBe(1);
  await holdfast.stop();
  await second.stop();

  await putBack('third');
  expectStatus(await holdfast.commit(tenant, kept, 20), 200);
  await work.expectReport(1020, [101_407, 6]);
  expect(identity().epochs).toHaveLength(3);
  await holdfast.stop();
  const { isSound, said } = await verify();
  expect({ isSound, said }).toMatchObject({
    isSound: true,
    said: [
      expect.stringMatching(/^epoch 1: of deployment dep_/),
      expect.stringMatching(/^epoch 2: /),
      expect.stringMatching(/^epoch 3: /),
      'superseded: 6 charges of 101407 TOKENS',
      expect.stringMatching(/ 0 faults$/),
    ],
  });
}, 300_000);

test('an advance of the test clock by a month archives what real time would', async () => {
  const redis = await startRedis();
  // An hour, so that nothing is archived before the advance.
  const holdfast = await startOn(redis, { HOLDFAST_TEST_CLOCK: 'true', archiveFlushMs: 3_600_000 });
  try {
    const tenant = await holdfast.fundedTenant(100, {}, { overdraft_limit: { unit: 'TOKENS', amount: 50 } });
    await eventually(
      'the archive to begin',
      async () => (await readPlaces(holdfast.app.get(RedisService), 'charges')).size === 4,
    );
    const withDebt = await holdfast.hold(tenant, 90, { overage_policy: 'ALLOW_WITH_OVERDRAFT' });
    expectStatus(await holdfast.commit(tenant, withDebt, 120), 200);
    const other = await holdfast.fundedTenant(1000);
    const expires = await holdfast.hold(other, 9, { ttl_ms: 60_000, grace_period_ms: 0 });
    await advanceClock(holdfast, { by_ms: 31 * 86_400_000 });
    const later = await new Work(holdfast, other).spend(7);
    await advanceClock(holdfast, { by_ms: 7_200_000 });
    const { rows, gaps } = await eventually('all rows', async () => {
      const reading = await readArchive(archive, holdfast.app.get(RedisService));
      return reading.rows.length >= 3 && reading;
    });
    expect(gaps).toEqual([]);
    const rowOf = (id: string) => rows.find((row) => row['record_id'] === id);
    expect(rows).toHaveLength(3);
    expect(rowOf(withDebt)).toMatchObject({
      tenant: tenant.id,
      state: 'COMMITTED',
      charged: 120n,
      debt: 20n,
    });
    expect(rowOf(expires)).toMatchObject({ tenant: other.id, state: 'EXPIRED', charged: 0n, reserved: 9n });
    expect(rowOf(later)).toMatchObject({ tenant: other.id, state: 'COMMITTED', charged: 7n, reserved: 7n });
  } finally {
    await holdfast.stop();
  }
});

test('npm run restore takes the archive along, and what it has of later is superseded', async () => {
  buildService();
  const dataDir = join(folder, '.data');
  archive = join(dataDir, 'archive');
  const run = (name: string, ...words: string[]): void => {
    const env = { ...process.env, DATA_DIR: dataDir };
    const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'scripts', `${name}.mjs`), ...words], {
      env,
      encoding: 'utf8',
    });
    expect({ name, status, stderr }).toEqual({ name, status: 0, stderr: '' });
  };
  const start = (): Promise<ServiceProcess & { readonly url: string }> =>
    startService({ DATA_DIR: dataDir, archiveFlushMs: 0, archiveSettleMs: 0 });
  const stop = async (service: ServiceProcess): Promise<void> => {
    service.child.kill('SIGTERM');
    await service.ended;
  };
  let service = await start();
  const adminKey = readFileSync(join(dataDir, 'admin-api-key'), 'utf8').trim();
  const headers = { 'x-admin-api-key': adminKey };
  const client = new HoldfastClient(service.url);
  const admin = async (path: string, body: object): Promise<Json> =>
    expectStatus(await client.call('POST', path, { headers, body }), 201);
  await admin('/v1/admin/tenants', { tenant_id: 'acme', name: 'acme' });
  const { key_secret: key } = await admin('/v1/admin/api-keys', { tenant_id: 'acme', name: 'a' });
  await admin('/v1/admin/budgets', {
    tenant_id: 'acme',
    scope: 'tenant:acme',
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: 10_000 },
  });
  const tenant = { id: 'acme', key: key as string };
  const work = new Work(client, tenant, adminKey);
  await work.begin();
  await work.spend(1000);
  await work.expectReport(1000, [0, 0]);
  run('backup', join(folder, 'backup'));
  await work.spend(300);
  await work.expectReport(1300, [0, 0]);
  await stop(service);

  renameSync(dataDir, join(folder, 'lost'));
  cpSync(join(folder, 'lost', 'archive'), archive, { recursive: true });
  run('restore', join(folder, 'backup'));
  expect(identity().restoring).toBe(true);
  service = await start();
  const restored = new Work(new HoldfastClient(service.url), tenant, adminKey);
  await restored.spend(7);
  await restored.expectReport(1007, [300, 1]);
  const { epochs, restoring } = identity();
  expect([epochs.length, restoring, new Set(epochs.map((epoch) => epoch.deployment_id)).size]).toEqual([
    2,
    undefined,
    2,
  ]);
  await stop(service);
}, 300_000);
