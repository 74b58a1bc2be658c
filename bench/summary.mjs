// docs/performance.md shows the summary of the newest report under bench/results, word for word.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const PAGE = join(ROOT, 'docs', 'performance.md');
export const RESULTS = join(ROOT, 'bench', 'results');
const MARKED = /(<!-- benchmarks -->\n)([^]*?)(\n<!-- \/benchmarks -->)/;

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

/** The part that the page must show. */
function currentSummary() {
  const report = newestReport();
  return `${summaryOf(report)}\n\nThe whole report is [bench/results/${basename(report)}](../bench/results/${basename(report)}).`;
}

export function updatePage() {
  summaryOf(PAGE);
  const summary = currentSummary();
  writeFileSync(
    PAGE,
    readFileSync(PAGE, 'utf8').replace(
      MARKED,
      (_, /** @type {string} */ start, __, /** @type {string} */ end) => `${start}${summary}${end}`,
    ),
  );
}

// Run as a program, it changes nothing and says whether the page is up to date.
if (process.argv[1] === fileURLToPath(import.meta.url) && summaryOf(PAGE) !== currentSummary()) {
  process.stderr.write(
    'docs/performance.md does not show the newest report; `npm run bench -- summary` updates it\n',
  );
  process.exitCode = 1;
}
