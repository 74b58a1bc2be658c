// A run of the tests: one folder for all that it writes, and a guard that kills what it started and removes the folder when the run
// is over, however it ends. `npm test` opens one; jest opens one of its own when it was started without that.
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
 * Sets for what this process starts: TMPDIR and TEST_RUN_FOLDER; TEST_MEMORY_FOLDER where the system has files in memory; and
 * TEST_BUILT_MARK, the file that says that the service was built in this run.
 * @returns {Run}
 */
export function openRun() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-test-')));
  // A run inside a run, as a test of runs makes it, stays inside in everything.
  const inMemory = process.env.TEST_MEMORY_FOLDER ?? IN_MEMORY;
  const memory = existsSync(inMemory) ? join(inMemory, basename(folder)) : undefined;
  const folders = memory === undefined ? [folder] : [folder, memory];
  // A process group of its own: ^C on the terminal is not for it.
  const guard = spawn(process.execPath, [GUARD, ...folders], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  guard.stdin.on('error', () => undefined);
  guard.unref();
  // The pipe is a socket, which its type does not say.
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
    /** Resolves when nothing of the run is left. What a run in order has left to end is given a moment for it. */
    async close({ inOrder }) {
      const ended = once(guard, 'exit');
      guard.ref();
      guard.stdin.end(inOrder ? 'done' : '');
      await ended;
    },
  };
}
