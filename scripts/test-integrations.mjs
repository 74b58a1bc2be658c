// npm run test:integrations: the tests of integrations/litellm, in an environment of their own with LiteLLM's real proxy. Other arguments
// are passed to pytest. The last line is `N passed, N failed`. Without a suitable Python they are skipped, unless INTEGRATIONS=required.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkNode, ensureBuild, ensureDependencies, ensureRedis, runCommand } from './install.mjs';
import { LITELLM, NO_PYTHON, ensureEnvironment, findPython } from './python.mjs';

runCommand(() => {
  checkNode();
  const python = findPython();
  if (python === undefined) {
    const isRequired = process.env.INTEGRATIONS === 'required';
    process.stdout.write(`integrations/litellm: ${isRequired ? 'FAILED' : 'SKIPPED'}: ${NO_PYTHON}\n`);
    process.stdout.write(`0 passed, ${isRequired ? 1 : 0} failed\n`);
    return Promise.resolve(isRequired ? 1 : 0);
  }
  ensureDependencies();
  ensureRedis({});
  ensureBuild();
  return Promise.resolve(runAll(ensureEnvironment(python), process.argv.slice(2)));
});

/**
 * @param {string} python
 * @param {string[]} args
 */
function runAll(python, args) {
  const lint = [['check'], ['format', '--check']].map((words) =>
    spawnIn(python, ['-m', 'ruff', ...words, '--quiet', '.']),
  );
  const folder = mkdtempSync(join(tmpdir(), 'hf-integrations-'));
  try {
    const report = join(folder, 'report.xml');
    const code = spawnIn(python, ['-m', 'pytest', '-q', `--junitxml=${report}`, ...args]);
    const { passed, failed } = countsIn(report);
    const problems = lint.filter((status) => status !== 0).length;
    process.stdout.write(`${passed} passed, ${failed + problems} failed\n`);
    return code || (problems > 0 ? 1 : 0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {string} python
 * @param {string[]} args
 */
function spawnIn(python, args) {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' };
  return spawnSync(python, args, { cwd: LITELLM, stdio: 'inherit', env }).status ?? 1;
}

/**
 * A run without a report failed before its tests.
 * @param {string} report in the form of JUnit
 */
function countsIn(report) {
  try {
    const [head = ''] = /<testsuite [^>]*>/.exec(readFileSync(report, 'utf8')) ?? [];
    const count = (/** @type {string} */ name) =>
      Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
    const failed = count('failures') + count('errors');
    return { passed: Math.max(0, count('tests') - failed - count('skipped')), failed };
  } catch {
    return { passed: 0, failed: 1 };
  }
}
