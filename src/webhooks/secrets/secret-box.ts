import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';

const CIPHER = 'aes-256-gcm';
const PREFIX = 'enc:';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** What was sealed cannot be opened: another key sealed it, or somebody changed it. Nothing of it may be used. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
}

/** What is made of sealed texts, or undefined when one of them cannot be opened. */
export function ifUnbroken<T>(open: () => T): T | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof SealBroken) {
      return undefined;
    }
    throw error;
  }
}

/**
 * Encrypts what subscribers entrust to Holdfast before it is stored: `enc:` and the base64 of IV, ciphertext and tag of
 * AES-256-GCM. Equal texts give different bytes.
 */
@Injectable()
export class SecretBox {
  private readonly key: Buffer;

  constructor(@Inject(CONFIG) { webhookSecretEncryptionKey: key }: Pick<HoldfastConfig, 'webhookSecretEncryptionKey'>) {
    if (key === undefined) {
      throw new Error('the key that encrypts webhook secrets was not resolved before the start');
    }
    this.key = key;
  }

  seal(text: string): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.key, iv, { authTagLength: TAG_BYTES });
    const sealed = Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return PREFIX + sealed.toString('base64');
  }

  /** @throws SealBroken, also for a text that was never sealed. */
  open(sealed: string): string {
    const bytes = sealed.startsWith(PREFIX) ? Buffer.from(sealed.slice(PREFIX.length), 'base64') : Buffer.alloc(0);
    if (bytes.length < IV_BYTES + TAG_BYTES) {
      throw new SealBroken('a stored secret is not sealed');
    }
    const decipher = createDecipheriv(CIPHER, this.key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8');
    } catch {
      throw new SealBroken('a stored secret cannot be decrypted with this key');
    }
  }
}
