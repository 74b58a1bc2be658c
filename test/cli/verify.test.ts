import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { VERIFIED, verifyLedger } from '../../src/cli/verify.js';
import { budgetKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { ADMIN_API_KEY, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';

let redis: RedisServer;
let holdfast: Holdfast;
let stored: StoredHolds;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startRedis();
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 9_007_199_254_740_993n);
});

afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await stopAllRedis();
});

const askedLine = (): string =>
  `asked ${holdfast.url}: deployment ${holdfast.app.get(RedisService).deployment.id}`;

test('another deployment than the one that is meant is not verified', async () => {
  const { id } = holdfast.app.get(RedisService).deployment;
  expect(id).toMatch(/^dep_[A-Za-z0-9_-]{12}$/);
  expect((await verify({ deployment: id }))[0]).toBe(VERIFIED.sound);
  const [code, text] = await verify({ deployment: 'dep_another' });
  expect([code, text.split('\n')]).toEqual([
    VERIFIED.unknown,
    [
      askedLine(),
      `the ledger at ${holdfast.url} could not be verified: it is not deployment dep_another; another server answers at ${holdfast.url}`,
    ],
  ]);
  // A second instance of the same ledger is the same deployment.
  const second = await Holdfast.start({ REDIS_URL: redis.url });
  expect(second.app.get(RedisService).deployment).toEqual({ id });
  await second.stop();
});

async function verify(
  more: { baseUrl?: string; adminKey?: string; tenant?: string; deployment?: string } = {},
): Promise<[number, string]> {
  const lines: string[] = [];
  const code = await verifyLedger({
    baseUrl: holdfast.url,
    adminKey: ADMIN_API_KEY,
    print: (line) => lines.push(line),
    ...more,
  });
  return [code, lines.join('\n')];
}

test('a sound ledger is 0, drift is 1 with its scope and reservations, and a service that does not respond is 2', async () => {
  const id = await holdfast.hold(tenant, 5);
  expect(await verify()).toEqual([
    VERIFIED.sound,
    `${askedLine()}\nbudgets verified: 1; tenants: 1; no drift`,
  ]);
  const key = budgetKey(stored.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}`);
  await stored.redis.hincrby(key, 'reserved', 3);
  await stored.redis.hincrby(key, 'remaining', -3);
  const [code, text] = await verify({ tenant: tenant.id });
  expect(code).toBe(VERIFIED.unsound);
  expect(text).toContain(
    `drift at tenant:${tenant.id} in TOKENS of ${tenant.id}: RESERVED; expected 5, off by 3`,
  );
  expect(text).toContain('allocated 9007199254740993');
  expect(text).toContain(`  ${id} holds 5`);
  expect(text).toContain('budgets verified: 1; tenants: 1; drift: 1; unreadable reservations: 0');
  expect(await verify({ adminKey: 'a-wrong-admin-key-0' })).toEqual([
    VERIFIED.unknown,
    expect.stringContaining('answered 401'),
  ]);
  expect((await verify({ baseUrl: 'http://127.0.0.1:1' }))[0]).toBe(VERIFIED.unknown);
});

test('unreadable reservations are 1, even if no budget drifts', async () => {
  const other = await holdfast.fundedTenant(100n);
  const id = await holdfast.hold(other, 5);
  await stored.set(id, { am: 'five' });
  const key = budgetKey(stored.tagOfTenant(other.id), 'TOKENS', `tenant:${other.id}`);
  await stored.redis.hincrby(key, 'reserved', -5);
  await stored.redis.hincrby(key, 'remaining', 5);
  const [code, text] = await verify({ tenant: other.id });
  expect(text.split('\n')).toEqual([
    askedLine(),
    expect.stringContaining(`unreadable reservation ${id} of ${other.id}: `),
    'budgets verified: 1; tenants: 1; drift: 0; unreadable reservations: 1',
  ]);
  expect(code).toBe(VERIFIED.unsound);
});

const command = fileURLToPath(new URL('../../scripts/verify.mjs', import.meta.url));

test('the command asks the port of the operators', () => {
  // Nothing listens there, nor at the other one.
  const { status, stdout } = spawnSync(process.execPath, [command], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], ADMIN_API_KEY: 'x'.repeat(16), PORT: '2', ADMIN_PORT: '1' },
  });
  expect([status, stdout]).toEqual([2, expect.stringContaining('the ledger at http://127.0.0.1:1 ')]);
});

test('the command reports invalid options, which is not drift', () => {
  const { status, stderr } = spawnSync(process.execPath, [command, '--all'], { encoding: 'utf8' });
  expect(status).toBe(2);
  expect(stderr).toBe(
    'holdfast: "--all" is not an option of npm run verify; use --url <base URL>, --tenant <id> and --deployment <id>\n',
  );
});
