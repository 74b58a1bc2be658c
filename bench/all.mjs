// npm run bench -- all: every benchmark, one after the other, into one report under bench/results. docs/performance.md shows its summary.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SHORT } from './duration.mjs';
import { circumstances, figuresTable, sectionText, today, watched } from './report.mjs';
import { RESULTS, marked, updatePages } from './summary.mjs';

/**
 * @typedef {import('./types.ts').Result} Result
 * @typedef {{ measure(options: { only?: string }): Promise<import('./types.ts').Measured> }} Benchmark
 */

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
 * Their modules need the built service, so they are loaded only when one is run.
 * @type {Record<string, (options: { only?: string }) => Promise<Result>>}
 */
export const BENCHMARKS = Object.fromEntries(
  [...NAMES, ...APART].map((name) => [
    name,
    (options) =>
      watched(options.only === undefined ? name : `${name} --only=${options.only}`, async () => {
        /** @type {unknown} */
        const loaded = await import(`./${name}.mjs`);
        return /** @type {Benchmark} */ (loaded).measure(options);
      }),
  ]),
);

export async function recordAll() {
  // A short run is not recorded.
  const directory = SHORT ? mkdtempSync(join(tmpdir(), 'hf-bench-')) : RESULTS;
  mkdirSync(directory, { recursive: true });
  const file = join(directory, `${today()}.md`);
  const results = [];
  for (const name of NAMES) {
    process.stderr.write(`bench: ${name}\n`);
    results.push(/** @type {Result} */ (await BENCHMARKS[name]?.({})));
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
  const missing = NAMES.slice(results.length);
  // The figures with a target, and the headlines. The sections have all figures.
  const summary = results.flatMap(({ title, figures }) =>
    figures
      .filter(({ met, isHeadline }) => met !== undefined || isHeadline)
      .map((one) => ({ ...one, name: `${title}: ${one.name}` })),
  );
  const doubts = results
    .filter(({ notes }) => notes.length > 0)
    .map(({ title, notes }) => `${title}: ${notes.join(' ')}`);
  const parts = [`${today()}; ${circumstances()}.`, figuresTable(summary), doubts.join('\n')];
  return (
    [
      `# Benchmarks of ${today()}`,
      'Written by `npm run bench -- all`, with nothing added by hand. [README](../README.md) says how each is measured.',
      ...(missing.length === 0 ? [] : [`Not measured in this run: ${missing.join(', ')}.`]),
      marked(parts.filter((part) => part !== '').join('\n\n')),
      ...results.map((result) => `## ${result.title}\n\n${sectionText(result).trimEnd()}`),
    ].join('\n\n') + '\n'
  );
}
