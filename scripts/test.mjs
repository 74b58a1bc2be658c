// npm test: installs what is missing, runs the whole suite against Redis servers that the tests start themselves, and
// ends with jest's exit code. With --on=cluster,sentinel (npm run test:topologies) it runs instead, on each of them, the suites
// that test/topologies.json names. Other arguments go to jest. The last line is `N passed, N failed`.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import {
  ROOT,
  checkNode,
  ensureBuild,
  ensureDependencies,
  ensureRedis,
  readJson,
  runCommand,
} from './install.mjs';
import { openRun } from './test-run.mjs';

const STOP_SIGNALS = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);

/** @typedef {{ passed: number, failed: number }} Counts */

/**
 * The signal that ended the run early, if one did.
 * @type {(typeof STOP_SIGNALS)[number] | undefined}
 */
let stopped;

runCommand(async () => {
  checkNode();
  ensureDependencies();
  ensureRedis({});
  // Some tests start the built service, and two of them must not build it at the same time.
  ensureBuild();
  const { topologies, args } = readArguments(process.argv.slice(2));
  const run = openRun();
  try {
    return await runAll(topologies, args, run.folder);
  } finally {
    await run.close({ inOrder: stopped === undefined });
  }
});

/** @param {string[]} words */
function readArguments(words) {
  const [option, ...more] = words.filter((word) => word.startsWith('--on='));
  if (more.length > 0) {
    throw new Error('--on may be given once');
  }
  const topologies = option === undefined ? [undefined] : option.slice('--on='.length).split(',');
  return { topologies, args: words.filter((word) => word !== option) };
}

/**
 * One run after the other, the later ones also when an earlier one fails, but none after a signal to stop.
 * @param {(string | undefined)[]} topologies
 * @param {string[]} args
 * @param {string} directory
 */
async function runAll(topologies, args, directory) {
  const total = { passed: 0, failed: 0 };
  let code = 0;
  let isCounted = false;
  for (const [index, topology] of topologies.entries()) {
    if (topology !== undefined) {
      process.stdout.write(`on ${topology}:\n`);
    }
    const countsFile = join(directory, `counts-${index}.json`);
    const ended = await runJest(args, countsFile, topology === undefined ? {} : { TEST_TOPOLOGY: topology });
    const counts = readCounts(countsFile) ?? (ended === 0 ? undefined : { passed: 0, failed: 1 });
    isCounted ||= counts !== undefined;
    total.passed += counts?.passed ?? 0;
    total.failed += counts?.failed ?? 0;
    code ||= ended;
    if (stopped !== undefined) {
      break;
    }
  }
  if (isCounted) {
    process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
  }
  return code;
}

/**
 * @param {string[]} args
 * @param {string} countsFile
 * @param {Record<string, string>} settings
 * @returns {Promise<number>} the exit code
 */
function runJest(args, countsFile, settings) {
  const jest = join(ROOT, 'node_modules', 'jest', 'bin', 'jest.js');
  // Last, because the option takes every word that follows it.
  const reporters = ['--reporters=default', `--reporters=${join(ROOT, 'scripts', 'count-reporter.mjs')}`];
  const child = spawn(
    process.execPath,
    ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning', jest, ...args, ...reporters],
    {
      cwd: ROOT,
      stdio: 'inherit',
      env: { ...process.env, ...settings, HOLDFAST_TEST_COUNTS: countsFile },
    },
  );
  // This process outlives jest, to see that nothing else does.
  const pass = (/** @type {(typeof STOP_SIGNALS)[number]} */ signal) => {
    stopped = signal;
    child.kill(signal);
  };
  STOP_SIGNALS.forEach((signal) => process.on(signal, pass));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      STOP_SIGNALS.forEach((one) => process.off(one, pass));
      resolve(stopped === undefined ? (signal === null ? (code ?? 1) : 1) : 128 + constants.signals[stopped]);
    });
  });
}

/**
 * Nothing when jest ran no tests, as with --listTests.
 * @param {string} file
 * @returns {Counts | undefined}
 */
function readCounts(file) {
  try {
    return /** @type {Counts} */ (readJson(file));
  } catch {
    return undefined;
  }
}
