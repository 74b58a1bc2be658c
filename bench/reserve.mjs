// Reserve and commit over HTTP at three budgeted scopes, beside the raw limit of the same scripts on the same Redis.
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { unlessShort } from './duration.mjs';
import { median } from './report.mjs';
import { reserveResult } from './reserve-report.mjs';
import { cpuSecondsOf, provision, startService } from './service.mjs';
import { scriptCalls } from './workload.mjs';

const LEVELS = [1, 32];
const LEVEL_SECONDS = unlessShort(5, 1);
const SATURATING = 200;
/** Odd, for their median. */
const ROUNDS = unlessShort(5, 1);
const ROUND_SECONDS = unlessShort(3, 1);
const WARM_UP_SECONDS = unlessShort(3, 1);
const RAW_SECONDS = unlessShort(3, 1);
const COST_CALLS = unlessShort(20_000, 2000);
const MEMORY_SAMPLES = 500;
const PHASE_TIMEOUT_MS = 30_000;

export async function measure() {
  const service = await startService();
  const redis = new Redis({ path: service.socket, maxRetriesPerRequest: 1, retryStrategy: () => null });
  redis.on('error', () => undefined);
  const [raw, http] = [startLoad('./raw-load.mjs'), startLoad('./http-load.mjs')];
  try {
    const target = { ...(await provision(service.port)), run: randomBytes(4).toString('hex') };
    const bench = new ReserveBenchmark(service, redis, raw, http, target);
    return await reserveResult(redis, await bench.measure());
  } finally {
    raw.stop();
    http.stop();
    redis.disconnect();
    await service.stop();
  }
}

/** A load process; `ask(plan)` resolves with its result, and rejects when it fails or takes too long. */
export function startLoad(file, timeoutMs = PHASE_TIMEOUT_MS) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), { execArgv: [] });
  const ask = (plan) =>
    new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`${file}: no result within ${timeoutMs} ms`)), timeoutMs);
      child.removeAllListeners('message').removeAllListeners('exit');
      child.once('exit', (code) => fail(new Error(`${file} ended with exit code ${code}`)));
      child.once('message', ({ result, error }) => {
        clearTimeout(timer);
        if (error === undefined) {
          done(result);
        } else {
          fail(new Error(error));
        }
      });
      child.send(plan);
    });
  const stop = () => child.removeAllListeners('exit').kill('SIGKILL');
  return { ask, stop };
}

class ReserveBenchmark {
  /** Every operation of the run has a number of its own, and so its own idempotency keys. */
  next = 0;

  constructor(service, redis, raw, http, target) {
    Object.assign(this, { service, redis, raw, http, target });
  }

  async measure() {
    // Redis rewrites its log when it has doubled, which at this pace is every few seconds, and takes most of a processor for
    // it. Whether that falls into a phase would be chance, so it is held off, and shown in a phase of its own.
    await this.redis.config('SET', 'auto-aof-rewrite-percentage', 0);
    say('the cost of each script and the memory of a live reservation');
    const cost = await this.scriptCost();
    say('warming up');
    await this.saturate(32, WARM_UP_SECONDS);
    const rawBefore = await this.rawPairs();
    const levels = [];
    for (const connections of LEVELS) {
      levels.push(await this.saturate(connections, LEVEL_SECONDS));
    }
    const rounds = [];
    while (rounds.length < ROUNDS) {
      rounds.push(await this.round());
    }
    const rawAfter = await this.rawPairs();
    say('open loop at half of the rate while Redis rewrites its log');
    const rate = median(rounds.map(({ saturated }) => saturated.per_second)) / 2;
    await this.redis.bgrewriteaof();
    const rewriting = await this.paced(rate, LEVEL_SECONDS);
    return { cost, raw: [rawBefore, rawAfter], levels, rounds, rewriting };
  }

  /** What the service reaches, and at once the latencies at shares of that, before the machine's speed has drifted far. */
  async round() {
    const saturated = await this.saturate(SATURATING, ROUND_SECONDS);
    say(`open loop at half of ${Math.round(saturated.per_second)} operations a second, then at 80 %`);
    const half = await this.paced(saturated.per_second * 0.5, ROUND_SECONDS);
    const high = await this.paced(saturated.per_second * 0.8, ROUND_SECONDS);
    return { saturated, half, high };
  }

  async paced(rate, seconds) {
    return this.timed(this.http, { kind: 'paced', port: this.service.port, rate, seconds });
  }

  async rawPairs() {
    say('the raw limit');
    return this.timed(this.raw, { kind: 'pairs', socketPath: this.service.socket, seconds: RAW_SECONDS });
  }

  async saturate(connections, seconds) {
    say(`closed loop with ${connections} connection${connections === 1 ? '' : 's'}`);
    const result = await this.timed(this.http, {
      kind: 'closed',
      port: this.service.port,
      connections,
      seconds,
    });
    return { connections, ...result };
  }

  /** Runs one phase and adds the CPU seconds that each process spent in it. */
  async timed(load, plan) {
    const [serverBefore, redisBefore, allBefore] = [
      cpuSecondsOf(this.service.pid),
      await this.redisCpuSeconds(),
      machineCpuSeconds(),
    ];
    const result = await load.ask({ first: this.next, ...plan, target: this.target });
    this.next = Math.max(this.next, result.next);
    const [serverAfter, redisAfter, allAfter] = [
      cpuSecondsOf(this.service.pid),
      await this.redisCpuSeconds(),
      machineCpuSeconds(),
    ];
    const server_cpu_s = serverBefore === undefined ? undefined : serverAfter - serverBefore;
    const redis_cpu_s = redisAfter - redisBefore;
    const other_cpu_s = Math.max(0, allAfter - allBefore - (server_cpu_s ?? 0) - redis_cpu_s - result.cpu_s);
    return { ...result, server_cpu_s, redis_cpu_s, other_cpu_s };
  }

  async redisCpuSeconds() {
    const info = await this.redis.info('cpu');
    const read = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0);
    // The main thread counts, and the rewriting of the log, which a child does, counts to the ledger's costs too.
    return (
      read('used_cpu_user') +
      read('used_cpu_sys') +
      read('used_cpu_user_children') +
      read('used_cpu_sys_children')
    );
  }

  /** Microseconds of each script from the server's own statistics, and what the held reservations take meanwhile. */
  async scriptCost() {
    // The first calls pay for loading the script into memory and for growing tables; they are made beforehand.
    await this.timed(this.raw, { kind: 'pairs', socketPath: this.service.socket, count: 2000 });
    const first = this.next;
    const usedBefore = await this.usedMemory();
    const reserve = await this.costOf('reserve', first);
    const usedAfter = await this.usedMemory();
    const bytes = { growth: (usedAfter - usedBefore) / COST_CALLS, ...(await this.bytesPerHold(first)) };
    const commit = await this.costOf('commit', first);
    return { reserve, commit, bytes };
  }

  async costOf(kind, first) {
    await this.redis.config('RESETSTAT');
    const phase = await this.timed(this.raw, {
      kind,
      socketPath: this.service.socket,
      count: COST_CALLS,
      first,
    });
    const stats = /cmdstat_fcall:calls=(\d+),usec=\d+,usec_per_call=([\d.]+)/.exec(
      await this.redis.info('commandstats'),
    );
    if (Number(stats?.[1]) < COST_CALLS) {
      throw new Error(`INFO commandstats shows ${stats?.[1]} calls, not ${COST_CALLS}`);
    }
    return { us: Number(stats[2]), phase };
  }

  async usedMemory() {
    const info = await this.redis.info('memory');
    const read = (name) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
    // Buffers come and go with the load, and are no part of a reservation.
    return read('used_memory') - read('mem_aof_buffer') - read('mem_clients_normal');
  }

  /** MEMORY USAGE of a live reservation's own keys, and its share of the TTL index. */
  async bytesPerHold(first) {
    const calls = scriptCalls(this.target);
    const ttlIndex = `${calls.tag}ttl`;
    const pipeline = this.redis.pipeline();
    for (let index = 0; index < MEMORY_SAMPLES; index += 1) {
      for (const key of calls.keysOf(first + index * Math.floor(COST_CALLS / MEMORY_SAMPLES))) {
        pipeline.memory('USAGE', key);
      }
    }
    const sizes = (await pipeline.exec()).map(([, bytes]) => Number(bytes));
    const mean = (offset) =>
      sizes.reduce((sum, bytes, index) => sum + (index % 2 === offset ? bytes : 0), 0) / MEMORY_SAMPLES;
    const indexBytes =
      Number(await this.redis.memory('USAGE', ttlIndex, 'SAMPLES', 0)) / (await this.redis.zcard(ttlIndex));
    return {
      record: mean(0),
      idempotency: mean(1),
      index: indexBytes,
      total: mean(0) + mean(1) + indexBytes,
    };
  }
}

/** What all processes of the machine have used: what is none of ours shows whether the run had the machine to itself. */
export function machineCpuSeconds() {
  return cpus().reduce((sum, { times }) => sum + (times.user + times.nice + times.sys + times.irq) / 1000, 0);
}

export function say(text) {
  process.stderr.write(`bench: ${text} ...\n`);
}
