// npm run mutants: changes the scripts and services in each way of list.mjs, one at a time, runs their tests on the changed file, and says
// which test noticed. Exits with 1 if none did and the list gives no reason. `--only=<text>` takes the files whose path contains it, or one of several
// texts with commas between them, and `--record` writes the results to docs/reference/mutants.md.
import { spawn } from 'node:child_process';
import { cpSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import {
  ROOT,
  SetupError,
  checkNode,
  ensureDependencies,
  ensureRedis,
  readJson,
  runCommand,
} from '../install.mjs';
import { endOf, openRun } from '../test-run.mjs';
import { MUTATIONS } from './list.mjs';
import { mutate } from './mutate.mjs';
import { pageText, testsOf } from './page.mjs';

/** What a run makes, and what is linked. */
const NOT_COPIED = ['.data', '.git', '.test-dist', 'dist', 'node_modules'];
const ALL_TESTS = 'test/lua/';
const PAGE = join(ROOT, 'docs/reference/mutants.md');
/** A mutant may loop forever. On a busy machine it gets half as long again as the unchanged tests took. */
const LIMIT_MS = 240_000;

/**
 * @typedef {import('./list.mjs').Mutation} Mutation
 * @typedef {Mutation & { readonly file: string, readonly tests: readonly string[] }} Mutant
 * @typedef {{ readonly mutant: Mutant, readonly noticed: string | undefined }} Result
 *   noticed: the test that failed, or nothing if all passed
 */

/** @returns {Mutant[]} */
function allMutants() {
  const page = readFileSync(PAGE, 'utf8');
  return Object.entries(MUTATIONS).flatMap(([file, mutations]) => {
    const known = testsOf(page, file);
    return mutations.map((mutation) => ({ ...mutation, file, tests: mutation.tests ?? known }));
  });
}

/**
 * A copy of the project in which the scripts can be changed.
 * @param {string} folder
 */
function copyProject(folder) {
  for (const name of readdirSync(ROOT).filter((one) => !NOT_COPIED.includes(one))) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/**
 * Runs tests in a copy of the project until one fails.
 * @param {string} project
 * @param {readonly string[]} tests
 * @param {number} [limitMs]
 * @returns {Promise<string | undefined>} what failed
 * @throws Error if a script does not compile
 */
async function failureOf(project, tests, limitMs) {
  const output = join(project, 'results.json');
  writeFileSync(output, '{}');
  const jest = [
    'node_modules/jest/bin/jest.js',
    '--maxWorkers=1',
    '--bail=1',
    // A test whose time is up goes on in the background, for ever if the mutant does.
    '--forceExit',
    '--json',
    `--outputFile=${output}`,
  ];
  const child = spawn(process.execPath, [...jest, ...tests], {
    cwd: project,
    stdio: 'ignore',
    timeout: limitMs,
    killSignal: 'SIGKILL',
  });
  const { code, signal } = await endOf(child);
  if (code === 0) {
    return undefined;
  }
  if (signal !== null) {
    return 'the time limit';
  }
  return failedTest(/** @type {JestResults} */ (readJson(output)), project);
}

/**
 * @typedef {{ testResults?: { name: string, message: string, assertionResults: { status: string, fullName: string }[] }[] }} JestResults
 * @param {JestResults} results
 * @param {string} project
 */
function failedTest({ testResults = [] }, project) {
  for (const { name, message, assertionResults } of testResults) {
    if (/Error compiling (?:script|function)|SyntaxError/.test(message)) {
      throw new Error(`the mutant does not compile: ${message.slice(0, 500)}`);
    }
    const failed = assertionResults.find(({ status }) => status === 'failed');
    if (failed !== undefined) {
      const file = name.slice(join(project, 'test/').length).replace(/\.test\.ts$/, '');
      return `\`${file}\` “${failed.fullName}”`;
    }
  }
  throw new Error(
    `jest failed without a failed test: ${testResults.map(({ message }) => message).join('\n')}`,
  );
}

/** @param {string} name below test/ */
const pathOf = (name) => `test/${name}.test.ts`;

/**
 * @param {string} project
 * @param {Mutant} mutant
 * @param {number} limitMs
 * @returns {Promise<Result>}
 */
async function tryOut(project, mutant, limitMs) {
  const isScript = mutant.file.endsWith('.lua');
  const path = join(project, isScript ? 'lua' : 'src', mutant.file);
  const original = readFileSync(path, 'utf8');
  writeFileSync(path, mutate(original, mutant));
  try {
    // Without a name, jest would run all tests.
    const likely = mutant.tests.map(pathOf);
    const noticed =
      (likely.length > 0 ? await failureOf(project, likely, limitMs) : undefined) ??
      (isScript ? await failureOf(project, [ALL_TESTS], limitMs) : undefined);
    return { mutant, noticed };
  } finally {
    writeFileSync(path, original);
  }
}

/** @param {Result} result */
function verdict({ mutant, noticed }) {
  if (noticed !== undefined) {
    return mutant.because === undefined ? 'noticed' : 'noticed, although the list says why it cannot be';
  }
  return mutant.because === undefined ? 'SURVIVED' : 'survived, as the list explains';
}

/**
 * @param {readonly Mutant[]} mutants
 * @param {readonly string[]} projects
 * @param {number} limitMs
 */
async function tryAll(mutants, projects, limitMs) {
  /** @type {Map<Mutant, Result>} */
  const results = new Map();
  const waiting = [...mutants];
  await Promise.all(
    projects.map(async (project) => {
      for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
        const result = await tryOut(project, mutant, limitMs);
        results.set(mutant, result);
        process.stdout.write(
          `${results.size}/${mutants.length} ${verdict(result)}: ${mutant.file}: ${mutant.what}\n`,
        );
      }
    }),
  );
  return mutants.map((mutant) => /** @type {Result} */ (results.get(mutant)));
}

runCommand(async () => {
  checkNode();
  ensureDependencies();
  ensureRedis({});
  const words = process.argv.slice(2);
  const unknown = words.find((word) => word !== '--record' && !word.startsWith('--only='));
  if (unknown !== undefined) {
    throw new SetupError(`${unknown} is no option of npm run mutants`);
  }
  const only = words.find((word) => word.startsWith('--only='))?.slice('--only='.length) ?? '';
  const mutants = allMutants().filter(({ file }) => only.split(',').some((text) => file.includes(text)));
  const run = openRun();
  try {
    const count = Math.min(availableParallelism(), 4);
    const projects = Array.from({ length: count }, (_, index) =>
      copyProject(join(run.folder, `project-${index}`)),
    );
    const used = [...new Set(mutants.flatMap(({ tests }) => tests.map(pathOf)))];
    const began = performance.now();
    const all = mutants.some(({ file }) => file.endsWith('.lua')) ? [ALL_TESTS] : [];
    const broken = await failureOf(/** @type {string} */ (projects[0]), [...all, ...used]);
    if (broken !== undefined) {
      throw new Error(`a test fails on the unchanged scripts: ${broken}`);
    }
    const limitMs = Math.max(LIMIT_MS, Math.ceil(1.5 * (performance.now() - began)));
    const results = await tryAll(mutants, projects, limitMs);
    const wrong = results.filter(
      ({ mutant, noticed }) => (noticed === undefined) !== (mutant.because !== undefined),
    );
    process.stdout.write(
      `${results.length} mutants, ${wrong.length} with a result that the list does not explain\n`,
    );
    if (words.includes('--record')) {
      writeFileSync(PAGE, pageText(results, MUTATIONS, readFileSync(PAGE, 'utf8')));
    }
    return wrong.length === 0 ? 0 : 1;
  } finally {
    await run.close({ inOrder: true });
  }
});
