import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';

const CIPHER = 'aes-256-gcm';
const PREFIX = 'enc2:';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** What a sealed text belongs to. It cannot be opened for anything else, so moving it inside Redis gains an attacker nothing. */
export interface SealPlace {
  readonly subscriptionId: string;
  readonly kind: 'signing_secret' | 'headers';
}

/** A sealed text cannot be opened: it was sealed with another key or for another place, or was changed. None of it may be used. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
}

/** The result of `open`, or undefined if a sealed text cannot be opened. */
export function unlessBroken<T>(open: () => T): T | undefined {
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
 * Encrypts the secrets of subscribers before they are stored: `enc2:` and the base64 of IV, ciphertext and tag of AES-256-GCM, with the
 * text's place as associated data. Equal texts give different bytes.
 */
@Injectable()
export class SecretBox {
  private readonly key: Buffer;

  constructor(@Inject(CONFIG) config: Pick<HoldfastConfig, 'webhookSecretEncryptionKey'>) {
    if (config.webhookSecretEncryptionKey === undefined) {
      throw new Error('the key that encrypts webhook secrets is missing');
    }
    this.key = config.webhookSecretEncryptionKey;
  }

  seal(text: string, place: SealPlace): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.key, iv, { authTagLength: TAG_BYTES }).setAAD(
      associatedData(place),
    );
    const sealed = Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return PREFIX + sealed.toString('base64');
  }

  /** @throws SealBroken, also for a text that was never sealed or was sealed for another place. */
  open(sealed: string, place: SealPlace): string {
    const bytes = sealed.startsWith(PREFIX)
      ? Buffer.from(sealed.slice(PREFIX.length), 'base64')
      : Buffer.alloc(0);
    if (bytes.length < IV_BYTES + TAG_BYTES) {
      throw new SealBroken('a stored secret is not sealed');
    }
    const decipher = createDecipheriv(CIPHER, this.key, bytes.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(associatedData(place));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([
        decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)),
        decipher.final(),
      ]).toString('utf8');
    } catch {
      throw new SealBroken('a stored secret cannot be decrypted with this key for this subscription');
    }
  }
}

/** Unambiguous, because neither part contains a colon. */
function associatedData({ subscriptionId, kind }: SealPlace): Buffer {
  return Buffer.from(`holdfast:webhook:${kind}:${subscriptionId}`);
}
