// npm run bench -- <name> [options]: runs one benchmark on a separate Holdfast on loopback, bounded in time,
// and prints its figures. `all` runs every one and records the figures; `summary` updates docs/performance.md
// from the newest record.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  SetupError,
  checkNode,
  ensureBuild,
  ensureDependencies,
  ensureRedis,
  runCommand,
} from '../scripts/install.mjs';
import { BENCHMARKS, recordAll } from './all.mjs';
import { circumstances, sectionText, today, watched } from './report.mjs';
import { updateGrowth } from './growth-page.mjs';
import { updatePage } from './summary.mjs';

const COMMANDS = [...Object.keys(BENCHMARKS), 'all', 'summary'];

/** @param {import('./types.ts').Result} result */
function print(result) {
  process.stdout.write(`\n${sectionText(result, `${today()}; ${circumstances()}; `)}`);
}

/** Which benchmarks have an option. */
const OPTIONS = {
  against: Object.keys(BENCHMARKS),
  pairs: Object.keys(BENCHMARKS),
  only: ['isolation', 'leak', 'batch', 'gateways'],
  most: ['growth', 'all'],
};

/** @param {string[]} words */
function readArguments([name = '', ...rest]) {
  if (!COMMANDS.includes(name)) {
    throw new SetupError(
      `give the name of one benchmark: ${COMMANDS.join(', ')}; as in \`npm run bench -- reserve\``,
    );
  }
  /** @type {Partial<Record<keyof typeof OPTIONS, string>>} */
  const given = {};
  for (const word of rest) {
    const [, option = '', value = ''] = /^--(against|pairs|only|most)=(.+)$/.exec(word) ?? [];
    const known = /** @type {keyof typeof OPTIONS} */ (option);
    if (!OPTIONS[known]?.includes(name)) {
      throw new SetupError(`${JSON.stringify(word)} is no option of npm run bench -- ${name}`);
    }
    given[known] = value;
  }
  const { against, pairs, only, most } = given;
  return {
    name,
    against: against === undefined ? undefined : builtCheckout(against),
    pairs: pairs === undefined ? undefined : oddNumber(pairs),
    options: { ...(only && { only }), ...(most && { most: wholeNumber(most) }) },
  };
}

/** @param {string} folder */
function builtCheckout(folder) {
  const root = resolve(folder);
  if (!existsSync(join(root, 'dist', 'main.js'))) {
    throw new SetupError(`${root} is no built checkout: run \`npm ci && npm run build\` there`);
  }
  return root;
}

/** @param {string} text */
function wholeNumber(text) {
  if (!/^[1-9]\d{3,8}$/.test(text)) {
    throw new SetupError(`--most=${text}: give a number of live reservations from 1000`);
  }
  return Number(text);
}

/** @param {string} text */
function oddNumber(text) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number % 2 === 0) {
    throw new SetupError(`--pairs=${text}: give an odd number, so that there is a median`);
  }
  return number;
}

runCommand(async () => {
  const { name, against, pairs, options } = readArguments(process.argv.slice(2));
  checkNode();
  ensureDependencies();
  ensureRedis({});
  ensureBuild();
  const measure = BENCHMARKS[name];
  if (name === 'all') {
    await recordAll(options);
  } else if (measure === undefined) {
    updatePage();
    updateGrowth();
  } else if (against === undefined) {
    print(await watched(() => measure(options)));
  } else {
    const { comparePairs } = await import('./pairs.mjs');
    print(await watched(() => comparePairs(name, { ...options, against, pairs })));
  }
  return 0;
});
