// npm test: installs what is missing, runs all tests against Redis servers that they start themselves, and exits with jest's code.
// With --on=cluster,sentinel (npm run test:topologies), it runs the suites of test/topologies.json on each topology instead. Other
// arguments are passed to jest. The lines before the last one say why tests were skipped; the last one is
// `N passed, N failed`.
import { spawn } from 'node:child_process';
import { cpSync, existsSync, rmSync, writeFileSync } from 'node:fs';
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
import { endOf, openRun } from './test-run.mjs';
import { ensureChromium, ensurePrometheus } from './test-tools.mjs';

const STOP_SIGNALS = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
/**
 * What test files leave in memory adds up. In a worker of 2 GB, collecting garbage made some tests take ten times as long, so a worker
 * ends and another takes its place before.
 */
const JEST_OPTIONS = ['--workerIdleMemoryLimit=768MB'];

/** @typedef {{ passed: number, failed: number, skipped: Record<string, number> }} Counts  skipped: tests by the reason */

/**
 * The signal that ended the run early, if one did.
 * @type {(typeof STOP_SIGNALS)[number] | undefined}
 */
let stopped;

runCommand(async () => {
  checkNode();
  ensureDependencies();
  ensureRedis({});
  ensureChromium();
  ensurePrometheus();
  // Some tests start the built service, and must not build it concurrently.
  ensureBuild();
  const { topologies, args } = readArguments(process.argv.slice(2));
  const run = openRun();
  try {
    copyBuild();
    return await runAll(topologies, args, run.folder);
  } finally {
    await run.close({ inOrder: stopped === undefined });
  }
});

/**
 * Copies the build for the tests, which would otherwise compile the same sources again. They do not use dist itself, because a build
 * during the run would change it. A run inside a run uses the copy of the outer one.
 */
function copyBuild() {
  const mark = process.env.TEST_BUILT_MARK ?? '';
  if (!existsSync(mark)) {
    const copy = join(ROOT, '.test-dist');
    cpSync(join(ROOT, 'dist'), copy, { recursive: true });
    // What the compiler recorded about its own last output there is no longer true.
    rmSync(join(ROOT, 'tsconfig.tsbuildinfo'), { force: true });
    writeFileSync(mark, '');
  }
}

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
 * Runs one topology after the other, even if one fails, until a signal stops the run.
 * @param {(string | undefined)[]} topologies
 * @param {string[]} args
 * @param {string} directory
 */
async function runAll(topologies, args, directory) {
  const total = { passed: 0, failed: 0 };
  /** @type {Map<string, number>} */
  const skipped = new Map();
  let code = 0;
  let isCounted = false;
  for (const [index, topology] of topologies.entries()) {
    if (topology !== undefined) {
      process.stdout.write(`on ${topology}:\n`);
    }
    const countsFile = join(directory, `counts-${index}.json`);
    const ended = await runJest(args, countsFile, topology === undefined ? {} : { TEST_TOPOLOGY: topology });
    const counts =
      readCounts(countsFile) ?? (ended === 0 ? undefined : { passed: 0, failed: 1, skipped: {} });
    isCounted ||= counts !== undefined;
    total.passed += counts?.passed ?? 0;
    total.failed += counts?.failed ?? 0;
    for (const [reason, tests] of Object.entries(counts?.skipped ?? {})) {
      skipped.set(reason, (skipped.get(reason) ?? 0) + tests);
    }
    code ||= ended;
    if (stopped !== undefined) {
      break;
    }
  }
  for (const [reason, tests] of skipped) {
    process.stdout.write(`${tests} skipped: ${reason}\n`);
  }
  if (args.length === 0 && topologies.includes(undefined)) {
    process.stdout.write('integrations/ has tests of its own: npm run test:integrations\n');
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
async function runJest(args, countsFile, settings) {
  const jest = join(ROOT, 'node_modules', 'jest', 'bin', 'jest.js');
  // Last, because the option consumes all arguments that follow it.
  const reporters = ['--reporters=default', `--reporters=${join(ROOT, 'scripts', 'test-reporter.mjs')}`];
  const child = spawn(process.execPath, [jest, ...JEST_OPTIONS, ...args, ...reporters], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, ...settings, HOLDFAST_TEST_COUNTS: countsFile },
  });
  // This process must outlive jest to close the run.
  const pass = (/** @type {(typeof STOP_SIGNALS)[number]} */ signal) => {
    stopped = signal;
    child.kill(signal);
  };
  STOP_SIGNALS.forEach((signal) => process.on(signal, pass));
  const { code, signal } = await endOf(child);
  STOP_SIGNALS.forEach((one) => process.off(one, pass));
  if (stopped !== undefined) {
    return 128 + constants.signals[stopped];
  }
  return signal === null ? (code ?? 1) : 1;
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
