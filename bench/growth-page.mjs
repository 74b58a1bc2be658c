// Draws the curves of `npm run bench -- growth` and shows them in docs/performance.md.
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOT, readJson } from '../scripts/install.mjs';
import { SHORT } from './duration.mjs';
import { pictureOf } from './growth-svg.mjs';
import { EXPLANATIONS } from './growth-texts.mjs';
import { hundredths, tableText, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Curve} Curve
 * @typedef {import('./types.ts').GrowthRecord} GrowthRecord
 */

const DOCS = join(ROOT, 'docs');
const PICTURES = 'growth';
const PAGE = join(DOCS, 'performance.md');
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
  return [
    `### ${title}`,
    `![${title}](${PICTURES}/${name}.svg)`,
    `${span} ${EXPLANATIONS[name] ?? ''}`,
    tableText(tableOf(curve)),
  ].join('\n\n');
}

/** @param {GrowthRecord} record */
const textOf = ({ run, curves }) => [run, ...curves.map(sectionOf)].join('\n\n');

/** @returns {GrowthRecord} */
const readRecord = () => /** @type {GrowthRecord} */ (readJson(RECORD));

/** @param {string} page */
function partOf(page) {
  const text = MARKED.exec(page)?.[2];
  if (text === undefined) {
    throw new Error('docs/performance.md has no place between <!-- growth --> and <!-- /growth -->');
  }
  return text;
}

/**
 * Writes one picture for each curve, and the part of docs/performance.md that shows them.
 * @param {GrowthRecord} record
 * @param {string} folder that gets both
 */
function publish(record, folder) {
  mkdirSync(join(folder, PICTURES), { recursive: true });
  for (const curve of record.curves) {
    writeFileSync(join(folder, PICTURES, `${curve.name}.svg`), pictureOf(curve));
  }
  const page = readFileSync(PAGE, 'utf8');
  partOf(page);
  writeFileSync(
    join(folder, 'performance.md'),
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
  publish(record, DOCS);
  return DOCS;
}

/** Shows the last run again. */
export const updateGrowth = () => publish(readRecord(), DOCS);

/** The files of the documentation that do not show the last run. */
export function outdatedFiles() {
  const record = readRecord();
  const pictures = record.curves.filter(
    (curve) => readFileSync(join(DOCS, PICTURES, `${curve.name}.svg`), 'utf8') !== pictureOf(curve),
  );
  return [
    ...(partOf(readFileSync(PAGE, 'utf8')) === textOf(record) ? [] : ['docs/performance.md']),
    ...pictures.map(({ name }) => `docs/${PICTURES}/${name}.svg`),
  ];
}

// Run as a program, it changes nothing and prints which files are outdated.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const file of outdatedFiles()) {
    process.stderr.write(`${file} does not show the last run; \`npm run bench -- summary\` updates it\n`);
    process.exitCode = 1;
  }
}
