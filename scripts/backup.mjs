// npm run backup -- <folder>: copies the ledger and the keys of DATA_DIR, while Holdfast runs or not. docs/backup.md describes it.
// The folder must be new or empty. DATA_DIR says what to copy. Exit codes: 0 copied; 1 not copied, for the reason that is printed.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { copyLedger, folderOf, requireEmpty, requireLog, sizeOfLog } from './backups.mjs';
import { dataDir, given } from './environment.mjs';
import { SetupError, checkNode, ensureDependencies, runCommand, say } from './install.mjs';

const THRESHOLD = 'auto-aof-rewrite-percentage';
/** Redis' default, in place of the 0 that a killed backup has left. */
const USUAL_THRESHOLD = '100';
const CONNECTION = 'holdfast-backup';
const POLL_MS = 100;
/** A rewrite of many gigabytes takes minutes. */
const REWRITE_TIMEOUT_MS = 30 * 60_000;

/**
 * Copies while Redis does not replace the files of its log. A signal waits until it may again. So does another backup, which would
 * let Redis replace them too soon.
 * @param {import('ioredis').Redis} redis
 * @param {() => string[]} copy
 */
async function betweenRewrites(redis, copy) {
  /** @type {NodeJS.Signals | undefined} */
  let signal;
  const note = (/** @type {NodeJS.Signals} */ name) => {
    signal = name;
  };
  process.on('SIGINT', note).on('SIGTERM', note);
  const clients = /** @type {string} */ (await redis.client('LIST'));
  if (clients.split(` name=${CONNECTION} `).length > 2) {
    throw new SetupError('another backup of this ledger is being made; try again when it has ended');
  }
  const [, found] = /** @type {string[]} */ (await redis.config('GET', THRESHOLD));
  const threshold = found === undefined || found === '0' ? USUAL_THRESHOLD : found;
  try {
    await redis.config('SET', THRESHOLD, '0');
    const until = performance.now() + REWRITE_TIMEOUT_MS;
    while (/aof_rewrite_(in_progress|scheduled):1/.test(await redis.info('persistence'))) {
      if (signal !== undefined || performance.now() > until) {
        throw new SetupError(`no backup was made: ${signal ?? 'a rewrite of the log does not end'}`);
      }
      await delay(POLL_MS);
    }
    return copy();
  } finally {
    await redis.config('SET', THRESHOLD, threshold);
  }
}

/** @param {string} socket */
async function connected(socket) {
  const { Redis } = await import('ioredis');
  const redis = new Redis({
    path: socket,
    connectionName: CONNECTION,
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  redis.on('error', () => undefined);
  await redis.connect();
  return redis;
}

runCommand(async () => {
  const folder = folderOf(process.argv.slice(2), 'backup');
  const from = dataDir();
  requireLog(from);
  requireEmpty(folder, 'each backup needs a folder of its own');
  checkNode();
  ensureDependencies();
  const copy = () => copyLedger(from, folder);
  const redis = await connected(join(from, 'redis', 'redis.sock')).catch(() => undefined);
  if (redis === undefined && existsSync(join(from, 'holdfast.lock'))) {
    throw new SetupError(
      `the Redis of ${from} does not answer, but a Holdfast has not stopped there; try again`,
    );
  }
  // An open connection would keep the process.
  const keys =
    redis === undefined ? copy() : await betweenRewrites(redis, copy).finally(() => redis.disconnect());
  say(`copied ${sizeOfLog(folder)} bytes of the log, and ${keys.join(', ') || 'no key'}, to ${folder}`);
  for (const name of ['ADMIN_API_KEY', 'WEBHOOK_SECRET_ENCRYPTION_KEY', 'EVIDENCE_KEYS']) {
    if (given(name) !== '') {
      say(`${name} is in your environment, not in the backup: keep it, too`);
    }
  }
  return 0;
});
