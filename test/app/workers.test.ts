import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { request } from 'undici';
import { buildService, type ServiceProcess, spawnService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import type { Settings } from '../support/settings.js';

const ADMIN_API_KEY = 'admin-key-for-tests-only';
const REDIS = /redis-server|valkey-server/;
const REQUESTS = 'http_server_requests_seconds_count';
const MISSED = 'holdfast_worker_reports_missed_total';

type Service = ServiceProcess & { readonly url: string };

const started: ServiceProcess[] = [];
let dataDir = '';

beforeAll(buildService, 120_000);

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'holdfast-test-workers-'));
});

afterEach(async () => {
  for (const { child, ended } of started.splice(0)) {
    child.kill('SIGTERM');
    await ended;
  }
  rmSync(dataDir, { recursive: true, force: true });
});

/** Two workers that use the embedded Redis of their parent. */
function settings(env: Settings): Settings {
  return {
    HOST: '127.0.0.1',
    PORT: '0',
    HOLDFAST_WORKERS: '2',
    ADMIN_API_KEY,
    DATA_DIR: dataDir,
    ...env,
  };
}

async function start(env: Settings = {}): Promise<Service> {
  const service = await startService(settings(env));
  started.push(service);
  return service;
}

async function endOf(env: Settings): Promise<{ code: number | string; stderr: string }> {
  const service = spawnService(settings(env));
  started.push(service);
  return { code: await service.ended, stderr: service.output.stderr };
}

/** Uses a new connection each time, because the parent distributes connections in turn. */
async function get(url: string): Promise<{ status: number; text: string }> {
  const response = await request(url, { reset: true, headers: { 'x-admin-api-key': ADMIN_API_KEY } });
  return { status: response.statusCode, text: await response.body.text() };
}

async function metric(service: Service, name: string, label = ''): Promise<number> {
  return valueIn((await get(`${service.url}/metrics`)).text, name, label);
}

function valueIn(text: string, name: string, label = ''): number {
  const row = text.split('\n').find((line) => line.startsWith(`${name}{`) && line.includes(label));
  return row === undefined ? Number.NaN : Number(row.slice(row.lastIndexOf(' ')));
}

function childrenOf({ child }: ServiceProcess, command: RegExp): number[] {
  return readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
    .split(' ')
    .filter((pid) => pid !== '' && command.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')))
    .map(Number);
}

const workersOf = (service: ServiceProcess): number[] => childrenOf(service, /main\.js/);

/**
 * Sends nothing: a connection that the parent accepts while its last worker closes waits until the parent
 * exits.
 */
async function isRefused(url: string): Promise<boolean> {
  const probe = connect(Number(new URL(url).port), '127.0.0.1');
  try {
    await once(probe, 'connect');
    return false;
  } catch {
    return true;
  } finally {
    probe.destroy();
  }
}

/** Open connections that have been answered, each of another worker than the one before. */
async function connectionsOf({ url }: Service, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let made = 0; made < count; made += 1) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data');
    sockets.push(socket);
  }
  return sockets;
}

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}

function countOf(text: string, part: string): number {
  return text.split(part).length - 1;
}

test('two workers share both ports, the sweep and one embedded Redis, and one serves the metrics of both', async () => {
  const service = await start({ ADMIN_PORT: '0', rateLimitPublicPerMinute: 2 });
  const statuses: number[] = [];
  for (let count = 0; count < 6; count += 1) {
    statuses.push((await get(`${service.url}/openapi.json`)).status);
  }
  // Each worker limits only the requests that it serves itself.
  expect(statuses).toEqual([200, 200, 200, 200, 429, 429]);

  const adminUrl = `http://127.0.0.1:${/"admin_port":(\d+)/.exec(service.output.stdout)?.[1]}`;
  for (let count = 0; count < 4; count += 1) {
    expect((await get(`${adminUrl}/health/live`)).status).toBe(200);
  }
  await eventually('the workers share the sweep', async () => {
    const { text } = await get(`${adminUrl}/metrics`);
    return (
      valueIn(text, 'holdfast_sweep_instances') === 2 && valueIn(text, 'holdfast_sweep_leases_held') === 64
    );
  });
  // Both workers withhold it from the other port.
  for (let count = 0; count < 4; count += 1) {
    expect((await get(`${service.url}/metrics`)).status).toBe(404);
  }
  for (const asked of ['first', 'second']) {
    const { text } = await get(`${adminUrl}/metrics`);
    expect({
      asked,
      live: valueIn(text, REQUESTS, 'uri="/health/live"'),
      ready: valueIn(text, 'holdfast_ready'),
      serving: valueIn(text, 'holdfast_workers_serving'),
      starts: countOf(text, '\nprocess_start_time_seconds{'),
    }).toEqual({ asked, live: 4, ready: 1, serving: 2, starts: 1 });
  }
  expect(countOf(service.output.stdout, 'holdfast is listening')).toBe(1);
  expect(countOf(service.output.stdout, 'started the embedded Redis')).toBe(1);
});

describe('a worker that hangs', () => {
  test('is replaced and counted, and its connections are cut, so that others serve their clients', async () => {
    const service = await start();
    const [frozen = 0, other = 0] = workersOf(service);
    const open = await connectionsOf(service, 4);
    process.kill(frozen, 'SIGSTOP');
    const cut = open.map((socket) => new Promise<void>((done) => socket.once('close', done)));
    await eventually(
      'it is replaced',
      () => workersOf(service).length === 2 && !workersOf(service).includes(frozen),
    );
    expect(workersOf(service)).toContain(other);
    await Promise.race(cut);
    open.forEach((socket) => socket.destroy());
    await eventually('both serve', async () => (await metric(service, 'holdfast_workers_serving')) === 2);
    expect(await metric(service, 'holdfast_workers_replaced_total', 'why="hung"')).toBe(1);
    expect(await metric(service, 'holdfast_workers_replaced_total', 'why="ended"')).toBe(0);
    expect(service.output.stdout).toMatch(new RegExp(`"pid":${frozen},.*A WORKER PROCESS HANGS; killing it`));
    for (let count = 0; count < 4; count += 1) {
      expect((await get(`${service.url}/health/live`)).status).toBe(200);
    }
  });

  test('does not keep SIGTERM from ending the service with 0 and without a process left', async () => {
    const service = await start();
    const workers = workersOf(service);
    const redis = childrenOf(service, REDIS);
    process.kill(workers[0] as number, 'SIGSTOP');
    service.child.kill('SIGTERM');
    // The parent ends itself with 1 when its 10 s are over.
    expect(await service.ended).toBe(0);
    expect([...workers, ...redis].filter(isAlive)).toEqual([]);
    expect(service.output.stderr).toBe('');
  });
});

describe('a service that continues', () => {
  let service: Service;
  let ownDir = '';

  beforeAll(async () => {
    ownDir = mkdtempSync(join(tmpdir(), 'holdfast-test-workers-'));
    service = await startService(settings({ DATA_DIR: ownDir }));
  });
  afterAll(async () => {
    service.child.kill('SIGTERM');
    await service.ended;
    rmSync(ownDir, { recursive: true, force: true });
  });

  /** 0 before the first request. */
  const requests = async (): Promise<number> => (await metric(service, REQUESTS, 'uri="/health/live"')) || 0;

  test.each(['SIGKILL', 'SIGTERM'] as const)(
    'replaces and counts a worker that gets %s, requests continue, and no counter falls',
    async (signal) => {
      const ended = countOf(service.output.stdout, 'A WORKER PROCESS ENDED');
      const replaced = await metric(service, 'holdfast_workers_replaced_total');
      const served = await requests();
      for (let count = 0; count < 4; count += 1) {
        await get(`${service.url}/health/live`);
      }
      await eventually('all are counted', async () => (await requests()) === served + 4);
      const before = workersOf(service);
      process.kill(before[0] as number, signal);
      await eventually(
        'the parent has noticed',
        () => countOf(service.output.stdout, 'A WORKER PROCESS ENDED') > ended,
      );
      expect((await get(`${service.url}/health/live`)).status).toBe(200);
      await eventually('no count is lost', async () => (await requests()) === served + 5);
      await eventually(
        'it is replaced',
        async () => (await metric(service, 'holdfast_workers_serving')) === 2,
      );
      expect(await metric(service, 'holdfast_workers_replaced_total')).toBe(replaced + 1);
      expect(await requests()).toBe(served + 5);
      expect(workersOf(service).filter((pid) => !before.includes(pid))).toHaveLength(1);
      expect(countOf(service.output.stdout, 'A WORKER PROCESS ENDED')).toBe(ended + 1);
    },
  );

  test('restarts an embedded Redis that dies, once, by the parent', async () => {
    const redis = childrenOf(service, REDIS);
    process.kill(redis[0] as number, 'SIGKILL');
    await eventually(
      'it is back',
      async () =>
        // The workers may not have noticed yet that it has died.
        childrenOf(service, REDIS).some((pid) => !redis.includes(pid)) &&
        (await metric(service, 'holdfast_embedded_redis_restarts_total')) === 1 &&
        (await metric(service, 'holdfast_ready')) === 1,
    );
    expect(childrenOf(service, REDIS)).toHaveLength(1);
  });

  test('misses and counts a worker that does not report, whose last known counts stay in the sum', async () => {
    const served = await requests();
    await Promise.all([get(`${service.url}/health/live`), get(`${service.url}/health/live`)]);
    await eventually('both are counted', async () => (await requests()) === served + 2);
    const missedBefore = (await metric(service, MISSED)) || 0;
    const [frozen = 0] = workersOf(service);
    process.kill(frozen, 'SIGSTOP');
    try {
      // One of these connections goes to the frozen worker.
      const scrapes = [1, 2].map(() => get(`${service.url}/metrics`));
      const { text } = await Promise.any(scrapes);
      expect(valueIn(text, REQUESTS, 'uri="/health/live"')).toBe(served + 2);
      expect(valueIn(text, MISSED)).toBe(missedBefore + 1);
      const missed = new RegExp(`"pid":${frozen},.*a worker did not report its metrics in time`);
      await eventually('the miss is logged', () => missed.test(service.output.stdout));
      process.kill(frozen, 'SIGCONT');
      await Promise.all(scrapes);
    } finally {
      process.kill(frozen, 'SIGCONT');
    }
  });
});

test.each(['to the parent', 'to every process, as from a terminal'])(
  'SIGTERM %s completes requests in flight and leaves no process behind',
  async (receiver) => {
    const service = await start();
    const workers = workersOf(service);
    const redis = childrenOf(service, REDIS);
    expect([workers.length, redis.length]).toEqual([2, 1]);
    const open = connect(Number(new URL(service.url).port), '127.0.0.1');
    open.write(
      'POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n',
    );
    expect(String((await once(open, 'data'))[0])).toContain('100 Continue');
    service.child.kill('SIGTERM');
    if (receiver !== 'to the parent') {
      workers.forEach((pid) => process.kill(pid, 'SIGTERM'));
    }
    await eventually('nothing listens', () => isRefused(service.url));
    open.write('{}');
    expect(String((await once(open, 'data'))[0])).toContain('HTTP/1.1 401');
    expect(await service.ended).toBe(0);
    expect([...workers, ...redis].filter(isAlive)).toEqual([]);
    expect(existsSync(join(dataDir, 'holdfast.lock'))).toBe(false);
    expect(service.output.stderr).toBe('');
  },
);

test('the workers of a killed parent end, and the next start takes over the data', async () => {
  const service = await start();
  const workers = workersOf(service);
  service.child.kill('SIGKILL');
  expect(await service.ended).toBe('SIGKILL');
  await eventually('the workers have ended', () => workers.every((pid) => !isAlive(pid)));
  const next = await start();
  expect((await get(`${next.url}/health/ready`)).status).toBe(200);
});

test('a worker that cannot start ends the parent, which says why once and stops its Redis', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  const { code, stderr } = await endOf({ PORT: String(port) });
  taken.close();
  expect({ code, lines: stderr.trim().split('\n') }).toEqual({
    code: 1,
    lines: [
      `holdfast: PORT ${port} on 127.0.0.1 is already in use; set PORT to a free port`,
      'holdfast: a worker process ended before it served (exit code 1)',
    ],
  });
  expect(existsSync(join(dataDir, 'holdfast.lock'))).toBe(false);
});

test('an embedded Redis that does not run ends the start immediately with its last output', async () => {
  const binary = join(dataDir, 'redis-server');
  writeFileSync(binary, '#!/bin/sh\necho "it is broken"\nexit 1\n');
  chmodSync(binary, 0o755);
  const { code, stderr } = await endOf({ PATH: `${dataDir}:${process.env['PATH'] ?? ''}` });
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'holdfast: the embedded Redis is not running (it is broken)\n',
  });
});
