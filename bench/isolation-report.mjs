// The figures of the isolation benchmark, each beside its target.
import { SHORT } from './duration.mjs';
import { figure, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Counts} Counts
 * @typedef {import('./types.ts').Figure} Figure
 * @typedef {{ due: number, count: number, p99_ms: number }} Deliveries
 * @typedef {import('./types.ts').WatchResult & {
 *   statuses: Counts, longest: { ms: number, name: string }, deliveries: Deliveries | undefined
 * }} Phase  statuses: the answers to the attacker
 * @typedef {{ name: string, of: string, alone: Phase, beside: Phase, store: string }} Round
 */

const TARGETS = { script_ms: 10, times: 3 };

const countOf = (/** @type {Counts} */ failures) =>
  Object.values(failures).reduce((sum, count) => sum + count, 0);

/**
 * `503: 12, no answer: 3`, or `none`.
 * @param {Counts} counts
 */
const words = (counts) =>
  Object.entries(counts)
    .map(([word, count]) => `${word}: ${whole(count)}`)
    .join(', ') || 'none';

const HEAD = [
  'attack',
  'what the attacker has',
  'answers to the attacker',
  'longest command',
  'ms',
  'requests of the other',
  'failures',
  'p99 alone ms',
  'beside ms',
  'times',
];

/**
 * @param {{ rate: number, seconds: number, rounds: Round[] }} measured
 * @returns {import('./types.ts').Result}
 */
export function isolationResult({ rate, seconds, rounds }) {
  return {
    title: 'Isolation',
    command: 'npm run bench -- isolation',
    subject: `One tenant attacks at full tilt, another one makes ${rate} reserves a second at three scopes for ${seconds} s.`,
    store: rounds[0]?.store ?? '',
    tables: [{ head: HEAD, rows: rounds.map(rowOf), texts: 4 }],
    figures: rounds.flatMap(figuresOf),
    notes: SHORT ? ['Not to be relied on: a short run.'] : [],
  };
}

/** @param {Round} round */
function rowOf({ name, of, alone, beside }) {
  return [
    name,
    of,
    words(beside.statuses),
    beside.longest.name,
    tenths(beside.longest.ms),
    whole(beside.operations),
    words(beside.failures),
    tenths(alone.p99_ms),
    tenths(beside.p99_ms),
    (beside.p99_ms / alone.p99_ms).toFixed(1),
  ];
}

/**
 * @param {Round} round
 * @returns {Figure[]}
 */
function figuresOf({ name, alone, beside }) {
  const [failures, ms, times] = [countOf(beside.failures), beside.longest.ms, beside.p99_ms / alone.p99_ms];
  return [
    figure(
      `${name}: failures of the other`,
      `${whole(failures)} of ${whole(beside.operations)}`,
      'none',
      failures === 0,
    ),
    figure(
      `${name}: longest command of Redis`,
      `${tenths(ms)} ms (\`${beside.longest.name}\`)`,
      `≤ ${TARGETS.script_ms} ms`,
      ms <= TARGETS.script_ms,
    ),
    figure(
      `${name}: p99 of the other, times that alone`,
      times.toFixed(2),
      `≤ ${TARGETS.times}`,
      times <= TARGETS.times,
    ),
    ...(alone.deliveries === undefined || beside.deliveries === undefined
      ? []
      : [deliveriesFigure(name, alone.deliveries, beside.deliveries)]),
  ];
}

/**
 * @param {string} name
 * @param {Deliveries} alone
 * @param {Deliveries} beside
 */
function deliveriesFigure(name, alone, beside) {
  const measured = `${beside.count} of ${beside.due}, p99 ${whole(beside.p99_ms)} ms (alone ${whole(alone.p99_ms)} ms)`;
  return figure(`${name}: deliveries to the other`, measured, 'all', beside.count === beside.due);
}
