// Installs missing npm dependencies and a Redis-compatible server, and builds the service if the build is stale.
// It runs before node_modules exists, so it uses only Node itself.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import './help.mjs';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

const REDIS_BINARIES = ['redis-server', 'valkey-server'];
/** With any of these set, the embedded Redis is not used, and no server needs to be installed. */
export const REDIS_ADDRESSES = ['REDIS_URL', 'REDIS_SENTINELS', 'REDIS_CLUSTER_NODES'];
const INSTALL_TIMEOUT_MS = 10 * 60_000;
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

/** @typedef {{ name: string, asUser?: boolean, prepare?: string[], attempts: [string[], ...string[][]] }} PackageManager */

/**
 * Each package manager with the commands to try in turn until one succeeds.
 * @type {PackageManager[]}
 */
const PACKAGE_MANAGERS = [
  {
    name: 'apt-get',
    prepare: ['update', '-q'],
    attempts: [['install', '-y', '-q', '--no-install-recommends', 'redis-server']],
  },
  {
    name: 'dnf',
    attempts: [
      ['install', '-y', '-q', 'valkey'],
      ['install', '-y', '-q', 'redis'],
    ],
  },
  {
    name: 'apk',
    attempts: [
      ['add', '--no-cache', 'redis'],
      ['add', '--no-cache', 'valkey'],
    ],
  },
  // Homebrew refuses to run as root.
  { name: 'brew', asUser: true, attempts: [['install', 'redis']] },
];

/**
 * @param {string} text
 * @returns {unknown}
 */
export const parseJson = (text) => JSON.parse(text);

/** @param {string} file */
export const readJson = (file) => parseJson(readFileSync(file, 'utf8'));

/**
 * The options of Node.js with which `npm start` starts the service.
 * @param {string} root the checkout
 */
export function nodeOptionsOf(root) {
  const { scripts } = /** @type {{ scripts: { start: string } }} */ (readJson(join(root, 'package.json')));
  return scripts.start.split(' ').filter((word) => word.startsWith('--'));
}

/** A failure that the user can fix. The message is one line. */
export class SetupError extends Error {}

/** @throws SetupError when this Node.js is older than package.json allows. */
export function checkNode() {
  const { engines } = /** @type {{ engines: { node: string } }} */ (readJson(join(ROOT, 'package.json')));
  const [major, minor] = versionIn(engines.node);
  const [runningMajor, runningMinor] = versionIn(process.versions.node);
  if (runningMajor < major || (runningMajor === major && runningMinor < minor)) {
    throw new SetupError(
      `Node.js ${major}.${minor} or newer is needed, and this is ${process.versions.node}; install a newer one from https://nodejs.org`,
    );
  }
}

/**
 * The first version that a text names.
 * @param {string} text such as `>=20.19`
 * @returns {[major: number, minor: number]}
 */
function versionIn(text) {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(text) ?? [];
  return [Number(major), Number(minor)];
}

/** Runs `npm ci` when node_modules is missing or differs from package-lock.json. */
export function ensureDependencies() {
  if (dependenciesAreCurrent()) {
    return;
  }
  say('Installing the npm dependencies ...');
  const { status } = npm(['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
  if (status !== 0) {
    throw new SetupError('`npm ci` failed; see its messages above');
  }
}

/** @typedef {{ version?: string, optional?: boolean, devOptional?: boolean }} LockedPackage */

/** @param {string} lockFile */
const packagesOf = (lockFile) =>
  /** @type {{ packages: Record<string, LockedPackage> }} */ (readJson(lockFile)).packages;

function dependenciesAreCurrent() {
  const lockFile = join(ROOT, 'package-lock.json');
  const installedFile = join(ROOT, 'node_modules', '.package-lock.json');
  if (!existsSync(installedFile)) {
    return false;
  }
  if (statSync(installedFile).mtimeMs >= statSync(lockFile).mtimeMs) {
    return true;
  }
  // A checkout changes the time of the lock file even if its contents are the same, so compare the contents.
  const locked = packagesOf(lockFile);
  const installed = packagesOf(installedFile);
  /** @param {[string, LockedPackage]} entry */
  const isInstalled = ([path, { version, optional, devOptional }]) =>
    path === '' ||
    installed[path]?.version === version ||
    (installed[path] === undefined && (optional === true || devOptional === true));
  return (
    Object.entries(locked).every(isInstalled) &&
    Object.keys(installed).every((path) => locked[path] !== undefined)
  );
}

/**
 * Makes sure that a Redis-compatible server is on PATH, unless the environment names another Redis.
 * @param {Readonly<Record<string, string | undefined>>} env
 */
export function ensureRedis(env = process.env) {
  const isExternal = REDIS_ADDRESSES.some((name) => (env[name] ?? '').trim() !== '');
  if (isExternal || redisBinary() !== undefined) {
    return;
  }
  const manager = PACKAGE_MANAGERS.find(({ name }) => findOnPath(name) !== undefined);
  if (manager === undefined) {
    throw new SetupError(
      'neither redis-server nor valkey-server is on PATH, and no apt-get, dnf, apk or brew to install it with; install Redis 7.0 or newer, or set REDIS_URL',
    );
  }
  const byHand = `${manager.name} ${manager.attempts[0].filter((word) => !word.startsWith('-q')).join(' ')}`;
  const prefix = rightsFor(manager, byHand);
  say(`Installing a Redis server with ${manager.name} ...`);
  let lastWords = '';
  for (const words of [...(manager.prepare ? [manager.prepare] : []), ...manager.attempts]) {
    const [command = manager.name, ...args] = [...prefix, manager.name, ...words];
    const done = runQuietly(command, args);
    lastWords = done.lastWords || lastWords;
    if (redisBinary() !== undefined) {
      return;
    }
  }
  throw new SetupError(
    `${manager.name} could not install a Redis server (${lastWords || 'no reason given'}); install Redis 7.0 or newer by hand, or set REDIS_URL`,
  );
}

/** The name of the installed server, if there is one. */
export const redisBinary = () => REDIS_BINARIES.find((name) => findOnPath(name) !== undefined);

/**
 * The words to put before the package manager: nothing for root, `sudo -n` for others when it asks for no password.
 * @param {PackageManager} manager
 * @param {string} byHand
 */
function rightsFor({ asUser }, byHand) {
  if (asUser || process.getuid?.() === 0) {
    return [];
  }
  if (findOnPath('sudo') && spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0) {
    return ['sudo', '-n'];
  }
  throw new SetupError(
    `neither redis-server nor valkey-server is on PATH; run \`sudo ${byHand}\` and start again, or set REDIS_URL`,
  );
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} [cwd]
 */
export function runQuietly(command, args, cwd) {
  const done = spawnSync(command, args, {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    timeout: INSTALL_TIMEOUT_MS,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', HOMEBREW_NO_AUTO_UPDATE: '1' },
  });
  const text =
    done.status === 0 ? '' : `${done.error?.message ?? ''}\n${done.stdout ?? ''}\n${done.stderr ?? ''}`;
  return { lastWords: text.trim().split('\n').at(-1) ?? '' };
}

/**
 * What a command prints.
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd?: string, input?: string | Buffer }} [how]
 * @throws SetupError with its last words if it fails
 */
export function outputOf(command, args, { cwd = ROOT, input = '' } = {}) {
  const done = spawnSync(command, args, { cwd, input, maxBuffer: MAX_OUTPUT_BYTES });
  if (done.status !== 0) {
    const words = done.error?.message ?? [done.stdout, done.stderr].join('').trim().split('\n').at(-1);
    throw new SetupError(`${command} ${args[0]} failed in ${cwd}: ${words}`);
  }
  return done.stdout;
}

/**
 * The path of a program, if there is one.
 * @param {string} name
 */
export function findOnPath(name) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** Runs the build if dist is older than the sources, or lacks the console, which is built last. */
export function ensureBuild() {
  const [built, last] = [join(ROOT, 'dist/main.js'), join(ROOT, 'dist/page/index.html')];
  const sources = [
    'src',
    'lua',
    'console',
    'scripts/lua',
    'scripts/bundle.mjs',
    'scripts/bundling.mjs',
    'tsconfig.json',
    'nest-cli.json',
    'package-lock.json',
  ];
  const isCurrent = () => sources.every((source) => newest(join(ROOT, source)) <= statSync(built).mtimeMs);
  if (existsSync(built) && existsSync(last) && isCurrent()) {
    return;
  }
  say('Building ...');
  if (npm(['run', '--silent', 'build']).status !== 0) {
    // The compiler writes its output even if there are errors. The next run must not take it for current.
    rmSync(built, { force: true });
    throw new SetupError('the build failed; see its messages above');
  }
}

/**
 * A module of the built service.
 * @param {string} path in dist
 * @returns {Promise<unknown>}
 */
export const importBuilt = (path) => import(pathToFileURL(join(ROOT, 'dist', path)).href);

/**
 * The same for a command that may be the first one to run: it installs and builds whatever is missing.
 * @param {string} path in dist
 * @returns {Promise<unknown>}
 */
export function importForCommand(path) {
  checkNode();
  // The container image has no sources, only the build.
  if (existsSync(join(ROOT, 'src'))) {
    ensureDependencies();
    ensureBuild();
  }
  return importBuilt(path);
}

/**
 * The latest change of a file, or of a directory with all that is in it, in ms since 1970.
 * @param {string} path
 * @returns {number}
 */
function newest(path) {
  const found = statSync(path);
  const inside = found.isDirectory() ? readdirSync(path).map((name) => newest(join(path, name))) : [];
  return Math.max(found.mtimeMs, ...inside);
}

/** @param {string[]} args */
function npm(args) {
  // npm sets its own path for the scripts that it runs.
  const npmCli = process.env.npm_execpath;
  const [command, words] = npmCli?.endsWith('.js') ? [process.execPath, [npmCli, ...args]] : ['npm', args];
  return spawnSync(command, words, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
}

/** @param {string} text */
export function say(text) {
  process.stdout.write(`${text}\n`);
}

/**
 * The values of `--name <value>` in the words of a command.
 * @param {readonly string[]} words
 * @param {readonly string[]} names
 * @param {string} refusal what is said of another word, behind it
 */
export function optionsIn(words, names, refusal) {
  /** @type {Record<string, string>} */
  const given = {};
  for (let index = 0; index < words.length; index += 2) {
    const [option = '', value] = words.slice(index, index + 2);
    const name = names.find((one) => option === `--${one}`);
    if (name === undefined || value === undefined) {
      throw new SetupError(`${JSON.stringify(option)} ${refusal}`);
    }
    given[name] = value;
  }
  return given;
}

/**
 * Runs one of the commands; a SetupError becomes one line and an exit code.
 * @param {() => Promise<number>} command resolves with the exit code
 */
export function runCommand(command, failed = 1) {
  command().then(
    (code) => {
      process.exitCode = code;
    },
    (error) => {
      process.stderr.write(`holdfast: ${explanationOf(error)}\n`);
      process.exitCode = failed;
    },
  );
}

/**
 * One line for a SetupError, else the stack.
 * @param {unknown} error
 */
export function explanationOf(error) {
  if (error instanceof SetupError) {
    return error.message;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
