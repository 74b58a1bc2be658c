// The figures of the sweeper's benchmark, each beside its target.
import { aim, figure, hundredths, known, tableOf, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Figure} Figure
 * @typedef {import('./types.ts').Lateness} Lateness
 * @typedef {{ service: number, redis: number }} IdleCost  CPU seconds a second
 * @typedef {{
 *   elapsed_s: number, server_cpu_s: number, redis_cpu_s: number, wait_p99_ms: number, wait_max_ms: number, rss_max: number
 * }} Watched
 * @typedef {{ count: number, per_second: number, lateness: Lateness }} Drain
 * @typedef {Watched & { result: import('./types.ts').HttpResult }} Calm
 * @typedef {{ title: string, calm: Calm, beside: Calm & Drain }} Round
 * @typedef {Lateness & { made: number, perSecond: number, seconds: number }} Steady
 * @typedef {Lateness & { held: number, due: number, left: number }} Grace
 * @typedef {{
 *   backlog: number,
 *   idle: { sweeper: IdleCost, without: IdleCost },
 *   steady: Steady,
 *   alone: Watched & Drain,
 *   rounds: Round[],
 *   grace: Grace,
 * }} SweepMeasurement
 */

const TARGETS = { per_second: 20_000, p99_ms: 250, max_ms: 1000, times: 2, idle: 0.01 };

const megabytes = (/** @type {number} */ bytes) => `${Math.round(bytes / 1024 / 1024)} MB`;
const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(1)} %`;

/** @typedef {Partial<Watched & Drain & Pick<Calm, 'result'>> & { name: string, lateness?: Lateness }} Row */

/** @type {Record<string, (row: Row) => string | undefined>} */
const COLUMNS = {
  phase: ({ name }) => name,
  expired: ({ count }) => known(count, whole),
  'a second': ({ per_second }) => known(per_second, whole),
  'lateness p50 ms': ({ lateness }) => known(lateness?.p50_ms, whole),
  'p99 ms': ({ lateness }) => known(lateness?.p99_ms, whole),
  'max ms': ({ lateness }) => known(lateness?.max_ms, whole),
  'request p50 ms': ({ result }) => known(result?.p50_ms, hundredths),
  'p99 ms ': ({ result }) => known(result?.p99_ms, hundredths),
  'probe p99 ms': ({ wait_p99_ms }) => known(wait_p99_ms, tenths),
  'max ms ': ({ wait_max_ms }) => known(wait_max_ms, tenths),
  'CPU s: service': ({ server_cpu_s }) => known(server_cpu_s, tenths),
  Redis: ({ redis_cpu_s }) => known(redis_cpu_s, tenths),
  seconds: ({ elapsed_s }) => known(elapsed_s, tenths),
  memory: ({ rss_max }) => known(rss_max, megabytes),
};

/**
 * @param {string} store
 * @param {SweepMeasurement} measured
 * @returns {import('./types.ts').Measured}
 */
export function sweepResult(store, { backlog, idle, steady, alone, rounds, grace }) {
  const { count, perSecond, seconds } = steady;
  /** @type {Row[]} */
  const rows = [
    { name: 'steady', count, per_second: perSecond, lateness: steady, elapsed_s: seconds },
    { name: 'backlog, nothing beside it', ...alone },
    ...rounds.flatMap(({ title, calm, beside }) => [
      { name: title, ...calm },
      { name: 'the same beside a backlog', ...beside },
    ]),
    {
      name: `${whole(grace.held)} in grace, ${grace.due} due behind them`,
      count: grace.count,
      lateness: grace,
    },
  ];
  return {
    title: 'The sweeper',
    command: 'npm run bench -- sweep',
    subject: 'The sweeper, three budgeted scopes a hold, 16 tenants.',
    store,
    tables: [tableOf(rows, COLUMNS, 1)],
    figures: [
      ...punctuality({ steady, alone, rounds, grace }),
      ...drain(backlog, alone, rounds),
      ...costs({ idle, grace }),
    ],
  };
}

/**
 * @param {Pick<SweepMeasurement, 'steady' | 'alone' | 'rounds' | 'grace'>} measured
 * @returns {Figure[]}
 */
function punctuality({ steady, alone, rounds, grace }) {
  const all = [steady, alone.lateness, ...rounds.map(({ beside }) => beside.lateness), grace];
  const early = Math.min(...all.map(({ min_ms }) => min_ms));
  const made = `${whole(steady.count)} of ${whole(steady.made)}`;
  return [
    aim('steady state: lateness p99', steady.p99_ms, { unit: ' ms', atMost: TARGETS.p99_ms }),
    aim('steady state: lateness max', steady.max_ms, { unit: ' ms', atMost: TARGETS.max_ms }),
    figure('steady state: expired of those made', made, 'all', steady.count === steady.made),
    figure('never early: least lateness of all phases', `${early} ms`, '> 0 ms', early > 0),
  ];
}

/**
 * @param {number} backlog
 * @param {Drain} alone
 * @param {Round[]} rounds
 * @returns {Figure[]}
 */
function drain(backlog, alone, rounds) {
  const rate = { unit: ' a second', atLeast: TARGETS.per_second };
  const most = (/** @type {(round: Round) => number} */ of) => Math.max(...rounds.map(of));
  return [
    aim(`drain of ${whole(backlog)} with nothing beside it`, alone.per_second, rate),
    aim(
      `drain of ${whole(backlog)} beside half load`,
      rounds.map(({ beside }) => beside.per_second),
      rate,
    ),
    aim(
      'request p99 beside the drain, times that without it',
      rounds.map(({ calm, beside }) => beside.result.p99_ms / calm.result.p99_ms),
      { text: hundredths, atMost: TARGETS.times },
    ),
    figure(
      'longest wait of a probing client beside the drain',
      `${tenths(most(({ beside }) => beside.wait_max_ms))} ms`,
      `(without it ${tenths(most(({ calm }) => calm.wait_max_ms))} ms)`,
    ),
    figure(
      'memory of the process beside the drain',
      `up to ${megabytes(most(({ beside }) => beside.rss_max))}`,
      `(without it up to ${megabytes(most(({ calm }) => calm.rss_max))})`,
    ),
  ];
}

/**
 * @param {Pick<SweepMeasurement, 'idle' | 'grace'>} measured
 * @returns {Figure[]}
 */
function costs({ idle, grace }) {
  const cost = idle.sweeper.service + idle.sweeper.redis - idle.without.service - idle.without.redis;
  return [
    figure(
      `due behind ${whole(grace.held)} in grace: expired, left in the index`,
      `${grace.count}, ${whole(grace.left)}`,
      `${grace.due}, ${whole(grace.held)}`,
      grace.count === grace.due && grace.left === grace.held,
    ),
    aim('idle sweeper of 64 partitions, service and Redis', cost, {
      text: percent,
      unit: ' of a core',
      atMost: TARGETS.idle,
    }),
  ];
}
