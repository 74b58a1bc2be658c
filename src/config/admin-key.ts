import { randomBytes } from 'node:crypto';

import type { Logger } from 'pino';

import type { HoldfastConfig } from './config.js';
import { keepSecret, type KeptSecret } from './kept-secret.js';

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
