import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { chmodSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Logger } from 'pino';
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

function digestOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

/** A secret that callers present. Every comparison with one is made here, in a time that tells nothing about it. */
export class ExpectedSecret {
  private readonly digest: Buffer;

  constructor(secret: string) {
    this.digest = digestOf(secret);
  }

  matches(presented: string): boolean {
    // Digests have one length, so the comparison takes the same time for every text.
    return timingSafeEqual(digestOf(presented), this.digest);
  }
}

const ADMIN_KEY: KeptSecret = {
  fileName: 'admin-api-key',
  what: 'the admin key',
  make: () => `adm_${randomBytes(32).toString('base64url')}`,
  isSound: (text) => text.length >= 16,
  complaint: 'holds no key of at least 16 characters; remove it to have a new one made, or set ADMIN_API_KEY',
};

/**
 * The operator's key: ADMIN_API_KEY, else the one kept in `DATA_DIR/admin-api-key` (mode 0600), which the first start
 * makes and shows once. Throws a ConfigError of one line when the file can be neither read nor written.
 */
export function resolveAdminApiKey(config: HoldfastConfig, logger: Logger): string {
  if (config.adminApiKey !== undefined) {
    return config.adminApiKey;
  }
  const { text, file, fresh } = keepSecret(config, ADMIN_KEY);
  if (fresh) {
    logger.warn(`made an admin key, shown this once and kept in ${file}: ${text}`);
  }
  return text;
}

const HEX_KEY = /^[0-9a-f]{64}$/;

const WEBHOOK_KEY: KeptSecret = {
  fileName: 'webhook-secret-key',
  what: 'the key that encrypts webhook secrets',
  make: () => randomBytes(32).toString('hex'),
  isSound: (text) => HEX_KEY.test(text),
  complaint:
    'holds no key of 32 bytes in hex; restore it, for without it no stored webhook secret can be read, or set WEBHOOK_SECRET_ENCRYPTION_KEY',
};

/**
 * The key that encrypts what subscribers entrust to Holdfast: WEBHOOK_SECRET_ENCRYPTION_KEY, else the one kept in
 * `DATA_DIR/webhook-secret-key` (mode 0600), which the first start makes. It is never shown.
 * Throws a ConfigError of one line when the file can be neither read nor written.
 */
export function resolveWebhookSecretKey(config: HoldfastConfig, logger: Logger): Buffer {
  if (config.webhookSecretEncryptionKey !== undefined) {
    return config.webhookSecretEncryptionKey;
  }
  const { text, file, fresh } = keepSecret(config, WEBHOOK_KEY);
  if (fresh) {
    logger.info(
      `made the key that encrypts webhook secrets, kept in ${file}; a backup of the ledger needs it too`,
    );
  }
  return Buffer.from(text, 'hex');
}
