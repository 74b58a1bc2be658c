// docs/performance.md shows the summary of the newest report under bench/results, word for word; README.md takes single figures from it.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const PAGE = join(ROOT, 'docs', 'performance.md');
const README = join(ROOT, 'README.md');
export const RESULTS = join(ROOT, 'bench', 'results');
const MARKED = /(<!-- benchmarks -->\n)([^]*?)(\n<!-- \/benchmarks -->)/;
/** A figure of the summary by its name, without the range of its rounds. */
const FIGURE = /<!-- figure: (.+?) -->.*?<!-- \/figure -->/g;

/**
 * A summary between the markers by which it is found again.
 * @param {string} text
 */
export const marked = (text) => `<!-- benchmarks -->\n${text}\n<!-- /benchmarks -->`;

/**
 * @param {string} file
 * @throws Error when it has no place for a summary
 */
function summaryOf(file) {
  const text = MARKED.exec(readFileSync(file, 'utf8'))?.[2];
  if (text === undefined) {
    throw new Error(`${file} has no summary between <!-- benchmarks --> and <!-- /benchmarks -->`);
  }
  return text;
}

/** Reports are named by date, so the last name is the newest. */
function newestReport() {
  const name = readdirSync(RESULTS)
    .filter((file) => /^\d{4}-\d\d-\d\d\.md$/.test(file))
    .sort()
    .at(-1);
  if (name === undefined) {
    throw new Error(`there is no report in ${RESULTS}; \`npm run bench -- all\` makes one`);
  }
  return join(RESULTS, name);
}

/**
 * Both pages as they should be, by their files.
 * @returns {[file: string, text: string][]}
 * @throws Error when the report lacks one of the README's figures
 */
function currentPages() {
  const report = newestReport();
  const summary = summaryOf(report);
  // It must have a place for it.
  summaryOf(PAGE);
  const shown = `${summary}\n\nThe whole report is [bench/results/${basename(report)}](../bench/results/${basename(report)}).`;
  const rows = summary.matchAll(/^\| (.+?) \| (.+?)(?: \(.*?\))? \|/gm);
  const figures = new Map([...rows].map(([, name, measured]) => [name, measured]));
  figures.set('version', /Holdfast ([\d.]+)/.exec(summary)?.[1]);
  const page = readFileSync(PAGE, 'utf8').replace(
    MARKED,
    (_, /** @type {string} */ start, __, /** @type {string} */ end) => `${start}${shown}${end}`,
  );
  const readme = readFileSync(README, 'utf8').replaceAll(FIGURE, (_, /** @type {string} */ name) => {
    const measured = figures.get(name);
    if (measured === undefined) {
      throw new Error(`the newest report has no figure "${name}", which README.md shows`);
    }
    return `<!-- figure: ${name} -->${measured}<!-- /figure -->`;
  });
  return [
    [PAGE, page],
    [README, readme],
  ];
}

export function updatePages() {
  currentPages().forEach(([file, text]) => writeFileSync(file, text));
}

// Run as a program, it changes nothing and says whether the pages are up to date.
if (
  process.argv[1] === fileURLToPath(import.meta.url) &&
  currentPages().some(([file, text]) => readFileSync(file, 'utf8') !== text)
) {
  process.stderr.write(
    'README.md or docs/performance.md does not show the newest report; `npm run bench -- summary` updates them\n',
  );
  process.exitCode = 1;
}
