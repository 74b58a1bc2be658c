// What a reserve costs Redis on several sides: tenants that reserve in turn, alone in a run of the script and 16 in a run.
import { mainThreadSeconds } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { aim, hundredths, median, tableOf, tenths } from './report.mjs';

/** The number of rounds; odd, so that there is a median. */
const ROUNDS = unlessShort(15, 1);
const CALLS = unlessShort(800, 160);
/** The most calls that share a run of the script. */
const GROUP = 16;
/** The number of calls that are sent at once. Unless they have separate lanes, they share runs. */
const BATCH = 40;

/**
 * @typedef {import('./growth-ledger.mjs').GrowthLedger} GrowthLedger
 * @typedef {import('./growth-ledger.mjs').Population} Population
 * @typedef {import('./workload.mjs').ReserveCall} ReserveCall
 * @typedef {{ population: Population, argsOf: () => Partial<ReserveCall['args']> }} Side  what its reserves say in place of the usual
 * @typedef {{ alone: number, together: number }} Cost  µs of a reserve
 */

/**
 * The costs by round, then side.
 * @param {GrowthLedger} ledger
 * @param {readonly Side[]} sides
 */
export async function costsOfSides(ledger, sides) {
  /** @type {Cost[][]} */
  const rounds = [];
  // The first round warms up.
  for (let round = 0; round <= ROUNDS; round += 1) {
    rounds.push(await costsOf(ledger, sides, round));
  }
  return rounds.slice(1);
}

/**
 * All sides in turn, each round starting with the next one, because the speed of a shared machine drifts.
 * @param {GrowthLedger} ledger
 * @param {readonly Side[]} sides
 * @param {number} round
 */
async function costsOf(ledger, sides, round) {
  /** @type {Cost[]} */
  const costs = [];
  for (let turn = 0; turn < sides.length; turn += 1) {
    const index = (turn + round) % sides.length;
    const side = sides[index];
    if (side !== undefined) {
      costs[index] = {
        alone: await costOf(ledger, side, 1),
        together: await costOf(ledger, side, GROUP),
      };
    }
  }
  return costs;
}

/**
 * CPU time of Redis' main thread for each reserve, in µs.
 * @param {GrowthLedger} ledger
 * @param {Side} side
 * @param {number} together the calls that share a run of the script
 */
async function costOf(ledger, { population, argsOf }, together) {
  const before = await mainThreadSeconds(ledger.redis);
  for (let made = 0; made < CALLS; made += BATCH) {
    const calls = Array.from({ length: BATCH }, () => {
      const { keys, args } = ledger.reserveCall(ledger.nextHold(population), '10');
      return { keys, args: { ...args, ...argsOf() } };
    });
    const replies =
      together === 1
        ? await Promise.all(
            calls.map(({ keys, args }, index) => ledger.lane(index).call('reserve', keys, args)),
          )
        : await ledger.scripts.callMany('reserve', calls);
    const wrong = replies.find((reply) => reply instanceof Error || reply.status !== 'ALLOW');
    if (wrong !== undefined) {
      throw wrong instanceof Error ? wrong : new Error(`a reserve was answered ${wrong.status}`);
    }
  }
  return (((await mainThreadSeconds(ledger.redis)) - before) * 1e6) / CALLS;
}

/** @type {Readonly<Record<keyof Cost, string>>} */
const KINDS = { alone: 'alone in a run', together: `${GROUP} in a run` };

/**
 * A table of the sides' costs, and ratios within a round.
 * @param {readonly Cost[][]} rounds
 * @param {readonly string[]} names of the sides
 * @param {readonly (readonly [side: number, base: number, atMost?: object])[]} compared
 */
export function comparedSides(rounds, names, compared) {
  const kinds = /** @type {(keyof Cost)[]} */ (Object.keys(KINDS));
  const valuesOf = (/** @type {number} */ side, /** @type {keyof Cost} */ kind) =>
    rounds.map((costs) => costs[side]?.[kind] ?? NaN);
  /** @type {Record<string, (kind: keyof Cost) => string>} */
  const columns = { 'µs of a reserve': (kind) => KINDS[kind] };
  for (const [side, name] of names.entries()) {
    columns[name] = (kind) => tenths(median(valuesOf(side, kind)));
  }
  const figures = compared.flatMap(([side, base, atMost = {}]) =>
    kinds.map((kind) => {
      const bases = valuesOf(base, kind);
      return aim(
        `${names[side]} beside ${names[base]}, ${KINDS[kind]}: ratio`,
        valuesOf(side, kind).map((value, round) => value / (bases[round] ?? NaN)),
        { text: hundredths, ...atMost },
      );
    }),
  );
  return { tables: [tableOf(kinds, columns, 1)], figures };
}
