// How long a start takes until readiness is green: with a Redis that is running already, and with the embedded one.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { redisBinary } from '../scripts/install.mjs';
import { cpuSecondsOf } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { aim, hundredths, say, tableOf, whole } from './report.mjs';
import { startService } from './service.mjs';

/**
 * @typedef {{ ready_ms: number, cpu_s: number }} Start  of the process until `/health/ready` is 200
 * @typedef {{ round: number, redis: string, start: Start }} Row
 */

/** Odd, so that there is a median. */
const ROUNDS = unlessShort(11, 1);
const TARGET_MS = 1000;
const POLL_MS = 5;
const READY_TIMEOUT_MS = 30_000;
const RUNNING = 'a Redis that is running';
const EMBEDDED = 'the embedded Redis, empty';

/**
 * What is measured is a second start on the same Redis, with all files in the cache of the system.
 * @returns {Promise<import('./types.ts').Measured>}
 */
export async function measure() {
  const redis = await startRedis();
  try {
    /** @type {Row[]} */
    const rows = [];
    for (let round = 0; round <= ROUNDS; round += 1) {
      say(round === 0 ? 'warming up' : `round ${round} of ${ROUNDS}`);
      rows.push({ round, redis: RUNNING, start: await measureStart({ REDIS_URL: redis.url }) });
      rows.push({ round, redis: EMBEDDED, start: await measureStart({}) });
    }
    return resultOf(rows.slice(2), redis.version);
  } finally {
    await redis.stop();
  }
}

/**
 * @param {Row[]} rows
 * @param {string} version of Redis
 * @returns {import('./types.ts').Measured}
 */
function resultOf(rows, version) {
  /** @type {Record<string, (row: Row) => string>} */
  const columns = {
    round: ({ round }) => String(round),
    Redis: ({ redis }) => redis,
    'ready ms': ({ start }) => whole(start.ready_ms),
    'CPU s': ({ start }) => hundredths(start.cpu_s),
  };
  return {
    title: 'Start',
    command: 'npm run bench -- start',
    subject: 'From the start of the process until `/health/ready` is 200.',
    store: `Redis ${version}`,
    tables: [tableOf(rows, columns, 2)],
    figures: [RUNNING, EMBEDDED].flatMap((kind) => {
      const starts = rows.filter(({ redis }) => redis === kind).map(({ start }) => start);
      const [ready, cpu] = [starts.map(({ ready_ms }) => ready_ms), starts.map(({ cpu_s }) => cpu_s)];
      return [
        aim(`until ready, ${kind}`, ready, { unit: ' ms', atMost: TARGET_MS }),
        aim(`CPU until ready, ${kind}`, cpu, { text: hundredths, unit: ' s' }),
      ];
    }),
  };
}

/**
 * @param {Readonly<Record<string, string>>} settings
 * @returns {Promise<Start>}
 */
async function measureStart(settings) {
  const startedAt = performance.now();
  const service = await startService(settings);
  try {
    while (!(await fetch(`http://127.0.0.1:${service.port}/health/ready`)).ok) {
      if (performance.now() - startedAt > READY_TIMEOUT_MS) {
        throw new Error(`the service was not ready within ${READY_TIMEOUT_MS} ms`);
      }
      await delay(POLL_MS);
    }
    return { ready_ms: performance.now() - startedAt, cpu_s: cpuSecondsOf(service.pid) };
  } finally {
    await service.stop();
  }
}

/** A Redis on loopback without persistence. */
async function startRedis() {
  const directory = mkdtempSync(join(tmpdir(), 'hf-bench-redis-'));
  const port = await freePort();
  const settings = { bind: '127.0.0.1', port: String(port), dir: directory, save: '' };
  const child = spawn(
    redisBinary() ?? 'redis-server',
    Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
    { stdio: 'ignore' },
  );
  const ended = once(child, 'exit');
  const kill = () => void child.kill();
  process.once('exit', kill);
  const redis = new Redis({ port, retryStrategy: () => 20 });
  redis.on('error', () => undefined);
  const [, version = 'unknown'] = /^redis_version:(\S+)/m.exec(await redis.info('server')) ?? [];
  redis.disconnect();
  const stop = async () => {
    kill();
    await ended;
    process.off('exit', kill);
    rmSync(directory, { recursive: true, force: true });
  };
  return { url: `redis://127.0.0.1:${port}`, version, stop };
}

/** @returns {Promise<number>} a port that nobody listens on */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}
