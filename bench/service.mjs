// A Holdfast of the benchmark's own: the built service on its embedded Redis, with the defaults that everybody gets.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ADMIN_KEY = 'benchmark-admin-key';
const WEBHOOK_KEY = 'be'.repeat(32);
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;
const CLOCK_TICKS_PER_SECOND = 100;
/** Everything else in the environment could change what is measured. */
const KEPT_ENVIRONMENT = ['PATH', 'HOME', 'TMPDIR', 'LANG'];

/** Starts the service and waits until it listens. `stop()` ends it and its Redis, and removes their data. `settings` are variables beside the defaults. */
export async function startService(settings = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'hf-bench-'));
  const file = (path) => fileURLToPath(new URL(path, import.meta.url));
  const kept = KEPT_ENVIRONMENT.flatMap((name) =>
    process.env[name] === undefined ? [] : [[name, process.env[name]]],
  );
  const child = spawn(
    process.execPath,
    ['--import', file('../scripts/stop-with-parent.mjs'), file('../dist/main.js')],
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
        ...settings,
      },
    },
  );
  const ended = new Promise((done) => child.once('close', done));
  const stop = async () => {
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
    rmSync(dataDir, { recursive: true, force: true });
  };
  try {
    const port = await listeningPort(child, ended);
    return { port, pid: child.pid, socket: join(dataDir, 'redis', 'redis.sock'), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function listeningPort(child, ended) {
  return new Promise((done, fail) => {
    const timer = setTimeout(
      () => fail(new Error(`the service did not listen within ${START_TIMEOUT_MS} ms`)),
      START_TIMEOUT_MS,
    );
    let text = '';
    // Reading goes on after the start, or the service would block on a full pipe.
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      text = (text + chunk).slice(-10_000);
      const port = /"port":(\d+)[^\n]*"holdfast is listening"/.exec(text)?.[1];
      if (port !== undefined) {
        clearTimeout(timer);
        done(Number(port));
      }
    });
    ended.then((code) => fail(new Error(`the service ended with exit code ${code}`)), fail);
  });
}

/** CPU seconds that a process has used, from /proc; undefined where there is none. */
export function cpuSecondsOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS_PER_SECOND;
  } catch {
    return undefined;
  }
}

export const adminHeaders = { 'X-Admin-API-Key': ADMIN_KEY };

/** One operation with the operator's key. */
export async function askAsAdmin(port, method, path, body) {
  const headers = { 'Content-Type': 'application/json', ...adminHeaders };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers,
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`${path}: ${response.status} ${text}`);
  }
  return JSON.parse(text);
}

/** Makes a tenant, its key, and a budget at each of three scopes that nothing in the run can use up. */
export async function provision(port, tenant = 'bench') {
  const admin = (path, body) => askAsAdmin(port, 'POST', path, body);
  await admin('/v1/admin/tenants', { tenant_id: tenant, name: 'Benchmark' });
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
      allocated: { unit: 'TOKENS', amount: 1e15 },
    });
  }
  return { tenant, scopes, keyId: key.key_id, apiKey: key.key_secret };
}
