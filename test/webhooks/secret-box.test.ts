import { describe, expect, test } from '@jest/globals';
import { createDecipheriv, randomBytes } from 'node:crypto';
import { SealBroken, SecretBox } from '../../src/webhooks/secrets/index.js';

const key = randomBytes(32);
const box = new SecretBox({ webhookSecretEncryptionKey: key });

describe('a sealed text', () => {
  test.each(['', 'whsec_abc', 'Ünïcode "x"\n', 'x'.repeat(100_000)])('opens to what it was: %#', (text) => {
    expect(box.open(box.seal(text))).toBe(text);
  });

  test('is enc: and the base64 of IV, ciphertext and tag of AES-256-GCM', () => {
    const sealed = box.seal('a secret');
    expect(sealed).toMatch(/^enc:[A-Za-z0-9+/]+={0,2}$/);
    const bytes = Buffer.from(sealed.slice(4), 'base64');
    expect(bytes).toHaveLength(12 + 'a secret'.length + 16);
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12)).setAuthTag(bytes.subarray(-16));
    expect(Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString()).toBe('a secret');
  });

  test('differs from every other one, also of the same text', () => {
    expect(new Set(Array.from({ length: 100 }, () => box.seal('same'))).size).toBe(100);
  });

  test('cannot be opened with another key, nor when any byte of it was changed', () => {
    const sealed = box.seal('a secret');
    expect(() => new SecretBox({ webhookSecretEncryptionKey: randomBytes(32) }).open(sealed)).toThrow(SealBroken);
    const bytes = Buffer.from(sealed.slice(4), 'base64');
    for (const index of bytes.keys()) {
      const changed = Buffer.from(bytes);
      changed[index] = (changed[index] as number) ^ 1;
      expect(() => box.open(`enc:${changed.toString('base64')}`)).toThrow(SealBroken);
    }
  });

  test.each(['', 'enc:', 'enc:AAAA', 'plain text', 'whsec_abc'])('is nothing that was not sealed: %j is never taken for the secret itself', (text) => {
    expect(() => box.open(text)).toThrow(SealBroken);
  });
});

test('there is no box without a key', () => {
  expect(() => new SecretBox({})).toThrow('was not resolved');
});
