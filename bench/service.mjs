// A separate Holdfast for the benchmark: the built service with its embedded Redis and the default settings.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startBuilt } from '../scripts/built-service.mjs';
import { ROOT, parseJson, redisBinary } from '../scripts/install.mjs';

const START_TIMEOUT_MS = 30_000;
const ADMIN_KEY = 'benchmark-admin-key';
const WEBHOOK_KEY = 'be'.repeat(32);
/** Everything else in the environment could change what is measured. */
const KEPT_ENVIRONMENT = ['PATH', 'HOME', 'TMPDIR', 'LANG'];
export const keptEnvironment = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => KEPT_ENVIRONMENT.includes(name)));

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
  const service = startBuilt(
    {
      ...keptEnvironment(),
      PORT: '0',
      HOST: '127.0.0.1',
      DATA_DIR: dataDir,
      ADMIN_API_KEY: ADMIN_KEY,
      WEBHOOK_SECRET_ENCRYPTION_KEY: WEBHOOK_KEY,
      ...(redis && { REDIS_URL: `redis://127.0.0.1:${redis.port}` }),
      ...settings,
    },
    { root },
  );
  const stop = async () => {
    await service.stop();
    await redis?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
  try {
    const late = delay(START_TIMEOUT_MS, undefined, { ref: false }).then(() => {
      throw new Error(`the service did not listen within ${START_TIMEOUT_MS / 1000} s`);
    });
    const { port } = (await Promise.race([service.listening, late])) ?? {};
    if (port === undefined) {
      throw new Error(`the service ended with exit code ${await service.ended}`);
    }
    return { port, pid: service.child.pid ?? 0, socket: join(dataDir, 'redis', 'redis.sock'), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * A Redis that keeps an append-only log, as docker-compose.yml has it, or nothing. It listens on a socket where the embedded one would, too.
 * @param {string} dataDir
 * @param {{ appendonly?: 'yes' | 'no' }} [how]
 */
export async function startRedis(dataDir, { appendonly = 'yes' } = {}) {
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
    [...places, '--save', '', '--appendonly', appendonly, '--maxmemory-policy', 'noeviction'],
    { cwd: folder, stdio: 'ignore' },
  );
  const ended = once(child, 'close');
  process.once('exit', () => child.kill());
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  return { port, stop };
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
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
 * @param {number} port
 * @param {string} url
 * @param {string} [tenant] whose events they are; without it, those of all tenants
 * @param {readonly string[]} [event_types]
 * @returns {Promise<string>} its id
 */
export async function subscribe(port, url, tenant, event_types = ['reservation.expired']) {
  const owner = tenant === undefined ? '' : `?tenant_id=${tenant}`;
  const made = await askAsAdmin(port, 'POST', `/v1/admin/webhooks${owner}`, { url, event_types });
  return /** @type {{ subscription: { subscription_id: string } }} */ (made).subscription.subscription_id;
}

/** @type {(port: number, tenant: string, scope: string, amount: number) => Promise<unknown>} */
export const addBudget = (port, tenant, scope, amount) =>
  askAsAdmin(port, 'POST', '/v1/admin/budgets', {
    tenant_id: tenant,
    scope,
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount },
  });

/** Below the tenant: three scopes. */
const BELOW = ['', '/workspace:prod', '/workspace:prod/agent:summarizer'];

/**
 * Makes a tenant, its key, and a budget at each scope that, unless said otherwise, nothing in the run can use up.
 * @param {number} port
 * @returns {Promise<import('./types.ts').Tenant>}
 */
export async function provision(port, tenant = 'bench', amount = 1e14, below = BELOW) {
  const admin = (/** @type {string} */ path, /** @type {unknown} */ body) =>
    askAsAdmin(port, 'POST', path, body);
  const extensions = { max_reservation_extensions: 2_147_483_647 };
  await admin('/v1/admin/tenants', { tenant_id: tenant, name: 'Benchmark', ...extensions });
  const key = await admin('/v1/admin/api-keys', { tenant_id: tenant, name: 'benchmark' });
  const scopes = below.map((path) => `tenant:${tenant}${path}`);
  for (const scope of scopes) {
    await addBudget(port, tenant, scope, amount);
  }
  return { tenant, scopes, keyId: String(key.key_id), apiKey: String(key.key_secret) };
}
