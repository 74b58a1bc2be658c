// Reserve and commit over HTTP at three budgeted scopes, compared with the raw limit of the same scripts on
// the same Redis.
import { usedMemory } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { startRawLoad } from './load.mjs';
import { aim, hundredths, known, median, say, storeOf, tableOf, tenths, whole } from './report.mjs';
import { keysOfHold, tagOfTenant } from './workload.mjs';

/**
 * @typedef {import('./types.ts').Phase} Phase
 * @typedef {[name: string, detail: string, phase: Phase]} NamedPhase
 * @typedef {Awaited<ReturnType<ReserveBenchmark['measure']>>} Measured
 */

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
const TARGETS = { ratio: 0.5, reserve_us: 60, commit_us: 50, bytes: 1536 };

export const measure = () =>
  Harness.with({}, async (harness) => {
    const measured = await new ReserveBenchmark(harness, await harness.target()).measure();
    return resultOf(measured, await storeOf(harness.redis));
  });

class ReserveBenchmark {
  /**
   * @param {Harness} harness
   * @param {import('./types.ts').Target} target
   */
  constructor(harness, target) {
    this.harness = harness;
    this.redis = harness.redis;
    this.target = target;
    this.raw = harness.use(startRawLoad(), (raw) => raw.stop());
  }

  async measure() {
    say('the cost of each script and the memory of a live reservation');
    const cost = await this.scriptCost();
    say('warming up');
    await this.harness.saturate(32, WARM_UP_SECONDS);
    const rawBefore = await this.rawPairs();
    const levels = [];
    for (const connections of LEVELS) {
      levels.push(await this.harness.saturate(connections, LEVEL_SECONDS));
    }
    const rounds = [];
    while (rounds.length < ROUNDS) {
      rounds.push(await this.round());
    }
    const rawAfter = await this.rawPairs();
    say('open loop at half of the rate while Redis rewrites its log');
    const rate = median(rounds.map(({ saturated }) => saturated.per_second)) / 2;
    await this.redis.bgrewriteaof();
    const rewriting = await this.harness.paced(rate, LEVEL_SECONDS);
    return { cost, raw: [rawBefore, rawAfter], levels, rounds, rewriting };
  }

  /**
   * The throughput that the service reaches, and immediately the latencies at shares of that, before the
   * machine's speed has drifted far.
   */
  async round() {
    const saturated = await this.harness.saturate(SATURATING, ROUND_SECONDS);
    say(`open loop at half of ${Math.round(saturated.per_second)} operations a second, then at 80 %`);
    const half = await this.harness.paced(saturated.per_second * 0.5, ROUND_SECONDS);
    const high = await this.harness.paced(saturated.per_second * 0.8, ROUND_SECONDS);
    return { saturated, half, high };
  }

  rawPairs() {
    say('the raw limit');
    return this.askRaw({ kind: 'pairs', seconds: RAW_SECONDS });
  }

  /** @param {Pick<import('./types.ts').RawPlan, 'kind' | 'count' | 'seconds'>} plan */
  askRaw(plan, first = this.harness.next) {
    const { service } = this.harness;
    return this.harness.timed(() =>
      this.raw.ask({ ...plan, first, socketPath: service.socket, target: this.target }),
    );
  }

  /**
   * Microseconds per script from the server's own statistics, and the memory that the reservations take
   * meanwhile.
   */
  async scriptCost() {
    // The first calls load the script into memory and grow tables, so they are made beforehand.
    await this.askRaw({ kind: 'pairs', count: 2000 });
    const first = this.harness.next;
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
    const phase = await this.askRaw({ kind, count: COST_CALLS }, first);
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
    const place = { ...this.target, tag: tagOfTenant(this.target.tenant) };
    const ttlIndex = `${place.tag}ttl`;
    const pipeline = this.redis.pipeline();
    for (let index = 0; index < MEMORY_SAMPLES; index += 1) {
      for (const key of keysOfHold(place, first + index * Math.floor(COST_CALLS / MEMORY_SAMPLES))) {
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

/**
 * @param {Measured} measured
 * @param {string} store
 * @returns {import('./types.ts').Measured}
 */
function resultOf({ cost, raw, levels, rounds, rewriting }, store) {
  // The machine's speed drifts, so the raw limit is measured before and after the service, and the mean
  // counts.
  const limit = raw.reduce((sum, { per_second }) => sum + per_second, 0) / raw.length;
  const [before, after] = raw;
  const connectionsOf = (/** @type {{ connections: number }} */ { connections }) => `${connections} conn.`;
  /** @type {(NamedPhase | undefined)[]} */
  const phases = [
    before && ['raw scripts, pipelined', 'before', before],
    ...levels.map((level) => /** @type {NamedPhase} */ (['HTTP, closed loop', connectionsOf(level), level])),
    ...rounds.flatMap(({ saturated, half, high }, index) => {
      const round = `round ${index + 1}`;
      return /** @type {NamedPhase[]} */ ([
        [`${round}: closed loop`, connectionsOf(saturated), saturated],
        [`${round}: open loop`, 'half of that', half],
        [`${round}: open loop`, '80 % of that', high],
      ]);
    }),
    ['HTTP, open loop', 'half of the median, log rewritten', rewriting],
    after && ['raw scripts, pipelined', 'after', after],
  ];
  return {
    title: 'Reserve and commit',
    command: 'npm run bench -- reserve',
    subject: 'Reserve and commit, three budgeted scopes. One operation is both.',
    store,
    tables: [tableOf(/** @type {NamedPhase[]} */ (phases.filter(Boolean)), columnsBeside(limit), 2)],
    figures: figuresOf({ cost, rounds }, limit),
  };
}

/**
 * @param {number} limit operations a second
 * @returns {Record<string, (row: NamedPhase) => string | undefined>}
 */
function columnsBeside(limit) {
  return {
    phase: ([name]) => name,
    '': ([, detail]) => detail,
    'operations/s': ([, , { per_second }]) => whole(per_second),
    'of raw': ([, , { per_second }]) => hundredths(per_second / limit),
    'p50 ms': ([, , { p50_ms }]) => known(p50_ms, hundredths),
    'p99 ms': ([, , { p99_ms }]) => known(p99_ms, hundredths),
    'max ms': ([, , { max_ms }]) => known(max_ms, tenths),
    'CPU s: service': ([, , { server_cpu_s }]) => tenths(server_cpu_s),
    Redis: ([, , { redis_cpu_s }]) => tenths(redis_cpu_s),
    load: ([, , { cpu_s }]) => tenths(cpu_s),
    seconds: ([, , { elapsed_s }]) => tenths(elapsed_s),
  };
}

/**
 * @param {Pick<Measured, 'cost' | 'rounds'>} measured
 * @param {number} limit operations a second
 */
function figuresOf({ cost: { reserve, commit, bytes }, rounds }, limit) {
  const saturated = rounds.map((round) => round.saturated);
  const rates = saturated.map(({ per_second }) => per_second);
  /** @param {'server_cpu_s' | 'redis_cpu_s'} cpu */
  const usPerOperation = (cpu) => saturated.map((phase) => (1e6 * phase[cpu]) / phase.operations);
  const [isHeadline, us, ms] = [true, ' µs', ' ms'];
  const parts = `record ${whole(bytes.record)} + idempotency ${whole(bytes.idempotency)} + its share of the TTL index ${whole(bytes.index)}`;
  return [
    aim(
      'throughput at 200 connections, of the raw limit',
      rates.map((rate) => rate / limit),
      { text: hundredths, atLeast: TARGETS.ratio },
    ),
    aim('operations a second at 200 connections', rates, { isHeadline }),
    aim('CPU of an operation there, the service', usPerOperation('server_cpu_s'), { unit: us, isHeadline }),
    aim('CPU of an operation there, Redis', usPerOperation('redis_cpu_s'), { unit: us, isHeadline }),
    aim(
      'p50 of a request at half of the saturated rate',
      rounds.map(({ half }) => half.p50_ms),
      { text: tenths, unit: ms, isHeadline },
    ),
    aim(
      'p99 of a request at half of the saturated rate',
      rounds.map(({ half }) => half.p99_ms),
      { text: tenths, unit: ms, isHeadline },
    ),
    aim(
      'p99 of a request at 80 % of the saturated rate',
      rounds.map(({ high }) => high.p99_ms),
      { text: tenths, unit: ms, isHeadline },
    ),
    aim('`reserve` script', reserve.us, { text: tenths, unit: us, atMost: TARGETS.reserve_us }),
    aim('`commit` script', commit.us, { text: tenths, unit: us, atMost: TARGETS.commit_us }),
    aim(`live reservation, \`MEMORY USAGE\`: ${parts}`, bytes.total, {
      unit: ' bytes',
      atMost: TARGETS.bytes,
    }),
    aim('the same by growth of `used_memory`', bytes.growth, { unit: ' bytes', atMost: TARGETS.bytes }),
  ];
}
