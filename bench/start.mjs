// How long a start takes until readiness is green: with a Redis that is running already, and with the embedded one.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { ROOT, redisBinary } from '../scripts/install.mjs';
import { cpuSecondsOf, machineCpuSeconds } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { aim, doubts, hundredths, ratioFigure, say, versionOf, whole } from './report.mjs';
import { startService } from './service.mjs';

/**
 * @typedef {import('./types.ts').Result} Result
 * @typedef {import('./types.ts').Shared & { ready_ms: number, cpu_s: number, store: string }} Start  of the process until `/health/ready` is 200
 * @typedef {{ root: string, redis: Awaited<ReturnType<typeof startRedis>> }} Checkout
 * @typedef {{ running: Start, embedded: Start }} Starts
 */

/** Odd, so that there is a median. */
const ROUNDS = unlessShort(11, 1);
const TARGET_MS = 1000;
const POLL_MS = 5;
const READY_TIMEOUT_MS = 30_000;
const KINDS = /** @type {const} */ ([
  ['running', 'a Redis that is running'],
  ['embedded', 'the embedded Redis, empty'],
]);

export async function measure() {
  const rounds = await measureStarts([ROOT], ROUNDS);
  const starts = rounds.flatMap((round) => round[0] ?? []);
  return resultOf(
    'Start',
    'npm run bench -- start',
    'From the start of the process until `/health/ready` is 200',
    {
      rows: starts.flatMap((round, index) => rowsOf(`${index + 1}`, [], round)),
      head: [],
      figures: KINDS.flatMap(([kind, text]) => {
        const all = starts.map((round) => round[kind]);
        const ready = all.map(({ ready_ms }) => ready_ms);
        const cpu = all.map(({ cpu_s }) => cpu_s);
        return [
          aim(`until ready, ${text}`, ready, { unit: ' ms', atMost: TARGET_MS }),
          aim(`CPU until ready, ${text}`, cpu, { text: hundredths, unit: ' s' }),
        ];
      }),
      starts,
    },
  );
}

/**
 * Measures the checkouts in turn. The one that goes first alternates from round to round.
 * @param {string} against the folder of the other checkout
 * @param {number | undefined} count of pairs
 */
export async function compareStart(against, count = ROUNDS) {
  const version = versionOf(against);
  const rounds = await measureStarts([ROOT, against], count);
  const pairs = rounds.flatMap(([ours, theirs]) => (ours && theirs ? [{ ours, theirs }] : []));
  const ratio = (/** @type {string} */ name, /** @type {(starts: Starts) => number} */ valueOf) =>
    ratioFigure(
      name,
      pairs.map(({ ours, theirs }) => valueOf(ours) / valueOf(theirs)),
    );
  return resultOf(
    `Start against ${version}`,
    'npm run bench -- start --against',
    `Starts of this checkout and of ${version}, in turn`,
    {
      rows: pairs.flatMap(({ ours, theirs }, index) => [
        ...rowsOf(`${index + 1}`, ['this'], ours),
        ...rowsOf(`${index + 1}`, [version], theirs),
      ]),
      head: ['checkout'],
      figures: KINDS.flatMap(([kind, text]) => [
        ratio(`until ready, ${text}`, (starts) => starts[kind].ready_ms),
        ratio(`CPU until ready, ${text}`, (starts) => starts[kind].cpu_s),
      ]),
      starts: pairs.flatMap(({ ours, theirs }) => [ours, theirs]),
    },
  );
}

/**
 * @param {string} title
 * @param {string} command
 * @param {string} subject
 * @param {{ rows: string[][], head: string[], figures: import('./types.ts').Figure[], starts: Starts[] }} measured
 * @returns {Result}
 */
function resultOf(title, command, subject, { rows, head, figures, starts }) {
  return {
    title,
    command,
    subject: `${subject}.`,
    store: starts[0]?.running.store ?? '',
    tables: [
      {
        head: ['round', ...head, 'Redis', 'ready ms', 'CPU s', 'CPU s: others'],
        rows,
        texts: head.length + 2,
      },
    ],
    figures,
    notes: doubts(starts.flatMap(({ running, embedded }) => [running, embedded])),
  };
}

/**
 * @param {string} round
 * @param {string[]} words
 * @param {Starts} starts
 */
function rowsOf(round, words, starts) {
  return KINDS.map(([kind, text]) => {
    const { ready_ms, cpu_s, other_cpu_s } = starts[kind];
    return [round, ...words, text, whole(ready_ms), hundredths(cpu_s), hundredths(other_cpu_s)];
  });
}

/**
 * Starts every checkout once with each kind of Redis, in each round. Each has a running Redis of its own, because a start removes the
 * functions of other versions. What is measured is a second start on the same Redis, with all files in the cache of the system.
 * @param {string[]} roots
 * @param {number} count
 * @returns {Promise<Starts[][]>} for each round, a measurement for each root
 */
async function measureStarts(roots, count) {
  /** @type {Checkout[]} */
  const checkouts = [];
  try {
    for (const root of roots) {
      const checkout = { root, redis: await startRedis() };
      checkouts.push(checkout);
      say('warming up');
      await measureKinds(checkout);
    }
    /** @type {Starts[][]} */
    const rounds = [];
    while (rounds.length < count) {
      say(`round ${rounds.length + 1} of ${count}`);
      /** @type {Starts[]} */
      const round = [];
      const order = checkouts.map((_, index) => index);
      for (const index of rounds.length % 2 === 0 ? order : order.reverse()) {
        round[index] = await measureKinds(/** @type {Checkout} */ (checkouts[index]));
      }
      rounds.push(round);
    }
    return rounds;
  } finally {
    await Promise.all(checkouts.map(({ redis }) => redis.stop()));
  }
}

/**
 * @param {Checkout} checkout
 * @returns {Promise<Starts>}
 */
async function measureKinds({ root, redis }) {
  const running = await measureStart(root, redis.version, { REDIS_URL: redis.url });
  return { running, embedded: await measureStart(root, redis.version, {}) };
}

/**
 * @param {string} root
 * @param {string} version of the Redis
 * @param {Readonly<Record<string, string>>} settings
 * @returns {Promise<Start>}
 */
async function measureStart(root, version, settings) {
  const ownCpu = () => process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6;
  const [machine, own, startedAt] = [machineCpuSeconds(), ownCpu(), performance.now()];
  const service = await startService(settings, root);
  try {
    while (!(await fetch(`http://127.0.0.1:${service.port}/health/ready`)).ok) {
      if (performance.now() - startedAt > READY_TIMEOUT_MS) {
        throw new Error(`the service was not ready within ${READY_TIMEOUT_MS} ms`);
      }
      await delay(POLL_MS);
    }
    const ready_ms = performance.now() - startedAt;
    const cpu_s = cpuSecondsOf(service.pid);
    const other_cpu_s = Math.max(0, machineCpuSeconds() - machine - (cpu_s || 0) - (ownCpu() - own));
    return { ready_ms, cpu_s, other_cpu_s, elapsed_s: ready_ms / 1000, store: `Redis ${version}` };
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
