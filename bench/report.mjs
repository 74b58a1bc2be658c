// The result of a benchmark, and the only way in which it becomes Markdown, with each figure next to its
// target.
import { execFileSync } from 'node:child_process';
import { cpus, release } from 'node:os';
import { join } from 'node:path';
import { ROOT, readJson } from '../scripts/install.mjs';
import { watchOthers } from './cpu.mjs';
import { SHORT } from './duration.mjs';

/** What the rest of a machine uses when it is otherwise idle. */
const QUIET_PERCENT = 8;

/**
 * @typedef {import('./types.ts').Figure} Figure
 * @typedef {import('./types.ts').Result} Result
 */

/** What cannot be measured on this system is NaN, and reported as such. */
const UNKNOWN = 'unknown';

/** @param {number} value */
export const whole = (value) => (Number.isNaN(value) ? UNKNOWN : Math.round(value).toLocaleString('en-US'));

/** @param {number} value */
export const tenths = (value) => (Number.isNaN(value) ? UNKNOWN : value.toFixed(1));

/** @param {number} value */
export const hundredths = (value) => (Number.isNaN(value) ? UNKNOWN : value.toFixed(2));

/**
 * Of an odd number of values.
 * @param {readonly number[]} values
 */
export const median = (values) => [...values].sort((a, b) => a - b)[(values.length - 1) / 2] ?? NaN;

/** @param {readonly number[]} values */
export const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

/** @param {readonly number[]} values */
export const mean = (values) => sumOf(values) / values.length;

/**
 * @param {readonly number[]} values
 * @returns {import('./types.ts').Lateness}
 */
export function spreadOf(values) {
  const sorted = Float64Array.from(values).sort();
  const at = (/** @type {number} */ share) =>
    sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? NaN;
  return { count: sorted.length, min_ms: at(0), p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}

/**
 * What a table shows of a value that not every row has.
 * @param {number | undefined} value
 * @param {(value: number) => string} text
 */
export const known = (value, text) => (value === undefined ? undefined : text(value));

/**
 * The range of several rounds, for a figure that is their median.
 * @param {readonly number[]} values
 * @param {(value: number) => string} text
 */
export const range = (values, text) => ` (${text(Math.min(...values))} to ${text(Math.max(...values))})`;

/**
 * @param {string} name
 * @param {string} measured
 * @param {string} [target]
 * @param {boolean} [met]
 * @returns {Figure}
 */
export const figure = (name, measured, target = '', met = undefined) => ({ name, measured, target, met });

/**
 * The median of several rounds with their range, or the one value that there is, beside its target.
 * @param {string} name
 * @param {number | readonly number[]} measured
 * @param {{ text?: (value: number) => string, unit?: string, more?: string, atMost?: number, atLeast?: number, isHeadline?: boolean }} [how]
 * @returns {Figure}
 */
export function aim(name, measured, { text = whole, unit = '', more = '', isHeadline, ...bounds } = {}) {
  const values = typeof measured === 'number' ? [measured] : measured;
  const value = median(values);
  const { atMost, atLeast } = bounds;
  const spread = values.length > 1 ? range(values, text) : '';
  const target =
    atMost === undefined
      ? atLeast === undefined
        ? ''
        : `≥ ${text(atLeast)}${unit}`
      : `≤ ${text(atMost)}${unit}`;
  const met = target === '' ? undefined : value <= (atMost ?? Infinity) && value >= (atLeast ?? -Infinity);
  return {
    ...figure(name, `${text(value)}${unit}${spread}${more}`, target, met),
    ...(isHeadline && { isHeadline }),
  };
}

/**
 * A table from what it shows of each row, by the heads of its columns. An undefined cell is empty.
 * @template Row
 * @param {readonly Row[]} rows
 * @param {Readonly<Record<string, (row: Row) => string | undefined>>} columns
 * @param {number} texts the number of leading columns that are text; the others are numbers
 * @returns {import('./types.ts').Table}
 */
export const tableOf = (rows, columns, texts) => ({
  head: Object.keys(columns).map((head) => head.trim()),
  rows: rows.map((one) => Object.values(columns).map((cell) => cell(one) ?? '')),
  texts,
});

/** @param {readonly string[]} cells */
const row = (cells) => `| ${cells.join(' | ')} |`;

/** @param {import('./types.ts').Table} table */
export function tableText({ head, rows, texts }) {
  return [row(head), row(head.map((_, index) => (index < texts ? '---' : '--:'))), ...rows.map(row)].join(
    '\n',
  );
}

/** @type {Record<string, (figure: Figure) => string>} */
const FIGURE_COLUMNS = {
  figure: ({ name }) => name,
  measured: ({ measured }) => measured,
  target: ({ target }) => target,
  '': ({ met }) => (met === undefined ? '' : met ? 'met' : '**missed**'),
};

/** @param {readonly Figure[]} figures */
export const figuresTable = (figures) => tableText(tableOf(figures, FIGURE_COLUMNS, 1));

/**
 * The section of one benchmark, without its title.
 * @param {Result} result
 */
export function sectionText({ command, subject, store, tables, figures, notes }, circumstances = '') {
  const parts = [
    `${subject} \`${command}\`; ${circumstances}${store}.`,
    ...tables.map(tableText),
    ...(figures.length > 0 ? [figuresTable(figures)] : []),
    ...notes,
  ];
  return `${parts.join('\n\n')}\n`;
}

/**
 * The whole result of a benchmark. A run that had to share the processors with other processes is not a measurement, and says so; so does one that
 * was shortened.
 * @param {string} name with its options
 * @param {() => Promise<import('./types.ts').Measured>} measure
 * @returns {Promise<Result>}
 */
export async function watched(name, measure) {
  const shareOfOthers = watchOthers();
  const measured = await measure();
  const percent = Math.round(shareOfOthers() * 100);
  const notes = [
    ...(SHORT ? ['Not to be relied on: a short run.'] : []),
    ...(percent > QUIET_PERCENT
      ? [`Not to be relied on: other processes used ${percent} % of the processors during the run.`]
      : []),
  ];
  return { ...measured, command: `npm run bench -- ${name}`, notes };
}

export const today = () => new Date().toISOString().slice(0, 10);

/** The machine and the versions that all benchmarks of a run share. */
export function circumstances() {
  return `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, ${process.platform} ${release()}; Node.js ${process.versions.node}; Holdfast ${versionOf(ROOT)}`;
}

/**
 * Such as `0.6.0, 42f34da`; without a commit if the tree is not a clone.
 * @param {string} root of a checkout
 */
export function versionOf(root) {
  const { version } = /** @type {{ version: string }} */ (readJson(join(root, 'package.json')));
  const git = (/** @type {string[]} */ ...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    const isChanged = git('status', '--porcelain', '--', 'src', 'lua') !== '';
    return `${version}, ${git('rev-parse', '--short', 'HEAD')}${isChanged ? ' and later changes' : ''}`;
  } catch {
    return version;
  }
}

/** @param {import('ioredis').Redis} redis */
export async function storeOf(redis) {
  const [server, memory] = await Promise.all([redis.info('server'), redis.info('memory')]);
  /** @type {(info: string, name: string) => string} */
  const read = (info, name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown';
  const [, fsync] = /** @type {[string, string]} */ (await redis.config('GET', 'appendfsync'));
  return `Redis ${read(server, 'redis_version')} embedded, AOF ${fsync}, ${read(memory, 'used_memory_human')} at the end`;
}

/**
 * Prints what is being measured, for the person who waits.
 * @param {string} text
 */
export function say(text) {
  process.stderr.write(`bench: ${text} ...\n`);
}
