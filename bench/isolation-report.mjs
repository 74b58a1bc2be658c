// The figures of the isolation benchmark, each beside its target.
import { aim, figure, hundredths, tableOf, tenths, whole } from './report.mjs';

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

const timesOf = (/** @type {Round} */ { alone, beside }) => beside.p99_ms / alone.p99_ms;

/** @type {Record<string, (row: Round) => string>} */
const COLUMNS = {
  attack: ({ name }) => name,
  'what the attacker has': ({ of }) => of,
  'answers to the attacker': ({ beside }) => words(beside.statuses),
  'longest command': ({ beside }) => beside.longest.name,
  ms: ({ beside }) => tenths(beside.longest.ms),
  'requests of the other': ({ beside }) => whole(beside.operations),
  failures: ({ beside }) => words(beside.failures),
  'p99 alone ms': ({ alone }) => tenths(alone.p99_ms),
  'beside ms': ({ beside }) => tenths(beside.p99_ms),
  times: (round) => tenths(timesOf(round)),
};

/**
 * @param {{ rate: number, seconds: number, rounds: Round[] }} measured
 * @returns {import('./types.ts').Measured}
 */
export function isolationResult({ rate, seconds, rounds }) {
  return {
    title: 'Isolation',
    command: 'npm run bench -- isolation',
    subject: `One tenant attacks at full tilt, another one makes ${rate} reserves a second at three scopes for ${seconds} s.`,
    store: rounds[0]?.store ?? '',
    tables: [tableOf(rounds, COLUMNS, 4)],
    figures: rounds.flatMap(figuresOf),
  };
}

/**
 * @param {Round} round
 * @returns {Figure[]}
 */
function figuresOf(round) {
  const { name, alone, beside } = round;
  const failures = countOf(beside.failures);
  const [all, command] = [whole(beside.operations), ` (\`${beside.longest.name}\`)`];
  const [one, other] = [alone.deliveries, beside.deliveries];
  return [
    figure(`${name}: failures of the other`, `${whole(failures)} of ${all}`, 'none', failures === 0),
    aim(`${name}: longest command of Redis`, beside.longest.ms, {
      text: tenths,
      unit: ' ms',
      more: command,
      atMost: TARGETS.script_ms,
    }),
    aim(`${name}: p99 of the other, times that alone`, timesOf(round), {
      text: hundredths,
      atMost: TARGETS.times,
    }),
    ...(one === undefined || other === undefined
      ? []
      : [
          figure(
            `${name}: deliveries to the other`,
            `${other.count} of ${other.due}, p99 ${whole(other.p99_ms)} ms (alone ${whole(one.p99_ms)} ms)`,
            'all',
            other.count === other.due,
          ),
        ]),
  ];
}
