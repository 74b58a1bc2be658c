// npm run bench -- <name> [options]: runs one benchmark on a separate Holdfast on loopback,
// and prints its figures. `against` compares this checkout with another commit. `all` runs every one and records the figures; `summary` updates README.md and
// docs/performance.md from the newest record. Without a name, it lists the benchmarks. Exit codes: 0 measured; 1 not measured, or a limit was missed.
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
import { updatePages } from './summary.mjs';

const COMMANDS = [...Object.keys(BENCHMARKS), 'all', 'against', 'summary'];

/** @param {import('./types.ts').Result} result */
function print(result) {
  process.stdout.write(`\n${sectionText(result, `${today()}; ${circumstances()}; `)}`);
}

/** Which benchmarks have parts of their own. */
const DIVIDED = ['isolation', 'leak', 'gateways'];

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
  const [only, ...more] = words.map((word) => /^--only=(.+)$/.exec(word)?.[1]);
  if (words.length > 0 && (only === undefined || more.length > 0 || !DIVIDED.includes(name))) {
    throw new SetupError(`${JSON.stringify(words.join(' '))} is no option of npm run bench -- ${name}`);
  }
  return only === undefined ? {} : { only };
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
    const given = words.filter((word) => word.startsWith('--'));
    print(await watched(['against', plan.ref, ...given].join(' '), () => measureAgainst(plan)));
  } else if (name === 'all') {
    await recordAll();
  } else if (measure === undefined) {
    updatePages();
  } else {
    print(await measure(options));
  }
  return 0;
});
