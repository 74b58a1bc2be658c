// npm run bench -- <name>: runs one benchmark against a Holdfast of its own, on loopback, bounded in time.
import { SetupError, checkNode, ensureBuild, ensureDependencies, ensureRedis, runCommand } from '../scripts/install.mjs';

const BENCHMARKS = { reserve: './reserve.mjs', sweep: './sweep.mjs', 'audit-bytes': './audit-bytes.mjs' };

runCommand(async () => {
  const [name, ...rest] = process.argv.slice(2);
  if (!Object.hasOwn(BENCHMARKS, name ?? '') || rest.length > 0) {
    throw new SetupError(`give the name of one benchmark: ${Object.keys(BENCHMARKS).join(', ')}; as in \`npm run bench -- reserve\``);
  }
  checkNode();
  ensureDependencies();
  ensureRedis({});
  ensureBuild();
  const { run } = await import(BENCHMARKS[name]);
  return run();
});
