// What a benchmark hands over, and the one way in which it becomes Markdown, each figure beside its target.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { fileURLToPath } from 'node:url';
import { SHORT } from './duration.mjs';

const ROOT = fileURLToPath(new URL('../', import.meta.url));

/** What the rest of a machine uses when nothing else is going on there. */
const QUIET_PERCENT = 8;

/**
 * @typedef {{ name: string, measured: string, target: string, met: boolean | undefined }} Figure  undefined: there is nothing to meet
 * @typedef {{ head: string[], rows: string[][], texts: number }} Table  the first `texts` columns are words, the others numbers
 * @typedef {{ title: string, command: string, subject: string, store: string, tables: Table[], figures: Figure[], notes: string[] }} Result
 */

export const whole = (value) => Math.round(value).toLocaleString('en-US');
export const tenths = (value) => value.toFixed(1);

/** Of an odd number of values. */
export const median = (values) => [...values].sort((a, b) => a - b)[(values.length - 1) / 2];

/** The range of several rounds, for a figure that gives their median. */
export const range = (values, text) => ` (${text(Math.min(...values))} to ${text(Math.max(...values))})`;

/** @returns {Figure} */
export const figure = (name, measured, target, met) => ({ name, measured, target, met });

const row = (cells) => `| ${cells.join(' | ')} |`;

export function tableText({ head, rows, texts }) {
  return [row(head), row(head.map((_, index) => (index < texts ? '---' : '--:'))), ...rows.map(row)].join(
    '\n',
  );
}

export function figuresTable(figures) {
  const verdict = (met) => (met === undefined ? '' : met ? 'met' : '**missed**');
  const rows = figures.map(({ name, measured, target, met }) => [name, measured, target, verdict(met)]);
  return [
    row(['figure', 'measured', 'target', '']),
    row(['---', '--:', '--:', '---']),
    ...rows.map(row),
  ].join('\n');
}

/** The section of one benchmark, without its title. */
export function sectionText({ command, subject, store, tables, figures, notes }, circumstances = '') {
  const parts = [
    `${subject} \`${command}\`; ${circumstances}${store}.`,
    ...tables.map(tableText),
    figuresTable(figures),
    ...notes,
  ];
  return `${parts.join('\n\n')}\n`;
}

/** A run that had to share the processors with strangers is no measurement, and says so itself; so does one that was cut short. */
export function doubts(phases) {
  const seconds = phases.reduce((sum, { elapsed_s }) => sum + elapsed_s, 0) * cpus().length;
  const others = phases.reduce((sum, { other_cpu_s }) => sum + other_cpu_s, 0);
  const share = seconds === 0 ? 0 : Math.round((100 * others) / seconds);
  return [
    ...(SHORT ? ['Not to be relied on: a short run.'] : []),
    ...(share <= QUIET_PERCENT
      ? []
      : [`Not to be relied on: other processes used ${share} % of the processors during the run.`]),
  ];
}

export const today = () => new Date().toISOString().slice(0, 10);

/** The machine and the versions that all benchmarks of a run share. */
export function circumstances() {
  const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'));
  return `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, ${process.platform} ${release()}; Node.js ${process.versions.node}; Holdfast ${version}${commit()}`;
}

/** Nothing where the tree is not a clone. */
function commit() {
  const git = (...args) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    return `, ${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', '--', 'src', 'lua') === '' ? '' : ' and later changes'}`;
  } catch {
    return '';
  }
}

export async function storeOf(redis) {
  const [server, memory] = await Promise.all([redis.info('server'), redis.info('memory')]);
  const read = (info, name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown';
  const [, fsync] = await redis.config('GET', 'appendfsync');
  return `Redis ${read(server, 'redis_version')} embedded, AOF ${fsync}, ${read(memory, 'used_memory_human')} at the end`;
}
