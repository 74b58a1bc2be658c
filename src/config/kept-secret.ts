import { randomBytes } from 'node:crypto';
import { chmodSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { ConfigError, type HoldfastConfig } from './config.js';

/** A secret that the first start makes and that stays in DATA_DIR, readable by its owner only (mode 0600). */
export interface KeptSecret {
  readonly fileName: string;
  /** As the refusal names it when the directory cannot keep it. */
  readonly what: string;
  make(): string;
  isSound(text: string): boolean;
  /** What follows the file's name when its text is not sound. */
  readonly complaint: string;
}

export interface Kept {
  readonly text: string;
  readonly file: string;
  /** Whether this call made it. */
  readonly fresh: boolean;
}

/** Finds the secret, or makes it. @throws ConfigError of one line when the file can be neither read nor written. */
export function keepSecret(config: HoldfastConfig, secret: KeptSecret): Kept {
  const dataDir = resolve(config.dataDir);
  const file = join(dataDir, secret.fileName);
  try {
    const text = readSecret(file, secret);
    return text === undefined ? createSecret(dataDir, file, secret) : { text, file, fresh: false };
  } catch (error) {
    if (error instanceof ConfigError) {
      throw error;
    }
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new ConfigError([
      `DATA_DIR: ${JSON.stringify(config.dataDir)} cannot keep ${secret.what} (${reason}); give a directory that can be written`,
    ]);
  }
}

function readSecret(file: string, secret: KeptSecret): string | undefined {
  try {
    const text = readFileSync(file, 'utf8').trim();
    if (!secret.isSound(text)) {
      throw new ConfigError([`${file} ${secret.complaint}`]);
    }
    chmodSync(file, 0o600);
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

function createSecret(dataDir: string, file: string, secret: KeptSecret): Kept {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const text = secret.make();
  // The secret appears under its name complete or not at all, and of two first starts one wins.
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(draft, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    const winner = (error as NodeJS.ErrnoException).code === 'EEXIST' ? readSecret(file, secret) : undefined;
    if (winner === undefined) {
      throw error;
    }
    return { text: winner, file, fresh: false };
  } finally {
    unlinkSync(draft);
  }
  return { text, file, fresh: true };
}
