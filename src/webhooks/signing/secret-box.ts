import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { Inject, Injectable, Module } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { type LabelledCounter, MetricsModule, MetricsRegistry } from '../../telemetry/index.js';

const CIPHER = 'aes-256-gcm';
const BOUND_PREFIX = 'enc2:';
/** Sealed by 0.5 or before, and not bound to a subscription. */
const UNBOUND_PREFIX = 'enc:';
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

/** Whether a text was sealed by 0.5 or before, without a place. */
export function isUnbound(sealed: string): boolean {
  return sealed.startsWith(UNBOUND_PREFIX);
}

/**
 * Encrypts the secrets of subscribers before they are stored: `enc2:` and the base64 of IV, ciphertext and tag of AES-256-GCM, with the
 * text's place as associated data. Equal texts give different bytes.
 *
 * The older form without a place can be opened while the configuration accepts it. That setting is not stored in Redis, because the place
 * protects against anyone who can write to Redis. Changing the prefix of a current text does not turn it into the older form, because its
 * tag covers the associated data.
 */
@Injectable()
export class SecretBox {
  private readonly key: Buffer;
  private readonly acceptsUnbound: boolean;
  private readonly unbound: LabelledCounter;

  constructor(
    @Inject(CONFIG) config: Pick<HoldfastConfig, 'webhookSecretEncryptionKey' | 'webhookUnboundSecrets'>,
    metrics: MetricsRegistry,
  ) {
    if (config.webhookSecretEncryptionKey === undefined) {
      throw new Error('the key that encrypts webhook secrets is missing');
    }
    this.key = config.webhookSecretEncryptionKey;
    this.acceptsUnbound = config.webhookUnboundSecrets === 'accept';
    this.unbound = metrics.counter({
      name: 'holdfast_webhook_unbound_secrets_total',
      help: 'Secrets and headers sealed by 0.5 or before, by result: opened, refused, or resealed for their subscription.',
      labels: ['result'],
    });
  }

  seal(text: string, place: SealPlace): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(CIPHER, this.key, iv, { authTagLength: TAG_BYTES }).setAAD(
      associatedData(place),
    );
    const sealed = Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return BOUND_PREFIX + sealed.toString('base64');
  }

  /** The same text in the current form. `countResealed` counts it once it is stored. @throws SealBroken */
  reseal(sealed: string, place: SealPlace): string {
    return this.seal(this.open(sealed, place), place);
  }

  countResealed(texts: number): void {
    this.unbound.inc({ result: 'resealed' }, texts);
  }

  /** @throws SealBroken, also for a text that was never sealed or was sealed for another place. */
  open(sealed: string, place: SealPlace): string {
    if (!isUnbound(sealed)) {
      return this.decrypt(sealed, BOUND_PREFIX, associatedData(place));
    }
    if (!this.acceptsUnbound) {
      this.unbound.inc({ result: 'refused' });
      throw new SealBroken('a stored secret is in the form of 0.5, which WEBHOOK_UNBOUND_SECRETS refuses');
    }
    const text = this.decrypt(sealed, UNBOUND_PREFIX, undefined);
    this.unbound.inc({ result: 'opened' });
    return text;
  }

  private decrypt(sealed: string, prefix: string, place: Buffer | undefined): string {
    const bytes = sealed.startsWith(prefix)
      ? Buffer.from(sealed.slice(prefix.length), 'base64')
      : Buffer.alloc(0);
    if (bytes.length < IV_BYTES + TAG_BYTES) {
      throw new SealBroken('a stored secret is not sealed');
    }
    const decipher = createDecipheriv(CIPHER, this.key, bytes.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    });
    if (place !== undefined) {
      decipher.setAAD(place);
    }
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

@Module({ imports: [MetricsModule], providers: [SecretBox], exports: [SecretBox] })
export class SecretsModule {}
