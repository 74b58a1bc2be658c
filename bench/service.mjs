// A separate Holdfast for the benchmark: the built service with its embedded Redis and the default settings.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, nodeOptionsOf, parseJson, redisBinary } from '../scripts/install.mjs';

const ADMIN_KEY = 'benchmark-admin-key';
const WEBHOOK_KEY = 'be'.repeat(32);
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;
const STOP_WITH_PARENT = new URL('../scripts/stop-with-parent.mjs', import.meta.url).href;
/** Everything else in the environment could change what is measured. */
const KEPT_ENVIRONMENT = ['PATH', 'HOME', 'TMPDIR', 'LANG'];

/**
 * Starts the service and waits until it listens. `stop()` ends it and its Redis, and removes their data.
 * @param {Readonly<Record<string, string>>} settings variables beside the defaults
 * @param {string} root the built checkout to start it from
 * @param {boolean} isExternal whether it gets the address of a Redis instead of starting one
 * @returns {Promise<import('./types.ts').Service>}
 */
export async function startService(settings = {}, root = ROOT, isExternal = false) {
  const dataDir = mkdtempSync(join(tmpdir(), 'hf-bench-'));
  const redis = isExternal ? await startRedis(dataDir) : undefined;
  const kept = Object.entries(process.env).filter(([name]) => KEPT_ENVIRONMENT.includes(name));
  const child = spawn(
    process.execPath,
    [...nodeOptionsOf(root), '--import', STOP_WITH_PARENT, join(root, 'dist', 'main.js')],
    {
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        ...Object.fromEntries(kept),
        PORT: '0',
        HOST: '127.0.0.1',
        DATA_DIR: dataDir,
        ADMIN_API_KEY: ADMIN_KEY,
        WEBHOOK_SECRET_ENCRYPTION_KEY: WEBHOOK_KEY,
        ...(redis && { REDIS_URL: redis.url }),
        ...settings,
      },
    },
  );
  /** @type {Promise<number | null>} */
  const ended = new Promise((done) => child.once('close', done));
  const stop = async () => {
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
    await redis?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
  try {
    const port = await listeningPort(child, ended);
    return { port, pid: child.pid ?? 0, socket: join(dataDir, 'redis', 'redis.sock'), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * A Redis that keeps an append-only log, as docker-compose.yml has it. It listens on a socket where the embedded one would, too.
 * @param {string} dataDir
 */
async function startRedis(dataDir) {
  const folder = join(dataDir, 'redis');
  mkdirSync(folder);
  const port = await freePort();
  const places = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--unixsocket',
    'redis.sock',
    '--dir',
    folder,
  ];
  const child = spawn(
    redisBinary() ?? 'redis-server',
    [...places, '--save', '', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction'],
    { cwd: folder, stdio: 'ignore' },
  );
  const ended = once(child, 'close');
  process.once('exit', () => child.kill());
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  return { url: `redis://127.0.0.1:${port}`, stop };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * @param {import('node:child_process').ChildProcessByStdio<import('node:stream').Writable, import('node:stream').Readable, null>} child
 * @param {Promise<number | null>} ended
 * @returns {Promise<number>}
 */
function listeningPort(child, ended) {
  return new Promise((done, fail) => {
    const timer = setTimeout(
      () => fail(new Error(`the service did not listen within ${START_TIMEOUT_MS} ms`)),
      START_TIMEOUT_MS,
    );
    let text = '';
    // Keeps reading after the start, or the service would block on a full pipe.
    child.stdout.setEncoding('utf8').on('data', (/** @type {string} */ chunk) => {
      text = (text + chunk).slice(-10_000);
      const port = /"port":(\d+)[^\n]*"holdfast is listening"/.exec(text)?.[1];
      if (port !== undefined) {
        clearTimeout(timer);
        done(Number(port));
      }
    });
    void ended.then((code) => fail(new Error(`the service ended with exit code ${code}`)));
  });
}

export const adminHeaders = { 'X-Admin-API-Key': ADMIN_KEY };

/**
 * One operation with the operator's key.
 * @param {number} port
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<Record<string, unknown>>}
 */
export async function askAsAdmin(port, method, path, body) {
  const headers = { 'Content-Type': 'application/json', ...adminHeaders };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`${path}: ${response.status} ${text}`);
  }
  return /** @type {Record<string, unknown>} */ (parseJson(text));
}

/**
 * Lets subscriptions name endpoints on loopback.
 * @param {number} port
 */
export function allowLocalWebhooks(port) {
  return askAsAdmin(port, 'PUT', '/v1/admin/config/webhook-security', {
    blocked_cidr_ranges: [],
    allow_http: true,
  });
}

/**
 * Makes a tenant, its key, and a budget at each of three scopes that nothing in the run can use up.
 * @param {number} port
 * @returns {Promise<import('./types.ts').Tenant>}
 */
export async function provision(port, tenant = 'bench') {
  const admin = (/** @type {string} */ path, /** @type {unknown} */ body) =>
    askAsAdmin(port, 'POST', path, body);
  const extensions = { max_reservation_extensions: 2_147_483_647 };
  await admin('/v1/admin/tenants', { tenant_id: tenant, name: 'Benchmark', ...extensions });
  const key = await admin('/v1/admin/api-keys', { tenant_id: tenant, name: 'benchmark' });
  const scopes = [
    `tenant:${tenant}`,
    `tenant:${tenant}/workspace:prod`,
    `tenant:${tenant}/workspace:prod/agent:summarizer`,
  ];
  for (const scope of scopes) {
    await admin('/v1/admin/budgets', {
      tenant_id: tenant,
      scope,
      unit: 'TOKENS',
      allocated: { unit: 'TOKENS', amount: 1e14 },
    });
  }
  return { tenant, scopes, keyId: String(key.key_id), apiKey: String(key.key_secret) };
}

/**
 * Makes a tenant with one budget.
 * @param {number} port
 * @param {string} tenant
 * @param {number} allocated
 * @returns {Promise<string>} its API key
 */
export async function tenantWithBudget(port, tenant, allocated) {
  await askAsAdmin(port, 'POST', '/v1/admin/tenants', { tenant_id: tenant, name: tenant });
  await askAsAdmin(port, 'POST', '/v1/admin/budgets', {
    tenant_id: tenant,
    scope: `tenant:${tenant}`,
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: allocated },
  });
  const key = await askAsAdmin(port, 'POST', '/v1/admin/api-keys', { tenant_id: tenant, name: 'bench' });
  return String(key.key_secret);
}
