// npm test: installs what is missing, runs the whole suite against Redis servers that the tests start themselves, and
// ends with jest's exit code. Arguments go to jest. The last line is `N passed, N failed`.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, checkNode, ensureBuild, ensureDependencies, ensureRedis, runCommand } from './install.mjs';

runCommand(async () => {
  checkNode();
  ensureDependencies();
  ensureRedis({});
  // Some tests start the built service, and two of them must not build it at the same time.
  ensureBuild();
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
  const countsFile = join(directory, 'counts.json');
  try {
    const code = await runJest(process.argv.slice(2), countsFile);
    const counts = readCounts(countsFile);
    if (counts !== undefined || code !== 0) {
      const { passed, failed } = counts ?? { passed: 0, failed: 1 };
      process.stdout.write(`${passed} passed, ${failed} failed\n`);
    }
    return code;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

function runJest(args, countsFile) {
  const jest = join(ROOT, 'node_modules', 'jest', 'bin', 'jest.js');
  // Last, because the option takes every word that follows it.
  const reporters = ['--reporters=default', `--reporters=${join(ROOT, 'scripts', 'count-reporter.mjs')}`];
  const child = spawn(process.execPath, ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning', jest, ...args, ...reporters], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, HOLDFAST_TEST_COUNTS: countsFile },
  });
  // The terminal sends ^C to jest as well; this process only has to outlive it.
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve(signal === null ? code : 1));
  });
}

/** Nothing when jest ran no tests, as with --listTests. */
function readCounts(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
