// Reserve and commit over HTTP at three budgeted scopes, compared with the raw limit of the same scripts on
// the same Redis.
import { meanUsage, shareOfIndex, usedMemory } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { startRawLoad } from './load.mjs';
import { aim, hundredths, known, mean, say, storeOf, tableOf, tenths, whole } from './report.mjs';
import { keysOfHold, tagOfTenant } from './workload.mjs';

/**
 * @typedef {import('./types.ts').Phase} Phase
 * @typedef {import('./types.ts').Target} Target
 * @typedef {[name: string, detail: string, phase: Phase]} Row
 * @typedef {Awaited<ReturnType<typeof measureRound>>} Round
 * @typedef {(plan: Pick<import('./types.ts').RawPlan, 'kind' | 'count' | 'seconds'>, first?: number) => Promise<Phase>} AskRaw
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

/** @returns {Promise<import('./types.ts').Measured>} */
export const measure = () =>
  Harness.with({}, async (harness) => {
    const target = await harness.target();
    const raw = harness.use(startRawLoad(), (one) => one.stop());
    /** @type {AskRaw} */
    const askRaw = (plan, first = harness.next) =>
      harness.timed(() => raw.ask({ ...plan, first, socketPath: harness.service.socket, target }));
    say('the cost of each script and the memory of a live reservation');
    const cost = await scriptCost(harness, target, askRaw);
    say('warming up');
    await harness.saturate(32, WARM_UP_SECONDS);
    const rawPairs = () => {
      say('the raw limit');
      return askRaw({ kind: 'pairs', seconds: RAW_SECONDS });
    };
    const before = await rawPairs();
    const levels = [];
    for (const connections of LEVELS) {
      levels.push(await harness.saturate(connections, LEVEL_SECONDS));
    }
    const rounds = [];
    while (rounds.length < ROUNDS) {
      rounds.push(await measureRound(harness));
    }
    const after = await rawPairs();
    // The machine's speed drifts, so the raw limit is measured before and after the service, and the mean counts.
    const limit = mean([before.per_second, after.per_second]);
    /** @type {Row[]} */
    const rows = [
      ['raw scripts, pipelined', 'before', before],
      ...levels.map(
        (level) => /** @type {Row} */ (['HTTP, closed loop', `${level.connections} conn.`, level]),
      ),
      ...rounds.flatMap(({ saturated, half, high }, index) => {
        const round = `round ${index + 1}`;
        return /** @type {Row[]} */ ([
          [`${round}: closed loop`, `${SATURATING} conn.`, saturated],
          [`${round}: open loop`, 'half of that', half],
          [`${round}: open loop`, '80 % of that', high],
        ]);
      }),
      ['raw scripts, pipelined', 'after', after],
    ];
    return {
      title: 'Reserve and commit',
      subject: 'Reserve and commit, three budgeted scopes. One operation is both.',
      store: await storeOf(harness.redis),
      tables: [tableOf(rows, columnsBeside(limit), 2)],
      figures: figuresOf(cost, rounds, limit),
    };
  });

/**
 * The throughput that the service reaches, and immediately the latencies at shares of that, before the
 * machine's speed has drifted far.
 * @param {Harness} harness
 */
async function measureRound(harness) {
  const saturated = await harness.saturate(SATURATING, ROUND_SECONDS);
  say(`open loop at half of ${Math.round(saturated.per_second)} operations a second, then at 80 %`);
  const half = await harness.paced(saturated.per_second * 0.5, ROUND_SECONDS);
  const high = await harness.paced(saturated.per_second * 0.8, ROUND_SECONDS);
  return { saturated, half, high };
}

/**
 * Microseconds per script from the server's own statistics, and the memory that the reservations take
 * meanwhile.
 * @param {Harness} harness
 * @param {Target} target
 * @param {AskRaw} askRaw
 */
async function scriptCost(harness, target, askRaw) {
  const { redis } = harness;
  /** @type {(kind: 'reserve' | 'commit', first: number) => Promise<number>} */
  const costOf = async (kind, first) => {
    await redis.config('RESETSTAT');
    await askRaw({ kind, count: COST_CALLS }, first);
    const [, calls, us] =
      /cmdstat_fcall:calls=(\d+),usec=\d+,usec_per_call=([\d.]+)/.exec(await redis.info('commandstats')) ??
      [];
    if (calls === undefined || Number(calls) < COST_CALLS) {
      throw new Error(`INFO commandstats shows ${calls} calls, not ${COST_CALLS}`);
    }
    return Number(us);
  };
  // The first calls load the script into memory and grow tables, so they are made beforehand.
  await askRaw({ kind: 'pairs', count: 2000 });
  const first = harness.next;
  const usedBefore = await usedMemory(redis);
  const reserve = await costOf('reserve', first);
  const growth = ((await usedMemory(redis)) - usedBefore) / COST_CALLS;
  const bytes = await bytesPerHold(redis, target, first);
  return { reserve, commit: await costOf('commit', first), growth, bytes };
}

/**
 * MEMORY USAGE of a live reservation's own keys, and its share of the TTL index.
 * @param {import('ioredis').Redis} redis
 * @param {Target} target
 * @param {number} first
 */
async function bytesPerHold(redis, target, first) {
  const place = { ...target, tag: tagOfTenant(target.tenant) };
  const keys = Array.from({ length: MEMORY_SAMPLES }, (_, index) =>
    keysOfHold(place, first + index * Math.floor(COST_CALLS / MEMORY_SAMPLES)),
  );
  const record = await meanUsage(
    redis,
    keys.map(([key = '']) => key),
  );
  const idempotency = await meanUsage(
    redis,
    keys.map(([, key = '']) => key),
  );
  const index = await shareOfIndex(redis, `${place.tag}ttl`);
  return { record, idempotency, index, total: record + idempotency + index };
}

/**
 * @param {number} limit operations a second
 * @returns {Record<string, (row: Row) => string | undefined>}
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
 * @param {Awaited<ReturnType<typeof scriptCost>>} cost
 * @param {Round[]} rounds
 * @param {number} limit operations a second
 */
function figuresOf({ reserve, commit, growth, bytes }, rounds, limit) {
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
    aim('`reserve` script', reserve, { text: tenths, unit: us, atMost: TARGETS.reserve_us }),
    aim('`commit` script', commit, { text: tenths, unit: us, atMost: TARGETS.commit_us }),
    aim(`live reservation, \`MEMORY USAGE\`: ${parts}`, bytes.total, {
      unit: ' bytes',
      atMost: TARGETS.bytes,
    }),
    aim('the same by growth of `used_memory`', growth, { unit: ' bytes', atMost: TARGETS.bytes }),
  ];
}
