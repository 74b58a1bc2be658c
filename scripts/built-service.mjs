// The built service as a child of a command.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ROOT, nodeOptionsOf, parseJson } from './install.mjs';

const PRELOAD = new URL('stop-with-parent.mjs', import.meta.url).href;
/** Holdfast itself promises to stop within 10 s. */
const STOP_TIMEOUT_MS = 12_000;
/** What the log says when the port is open, at the level `info`. */
export const LISTENING = 'holdfast is listening';

/** @typedef {{ time: string, level: string, msg: string, job?: string, reason?: string, lasted_ms?: number, from?: string, host?: string, port?: number, admin_port?: number, err?: { message: string } }} LogEntry */

/**
 * Starts it in a session of its own, so that signals reach it only through this process. It ends when this process does.
 * @param {NodeJS.ProcessEnv} env
 * @param {{ root?: string, show?: (line: string, entry: LogEntry | undefined) => void }} [how]
 *   root: another checkout; show: takes each line of its log, with what it says if it is JSON
 */
export function startBuilt(env, { root = ROOT, show = () => undefined } = {}) {
  const args = [...nodeOptionsOf(root), '--import', PRELOAD, join(root, 'dist', 'main.js')];
  const child = spawn(process.execPath, args, { detached: true, stdio: ['pipe', 'pipe', 'inherit'], env });
  /** @type {Promise<number>} its exit code */
  const ended = new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', (code, signal) =>
      done(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    );
  });
  /** @type {Promise<LogEntry | undefined>} what its log says when the port is open; undefined if it ends before */
  const listening = new Promise((done, fail) => {
    ended.then(() => done(undefined), fail);
    createInterface(child.stdout).on('line', (line) => {
      const entry = entryOf(line);
      show(line, entry);
      if (entry?.msg === LISTENING) {
        done(entry);
      }
    });
  });
  const stop = () => {
    child.kill('SIGTERM');
    setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS).unref();
    return ended;
  };
  return { child, ended, listening, stop };
}

/**
 * @param {string} line
 * @returns {LogEntry | undefined} undefined if the line is not JSON
 */
function entryOf(line) {
  try {
    const entry = parseJson(line);
    return typeof entry === 'object' && entry !== null ? /** @type {LogEntry} */ (entry) : undefined;
  } catch {
    return undefined;
  }
}
