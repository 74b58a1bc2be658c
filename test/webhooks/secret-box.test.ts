import { describe, expect, test } from '@jest/globals';
import { createDecipheriv, randomBytes } from 'node:crypto';
import { SealBroken, type SealPlace, SecretBox } from '../../src/webhooks/signing/secret-box.js';
import { shows } from '../compatibility/shows.js';

const key = randomBytes(32);
const boxOf = (webhookSecretEncryptionKey: Buffer): SecretBox =>
  new SecretBox({ webhookSecretEncryptionKey });
const box = boxOf(key);
const HERE: SealPlace = { subscriptionId: 'whsub_00a', kind: 'signing_secret' };

describe('a sealed text', () => {
  test.each(['', 'whsec_abc', 'Ünïcode "x"\n', 'x'.repeat(100_000)])(
    'decrypts to the original text: %#',
    (text) => {
      shows('masked headers');
      expect(box.open(box.seal(text, HERE), HERE)).toBe(text);
    },
  );

  test('is enc2: and the base64 of IV, ciphertext and tag of AES-256-GCM, with its place as associated data', () => {
    const sealed = box.seal('a secret', HERE);
    expect(sealed).toMatch(/^enc2:[A-Za-z0-9+/]+={0,2}$/);
    const bytes = Buffer.from(sealed.slice(5), 'base64');
    expect(bytes).toHaveLength(12 + 'a secret'.length + 16);
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12));
    decipher.setAAD(Buffer.from('holdfast:webhook:signing_secret:whsub_00a')).setAuthTag(bytes.subarray(-16));
    expect(Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString()).toBe(
      'a secret',
    );
  });

  test('differs from every other one, even of the same text', () => {
    shows('masked headers');
    expect(new Set(Array.from({ length: 100 }, () => box.seal('same', HERE))).size).toBe(100);
  });

  test('cannot be decrypted with another key, or after any byte was changed', () => {
    const sealed = box.seal('a secret', HERE);
    expect(() => boxOf(randomBytes(32)).open(sealed, HERE)).toThrow(SealBroken);
    const bytes = Buffer.from(sealed.slice(5), 'base64');
    for (const index of bytes.keys()) {
      const changed = Buffer.from(bytes);
      changed[index] = (changed[index] as number) ^ 1;
      expect(() => box.open(`enc2:${changed.toString('base64')}`, HERE)).toThrow(SealBroken);
    }
  });

  test.each<[string, SealPlace]>([
    ['for another subscription', { ...HERE, subscriptionId: 'whsub_00b' }],
    ['as another field of its subscription', { ...HERE, kind: 'headers' }],
  ])('cannot be decrypted %s, nor with another prefix', (_what, place) => {
    const sealed = box.seal('a secret', HERE);
    expect(() => box.open(sealed, place)).toThrow(SealBroken);
    expect(() => box.open(sealed.replace('enc2:', 'enc:'), place)).toThrow(SealBroken);
    expect(() => box.open(sealed.replace('enc2:', 'enc:'), HERE)).toThrow(SealBroken);
  });

  test.each(['', 'enc:', 'enc2:', 'enc:AAAA', 'enc2:AAAA', 'plain text', 'whsec_abc'])(
    'is never plain text: %j is never taken for the secret itself',
    (text) => {
      expect(() => box.open(text, HERE)).toThrow(SealBroken);
    },
  );
});

test('a box needs a key', () => {
  expect(() => new SecretBox({})).toThrow('is missing');
});
