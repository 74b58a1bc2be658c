// What the environment says of the Holdfast that a command is about, as the service reads it.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** @param {string} name */
export const given = (name) => (process.env[name] ?? '').trim();

/** Where a Holdfast with this environment serves operators on this machine. */
export const localUrl = () => `http://127.0.0.1:${given('ADMIN_PORT') || given('PORT') || '7878'}`;

export const dataDir = () => resolve(given('DATA_DIR') || './.data');

export const archiveDir = () => resolve(given('ARCHIVE_DIR') || join(dataDir(), 'archive'));

/** @param {string} folder the data of a Holdfast */
export const adminKeyFile = (folder) => join(folder, 'admin-api-key');

/**
 * The key of the environment, or else that in the folder; empty if there is neither.
 * @param {string} folder the data of a Holdfast
 */
export function adminKeyOf(folder) {
  const file = adminKeyFile(folder);
  return given('ADMIN_API_KEY') || (existsSync(file) ? readFileSync(file, 'utf8').trim() : '');
}
