import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { chmodSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Logger } from 'pino';
import { ConfigError, type HoldfastConfig } from './config.js';
import {
  type EvidenceKeys,
  FIRST_KEY_LEAD_MS,
  generateEvidenceKeys,
  parseEvidenceKeys,
} from './evidence-keys.js';

/** A secret that the first start generates and stores in DATA_DIR, with mode 0600. */
export interface StoredSecret {
  readonly fileName: string;
  /** What it is called in error messages. */
  readonly what: string;
  generate(): string;
  isValid(text: string): boolean;
  /** The message for an invalid file; follows the file's name. */
  readonly invalid: string;
}

interface LoadedSecret {
  readonly text: string;
  readonly file: string;
  /** Whether this call generated it. */
  readonly isNew: boolean;
}

/** Reads the secret from its file, or generates and stores it. @throws ConfigError if the file can be neither read nor written. */
function loadOrGenerate(config: HoldfastConfig, secret: StoredSecret): LoadedSecret {
  const dataDir = resolve(config.dataDir);
  const file = join(dataDir, secret.fileName);
  try {
    const text = readSecret(file, secret);
    return text === undefined ? createSecret(dataDir, file, secret) : { text, file, isNew: false };
  } catch (error) {
    if (error instanceof ConfigError) {
      throw error;
    }
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new ConfigError([
      `DATA_DIR: ${JSON.stringify(config.dataDir)} cannot store ${secret.what} (${reason}); give a writable directory`,
    ]);
  }
}

function readSecret(file: string, secret: StoredSecret): string | undefined {
  try {
    const text = readFileSync(file, 'utf8').trim();
    if (!secret.isValid(text)) {
      throw new ConfigError([`${file} ${secret.invalid}`]);
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

function createSecret(dataDir: string, file: string, secret: StoredSecret): LoadedSecret {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const text = secret.generate();
  // Writing a draft and linking it makes the file appear complete or not at all. Of two concurrent first starts, one wins.
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(draft, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    const winner = (error as NodeJS.ErrnoException).code === 'EEXIST' ? readSecret(file, secret) : undefined;
    if (winner === undefined) {
      throw error;
    }
    return { text: winner, file, isNew: false };
  } finally {
    unlinkSync(draft);
  }
  return { text, file, isNew: true };
}

function digestOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

/** A secret that callers must present. All comparisons of secrets happen here, in constant time. */
export class ExpectedSecret {
  private readonly digest: Buffer;

  constructor(secret: string) {
    this.digest = digestOf(secret);
  }

  matches(presented: string): boolean {
    // Digests have the same length, which timingSafeEqual requires.
    return timingSafeEqual(digestOf(presented), this.digest);
  }
}

const ADMIN_KEY: StoredSecret = {
  fileName: 'admin-api-key',
  what: 'the admin key',
  generate: () => `adm_${randomBytes(32).toString('base64url')}`,
  isValid: (text) => text.length >= 16,
  invalid: 'holds no key of at least 16 characters; remove it to generate a new one, or set ADMIN_API_KEY',
};

/**
 * The operator's key: ADMIN_API_KEY, or else the one in `DATA_DIR/admin-api-key`, which the first start generates and logs once.
 * @throws ConfigError if the file can be neither read nor written, or viewers have the same key.
 */
export function resolveAdminApiKey(config: HoldfastConfig, logger: Logger): string {
  const key = config.adminApiKey ?? storedAdminKey(config, logger);
  if (config.viewerApiKey !== undefined && new ExpectedSecret(key).matches(config.viewerApiKey)) {
    throw new ConfigError(['VIEWER_API_KEY must differ from the admin key, which opens more than reading']);
  }
  return key;
}

function storedAdminKey(config: HoldfastConfig, logger: Logger): string {
  const { text, file, isNew } = loadOrGenerate(config, ADMIN_KEY);
  if (isNew) {
    logger.warn(`generated an admin key, stored in ${file} and shown only now: ${text}`);
  }
  return text;
}

const HEX_KEY = /^[0-9a-f]{64}$/;

const WEBHOOK_KEY: StoredSecret = {
  fileName: 'webhook-secret-key',
  what: 'the key that encrypts webhook secrets',
  generate: () => randomBytes(32).toString('hex'),
  isValid: (text) => HEX_KEY.test(text),
  invalid:
    'holds no key of 32 bytes in hex; restore it, because stored webhook secrets cannot be read without it, or set WEBHOOK_SECRET_ENCRYPTION_KEY',
};

/**
 * The key that encrypts the secrets and headers of webhooks: WEBHOOK_SECRET_ENCRYPTION_KEY, or else the one in
 * `DATA_DIR/webhook-secret-key`, which the first start generates. It is never logged.
 * @throws ConfigError if the file can be neither read nor written.
 */
export function resolveWebhookSecretKey(config: HoldfastConfig, logger: Logger): Buffer {
  if (config.webhookSecretEncryptionKey !== undefined) {
    return config.webhookSecretEncryptionKey;
  }
  const { text, file, isNew } = loadOrGenerate(config, WEBHOOK_KEY);
  if (isNew) {
    logger.info(
      `generated the key that encrypts webhook secrets, stored in ${file}; back it up with the ledger`,
    );
  }
  return Buffer.from(text, 'hex');
}

const EVIDENCE_KEYS: StoredSecret = {
  fileName: 'evidence-keys.json',
  what: 'the keys that sign evidence',
  // eslint-disable-next-line no-restricted-syntax -- Redis is not known yet
  generate: () => generateEvidenceKeys(new Date().getTime() - FIRST_KEY_LEAD_MS),
  isValid: (text) => 'keys' in parseEvidenceKeys(text),
  invalid: 'holds no usable set of evidence keys; restore it, or set EVIDENCE_KEYS',
};

/**
 * The keys that sign evidence, if the deployment has an identity for it: EVIDENCE_KEYS, or else those in `DATA_DIR/evidence-keys.json`,
 * which the first start generates. They are never logged.
 * @throws ConfigError if the file can be neither read nor written.
 */
export function resolveEvidenceKeys(config: HoldfastConfig, logger: Logger): EvidenceKeys | undefined {
  if (config.evidenceServerId === undefined || config.evidenceKeys !== undefined) {
    return config.evidenceKeys;
  }
  const { text, file, isNew } = loadOrGenerate(config, EVIDENCE_KEYS);
  if (isNew) {
    logger.info(`generated the key that signs evidence, stored in ${file}; back it up with the ledger`);
  }
  return (parseEvidenceKeys(text) as { keys: EvidenceKeys }).keys;
}
