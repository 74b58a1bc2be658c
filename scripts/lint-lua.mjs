// Runs luacheck over every script as it is assembled: its parts and its own code, in one text. Part of npm run lint.
// Without luacheck it says so and succeeds; with LUACHECK=required, as in .ci/run, it fails.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { fieldProblems } from './lua-fields.mjs';
import { loadReaders } from './script-readers.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const LUA = pathToFileURL(join(ROOT, 'lua/'));
/** Called by the code that src/redis/script-source.ts puts around a script. */
const CALLED_FROM_OUTSIDE = ['with_audited_request'];

/** @typedef {{ file: string, line: number }} Place a line of a file in lua */

/** @param {string} folder @returns {Promise<Map<string, Place[]>>} for each script, where each line of its text comes from */
async function assembleInto(folder) {
  const { partsOf, readLua, scriptPaths } = await loadReaders();
  const places = new Map();
  for (const [name, path] of scriptPaths(LUA)) {
    const own = readLua(path, LUA);
    const texts = [...partsOf(own, LUA)].map(([part, text]) => [`lib/${part}.lua`, text]);
    const lines = [...texts, [path, own.replace(/^#!.*/, '')]].flatMap(([file = '', text = '']) =>
      text
        .replace(/\n$/, '')
        .split('\n')
        .map((line, index) => ({ line, place: { file, line: index + 1 } })),
    );
    writeFileSync(join(folder, `${name}.lua`), lines.map(({ line }) => `${line}\n`).join(''));
    places.set(
      name,
      lines.map(({ place }) => place),
    );
  }
  return places;
}

/**
 * A part may define what some of its scripts do not use, but not what none of them uses.
 * @param {string} output of luacheck @param {Map<string, Place[]>} places
 */
function problemsIn(output, places) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  /** @type {Map<string, Place>} */
  const at = new Map();
  for (const [, script = '', line, code, message] of output.matchAll(
    /^.*?(\w+)\.lua:(\d+):\d+(?:-\d+)?: \((\w+)\) (.*)$/gm,
  )) {
    const place = /** @type {Place} */ (places.get(script)?.[Number(line) - 1]);
    const problem = `lua/${place.file}:${place.line}: (${code}) ${message}`;
    counts.set(problem, (counts.get(problem) ?? 0) + 1);
    at.set(problem, place);
  }
  const users = (/** @type {string} */ file) =>
    [...places.values()].filter((lines) => lines.some((place) => place.file === file)).length;
  return [...counts].flatMap(([problem, count]) => {
    const { file } = /** @type {Place} */ (at.get(problem));
    const isUnused = problem.includes('(W211)') && file.startsWith('lib/');
    const isCalled = CALLED_FROM_OUTSIDE.some((name) => problem.includes(`'${name}'`));
    return isUnused && (isCalled || count < users(file)) ? [] : [problem];
  });
}

/** @param {readonly string[]} problems */
function report(problems) {
  process.stderr.write(problems.map((problem) => `${problem}\n`).join(''));
  return problems.length > 0;
}

async function main() {
  const isMisnamed = report(fieldProblems());
  if (spawnSync('luacheck', ['--version'], { stdio: 'ignore' }).status !== 0) {
    process.stderr.write(
      'Lua was not checked: luacheck is not installed (on Debian: apt-get install lua-check)\n',
    );
    return isMisnamed || process.env.LUACHECK === 'required' ? 1 : 0;
  }
  const folder = mkdtempSync(join(ROOT, 'node_modules/.lint-lua-'));
  try {
    const places = await assembleInto(folder);
    const config = ['--config', join(ROOT, '.luacheckrc'), '--formatter', 'plain', '--codes'];
    const { status, stdout } = spawnSync('luacheck', [...config, folder], {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
    const isFaulty = report(problemsIn(stdout, places));
    return isMisnamed || isFaulty || status === null || status > 2 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

process.exitCode = await main();
