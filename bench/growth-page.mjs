// Shows the curves of `npm run bench -- growth` as tables in docs/reference/growth.md.
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOT, readJson } from '../scripts/install.mjs';
import { SHORT } from './duration.mjs';
import { hundredths, tableText, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Curve} Curve
 * @typedef {import('./types.ts').GrowthRecord} GrowthRecord
 */

const FOLDER = join(ROOT, 'docs', 'reference');
const PAGE = join(FOLDER, 'growth.md');
const RECORD = join(ROOT, 'bench', 'results', 'growth.json');
const MARKED = /(<!-- growth -->\n)([^]*?)(\n<!-- \/growth -->)/;

/**
 * What each curve shows, and why it runs like this.
 * @type {Readonly<Record<string, string>>} by the curves' names
 */
const EXPLANATIONS = {
  'live-reservations':
    'A reserve adds to two sorted sets, the index of deadlines and the list of the tenant, and a commit leaves the first one: O(log n) each. ' +
    'The commits end random reservations, and deadlines are spread over 20 hours, so a larger size probably misses the processor caches more often, too.',
  'live-bytes':
    'Growth of `used_memory` since the size before. A size at which Redis doubles a hash table can stand out.',
  queries:
    'A list in order of creation reads one page of the index. A history reads the record and the events of its reservation. ' +
    'Both grow less than the logarithm; the likely reason is that larger ledgers miss the processor caches more often.',
  verify:
    'Recomputing a budget needs every reservation of the tenant, so `verify` is linear, and this is the cost of each record. Its scripts read a bounded ' +
    'number of records at a time and let other work in between.',
  'sorted-lists':
    'No index has the order of a list that is sorted by amount, so each page compares all records of the tenant: it is linear, and this is the cost of ' +
    'each record, read by bounded scripts. More than a million are refused until `from` and `to` narrow the list.',
  tenants:
    'Each tenant has one budget, and no call looks through tenants. With many tenants, what a call needs is probably no longer in the processor caches.',
  budgets:
    'A call finds the budgets of its own scopes by their keys, here one, however many others the tenant has.',
  scopes:
    'The cost of a scope is fixed: a budget to read, check and write, and its balance in the reply. A subject has at most six scopes.',
  subscriptions:
    'A call appends its events to a log and does not look at subscriptions. The dispatcher does that later. Its work is not part of this curve, and is ' +
    'proportional to the subscriptions that match.',
  lateness:
    'The sweeper polls its index of deadlines, so at low rates lateness is the pause between two polls. Unlike processor time, lateness includes ' +
    'whatever else the machine does: at the highest rates, the benchmark, the service and Redis compete for its processors.',
};

/**
 * @param {string} name
 * @param {string} title
 * @param {readonly [x: string, y: string]} labels
 * @param {readonly number[]} xs
 * @param {Readonly<Record<string, readonly number[]>>} lines for each name, a value for each of `xs`
 * @returns {Curve}
 */
export const curve = (name, title, [xLabel, yLabel], xs, lines) => ({
  name,
  title,
  xLabel,
  yLabel,
  xs,
  lines: Object.entries(lines).map(([line, ys]) => ({ name: line, ys })),
});

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
