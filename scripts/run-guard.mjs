// node run-guard.mjs <folder>...: waits until its input ends, which it does when whoever started it goes, in whatever way. Then it
// kills every process of that run and removes the folders. A run's processes are those that have the first folder, or one in it, as
// TMPDIR; Redis overwrites its environment with its title, but works in a folder of the run. Systems without /proc have to do with
// the pipes by which servers in tests notice the end of their parent.
import { readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const POLL_MS = 50;
/** After a run that ended in order, its last processes may still be on their way out. */
const ORDERLY_MS = 2000;
/** Longer than the kernel takes to end a killed process, unless it hangs in a device. */
const LIMIT_MS = 30_000;

const THIS_FILE = fileURLToPath(import.meta.url);
const folders = process.argv.slice(2);
let said = '';
// What ends the run must not end its guard.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => undefined);
}
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);
process.stdin.setEncoding('utf8').on('data', (/** @type {string} */ text) => (said += text));
process.stdin.on('error', () => undefined);
process.stdin.once('close', () => void cleanUp());
process.stdin.resume();

async function cleanUp() {
  const startedAt = performance.now();
  if (said.includes('done')) {
    await until(() => processesOfRun().length === 0, ORDERLY_MS);
  }
  /** @type {Map<number, string>} */
  const names = new Map();
  // Again after each round, since a process may have started another one meanwhile.
  await until(() => {
    const left = processesOfRun();
    for (const { pid, name, isGuard } of left) {
      // The guard of a run inside this one knows folders of that run that this one does not. It ends when its run is killed.
      if (!isGuard) {
        names.set(pid, name);
        kill(pid);
      }
    }
    return left.length === 0;
  }, LIMIT_MS);
  for (const folder of folders) {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  if (names.size > 0) {
    const list = [...names].map(([pid, name]) => `${name} (${pid})`).join(', ');
    process.stderr.write(
      `left running by the tests, and killed after ${Math.round(performance.now() - startedAt)} ms: ${list}\n`,
    );
  }
}

/**
 * @param {() => boolean} isSo
 * @param {number} withinMs
 */
async function until(isSo, withinMs) {
  const deadline = performance.now() + withinMs;
  while (!isSo() && performance.now() < deadline) {
    await delay(POLL_MS);
  }
}

/** @param {number} pid */
function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

function processesOfRun() {
  return pids()
    .filter((pid) => pid !== process.pid && belongs(pid))
    .map((pid) => {
      const words = read(`/proc/${pid}/cmdline`).split('\0');
      return { pid, name: words.slice(0, 3).join(' ').trim(), isGuard: words[1] === THIS_FILE };
    });
}

function pids() {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** @param {number} pid */
function belongs(pid) {
  const environment = read(`/proc/${pid}/environ`).split('\0');
  if (environment.some((entry) => entry.includes('='))) {
    return environment.some(
      (entry) => entry.startsWith('TMPDIR=') && isInside(entry.slice('TMPDIR='.length), folders.slice(0, 1)),
    );
  }
  return isInside(workingFolder(pid), folders);
}

/**
 * @param {string} path
 * @param {string[]} parents
 */
function isInside(path, parents) {
  return parents.some((parent) => path === parent || path.startsWith(`${parent}/`));
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

/** @param {number} pid */
function workingFolder(pid) {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
}
