// Reserve and commit over HTTP on this checkout and another one. Both services run, and only one of them is
// under load at a time.
import { unlessShort } from './duration.mjs';
import { HttpDriver } from './http-driver.mjs';
import {
  doubts,
  figure,
  hundredths,
  median,
  range,
  ratioFigure,
  say,
  storeOf,
  tenths,
  versionOf,
  whole,
} from './report.mjs';

/**
 * @typedef {import('./types.ts').Figure} Figure
 * @typedef {{ saturated: import('./types.ts').HttpPhase, half: import('./types.ts').HttpPhase,
 *   third: import('./types.ts').HttpPhase, single: import('./types.ts').HttpPhase }} Round
 * @typedef {{ ours: Round, theirs: Round }} Pair
 * @typedef {{ ours: () => Promise<HttpDriver>, theirs: () => Promise<HttpDriver> }} Starts
 */

const CONNECTIONS = 200;
/** Odd, so that there is a median. */
const PAIRS = unlessShort(7, 1);
const SECONDS = unlessShort(3, 1);
const WARM_UP_SECONDS = unlessShort(5, 1);

/**
 * @param {string} against the folder of the other checkout
 * @param {number | undefined} count of pairs
 * @returns {Promise<import('./types.ts').Result>}
 */
export async function compareReserve(against, count = PAIRS) {
  const starts = { ours: () => HttpDriver.start(), theirs: () => HttpDriver.start(against) };
  const { pairs, store } = await measurePairs(starts, count);
  const version = versionOf(against);
  return {
    title: `Reserve and commit against ${version}`,
    command: 'npm run bench -- reserve --against',
    subject: `Reserve and commit, three budgeted scopes: this checkout against ${version}, in turn. One operation is both.`,
    store,
    ...comparisonOf('checkout', ['this checkout', version], pairs),
  };
}

/**
 * A process may be a tenth faster or slower than another one of the same code, for its whole life. So each pair has new ones, and
 * the side that starts first alternates.
 * @param {Starts} starts
 * @param {number} [count] of pairs
 * @returns {Promise<{ pairs: Pair[], store: string }>}
 */
export async function measurePairs(starts, count = PAIRS) {
  /** @type {Pair[]} */
  const pairs = [];
  let store = '';
  while (pairs.length < count) {
    say(`pair ${pairs.length + 1} of ${count}`);
    const isOursFirst = pairs.length % 2 === 0;
    const first = await (isOursFirst ? starts.ours() : starts.theirs());
    /** @type {HttpDriver | undefined} */
    let second;
    try {
      second = await (isOursFirst ? starts.theirs() : starts.ours());
      const [ours, theirs] = isOursFirst ? [first, second] : [second, first];
      for (const driver of [first, second]) {
        say('warming up');
        await driver.saturate(CONNECTIONS, WARM_UP_SECONDS);
      }
      pairs.push(await measurePair(ours, theirs, isOursFirst));
      store = await storeOf(ours.redis);
    } finally {
      await second?.stop();
      await first.stop();
    }
  }
  return { pairs, store };
}

/**
 * Throughput in a closed loop, then latencies: in an open loop at one rate for both, half and a third of what the slower one reached, and
 * with one connection.
 * @param {HttpDriver} ours
 * @param {HttpDriver} theirs
 * @param {boolean} isOursFirst
 * @returns {Promise<Pair>}
 */
async function measurePair(ours, theirs, isOursFirst) {
  /** @template Phase @param {(driver: HttpDriver) => Promise<Phase>} phase */
  const inTurn = async (phase) => {
    const first = await phase(isOursFirst ? ours : theirs);
    const second = await phase(isOursFirst ? theirs : ours);
    return isOursFirst ? { ours: first, theirs: second } : { ours: second, theirs: first };
  };
  const saturated = await inTurn((driver) => driver.saturate(CONNECTIONS, SECONDS));
  const slower = Math.min(saturated.ours.per_second, saturated.theirs.per_second);
  /** @param {number} rate */
  const paced = (rate) => {
    say(`open loop at ${Math.round(rate)} operations a second`);
    return inTurn((driver) => driver.paced(rate, SECONDS));
  };
  const half = await paced(slower / 2);
  const third = await paced(slower / 3);
  const single = await inTurn((driver) => driver.saturate(1, SECONDS));
  /** @param {'ours' | 'theirs'} side */
  const roundOf = (side) => ({
    saturated: saturated[side],
    half: half[side],
    third: third[side],
    single: single[side],
  });
  return { ours: roundOf('ours'), theirs: roundOf('theirs') };
}

/** @param {Round} round */
const serviceUs = ({ saturated }) => (saturated.server_cpu_s * 1e6) / saturated.operations;

/** @param {Round} round */
const redisUs = ({ saturated }) => (saturated.redis_cpu_s * 1e6) / saturated.operations;

/**
 * @param {string} what the two sides are
 * @param {readonly [ours: string, theirs: string]} names
 * @param {Pair[]} pairs
 * @returns {Pick<import('./types.ts').Result, 'tables' | 'figures' | 'notes'>}
 */
export function comparisonOf(what, [ourName, theirName], pairs) {
  /** @type {(name: string, valueOf: (round: Round) => number) => Figure} */
  const ratio = (name, valueOf) =>
    ratioFigure(
      name,
      pairs.map(({ ours, theirs }) => valueOf(ours) / valueOf(theirs)),
    );
  /** @type {(name: string, rounds: Round[]) => Figure} */
  const tail = (name, rounds) => {
    const values = rounds.map(({ half }) => half.p99_ms);
    return figure(
      `p99 at half of the slower throughput, ${name}`,
      `${tenths(median(values))} ms${range(values, tenths)}`,
      '',
      undefined,
    );
  };
  const rounds = pairs.flatMap(({ ours, theirs }) => [ours, theirs]);
  return {
    tables: [
      {
        head: [
          'pair',
          what,
          'operations/s',
          'µs of the service',
          'µs of Redis',
          'half: p50 ms',
          'p99 ms',
          'a third: p50 ms',
          'p99 ms',
          'one connection: p50 ms',
          'CPU s: others',
        ],
        rows: pairs.flatMap(({ ours, theirs }, index) => [
          rowOf(`${index + 1}`, ourName, ours),
          rowOf(`${index + 1}`, theirName, theirs),
        ]),
        texts: 2,
      },
    ],
    figures: [
      ratio(`throughput at ${CONNECTIONS} connections`, ({ saturated }) => saturated.per_second),
      ratio('p50 at half of the slower throughput', ({ half }) => half.p50_ms),
      ratio('p50 at a third of the slower throughput', ({ third }) => third.p50_ms),
      ratio('p50 with one connection', ({ single }) => single.p50_ms),
      ratio('CPU of an operation, the service', serviceUs),
      ratio('CPU of an operation, Redis', redisUs),
      tail(
        ourName,
        pairs.map(({ ours }) => ours),
      ),
      tail(
        theirName,
        pairs.map(({ theirs }) => theirs),
      ),
    ],
    notes: doubts(rounds.flatMap(({ saturated, half, third, single }) => [saturated, half, third, single])),
  };
}

/**
 * @param {string} pair
 * @param {string} side
 * @param {Round} round
 */
function rowOf(pair, side, round) {
  const { saturated, half, third, single } = round;
  return [
    pair,
    side,
    whole(saturated.per_second),
    whole(serviceUs(round)),
    whole(redisUs(round)),
    hundredths(half.p50_ms),
    hundredths(half.p99_ms),
    hundredths(third.p50_ms),
    hundredths(third.p99_ms),
    hundredths(single.p50_ms),
    tenths([saturated, half, third, single].reduce((sum, phase) => sum + phase.other_cpu_s, 0)),
  ];
}
