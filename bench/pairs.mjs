// npm run bench -- <name> --against=<folder>: measures this checkout and another one in turn, in one run, so
// that the machine is in the same state for both. What counts is the ratio within each pair; the checkout
// that goes first alternates.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { BENCHMARKS } from './all.mjs';
import { unlessShort } from './duration.mjs';
import { ratioFigure, say, versionOf } from './report.mjs';
import { compareReserve } from './reserve-pairs.mjs';

/**
 * @typedef {import('./types.ts').Measured} Result
 * @typedef {{ ours: Result, theirs: Result }} Pair
 */

/** Odd, so that there is a median. */
const PAIRS = unlessShort(3, 1);

/**
 * @param {string} name of a benchmark
 * @param {{ against: string, pairs?: number | undefined, only?: string }} options the folder of the other checkout
 * @returns {Promise<Result>}
 */
export function comparePairs(name, { against, pairs, ...options }) {
  return name === 'reserve'
    ? compareReserve(against, pairs)
    : compareResults(name, against, pairs ?? PAIRS, options);
}

/**
 * Each checkout runs the whole benchmark, with its own code of it, and the figures of the same name are compared.
 * @param {string} name
 * @param {string} against
 * @param {number} count of pairs
 * @param {{ only?: string }} options
 * @returns {Promise<Result>}
 */
async function compareResults(name, against, count, options) {
  const ours = BENCHMARKS[name];
  const module = /** @type {{ measure(options: object): Promise<Result> }} */ (
    await importFrom(join(against, 'bench', `${name}.mjs`))
  );
  /** @type {Pair[]} */
  const pairs = [];
  while (ours !== undefined && pairs.length < count) {
    const [isOursFirst, number] = [pairs.length % 2 === 0, pairs.length + 1];
    say(`pair ${number} of ${count}: ${isOursFirst ? 'this checkout' : 'the other one'} first`);
    const first = await (isOursFirst ? ours(options) : module.measure(options));
    const second = await (isOursFirst ? module.measure(options) : ours(options));
    pairs.push(isOursFirst ? { ours: first, theirs: second } : { ours: second, theirs: first });
  }
  return resultOf(`npm run bench -- ${name} --against`, versionOf(against), pairs);
}

/**
 * @param {string} file
 * @returns {Promise<unknown>}
 */
const importFrom = (file) => import(pathToFileURL(file).href);

/**
 * @param {string} command
 * @param {string} version of the other checkout
 * @param {Pair[]} pairs
 * @returns {Result}
 */
function resultOf(command, version, pairs) {
  const names = (pairs[0]?.ours.figures ?? []).map(({ name }) => name);
  const compared = names
    .map((name) => ({ name, measured: pairs.flatMap((pair) => measuredIn(pair, name)) }))
    .filter(({ measured }) => measured.length === pairs.length);
  return {
    title: `${pairs[0]?.ours.title} against ${version}`,
    command,
    subject: `This checkout against ${version}, ${pairs.length} pair${pairs.length === 1 ? '' : 's'}.`,
    store: pairs[0]?.ours.store ?? '',
    tables: [
      {
        head: ['figure', 'pair', 'this checkout', version],
        rows: compared.flatMap(({ name, measured }) =>
          measured.map(({ ours, theirs }, index) => [name, String(index + 1), ours, theirs]),
        ),
        texts: 1,
      },
    ],
    figures: compared.flatMap(({ name, measured }) => {
      const ratios = measured.map(({ ours, theirs }) => numberIn(ours) / numberIn(theirs));
      return ratios.every((ratio) => Number.isFinite(ratio) && ratio > 0) ? [ratioFigure(name, ratios)] : [];
    }),
    notes: pairs.flatMap(({ ours, theirs }) => [...(ours.notes ?? []), ...(theirs.notes ?? [])]),
  };
}

/**
 * @param {Pair} pair
 * @param {string} name of a figure
 */
function measuredIn({ ours, theirs }, name) {
  const [one, other] = [ours, theirs].map(({ figures }) => figures.find((figure) => figure.name === name));
  return one === undefined || other === undefined ? [] : [{ ours: one.measured, theirs: other.measured }];
}

/**
 * The first number of a figure, such as 3120 of `3,120 a second`.
 * @param {string} measured
 */
function numberIn(measured) {
  return Number(/-?\d[\d,]*(\.\d+)?/.exec(measured)?.[0].replaceAll(',', '') ?? NaN);
}
