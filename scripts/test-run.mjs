// A run of the tests: a folder for all its files, and a guard that kills its processes and removes the folder when the run ends in any
// way. `npm test` opens a run; jest opens one if it was started directly.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const GUARD = fileURLToPath(new URL('run-guard.mjs', import.meta.url));
const IN_MEMORY = '/dev/shm';

/** @typedef {{ readonly folder: string, close(how: { readonly inOrder: boolean }): Promise<void> }} Run */

/**
 * Sets environment variables for child processes: TMPDIR and TEST_RUN_FOLDER; TEST_MEMORY_FOLDER if the system has /dev/shm; and
 * TEST_BUILT_MARK, a file whose existence means that the service was built in this run.
 * @returns {Run}
 */
export function openRun() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-test-')));
  // A nested run, as in the tests of runs, stays inside the folders of the outer one.
  const inMemory = process.env.TEST_MEMORY_FOLDER ?? IN_MEMORY;
  const memory = existsSync(inMemory) ? join(inMemory, basename(folder)) : undefined;
  const folders = memory === undefined ? [folder] : [folder, memory];
  // Detached, so that ^C in the terminal does not reach it.
  const guard = spawn(process.execPath, [GUARD, ...folders], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  guard.stdin.on('error', () => undefined);
  guard.unref();
  // The pipe is a socket, although its type does not say so.
  /** @type {import('node:net').Socket} */ (guard.stdin).unref();
  if (memory !== undefined) {
    mkdirSync(memory, { mode: 0o700 });
    process.env.TEST_MEMORY_FOLDER = memory;
  }
  process.env.TMPDIR = folder;
  process.env.TEST_RUN_FOLDER = folder;
  process.env.TEST_BUILT_MARK ??= join(folder, 'service-is-built');
  return {
    folder,
    /** Resolves when nothing of the run is left. After a normal end, remaining processes get a moment to exit. */
    async close({ inOrder }) {
      const ended = once(guard, 'exit');
      guard.ref();
      guard.stdin.end(inOrder ? 'done' : '');
      await ended;
    },
  };
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<{ code: number | null, signal: string | null }>}
 */
export const endOf = (child) =>
  new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
