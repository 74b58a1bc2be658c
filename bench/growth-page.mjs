// Shows the curves of `npm run bench -- growth` as tables in docs/reference/growth.md.
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOT, readJson } from '../scripts/install.mjs';
import { SHORT } from './duration.mjs';
import { EXPLANATIONS } from './growth-texts.mjs';
import { hundredths, tableText, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Curve} Curve
 * @typedef {import('./types.ts').GrowthRecord} GrowthRecord
 */

const FOLDER = join(ROOT, 'docs', 'reference');
const PAGE = join(FOLDER, 'growth.md');
const RECORD = join(ROOT, 'bench', 'results', 'growth.json');
const MARKED = /(<!-- growth -->\n)([^]*?)(\n<!-- \/growth -->)/;

/** @param {number} value */
const figureText = (value) => (value < 10 ? hundredths(value) : value < 100 ? tenths(value) : whole(value));

/**
 * The curve as a table, one row per size.
 * @param {Curve} curve
 * @returns {import('./types.ts').Table}
 */
export function tableOf({ xLabel, yLabel, xs, lines }) {
  return {
    head: [xLabel, ...lines.map(({ name }) => `${name}, ${yLabel}`)],
    rows: xs.map((x, index) => [whole(x), ...lines.map(({ ys }) => figureText(ys[index] ?? NaN))]),
    texts: 0,
  };
}

/**
 * The cost at the last size compared with the first.
 * @param {Curve} curve
 */
export function ratiosOf({ lines }) {
  return lines.map(({ name, ys }) => `${name} × ${hundredths((ys.at(-1) ?? NaN) / (ys[0] ?? NaN))}`);
}

/** @param {Curve} curve */
function sectionOf(curve) {
  const { name, title, xs } = curve;
  const span = `From ${whole(xs[0] ?? NaN)} to ${whole(xs.at(-1) ?? NaN)}: ${ratiosOf(curve).join(', ')}.`;
  return [`## ${title}`, `${span} ${EXPLANATIONS[name] ?? ''}`, tableText(tableOf(curve))].join('\n\n');
}

/** @param {GrowthRecord} record */
const textOf = ({ run, curves }) => [run, ...curves.map(sectionOf)].join('\n\n');

/** @returns {GrowthRecord} */
const readRecord = () => /** @type {GrowthRecord} */ (readJson(RECORD));

/** @param {string} page */
function partOf(page) {
  const text = MARKED.exec(page)?.[2];
  if (text === undefined) {
    throw new Error('docs/reference/growth.md has no place between <!-- growth --> and <!-- /growth -->');
  }
  return text;
}

/**
 * Writes the page with the curves of a run.
 * @param {GrowthRecord} record
 * @param {string} folder that gets it
 */
function publish(record, folder) {
  const page = readFileSync(PAGE, 'utf8');
  partOf(page);
  writeFileSync(
    join(folder, 'growth.md'),
    page.replace(
      MARKED,
      (_, /** @type {string} */ start, __, /** @type {string} */ end) => `${start}${textOf(record)}${end}`,
    ),
  );
}

/**
 * Keeps a run and shows it in the documentation. A short run is not recorded; it goes to a separate folder.
 * @param {GrowthRecord} record
 * @returns the folder with the page
 */
export function keep(record) {
  if (SHORT) {
    const folder = mkdtempSync(join(tmpdir(), 'hf-growth-'));
    publish(record, folder);
    return folder;
  }
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
  publish(record, FOLDER);
  return FOLDER;
}

/** Shows the last run again. */
export const updateGrowth = () => publish(readRecord(), FOLDER);

// Run as a program, it changes nothing and says whether the page is up to date.
if (
  process.argv[1] === fileURLToPath(import.meta.url) &&
  partOf(readFileSync(PAGE, 'utf8')) !== textOf(readRecord())
) {
  process.stderr.write(
    'docs/reference/growth.md does not show the last run; `npm run bench -- summary` updates it\n',
  );
  process.exitCode = 1;
}
