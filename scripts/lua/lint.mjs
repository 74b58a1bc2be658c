// Runs luacheck over every file of lua by itself, with what it includes declared where its header names it. So a name that is used
// without an include is undefined, and one that is included without use is unused. Part of npm run lint.
// Without luacheck it says so and succeeds; with LUACHECK=required, as in .ci/run, it fails.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { fieldProblems } from './fields.mjs';
import { loadTools } from './load.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LUA = pathToFileURL(join(ROOT, 'lua/'));
/** Called by the code that scripts/lua/library.ts puts around a script. */
const CALLED_FROM_OUTSIDE = new Map([
  ['append_audit', ['with_audited_request']],
  ['attest', ['attested_reply']],
  ['group', ['run_calls']],
]);

const { importsOf, readLua, usedNames } = await loadTools();

/** @returns {Map<string, string>} every file by its path in lua */
function readFiles() {
  const paths = readdirSync(LUA, { recursive: true, encoding: 'utf8' }).map((path) =>
    path.split(sep).join('/'),
  );
  return new Map(
    paths
      .filter((path) => path.endsWith('.lua'))
      .sort()
      .map((path) => [path, readLua(path, LUA)]),
  );
}

/** @param {string} text @returns {Set<string>} the functions and constants that a part defines */
function definedIn(text) {
  const functions = [...text.matchAll(/^local function (\w+)/gm)].map(([, name = '']) => name);
  const values = [...text.matchAll(/^local (?!function )(\w+(?:, \w+)*)/gm)];
  return new Set([...functions, ...values.flatMap(([, names = '']) => names.split(', '))]);
}

/** @param {Map<string, string>} files */
function includeProblems(files) {
  const undefinedNames = [...files].flatMap(([path, text]) =>
    importsOf(text).flatMap(({ part, names }) => {
      const defined = definedIn(files.get(`lib/${part}.lua`) ?? '');
      return names
        .filter((name) => !defined.has(name))
        .map((name) => `lua/${path}: lua/lib/${part}.lua does not define ${name}`);
    }),
  );
  // In an assembled script, the name from one part would hide that of the other.
  const given = [...usedNames(files.values())].flatMap(([part, names]) =>
    names.map((name) => ({ part, name })),
  );
  const partOf = new Map(given.map(({ part, name }) => [name, part]));
  const ambiguous = given
    .filter(({ part, name }) => partOf.get(name) !== part)
    .map(
      ({ part, name }) => `lua/lib/${part}.lua: others include ${name} of lua/lib/${partOf.get(name)}.lua`,
    );
  return [...undefinedNames, ...ambiguous];
}

/**
 * A file as luacheck is to see it, line by line: the includes and the group of a grouped script as locals, and at the end what others include of it.
 * @param {string} text @param {readonly string[]} used
 */
function checkable(text, used) {
  const imports = importsOf(text);
  const lines = text.replace(/^#!.*/, '').replace(/\n$/, '').split('\n');
  const declared = lines.map((line) => {
    const isInclude = line.startsWith('-- @include ');
    const names = isInclude
      ? imports.shift()?.names.join(', ')
      : line.startsWith('-- GROUP ')
        ? 'group'
        : undefined;
    return names === undefined ? line : `local ${names} = INCLUDED()`;
  });
  const defined = definedIn(text);
  const given = used.filter((name) => defined.has(name));
  return [...declared, ...(given.length > 0 ? [`return ${given.join(', ')}`] : [])].join('\n').concat('\n');
}

/** @param {Map<string, string>} files @returns {string[] | undefined} nothing where luacheck could not run */
function luacheckProblems(files) {
  const used = usedNames(files.values());
  const folder = mkdtempSync(join(ROOT, 'node_modules/.lint-lua-'));
  try {
    for (const [path, text] of files) {
      const part = /^lib\/(\w+)\.lua$/.exec(path)?.[1] ?? '';
      const names = [...(used.get(part) ?? []), ...(CALLED_FROM_OUTSIDE.get(part) ?? [])];
      writeFileSync(join(folder, path.replace('/', '__')), checkable(text, names));
    }
    const config = ['--config', join(ROOT, '.luacheckrc'), '--formatter', 'plain', '--codes'];
    const { status, stdout } = spawnSync('luacheck', [...config, folder], {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
    const found = [...stdout.matchAll(/^.*?(\w+)__(\w+)\.lua:(\d+):\d+(?:-\d+)?: (.*)$/gm)];
    return status === null || status > 2 || (status > 0 && found.length === 0)
      ? undefined
      : found.map(([, directory, name, line, message]) => `lua/${directory}/${name}.lua:${line}: ${message}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function main() {
  const files = readFiles();
  const problems = [...fieldProblems(), ...includeProblems(files)];
  const isInstalled = spawnSync('luacheck', ['--version'], { stdio: 'ignore' }).status === 0;
  problems.push(
    ...(isInstalled ? (luacheckProblems(files) ?? ['luacheck could not check the files of lua']) : []),
  );
  process.stderr.write(problems.map((problem) => `${problem}\n`).join(''));
  if (!isInstalled) {
    process.stderr.write(
      'Lua was not checked: luacheck is not installed (on Debian: apt-get install lua-check)\n',
    );
  }
  return problems.length > 0 || (!isInstalled && process.env.LUACHECK === 'required') ? 1 : 0;
}

process.exitCode = main();
