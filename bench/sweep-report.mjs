// The figures of the sweeper's benchmark, each beside its target.
import { doubts, figure, hundredths, median, range, storeOf, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Figure} Figure
 * @typedef {import('./types.ts').Lateness} Lateness
 * @typedef {{ service: number, redis: number }} IdleCost  CPU seconds a second
 * @typedef {import('./types.ts').Shared & {
 *   server_cpu_s: number, redis_cpu_s: number, wait_p99_ms: number, wait_max_ms: number, rss_max: number
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

const HEAD = [
  'phase',
  'expired',
  'a second',
  'lateness p50 ms',
  'p99 ms',
  'max ms',
  'request p50 ms',
  'p99 ms',
  'probe p99 ms',
  'max ms',
  'CPU s: service',
  'Redis',
  'seconds',
  'memory',
];
const BLANKS = Array.from({ length: 6 }, () => '');

const megabytes = (/** @type {number} */ bytes) => `${Math.round(bytes / 1024 / 1024)} MB`;
const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(1)} %`;

/**
 * @param {import('ioredis').Redis} redis
 * @param {SweepMeasurement} measured
 * @returns {Promise<import('./types.ts').Result>}
 */
export async function sweepResult(redis, { backlog, idle, steady, alone, rounds, grace }) {
  return {
    title: 'The sweeper',
    command: 'npm run bench -- sweep',
    subject: 'The sweeper, three budgeted scopes a hold, 16 tenants.',
    store: await storeOf(redis),
    tables: [
      {
        head: HEAD,
        rows: [
          [
            'steady',
            whole(steady.count),
            whole(steady.perSecond),
            ...latenessCells(steady),
            ...BLANKS,
            tenths(steady.seconds),
            '',
          ],
          phaseRow('backlog, nothing beside it', alone),
          ...rounds.flatMap(({ title, calm, beside }) => [
            phaseRow(title, calm),
            phaseRow('the same beside a backlog', beside),
          ]),
          [
            `${whole(grace.held)} in grace, ${grace.due} due behind them`,
            whole(grace.count),
            '',
            ...latenessCells(grace),
            ...BLANKS,
            '',
            '',
          ],
        ],
        texts: 1,
      },
    ],
    figures: [
      ...punctuality({ steady, alone, rounds, grace }),
      ...drain(backlog, alone, rounds),
      ...costs({ idle, grace }),
    ],
    notes: doubts([alone, ...rounds.flatMap(({ calm, beside }) => [calm, beside])]),
  };
}

/**
 * @param {Pick<SweepMeasurement, 'steady' | 'alone' | 'rounds' | 'grace'>} measured
 * @returns {Figure[]}
 */
function punctuality({ steady, alone, rounds, grace }) {
  const early = Math.min(
    steady.min_ms,
    alone.lateness.min_ms,
    ...rounds.map(({ beside }) => beside.lateness.min_ms),
    grace.min_ms,
  );
  return [
    figure(
      'steady state: lateness p99',
      `${steady.p99_ms} ms`,
      `≤ ${TARGETS.p99_ms} ms`,
      steady.p99_ms <= TARGETS.p99_ms,
    ),
    figure(
      'steady state: lateness max',
      `${steady.max_ms} ms`,
      `≤ ${TARGETS.max_ms} ms`,
      steady.max_ms <= TARGETS.max_ms,
    ),
    figure(
      'steady state: expired of those made',
      `${whole(steady.count)} of ${whole(steady.made)}`,
      'all',
      steady.count === steady.made,
    ),
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
  const times = rounds.map(({ calm, beside }) => beside.result.p99_ms / calm.result.p99_ms);
  /** @type {(title: string, values: number[], more: string) => Figure} */
  const rate = (title, values, more) =>
    figure(
      `drain of ${whole(backlog)} ${title}`,
      `${whole(median(values))} a second${more}`,
      `≥ ${whole(TARGETS.per_second)}`,
      median(values) >= TARGETS.per_second,
    );
  const rates = rounds.map(({ beside }) => beside.per_second);
  const most = (/** @type {(round: Round) => number} */ of) => Math.max(...rounds.map(of));
  return [
    rate('with nothing beside it', [alone.per_second], ''),
    rate('beside half load', rates, range(rates, whole)),
    figure(
      'request p99 beside the drain, times that without it',
      `${median(times).toFixed(2)}${range(times, hundredths)}`,
      `≤ ${TARGETS.times}`,
      median(times) <= TARGETS.times,
    ),
    figure(
      'longest wait of a probing client beside the drain',
      `${tenths(most(({ beside }) => beside.wait_max_ms))} ms`,
      `(without it ${tenths(most(({ calm }) => calm.wait_max_ms))} ms)`,
      undefined,
    ),
    figure(
      'memory of the process beside the drain',
      `up to ${megabytes(most(({ beside }) => beside.rss_max))}`,
      `(without it up to ${megabytes(most(({ calm }) => calm.rss_max))})`,
      undefined,
    ),
  ];
}

/**
 * @param {Pick<SweepMeasurement, 'idle' | 'grace'>} measured
 * @returns {Figure[]}
 */
function costs({ idle, grace }) {
  const cost = idle.sweeper.service + idle.sweeper.redis - idle.without.service - idle.without.redis;
  const isUndisturbed = grace.count === grace.due && grace.left === grace.held;
  return [
    figure(
      `due behind ${whole(grace.held)} in grace: expired, left in the index`,
      `${grace.count}, ${whole(grace.left)}`,
      `${grace.due}, ${whole(grace.held)}`,
      isUndisturbed,
    ),
    figure(
      'idle sweeper of 64 partitions, service and Redis',
      percent(cost),
      `≤ ${percent(TARGETS.idle)} of a core`,
      cost <= TARGETS.idle,
    ),
  ];
}

/** @param {Lateness} lateness */
function latenessCells({ p50_ms, p99_ms, max_ms }) {
  return [whole(p50_ms), whole(p99_ms), whole(max_ms)];
}

/**
 * @param {string} name
 * @param {Watched & Partial<Drain> & { result?: import('./types.ts').HttpResult | undefined }} phase
 */
function phaseRow(name, phase) {
  const {
    count,
    per_second,
    lateness,
    result,
    wait_p99_ms,
    wait_max_ms,
    server_cpu_s,
    redis_cpu_s,
    elapsed_s,
    rss_max,
  } = phase;
  return [
    name,
    count === undefined ? '' : whole(count),
    per_second === undefined ? '' : whole(per_second),
    ...(lateness === undefined ? ['', '', ''] : latenessCells(lateness)),
    ...(result === undefined ? ['', ''] : [hundredths(result.p50_ms), hundredths(result.p99_ms)]),
    tenths(wait_p99_ms),
    tenths(wait_max_ms),
    tenths(server_cpu_s),
    tenths(redis_cpu_s),
    tenths(elapsed_s),
    megabytes(rss_max),
  ];
}
