// npm run bench -- <name>: runs one benchmark against a Holdfast of its own, on loopback, bounded in time, and prints its figures.
// `all` runs every one and records the figures; `summary` updates docs/performance.md from the newest record.
import {
  SetupError,
  checkNode,
  ensureBuild,
  ensureDependencies,
  ensureRedis,
  runCommand,
} from '../scripts/install.mjs';
import { BENCHMARKS, recordAll } from './all.mjs';
import { circumstances, sectionText, today } from './report.mjs';
import { updatePage } from './summary.mjs';

async function printOne(name) {
  const result = await BENCHMARKS[name]();
  process.stdout.write(`\n${sectionText(result, `${today()}; ${circumstances()}; `)}`);
}

const COMMANDS = {
  ...Object.fromEntries(Object.keys(BENCHMARKS).map((name) => [name, () => printOne(name)])),
  all: recordAll,
  summary: updatePage,
};

runCommand(async () => {
  const [name, ...rest] = process.argv.slice(2);
  if (!Object.hasOwn(COMMANDS, name ?? '') || rest.length > 0) {
    throw new SetupError(
      `give the name of one benchmark: ${Object.keys(COMMANDS).join(', ')}; as in \`npm run bench -- reserve\``,
    );
  }
  checkNode();
  ensureDependencies();
  ensureRedis({});
  ensureBuild();
  await COMMANDS[name]();
  return 0;
});
