// The figures of the benchmark of leaked holds, each beside its target.
import { doubts, figure, hundredths, median, range, tenths, whole } from './report.mjs';

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
const HEAD = [
  'case',
  'reserves a second',
  'without leaks',
  'p99 ms',
  'without leaks',
  'lateness p50 ms',
  'p99 ms',
  'max ms',
];
const SECONDS_HEAD = ['second', 'lateness ms', 'backlog', 'expired', 'reserves', 'delivered'];
/** After the load, one second in so many is enough to show how the backlog drains. */
const SECONDS_AFTER = 10;
/** The first holds end after 2 s, and the endpoint's seconds begin up to a second before those of the load. */
const FIRST_SECOND = 4;

/**
 * @param {string} store
 * @param {readonly Measured[]} measured
 * @returns {import('./types.ts').Result}
 */
export function leakResult(store, measured) {
  return {
    title: 'Leaked holds at saturation',
    command: 'npm run bench -- leak',
    subject: '200 connections make holds of 2 s that nobody settles, as fast as the service answers.',
    store,
    tables: [
      { head: HEAD, rows: measured.flatMap(roundRows), texts: 1 },
      ...measured.map(({ name, rounds }) => secondsTable(name, rounds)),
    ],
    figures: measured.flatMap(figuresOf),
    notes: doubts(measured),
  };
}

/** @param {readonly number[]} values */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** @param {Round} round */
const calmRate = ({ calm }) => mean(calm.map((one) => one.per_second));

/** @param {Round} round */
const calmP99 = ({ calm }) => mean(calm.map((one) => one.p99_ms));

/** @param {Measured} measured */
function roundRows({ name, rounds }) {
  return rounds.map((round) => {
    const { leak, lateness } = round;
    const late = [lateness.p50_ms, lateness.p99_ms, lateness.max_ms].map(whole);
    const requests = [
      whole(leak.per_second),
      whole(calmRate(round)),
      tenths(leak.p99_ms),
      tenths(calmP99(round)),
    ];
    return [name, ...requests, ...late];
  });
}

/**
 * Of the round with the greatest lateness.
 * @param {string} name
 * @param {readonly Round[]} rounds
 */
function secondsTable(name, rounds) {
  const [worst] = [...rounds].sort((a, b) => b.lateness.max_ms - a.lateness.max_ms);
  const { seconds = [], loadSeconds = 0 } = worst ?? {};
  const rows = seconds.flatMap(({ lateness_ms, backlog, expired, reserves, delivered }, second) =>
    second >= loadSeconds && (second - loadSeconds) % SECONDS_AFTER !== 0
      ? []
      : [[String(second + 1), ...[lateness_ms, backlog, expired, reserves, delivered].map(whole)]],
  );
  return { head: [`${name}: ${SECONDS_HEAD[0]}`, ...SECONDS_HEAD.slice(1)], rows, texts: 0 };
}

/**
 * The median of the rounds beside its target.
 * @param {string} name
 * @param {readonly number[]} values
 * @param {(value: number) => string} text
 * @param {string} sign
 * @param {number} target
 */
function ofRounds(name, values, text, sign, target) {
  const value = median(values);
  const met = sign === '≤' ? value <= target : value >= target;
  return figure(name, `${text(value)}${range(values, text)}`, `${sign} ${text(target)}`, met);
}

/**
 * @param {Measured} measured
 * @returns {Figure[]}
 */
function figuresOf({ name, isSubscribed, rounds }) {
  const latest = Math.max(...rounds.map(({ lateness }) => lateness.max_ms));
  const rates = rounds.map((round) => round.leak.per_second / calmRate(round));
  const p99s = rounds.map((round) => round.leak.p99_ms / calmP99(round));
  const ofRequests = `${name}: requests,`;
  const isInTime = latest <= TARGETS.lateness_ms;
  return [
    figure(
      `${name}: lateness, max of all rounds`,
      `${whole(latest)} ms`,
      `≤ ${TARGETS.lateness_ms} ms`,
      isInTime,
    ),
    ofRounds(
      `${ofRequests} of their rate without leaks`,
      rates,
      hundredths,
      '≥',
      isSubscribed ? TARGETS.subscribedRate : TARGETS.rate,
    ),
    ofRounds(`${ofRequests} p99 times that without leaks`, p99s, hundredths, '≤', TARGETS.p99),
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
    ofRounds(`${name}: deliveries a second beside the load`, during.map(mean), whole, '≥', TARGETS.delivered),
    figure(`${name}: the same in the worst second`, whole(least), '> 0', least > 0),
    ofRounds(`${name}: deliveries a second after the load`, after, whole, '≥', TARGETS.drained),
  ];
}
