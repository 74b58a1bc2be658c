// Reserve and commit over HTTP on this checkout and another one. Both services run, and only one of them is
// under load at a time.
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { aim, hundredths, ratioFigure, say, storeOf, tableOf, tenths, versionOf, whole } from './report.mjs';

/**
 * @typedef {import('./harness.mjs').What} What
 * @typedef {{ saturated: import('./types.ts').HttpPhase, half: import('./types.ts').HttpPhase,
 *   third: import('./types.ts').HttpPhase, single: import('./types.ts').HttpPhase }} Round
 * @typedef {{ ours: Round, theirs: Round }} Pair
 * @typedef {{ ours: What, theirs: What }} Sides
 */

const CONNECTIONS = 200;
/** Odd, so that there is a median. */
const PAIRS = unlessShort(7, 1);
const SECONDS = unlessShort(3, 1);
const WARM_UP_SECONDS = unlessShort(5, 1);

/**
 * @param {string} against the folder of the other checkout
 * @param {number | undefined} count of pairs
 * @returns {Promise<import('./types.ts').Measured>}
 */
export async function compareReserve(against, count = PAIRS) {
  const { pairs, store } = await measurePairs({ ours: {}, theirs: { root: against } }, count);
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
 * @param {Sides} sides
 * @param {number} [count] of pairs
 * @returns {Promise<{ pairs: Pair[], store: string }>}
 */
export async function measurePairs(sides, count = PAIRS) {
  /** @type {Pair[]} */
  const pairs = [];
  let store = '';
  while (pairs.length < count) {
    say(`pair ${pairs.length + 1} of ${count}`);
    const isOursFirst = pairs.length % 2 === 0;
    const [first, second] = isOursFirst ? [sides.ours, sides.theirs] : [sides.theirs, sides.ours];
    await Harness.with(first, (one) =>
      Harness.with(second, async (other) => {
        for (const harness of [one, other]) {
          await harness.target();
          say('warming up');
          await harness.saturate(CONNECTIONS, WARM_UP_SECONDS);
        }
        const [ours, theirs] = isOursFirst ? [one, other] : [other, one];
        pairs.push(await measurePair(ours, theirs, isOursFirst));
        store = await storeOf(ours.redis);
      }),
    );
  }
  return { pairs, store };
}

/**
 * Throughput in a closed loop, then latencies: in an open loop at one rate for both, half and a third of what the slower one reached, and
 * with one connection.
 * @param {Harness} ours
 * @param {Harness} theirs
 * @param {boolean} isOursFirst
 * @returns {Promise<Pair>}
 */
async function measurePair(ours, theirs, isOursFirst) {
  /** @template Phase @param {(harness: Harness) => Promise<Phase>} phase */
  const inTurn = async (phase) => {
    const first = await phase(isOursFirst ? ours : theirs);
    const second = await phase(isOursFirst ? theirs : ours);
    return isOursFirst ? { ours: first, theirs: second } : { ours: second, theirs: first };
  };
  const saturated = await inTurn((harness) => harness.saturate(CONNECTIONS, SECONDS));
  const slower = Math.min(saturated.ours.per_second, saturated.theirs.per_second);
  /** @param {number} rate */
  const paced = (rate) => {
    say(`open loop at ${Math.round(rate)} operations a second`);
    return inTurn((harness) => harness.paced(rate, SECONDS));
  };
  const half = await paced(slower / 2);
  const third = await paced(slower / 3);
  const single = await inTurn((harness) => harness.saturate(1, SECONDS));
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
 * @returns {Pick<import('./types.ts').Measured, 'tables' | 'figures'>}
 */
export function comparisonOf(what, [ourName, theirName], pairs) {
  /** @type {(name: string, valueOf: (round: Round) => number) => import('./types.ts').Figure} */
  const ratio = (name, valueOf) =>
    ratioFigure(
      name,
      pairs.map(({ ours, theirs }) => valueOf(ours) / valueOf(theirs)),
    );
  const tail = (/** @type {'ours' | 'theirs'} */ side, /** @type {string} */ name) =>
    aim(
      `p99 at half of the slower throughput, ${name}`,
      pairs.map((pair) => pair[side].half.p99_ms),
      { text: tenths, unit: ' ms' },
    );
  const rows = pairs.flatMap(({ ours, theirs }, index) => [
    { ...ours, pair: `${index + 1}`, side: ourName },
    { ...theirs, pair: `${index + 1}`, side: theirName },
  ]);
  /** @type {Record<string, (row: (typeof rows)[number]) => string>} */
  const columns = {
    pair: ({ pair }) => pair,
    [what]: ({ side }) => side,
    'operations/s': ({ saturated }) => whole(saturated.per_second),
    'µs of the service': (row) => whole(serviceUs(row)),
    'µs of Redis': (row) => whole(redisUs(row)),
    'half: p50 ms': ({ half }) => hundredths(half.p50_ms),
    'p99 ms': ({ half }) => hundredths(half.p99_ms),
    'a third: p50 ms': ({ third }) => hundredths(third.p50_ms),
    'p99 ms ': ({ third }) => hundredths(third.p99_ms),
    'one connection: p50 ms': ({ single }) => hundredths(single.p50_ms),
  };
  return {
    tables: [tableOf(rows, columns, 2)],
    figures: [
      ratio(`throughput at ${CONNECTIONS} connections`, ({ saturated }) => saturated.per_second),
      ratio('p50 at half of the slower throughput', ({ half }) => half.p50_ms),
      ratio('p50 at a third of the slower throughput', ({ third }) => third.p50_ms),
      ratio('p50 with one connection', ({ single }) => single.p50_ms),
      ratio('CPU of an operation, the service', serviceUs),
      ratio('CPU of an operation, Redis', redisUs),
      tail('ours', ourName),
      tail('theirs', theirName),
    ],
  };
}
