// npm run spec: random walks through spec/ledger.qnt, checked by the simulator of Quint and repeated against the scripts; see
// docs/specification.md. `--long` takes ten times as many, `--seed=<n>` repeats a run.
import { spawn } from 'node:child_process';
import { ROOT, SetupError, checkNode, ensureDependencies, ensureRedis, runCommand } from './install.mjs';
import { openRun } from './test-run.mjs';

const WALKS = 1000;
const LONG_WALKS = 10_000;
const JEST = ['node_modules/jest/bin/jest.js', 'test/property/spec.test.ts'];

/** @param {readonly string[]} words */
function readArguments(words) {
  const unknown = words.find((word) => word !== '--long' && !/^--seed=\d+$/.test(word));
  if (unknown !== undefined) {
    throw new SetupError(`${unknown} is no option of npm run spec; there are --long and --seed=<number>`);
  }
  const seed = words.find((word) => word.startsWith('--seed='))?.slice('--seed='.length);
  return {
    SPEC_WALKS: String(words.includes('--long') ? LONG_WALKS : WALKS),
    ...(seed === undefined ? {} : { SPEC_SEED: seed }),
  };
}

runCommand(async () => {
  checkNode();
  ensureDependencies();
  ensureRedis({});
  const settings = readArguments(process.argv.slice(2));
  const run = openRun();
  try {
    const child = spawn(process.execPath, JEST, {
      cwd: ROOT,
      stdio: 'inherit',
      env: { ...process.env, ...settings },
    });
    return await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => resolve(code ?? 1));
    });
  } finally {
    await run.close({ inOrder: true });
  }
});
