// The Python of integrations/: an interpreter of this machine, and a virtual environment of exactly the pinned packages.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, SetupError } from './install.mjs';

/** The pinned packages need it. */
const OLDEST = [3, 11];
const NAMES = ['python3', 'python3.13', 'python3.12', 'python3.11'];
export const LITELLM = join(ROOT, 'integrations', 'litellm');
const REQUIREMENTS = join(LITELLM, 'requirements.txt');
const INSTALL_TIMEOUT_MS = 20 * 60_000;
/** Says the version, and fails where Debian has split off what venv needs. */
const PROBE = 'import sys, venv, ensurepip; print("%d %d" % sys.version_info[:2])';

/** The first suitable interpreter on PATH, or undefined. */
export function findPython() {
  return NAMES.find((name) => {
    const { status, stdout } = spawnSync(name, ['-c', PROBE], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [major = 0, minor = 0] = status === 0 ? stdout.trim().split(' ').map(Number) : [];
    return major === OLDEST[0] && minor >= Number(OLDEST[1]);
  });
}

export const NO_PYTHON = `no python3 of ${OLDEST.join('.')} or newer with venv is on PATH`;

/**
 * Makes the environment unless it is there, and installs this repository's package so that its sources apply at once. One that was
 * cut off in the middle has no mark, and is made anew.
 * @param {string} python
 * @returns {string} the interpreter of the environment
 */
export function ensureEnvironment(python) {
  const key = createHash('sha256').update(readFileSync(REQUIREMENTS)).digest('hex').slice(0, 12);
  const folder = join(ROOT, 'node_modules', '.cache', `integrations-${key}`);
  const mark = join(folder, 'complete');
  const own = join(folder, 'bin', 'python');
  if (!existsSync(mark)) {
    process.stdout.write('Installing LiteLLM, about 800 MB, into node_modules/.cache ...\n');
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(join(ROOT, 'node_modules', '.cache'), { recursive: true });
    run(python, ['-m', 'venv', folder]);
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps'];
    run(own, [...pip, '-r', REQUIREMENTS]);
    run(own, [...pip, '--no-build-isolation', '--editable', LITELLM]);
    writeFileSync(`${mark}.new`, '');
    renameSync(`${mark}.new`, mark);
  }
  return own;
}

/**
 * @param {string} command
 * @param {string[]} args
 */
function run(command, args) {
  const done = spawnSync(command, args, {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
    timeout: INSTALL_TIMEOUT_MS,
  });
  if (done.status !== 0) {
    throw new SetupError(`\`${command} ${args.slice(0, 3).join(' ')} ...\` failed; see its messages above`);
  }
}
