// npm run restore -- <folder> [--rehearse]: starts a copy of a backup that tells nobody, verifies it, and then, without --rehearse, puts
// the backup where DATA_DIR is. docs/backup.md describes it.
// Exit codes: 0 restored, or with --rehearse found sound; 1 nothing was restored, for the reason that is printed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { copyLedger, dataDir, folderOf, requireEmpty, requireLog } from './backups.mjs';
import {
  ROOT,
  SetupError,
  ensureRedis,
  importForCommand,
  nodeOptionsOf,
  parseJson,
  runCommand,
} from './install.mjs';

const LISTENING = 'holdfast is listening';

/** @typedef {{ level: string, msg: string, port?: number }} LogEntry */

/**
 * Starts a Holdfast that expires nothing and sends nothing, on loopback and a free port.
 * @param {string} folder
 */
async function startRehearsal(folder) {
  const preload = pathToFileURL(join(ROOT, 'scripts', 'stop-with-parent.mjs')).href;
  const args = [...nodeOptionsOf(ROOT), '--import', preload, join(ROOT, 'dist', 'main.js')];
  const child = spawn(process.execPath, args, {
    // Signals come through the end of this process.
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      ...process.env,
      DATA_DIR: folder,
      // Not that of the original.
      ARCHIVE_DIR: '',
      HOLDFAST_ROLES: 'api',
      HOLDFAST_WORKERS: '1',
      HOST: '127.0.0.1',
      PORT: '0',
      ADMIN_PORT: '',
      LOG_LEVEL: 'info',
    },
  });
  /** @type {Promise<number>} */
  const listening = new Promise((done) => {
    createInterface(child.stdout).on('line', (line) => {
      const { level, msg, port } = entryOf(line);
      if (msg === LISTENING && port !== undefined) {
        done(port);
      } else if (level === 'warn' || level === 'error') {
        process.stdout.write(`${msg}\n`);
      }
    });
  });
  const ended = once(child, 'close').then(() => {
    throw new SetupError('the copy did not start; see above');
  });
  // Whoever gives up still removes the copy.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => child.kill('SIGTERM'));
  }
  const port = await Promise.race([listening, ended]);
  const stop = async () => {
    child.kill('SIGTERM');
    await ended.catch(() => undefined);
  };
  return { baseUrl: `http://127.0.0.1:${port}`, stop };
}

/**
 * @param {string} line
 * @returns {LogEntry}
 */
function entryOf(line) {
  try {
    return /** @type {LogEntry} */ (parseJson(line));
  } catch {
    return { level: 'warn', msg: line };
  }
}

/**
 * Whether the ledger of the backup balances. Prints what `npm run verify` prints.
 * @param {string} backup
 */
async function rehearse(backup) {
  const { verifyLedger } = /** @type {typeof import('../src/cli/verify.ts')} */ (
    await importForCommand('cli/verify.js')
  );
  ensureRedis({});
  const copy = mkdtempSync(join(tmpdir(), 'holdfast-rehearsal-'));
  try {
    copyLedger(backup, copy);
    const { baseUrl, stop } = await startRehearsal(copy);
    try {
      const keyFile = join(copy, 'admin-api-key');
      const adminKey =
        process.env.ADMIN_API_KEY || (existsSync(keyFile) ? readFileSync(keyFile, 'utf8').trim() : '');
      const print = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
      return (await verifyLedger({ baseUrl, adminKey, print })) === 0;
    } finally {
      await stop();
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/**
 * Lets the restored ledger, which is a deployment of its own, take over the archive of the one that was backed up. It begins an epoch then.
 * @param {string} folder
 */
function handOverArchive(folder) {
  const path = join(folder, 'archive.json');
  if (!existsSync(path)) {
    process.stdout.write(`there is no archive in ${folder}, so another one begins\n`);
    return;
  }
  const identity = /** @type {object} */ (parseJson(readFileSync(path, 'utf8')));
  const temporary = join(folder, `.archive.json.${process.pid}`);
  writeFileSync(temporary, `${JSON.stringify({ ...identity, restoring: true }, undefined, 2)}\n`, {
    flush: true,
  });
  renameSync(temporary, path);
  process.stdout.write(`the archive in ${folder} goes on: what it has of after the backup is superseded\n`);
}

runCommand(async () => {
  const [only, args] = [process.argv.includes('--rehearse'), process.argv.slice(2)];
  const backup = folderOf(
    args.filter((arg) => arg !== '--rehearse'),
    'restore',
  );
  requireLog(backup);
  const to = dataDir();
  const requireFree = () =>
    requireEmpty(
      to,
      'move what is there away first, all but archive, and stop the Holdfast that uses it',
      'archive',
    );
  if (!only) {
    requireFree();
  }
  if (!(await rehearse(backup))) {
    throw new SetupError(
      'nothing was restored: the ledger of the backup is not sound, or could not be verified',
    );
  }
  if (!only) {
    // A rehearsal takes minutes, in which somebody may have started a Holdfast there.
    requireFree();
    copyLedger(backup, to);
    handOverArchive(resolve((process.env.ARCHIVE_DIR ?? '').trim() || join(to, 'archive')));
    process.stdout.write(`restored to ${to}; start Holdfast with the usual settings\n`);
  }
  return 0;
});
