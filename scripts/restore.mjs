// npm run restore -- <folder> [--rehearse]: starts a copy of a backup that tells nobody, verifies it, and then, without --rehearse, puts
// the backup where DATA_DIR is. docs/backup.md describes it.
// Exit codes: 0 restored, or with --rehearse found sound; 1 nothing was restored, for the reason that is printed.
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copyLedger, folderOf, requireEmpty, requireLog } from './backups.mjs';
import { startBuilt } from './built-service.mjs';
import { adminKeyOf, archiveDir, dataDir } from './environment.mjs';
import { SetupError, ensureRedis, importForCommand, parseJson, runCommand, say } from './install.mjs';

/**
 * Starts a Holdfast that expires nothing and sends nothing, on loopback and a free port.
 * @param {string} folder
 */
async function startRehearsal(folder) {
  const settings = {
    DATA_DIR: folder,
    // Not that of the original.
    ARCHIVE_DIR: '',
    HOLDFAST_ROLES: 'api',
    HOLDFAST_WORKERS: '1',
    HOST: '127.0.0.1',
    PORT: '0',
    ADMIN_PORT: '',
    LOG_LEVEL: 'info',
  };
  const { child, listening, stop } = startBuilt(
    { ...process.env, ...settings },
    {
      show: (line, entry) => {
        if (entry === undefined || entry.level === 'warn' || entry.level === 'error') {
          say(entry?.msg ?? line);
        }
      },
    },
  );
  // Whoever gives up still removes the copy.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => child.kill('SIGTERM'));
  }
  const opened = await listening;
  if (opened === undefined) {
    throw new SetupError('the copy did not start; see above');
  }
  return { baseUrl: `http://127.0.0.1:${opened.port}`, stop };
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
      return (await verifyLedger({ baseUrl, adminKey: adminKeyOf(copy), print: say })) === 0;
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
    say(`there is no archive in ${folder}, so another one begins`);
    return;
  }
  const identity = /** @type {object} */ (parseJson(readFileSync(path, 'utf8')));
  const temporary = join(folder, `.archive.json.${process.pid}`);
  writeFileSync(temporary, `${JSON.stringify({ ...identity, restoring: true }, undefined, 2)}\n`, {
    flush: true,
  });
  renameSync(temporary, path);
  say(`the archive in ${folder} goes on: what it has of after the backup is superseded`);
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
    handOverArchive(archiveDir());
    say(`restored to ${to}; start Holdfast with the usual settings`);
  }
  return 0;
});
