// The figures of the benchmark of leaked holds, each beside its target.
import { aim, figure, hundredths, tableOf, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./leak.mjs').Measured} Measured
 * @typedef {import('./leak.mjs').Round} Round
 * @typedef {import('./types.ts').Figure} Figure
 */

const TARGETS = {
  lateness_ms: 1000,
  rate: 0.85,
  p99: 1.5,
  subscribedRate: 0.8,
  delivered: 1500,
  drained: 4000,
};
/** After the load, one second in so many is enough to show how the backlog drains. */
const SECONDS_AFTER = 10;
/** The first holds end after 2 s, and the endpoint's seconds begin up to a second before those of the load. */
const FIRST_SECOND = 4;

/**
 * @param {string} store
 * @param {readonly Measured[]} measured
 * @returns {import('./types.ts').Measured}
 */
export function leakResult(store, measured) {
  return {
    title: 'Leaked holds at saturation',
    command: 'npm run bench -- leak',
    subject: '200 connections make holds of 2 s that nobody settles, as fast as the service answers.',
    store,
    tables: [
      tableOf(
        measured.flatMap(({ name, rounds }) => rounds.map((round) => ({ name, ...round }))),
        COLUMNS,
        1,
      ),
      ...measured.map(({ name, rounds }) => secondsTable(name, rounds)),
    ],
    figures: measured.flatMap(figuresOf),
  };
}

/** @param {readonly number[]} values */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** @param {Round} round */
const calmRate = ({ calm }) => mean(calm.map((one) => one.per_second));

/** @param {Round} round */
const calmP99 = ({ calm }) => mean(calm.map((one) => one.p99_ms));

/** @type {Record<string, (round: Round & { name: string }) => string>} */
const COLUMNS = {
  case: ({ name }) => name,
  'reserves a second': ({ leak }) => whole(leak.per_second),
  'without leaks': (round) => whole(calmRate(round)),
  'p99 ms': ({ leak }) => tenths(leak.p99_ms),
  'without leaks ': (round) => tenths(calmP99(round)),
  'lateness p50 ms': ({ lateness }) => whole(lateness.p50_ms),
  'p99 ms ': ({ lateness }) => whole(lateness.p99_ms),
  'max ms': ({ lateness }) => whole(lateness.max_ms),
};

/**
 * Of the round with the greatest lateness.
 * @param {string} name
 * @param {readonly Round[]} rounds
 */
function secondsTable(name, rounds) {
  const [worst] = [...rounds].sort((a, b) => b.lateness.max_ms - a.lateness.max_ms);
  const { seconds = [], loadSeconds = 0 } = worst ?? {};
  const shown = seconds
    .map((one, second) => ({ ...one, second }))
    .filter(({ second }) => second < loadSeconds || (second - loadSeconds) % SECONDS_AFTER === 0);
  /** @type {Record<string, (second: (typeof shown)[number]) => string>} */
  const columns = {
    [`${name}: second`]: ({ second }) => String(second + 1),
    'lateness ms': ({ lateness_ms }) => whole(lateness_ms),
    backlog: ({ backlog }) => whole(backlog),
    expired: ({ expired }) => whole(expired),
    reserves: ({ reserves }) => whole(reserves),
    delivered: ({ delivered }) => whole(delivered),
  };
  return tableOf(shown, columns, 0);
}

/**
 * @param {Measured} measured
 * @returns {Figure[]}
 */
function figuresOf({ name, isSubscribed, rounds }) {
  const latest = Math.max(...rounds.map(({ lateness }) => lateness.max_ms));
  const rates = rounds.map((round) => round.leak.per_second / calmRate(round));
  const p99s = rounds.map((round) => round.leak.p99_ms / calmP99(round));
  const least = isSubscribed ? TARGETS.subscribedRate : TARGETS.rate;
  const text = hundredths;
  return [
    aim(`${name}: lateness, max of all rounds`, latest, {
      unit: ' ms',
      atMost: TARGETS.lateness_ms,
    }),
    aim(`${name}: requests, of their rate without leaks`, rates, {
      text,
      atLeast: least,
    }),
    aim(`${name}: requests, p99 times that without leaks`, p99s, {
      text,
      atMost: TARGETS.p99,
    }),
    ...(isSubscribed ? deliveryFigures(name, rounds) : []),
  ];
}

/**
 * @param {string} name
 * @param {readonly Round[]} rounds
 * @returns {Figure[]}
 */
function deliveryFigures(name, rounds) {
  const during = rounds.map(({ seconds, loadSeconds }) =>
    seconds.slice(FIRST_SECOND, loadSeconds).map(({ delivered }) => delivered),
  );
  const after = rounds.map(({ seconds, loadSeconds }) =>
    mean(seconds.slice(loadSeconds + 1, -1).map(({ delivered }) => delivered)),
  );
  const least = Math.min(...during.flat());
  return [
    aim(`${name}: deliveries a second beside the load`, during.map(mean), {
      atLeast: TARGETS.delivered,
    }),
    figure(`${name}: the same in the worst second`, whole(least), '> 0', least > 0),
    aim(`${name}: deliveries a second after the load`, after, {
      atLeast: TARGETS.drained,
    }),
  ];
}
