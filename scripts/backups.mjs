// What a backup of DATA_DIR consists of, and how it is copied: private, because it has the keys and the ledger.
import { chmodSync, constants, copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { given } from './environment.mjs';
import { REDIS_ADDRESSES, SetupError } from './install.mjs';

const LOG = join('redis', 'appendonlydir');
/** The first two exist unless variables have the keys, the third where evidence is issued. The deployment's id is left out: see docs/backup.md. */
const KEYS = ['admin-api-key', 'webhook-secret-key', 'evidence-keys.json'];

/**
 * The folder that the command names.
 * @param {string[]} args
 * @param {string} command
 */
export function folderOf(args, command) {
  const [folder, ...more] = args;
  if (folder === undefined || folder.startsWith('-') || more.length > 0) {
    throw new SetupError(`name one folder: npm run ${command} -- <folder>`);
  }
  const external = REDIS_ADDRESSES.find((name) => given(name) !== '');
  if (external !== undefined) {
    throw new SetupError(
      `${external} names a Redis of yours, and this command knows only that of DATA_DIR; see docs/backup.md`,
    );
  }
  return resolve(folder);
}

/**
 * @param {string} folder that must not exist yet, or be empty
 * @param {string} why it must
 * @param {string} [besides] what may be there
 */
export function requireEmpty(folder, why, besides = '') {
  if (existsSync(folder) && readdirSync(folder).some((name) => name !== besides)) {
    throw new SetupError(`${folder} is not empty; ${why}`);
  }
}

/**
 * Without its manifest, Redis ignores the log and starts empty.
 * @param {string} folder
 */
export function requireLog(folder) {
  const log = join(folder, LOG);
  if (!existsSync(log) || !readdirSync(log).some((name) => name.endsWith('.manifest'))) {
    throw new SetupError(`${folder} is no data of a Holdfast with its own Redis: there is no log in ${LOG}`);
  }
}

/**
 * Copies the log and the keys, and what they link to. Folders get 0700 and files 0600, whatever the umask. Replaces no file.
 * @param {string} from
 * @param {string} to
 * @returns {string[]} the names of the keys
 */
export function copyLedger(from, to) {
  for (const folder of [to, join(to, 'redis'), join(to, LOG)]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o700);
  }
  const keys = KEYS.filter((name) => existsSync(join(from, name)));
  const files = [...keys, ...readdirSync(join(from, LOG)).map((name) => join(LOG, name))];
  for (const file of files) {
    copyFileSync(join(from, file), join(to, file), constants.COPYFILE_EXCL);
    chmodSync(join(to, file), 0o600);
  }
  return keys;
}

/**
 * In bytes.
 * @param {string} folder
 */
export const sizeOfLog = (folder) =>
  readdirSync(join(folder, LOG)).reduce((sum, name) => sum + statSync(join(folder, LOG, name)).size, 0);
