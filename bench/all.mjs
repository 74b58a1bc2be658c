// npm run bench -- all: every benchmark, one after the other, into one report under bench/results. docs/performance.md shows its summary.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SHORT } from './duration.mjs';
import { circumstances, figuresTable, sectionText, today, watched } from './report.mjs';
import { RESULTS, marked, updatePages } from './summary.mjs';

/** @typedef {import('./types.ts').Result} Result */

const NAMES = [
  'reserve',
  'sweep',
  'leak',
  'webhooks',
  'audit-bytes',
  'isolation',
  'counter',
  'usage',
  'archive',
  'lists',
];
/** Not among all: it needs Python, and compares others with each other. */
const APART = ['gateways'];

/**
 * @param {string} name
 * @returns {Promise<unknown>}
 */
const load = (name) => import(`./${name}.mjs`);

/**
 * Their modules need the built service, so they are loaded only when one is run.
 * @typedef {(options: { only?: string }) => Promise<import('./types.ts').Measured>} Measure
 * @type {Record<string, Measure>}
 */
export const BENCHMARKS = Object.fromEntries(
  [...NAMES, ...APART].map((name) => [
    name,
    async (options) => {
      const { measure } = /** @type {{ measure: Measure }} */ (await load(name));
      return measure(options);
    },
  ]),
);

export async function recordAll() {
  // A short run is not recorded.
  const directory = SHORT ? mkdtempSync(join(tmpdir(), 'hf-bench-')) : RESULTS;
  mkdirSync(directory, { recursive: true });
  const file = join(directory, `${today()}.md`);
  const results = [];
  for (const [name, measure] of Object.entries(BENCHMARKS).filter(([name]) => NAMES.includes(name))) {
    process.stderr.write(`bench: ${name}\n`);
    results.push(await watched(() => measure({})));
    // An interrupted run keeps its measurements so far.
    writeFileSync(file, reportText(results));
  }
  process.stdout.write(`The figures are in ${file}.\n`);
  if (!SHORT) {
    updatePages();
  }
}

/** @param {Result[]} results */
function reportText(results) {
  const run = `${today()}; ${circumstances()}`;
  const missing = NAMES.slice(results.length);
  return (
    [
      `# Benchmarks of ${today()}`,
      'Written by `npm run bench -- all`, with nothing added by hand. [README](../README.md) says how each is measured.',
      ...(missing.length === 0 ? [] : [`Not measured in this run: ${missing.join(', ')}.`]),
      marked(`${run}.\n\n${summaryTable(results)}${doubtsOf(results)}`),
      ...results.map((result) => `## ${result.title}\n\n${sectionText(result).trimEnd()}`),
    ].join('\n\n') + '\n'
  );
}

/**
 * The figures with a target, and the headlines. The sections have all figures.
 * @param {Result[]} results
 */
function summaryTable(results) {
  const figures = results.flatMap(({ title, figures }) =>
    figures
      .filter(({ met, isHeadline }) => met !== undefined || isHeadline)
      .map((one) => ({ ...one, name: `${title}: ${one.name}` })),
  );
  return figuresTable(figures);
}

/** @param {Result[]} results */
function doubtsOf(results) {
  const doubtful = results
    .filter(({ notes }) => notes.length > 0)
    .map(({ title, notes }) => `${title}: ${notes.join(' ')}`);
  return doubtful.length === 0 ? '' : `\n\n${doubtful.join('\n')}`;
}
