// Reserve and commit over HTTP at three budgeted scopes, compared with the raw limit of the same scripts on
// the same Redis.
import { usedMemory } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { HttpDriver } from './http-driver.mjs';
import { startRawLoad } from './load.mjs';
import { median, say } from './report.mjs';
import { reserveResult } from './reserve-report.mjs';
import { scriptCalls } from './workload.mjs';

const LEVELS = [1, 32];
const LEVEL_SECONDS = unlessShort(5, 1);
const SATURATING = 200;
/** Odd, so that there is a median. */
const ROUNDS = unlessShort(5, 1);
const ROUND_SECONDS = unlessShort(3, 1);
const WARM_UP_SECONDS = unlessShort(3, 1);
const RAW_SECONDS = unlessShort(3, 1);
const COST_CALLS = unlessShort(20_000, 2000);
const MEMORY_SAMPLES = 500;

export async function measure() {
  const driver = await HttpDriver.start();
  const raw = startRawLoad();
  try {
    return await reserveResult(driver.redis, await new ReserveBenchmark(driver, raw).measure());
  } finally {
    raw.stop();
    await driver.stop();
  }
}

class ReserveBenchmark {
  /**
   * @param {HttpDriver} driver
   * @param {import('./types.ts').RawLoad} raw
   */
  constructor(driver, raw) {
    this.driver = driver;
    this.redis = driver.redis;
    this.raw = raw;
  }

  /** @returns {Promise<import('./reserve-report.mjs').ReserveMeasurement>} */
  async measure() {
    say('the cost of each script and the memory of a live reservation');
    const cost = await this.scriptCost();
    say('warming up');
    await this.driver.saturate(32, WARM_UP_SECONDS);
    const rawBefore = await this.rawPairs();
    const levels = [];
    for (const connections of LEVELS) {
      levels.push(await this.driver.saturate(connections, LEVEL_SECONDS));
    }
    const rounds = [];
    while (rounds.length < ROUNDS) {
      rounds.push(await this.round());
    }
    const rawAfter = await this.rawPairs();
    say('open loop at half of the rate while Redis rewrites its log');
    const rate = median(rounds.map(({ saturated }) => saturated.per_second)) / 2;
    await this.redis.bgrewriteaof();
    const rewriting = await this.driver.paced(rate, LEVEL_SECONDS);
    return { cost, raw: [rawBefore, rawAfter], levels, rounds, rewriting };
  }

  /**
   * The throughput that the service reaches, and immediately the latencies at shares of that, before the
   * machine's speed has drifted far.
   */
  async round() {
    const saturated = await this.driver.saturate(SATURATING, ROUND_SECONDS);
    say(`open loop at half of ${Math.round(saturated.per_second)} operations a second, then at 80 %`);
    const half = await this.driver.paced(saturated.per_second * 0.5, ROUND_SECONDS);
    const high = await this.driver.paced(saturated.per_second * 0.8, ROUND_SECONDS);
    return { saturated, half, high };
  }

  rawPairs() {
    say('the raw limit');
    return this.driver.timed((first) => this.askRaw({ kind: 'pairs', seconds: RAW_SECONDS, first }));
  }

  /** @param {Pick<import('./types.ts').RawPlan, 'kind' | 'count' | 'seconds' | 'first'>} plan */
  askRaw(plan) {
    const { service, target } = this.driver;
    return this.raw.ask({ ...plan, socketPath: service.socket, target });
  }

  /**
   * Microseconds per script from the server's own statistics, and the memory that the reservations take
   * meanwhile.
   */
  async scriptCost() {
    // The first calls load the script into memory and grow tables, so they are made beforehand.
    await this.driver.timed((first) => this.askRaw({ kind: 'pairs', count: 2000, first }));
    const first = this.driver.next;
    const usedBefore = await usedMemory(this.redis);
    const reserve = await this.costOf('reserve', first);
    const usedAfter = await usedMemory(this.redis);
    const bytes = { growth: (usedAfter - usedBefore) / COST_CALLS, ...(await this.bytesPerHold(first)) };
    const commit = await this.costOf('commit', first);
    return { reserve, commit, bytes };
  }

  /**
   * @param {'reserve' | 'commit'} kind
   * @param {number} first
   */
  async costOf(kind, first) {
    await this.redis.config('RESETSTAT');
    const phase = await this.driver.timed(() => this.askRaw({ kind, count: COST_CALLS, first }));
    const [, calls, us] =
      /cmdstat_fcall:calls=(\d+),usec=\d+,usec_per_call=([\d.]+)/.exec(
        await this.redis.info('commandstats'),
      ) ?? [];
    if (calls === undefined || Number(calls) < COST_CALLS) {
      throw new Error(`INFO commandstats shows ${calls} calls, not ${COST_CALLS}`);
    }
    return { us: Number(us), phase };
  }

  /**
   * MEMORY USAGE of a live reservation's own keys, and its share of the TTL index.
   * @param {number} first
   */
  async bytesPerHold(first) {
    const calls = scriptCalls(this.driver.target);
    const ttlIndex = `${calls.tag}ttl`;
    const pipeline = this.redis.pipeline();
    for (let index = 0; index < MEMORY_SAMPLES; index += 1) {
      for (const key of calls.keysOf(first + index * Math.floor(COST_CALLS / MEMORY_SAMPLES))) {
        pipeline.memory('USAGE', key);
      }
    }
    const sizes = ((await pipeline.exec()) ?? []).map(([, bytes]) => Number(bytes));
    const mean = (/** @type {number} */ offset) =>
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
