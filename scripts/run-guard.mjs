// node run-guard.mjs <folder>...: waits until its stdin closes, which happens when its parent ends in any way. Then it kills every
// process of the run and removes the folders. A process belongs to the run if its TMPDIR is the first folder or inside it. Redis
// overwrites its environment with its title, so its working directory counts. Without /proc, servers in tests end only because the
// pipe from their parent closes.
import { readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const POLL_MS = 50;
/** After a normal end of the run, how long its last processes may take to exit. */
const ORDERLY_MS = 2000;
/** Longer than the kernel takes to end a killed process, unless it hangs in a device. */
const LIMIT_MS = 30_000;

const THIS_FILE = fileURLToPath(import.meta.url);
const folders = process.argv.slice(2);
let said = '';
// The signal that ends the run must not end its guard.
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
  // Repeats, because a process may have started another one in the meantime.
  await until(() => {
    const left = processesOfRun();
    for (const { pid, name, isGuard } of left) {
      // The guard of a nested run must remove the folders of that run. It exits after its run is killed.
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
      `left running by the tests, killed after ${Math.round(performance.now() - startedAt)} ms: ${list}\n`,
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
    // It has already exited.
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
