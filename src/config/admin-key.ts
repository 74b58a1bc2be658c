import { randomBytes } from 'node:crypto';
import { chmodSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import type { Logger } from 'pino';

import { ConfigError, type HoldfastConfig } from './config.js';

const FILE_NAME = 'admin-api-key';

/**
 * The operator's key: ADMIN_API_KEY, else the one kept in `DATA_DIR/admin-api-key` (mode 0600), which the first start
 * makes and shows once. Throws a ConfigError of one line when the file can be neither read nor written.
 */
export function resolveAdminApiKey(config: HoldfastConfig, logger: Logger): string {
  if (config.adminApiKey !== undefined) {
    return config.adminApiKey;
  }
  const dataDir = resolve(config.dataDir);
  const file = join(dataDir, FILE_NAME);
  try {
    return readKey(file) ?? createKey(dataDir, file, logger);
  } catch (error) {
    if (error instanceof ConfigError) {
      throw error;
    }
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new ConfigError([`DATA_DIR: ${JSON.stringify(config.dataDir)} cannot keep the admin key (${reason}); give a directory that can be written`]);
  }
}

function readKey(file: string): string | undefined {
  try {
    const key = readFileSync(file, 'utf8').trim();
    if (key.length < 16) {
      throw new ConfigError([`${file} holds no key of at least 16 characters; remove it to have a new one made, or set ADMIN_API_KEY`]);
    }
    chmodSync(file, 0o600);
    return key;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

function createKey(dataDir: string, file: string, logger: Logger): string {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const key = `adm_${randomBytes(32).toString('base64url')}`;
  // The key appears under its name complete or not at all, and of two first starts one wins.
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(draft, `${key}\n`, { mode: 0o600, flag: 'wx', flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    const winner = (error as NodeJS.ErrnoException).code === 'EEXIST' ? readKey(file) : undefined;
    if (winner === undefined) {
      throw error;
    }
    return winner;
  } finally {
    unlinkSync(draft);
  }
  logger.warn(`made an admin key, shown this once and kept in ${file}: ${key}`);
  return key;
}
