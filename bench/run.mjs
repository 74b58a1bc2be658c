// npm run bench -- <name> [options]: runs one benchmark on a separate Holdfast on loopback, bounded in time,
// and prints its figures. `against` compares this checkout with another commit. `all` runs every one and records the figures; `summary` updates docs/performance.md
// from the newest record. Without a name, it lists the benchmarks. Exit codes: 0 measured; 1 not measured, or a limit was missed.
import {
  SetupError,
  checkNode,
  ensureBuild,
  ensureDependencies,
  ensureRedis,
  runCommand,
} from '../scripts/install.mjs';
import { measureAgainst, readPlan } from './against.mjs';
import { BENCHMARKS, recordAll } from './all.mjs';
import { circumstances, sectionText, today, watched } from './report.mjs';
import { updateGrowth } from './growth-page.mjs';
import { updatePage } from './summary.mjs';

const COMMANDS = [...Object.keys(BENCHMARKS), 'all', 'against', 'summary'];

/** @param {import('./types.ts').Result} result */
function print(result) {
  process.stdout.write(`\n${sectionText(result, `${today()}; ${circumstances()}; `)}`);
}

/** Which benchmarks have an option. */
const OPTIONS = {
  only: ['isolation', 'leak', 'batch', 'gateways'],
  most: ['growth', 'all'],
};

/**
 * @param {string} name
 * @param {string[]} words
 */
function readArguments(name, words) {
  if (!COMMANDS.includes(name)) {
    throw new SetupError(
      `give the name of one benchmark: ${COMMANDS.join(', ')}; as in \`npm run bench -- reserve\``,
    );
  }
  /** @type {Partial<Record<keyof typeof OPTIONS, string>>} */
  const given = {};
  for (const word of words) {
    const [, option = '', value = ''] = /^--(only|most)=(.+)$/.exec(word) ?? [];
    const known = /** @type {keyof typeof OPTIONS} */ (option);
    if (!OPTIONS[known]?.includes(name)) {
      throw new SetupError(`${JSON.stringify(word)} is no option of npm run bench -- ${name}`);
    }
    given[known] = value;
  }
  const { only, most } = given;
  return { ...(only && { only }), ...(most && { most: wholeNumber(most) }) };
}

/** @param {string} text */
function wholeNumber(text) {
  if (!/^[1-9]\d{3,8}$/.test(text)) {
    throw new SetupError(`--most=${text}: give a number of live reservations from 1000`);
  }
  return Number(text);
}

runCommand(async () => {
  const [name = '', ...words] = process.argv.slice(2);
  const plan = name === 'against' ? readPlan(words) : undefined;
  const options = plan ? {} : readArguments(name, words);
  checkNode();
  ensureDependencies();
  ensureRedis({});
  ensureBuild();
  const measure = BENCHMARKS[name];
  if (plan !== undefined) {
    print(await watched(() => measureAgainst(plan)));
  } else if (name === 'all') {
    await recordAll(options);
  } else if (measure === undefined) {
    updatePage();
    updateGrowth();
  } else {
    print(await watched(() => measure(options)));
  }
  return 0;
});
