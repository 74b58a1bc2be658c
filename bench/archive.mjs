// What the archiver costs requests: a service with the default settings and one whose roles leave it out, in turn, the one that is not measured
// stopped. Then whether it keeps up with 5,000 ends a second.
import { compare, tableOfCompared } from './against.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { aim, hundredths, say, storeOf, tenths, whole } from './report.mjs';
import { adminHeaders } from './service.mjs';

const WITHOUT = { settings: { HOLDFAST_ROLES: 'api,sweeper,dispatcher,janitor' } };
/** Nothing is archived in the first five seconds, because it has not settled. */
const IN_TURN = {
  rounds: unlessShort(3, 1),
  seconds: unlessShort(15, 3),
  rows: ['debit', 'commit'],
  connections: [32],
  redis: ['embedded'],
};
const RATE = 0.96;
const P99 = 1.1;

const CONNECTIONS = 16;
const PER_REQUEST = 50;
/** Ends a second, or this share of what a closed loop reaches on a machine that cannot do that. */
const OFFERED = 5000;
const SHARE = 0.8;
const CLOSED_SECONDS = unlessShort(3, 1);
const HEAD_START_SECONDS = unlessShort(6, 1);
/** Until it is on time. */
const HEAD_STARTS = 3;
const SECONDS = unlessShort(8, 2);
const SETTLE_SECONDS = 5;
const FILE_ROWS = 20_000;
/** For a turn of the archiver, and for the file that it writes. */
const TURN_SECONDS = 3;

/** @returns {Promise<import('./types.ts').Measured>} */
export async function measure() {
  const compared = await compare({}, WITHOUT, IN_TURN);
  const { rate, lag, store } = await Harness.with({}, keepUp);
  return {
    title: 'Archive',
    subject: 'Each request with and without the archiver, in turn: `without → with it`.',
    store,
    tables: [tableOfCompared(compared)],
    figures: [
      ...compared.flatMap(({ row, pairs }) => {
        const [text, isHeadline] = [hundredths, true];
        const rates = ratiosOf(pairs, (phase) => phase.per_second);
        const p99s = ratiosOf(pairs, (phase) => phase.p99_ms);
        return [
          aim(`${row}: rate with the archiver, ratio`, rates, { text, atLeast: RATE, isHeadline }),
          aim(`${row}: p99 with the archiver, ratio`, p99s, { text, atMost: P99, isHeadline }),
        ];
      }),
      aim('ends a second, offered in batches of 50', [rate], { atLeast: OFFERED }),
      aim('the longest that an entry has waited, at the end', [lag], {
        text: tenths,
        unit: ' s',
        atMost: onTimeSeconds(rate),
        isHeadline: true,
      }),
    ],
  };
}

/**
 * Of each round. The archiver works in bursts, so all seconds count, and not the one in the middle.
 * @param {import('./against.mjs').Compared['pairs']} pairs
 * @param {(phase: import('./types.ts').HttpPhase) => number} valueOf
 */
function ratiosOf(pairs, valueOf) {
  const { rounds, seconds } = IN_TURN;
  return Array.from({ length: rounds }, (_, round) => {
    const own = pairs.slice(round * seconds, (round + 1) * seconds);
    const sumOf = (/** @type {'ours' | 'theirs'} */ side) =>
      own.reduce((sum, pair) => sum + valueOf(pair[side]), 0);
    return sumOf('ours') / sumOf('theirs');
  });
}

/** @param {Harness} harness */
async function keepUp(harness) {
  await harness.target();
  const { port } = harness.service;
  const closed = await harness.saturate(CONNECTIONS, CLOSED_SECONDS, { perRequest: PER_REQUEST });
  const rate = Math.max(PER_REQUEST, Math.min(OFFERED, Math.floor(SHARE * closed.per_second)));
  say(`${whole(rate)} ends a second`);
  for (let starts = 0, lag = Infinity; starts < HEAD_STARTS && lag > onTimeSeconds(rate); starts += 1) {
    await harness.paced(rate, HEAD_START_SECONDS, { perRequest: PER_REQUEST });
    lag = await lagOf(port);
  }
  await harness.paced(rate, SECONDS, { perRequest: PER_REQUEST });
  return { rate, lag: await lagOf(port), store: await storeOf(harness.redis) };
}

/** How old the oldest entry is before its file is written. */
const onTimeSeconds = (/** @type {number} */ rate) => SETTLE_SECONDS + FILE_ROWS / rate + TURN_SECONDS;

/**
 * 0 if it has never moved.
 * @param {number} port
 */
async function lagOf(port) {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: adminHeaders });
  // Each series also has labels of the service.
  const [, lag] = /^holdfast_archive_lag_seconds\{.* (\S+)$/m.exec(await response.text()) ?? [];
  return Number(lag ?? 0);
}
