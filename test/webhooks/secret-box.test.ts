import { describe, expect, test } from '@jest/globals';
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { loadConfig } from '../../src/config/config.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import { SealBroken, type SealPlace, SecretBox } from '../../src/webhooks/signing/secret-box.js';
import { shows } from '../compatibility/shows.js';

const key = randomBytes(32);
const metrics = new MetricsRegistry(loadConfig({}));
const boxOf = (of: Buffer, webhookUnboundSecrets: 'accept' | 'refuse' = 'accept'): SecretBox =>
  new SecretBox({ webhookSecretEncryptionKey: of, webhookUnboundSecrets }, metrics);
const box = boxOf(key);
const HERE: SealPlace = { subscriptionId: 'whsub_00a', kind: 'signing_secret' };

/** Encrypted as by 0.5. */
function sealedByOld(text: string): string {
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, iv);
  return `enc:${Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64')}`;
}

async function counted(result: string): Promise<number> {
  const { values } = (await metrics.registry
    .getSingleMetric('holdfast_webhook_unbound_secrets_total')
    ?.get()) ?? { values: [] };
  return values.find(({ labels }) => labels['result'] === result)?.value ?? 0;
}

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
  ])('cannot be decrypted %s, nor as one of the older form', (_what, place) => {
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

describe('a text that 0.5 encrypted', () => {
  test('can be decrypted in any place while that is accepted, is counted, and is bound to its place by resealing', async () => {
    const old = sealedByOld('a secret');
    const before = await counted('opened');
    expect(box.open(old, HERE)).toBe('a secret');
    const bound = box.reseal(old, HERE);
    expect(box.open(bound, HERE)).toBe('a secret');
    expect(() => box.open(bound, { ...HERE, subscriptionId: 'whsub_00b' })).toThrow(SealBroken);
    expect(await counted('opened')).toBe(before + 2);
  });

  test('cannot be decrypted where that is refused, and does not count as a current one without its place', async () => {
    const old = sealedByOld('a secret');
    const before = await counted('refused');
    expect(() => boxOf(key, 'refuse').open(old, HERE)).toThrow('WEBHOOK_UNBOUND_SECRETS');
    expect(await counted('refused')).toBe(before + 1);
    expect(() => box.open(old.replace('enc:', 'enc2:'), HERE)).toThrow(SealBroken);
  });
});

test('a box needs a key', () => {
  expect(() => new SecretBox({ webhookUnboundSecrets: 'accept' }, metrics)).toThrow('is missing');
});
