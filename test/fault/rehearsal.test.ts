import { once } from 'node:events';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { buildService, startService, type ServiceProcess } from '../support/built-service.js';
import { docBlocks } from '../support/doc-blocks.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, HoldfastClient, type Json, newKey } from '../support/holdfast.js';
import { startRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

/** The commands of docs/backup.md, against a live instance with a real subscriber. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** As if the backup were older than the hold's time to live. */
async function makeOverdue(dir: string, reservationId: string): Promise<void> {
  const redis = await startRedis({ appendonly: true, dir });
  const holds = new StoredHolds(redis.url);
  await holds.expireIn(reservationId, -1000);
  holds.close();
  await redis.stop();
}

/** What is in the folder, and itself, with its rights. */
function modesBelow(root: string): string[] {
  const paths = [root, ...readdirSync(root, { recursive: true }).map((path) => join(root, path as string))];
  const modes = paths.map((path) => {
    const found = statSync(path);
    return `${found.isDirectory() ? 'folder' : 'file'} ${(found.mode & 0o777).toString(8)}`;
  });
  return [...new Set(modes)].sort();
}

let folder: string;
let live: ServiceProcess & { readonly url: string };
let subscriber: WebhookReceiver;
let rehearsal: ChildProcess | undefined;

beforeEach(async () => {
  buildService();
  folder = mkdtempSync(join(tmpdir(), 'holdfast-rehearsal-'));
  subscriber = await WebhookReceiver.start();
  live = await startService({ DATA_DIR: join(folder, '.data'), LOG_LEVEL: 'info' });
}, 60_000);

afterEach(async () => {
  if (rehearsal?.exitCode === null) {
    rehearsal.kill('SIGTERM');
    await once(rehearsal, 'exit');
  }
  live.child.kill('SIGTERM');
  await live.ended;
  await subscriber.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('a rehearsed restore tells no subscriber anything, says what it does, and is checked as itself', async () => {
  const commands = docBlocks('docs/backup.md').map(({ code }) => code);
  const [backUp = '', rehearse = '', restore = ''] = commands;
  const env = { ...process.env, DATA_DIR: join(folder, '.data') };
  const sh = (
    code: string,
    more: Record<string, string> = {},
  ): { status: number | null; stdout: string; stderr: string } =>
    spawnSync(
      'sh',
      [
        '-ec',
        code.replace(/npm run (\w+)(?: --)?/, (_, name) => `${process.execPath} ${ROOT}scripts/${name}.mjs`),
      ],
      {
        cwd: folder,
        env: { ...env, ...more },
        encoding: 'utf8',
      },
    );

  // A hold that the copy has, and that the original settles afterwards.
  const adminKey = readFileSync(join(folder, '.data', 'admin-api-key'), 'utf8').trim();
  const client = new HoldfastClient(live.url);
  const admin = async (method: string, path: string, body?: unknown): Promise<Json> =>
    (await client.call(method, path, { body, headers: { 'x-admin-api-key': adminKey } })).body;
  await admin('PUT', '/v1/admin/config/webhook-security', { blocked_cidr_ranges: [], allow_http: true });
  await admin('POST', '/v1/admin/tenants', { tenant_id: 'acme', name: 'acme' });
  const { key_secret: key } = await admin('POST', '/v1/admin/api-keys', { tenant_id: 'acme', name: 'a' });
  const tenant = { id: 'acme', key: key as string };
  await admin('POST', '/v1/admin/budgets', {
    tenant_id: 'acme',
    scope: 'tenant:acme',
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: 100 },
  });
  await admin('POST', '/v1/admin/webhooks?tenant_id=acme', {
    url: subscriber.url,
    event_types: ['reservation.expired'],
  });
  const id = await client.hold(tenant, 5, { ttl_ms: 600_000, grace_period_ms: 0, idempotency_key: newKey() });
  // A backup that was killed has left this, and another one runs.
  const redis = new Redis(join(folder, '.data/redis/redis.sock'), { connectionName: 'holdfast-backup' });
  await redis.config('SET', 'auto-aof-rewrite-percentage', '0');
  expect(sh(backUp)).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('another backup of this ledger is being made'),
  });
  expect(existsSync(join(folder, 'backup'))).toBe(false);
  await redis.client('SETNAME', 'a-test');
  // A key may be a link to where an operator keeps secrets.
  const keyFile = join(folder, '.data', 'admin-api-key');
  renameSync(keyFile, join(folder, 'secret'));
  symlinkSync(join(folder, 'secret'), keyFile);
  expect(sh(backUp)).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/^copied \d+ bytes of the log, and admin-api-key, webhook-secret-key, to /),
  });
  expect(modesBelow(join(folder, 'backup'))).toEqual(['file 600', 'folder 700']);
  expect(lstatSync(join(folder, 'backup', 'admin-api-key')).isFile()).toBe(true);
  // Redis may rewrite its log again, as its operator has said.
  const threshold = async (): Promise<unknown> =>
    (await redis.config('GET', 'auto-aof-rewrite-percentage')).at(1);
  expect(await threshold()).toBe('100');
  await redis.config('SET', 'auto-aof-rewrite-percentage', '250');
  expect(sh('npm run backup -- another')).toMatchObject({ status: 0 });
  expect(await threshold()).toBe('250');
  redis.disconnect();
  expect(sh(backUp)).toMatchObject({ status: 1, stderr: expect.stringContaining('is not empty') });
  expectStatus(await client.commit(tenant, id, 5), 200);

  // The hold is overdue by the time of the restore.
  await makeOverdue(join(folder, 'backup', 'redis'), id);
  const { deployment_id: original } = await admin('GET', '/ops/verify');
  const sound = [
    `this ledger is a copy of deployment ${original}`,
    'it expires nothing by itself, and sends no webhooks',
    'budgets verified: 1; tenants: 1; no drift',
  ];
  const rehearsed = sh(rehearse);
  expect(rehearsed.status).toBe(0);
  sound.forEach((text) => expect(rehearsed.stdout).toContain(text));
  // A folder that is in use stays as it is.
  expect(sh(restore)).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('move what is there away first'),
  });
  expect(subscriber.received).toEqual([]);

  // Nor does one that is in use by the end of the rehearsal.
  const taken = join(folder, 'taken');
  // Before its first line, and so before the end, however long this process stands still.
  const takes = `
    import { mkdirSync, writeFileSync } from 'node:fs';
    const write = process.stdout.write.bind(process.stdout);
    process.stdout.write = (...args) => {
      mkdirSync(${JSON.stringify(taken)}, { recursive: true });
      writeFileSync(${JSON.stringify(join(taken, 'holdfast.lock'))}, '');
      return write(...args);
    };`;
  const late = spawn(
    process.execPath,
    [
      '--import',
      `data:text/javascript,${encodeURIComponent(takes)}`,
      join(ROOT, 'scripts/restore.mjs'),
      'backup',
    ],
    { cwd: folder, env: { ...env, DATA_DIR: taken }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let said = '';
  late.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const [code] = (await once(late, 'close')) as [number];
  expect([code, said]).toEqual([1, expect.stringContaining('move what is there away first')]);
  expect(readdirSync(taken)).toEqual(['holdfast.lock']);

  // The same by hand, to look around.
  cpSync(join(folder, 'backup'), join(folder, 'rehearsal'), { recursive: true });
  let log = '';
  rehearsal = spawn(process.execPath, [join(ROOT, '.test-dist/main.js')], {
    cwd: folder,
    env: { ...env, HOLDFAST_ROLES: 'api', HOST: '127.0.0.1', PORT: '0', DATA_DIR: 'rehearsal' },
  });
  for (const stream of [rehearsal.stdout, rehearsal.stderr]) {
    stream?.on('data', (chunk: Buffer) => (log += chunk.toString()));
  }
  await eventually(
    'the rehearsal listens or ends',
    () => log.includes('holdfast is listening') || rehearsal?.exitCode !== null,
  );
  expect(log).toContain(`this ledger is a copy of deployment ${original}`);
  expect(log).toContain('it expires nothing by itself, and sends no webhooks');

  const port = /"port":(\d+)[^\n]*holdfast is listening/.exec(log)?.[1] ?? fail('no port');

  const verify = 'npm run verify';
  const checked = sh(verify, { DATA_DIR: 'rehearsal', PORT: port });
  const own = readFileSync(join(folder, 'rehearsal', 'deployment-id'), 'utf8').trim();
  expect(own).not.toBe(original);
  expect(checked).toMatchObject({
    status: 0,
    stdout: expect.stringContaining(
      `asked http://127.0.0.1:${port}: deployment ${own}, a copy of ${original}\nbudgets verified: 1; tenants: 1; no drift`,
    ),
  });
  // Asked at the port of the original, the check of the copy does not pass.
  const wrong = sh(verify, { DATA_DIR: 'rehearsal', PORT: new URL(live.url).port });
  expect(wrong).toMatchObject({ status: 2, stdout: expect.stringContaining(`it is not deployment ${own}`) });

  // The copy finds the hold overdue, and still tells nobody.
  const copy = new HoldfastClient(`http://127.0.0.1:${port}`);
  expect((await copy.call('GET', `/v1/reservations/${id}`, { key: tenant.key })).status).toBe(410);
  expect(subscriber.received).toEqual([]);
  expect(existsSync(join(folder, 'backup', 'deployment-id'))).toBe(false);

  // With all roles, the same backup tells the subscriber what is not so.
  expect(sh(restore, { DATA_DIR: 'restored' })).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('restored to '),
  });
  expect(modesBelow(join(folder, 'restored'))).toEqual(['file 600', 'folder 700']);
  const restored = await startService({ DATA_DIR: join(folder, 'restored'), LOG_LEVEL: 'info' });
  await eventually('the subscriber hears of the hold', () => subscriber.received.length > 0, 30_000);
  expect(restored.output.stdout).toContain('sends the events of the copy to its webhook subscriptions');
  restored.child.kill('SIGTERM');
  await restored.ended;
}, 180_000);

test('a backup that is none, or whose log is damaged, is not restored', () => {
  const restore = (backup: string): { status: number | null; stderr: string } =>
    spawnSync(process.execPath, [join(ROOT, 'scripts/restore.mjs'), join(folder, backup)], {
      env: { PATH: process.env['PATH'], DATA_DIR: join(folder, 'new') },
      encoding: 'utf8',
    });
  mkdirSync(join(folder, 'nothing'));
  expect(restore('nothing')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('is no data of a Holdfast'),
  });
  cpSync(join(folder, '.data'), join(folder, 'damaged'), {
    recursive: true,
    filter: (path) => !path.endsWith('.sock'),
  });
  const log = join(folder, 'damaged', 'redis', 'appendonlydir');
  const fileOf = (ending: string): string =>
    join(log, readdirSync(log).find((name) => name.endsWith(ending)) ?? fail(`no ${ending}`));
  writeFileSync(fileOf('.incr.aof'), 'no log of Redis\n');
  expect(restore('damaged')).toMatchObject({ status: 1, stderr: expect.stringContaining('did not start') });
  // Redis would start empty, and an empty ledger balances.
  rmSync(fileOf('.manifest'));
  expect(restore('damaged')).toMatchObject({ status: 1, stderr: expect.stringContaining('there is no log') });
  expect(existsSync(join(folder, 'new'))).toBe(false);
}, 120_000);

function fail(problem: string): never {
  throw new Error(problem);
}
