import { randomBytes } from 'node:crypto';

import type { Logger } from 'pino';

import type { HoldfastConfig } from './config.js';
import { keepSecret, type KeptSecret } from './kept-secret.js';

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
