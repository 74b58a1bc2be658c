import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { evidenceKeys } from '../../src/cli/evidence-keys.js';
import { ConfigError, loadConfig } from '../../src/config/config.js';
import {
  generateEvidenceKeys,
  parseEvidenceKeys,
  rotateEvidenceKeys,
} from '../../src/config/evidence-keys.js';
import { resolveEvidenceKeys } from '../../src/config/secrets.js';
import { createLogger } from '../../src/telemetry/logger.js';
import type { Json } from '../support/holdfast.js';

const SERVER_ID = 'https://cycles.example.com/v1';
const EXTERNAL = {
  REDIS_URL: 'redis://h',
  ADMIN_API_KEY: 'an-admin-key-0123456789',
  WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
};
const KEYS = generateEvidenceKeys(1000);
const dir = mkdtempSync(join(tmpdir(), 'holdfast-evidence-keys-'));
afterAll(() => rmSync(dir, { recursive: true }));

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    return (error as ConfigError).problems;
  }
}

/** The set with a change to its first key. */
function changed(change: object): string {
  const { keys } = JSON.parse(KEYS) as { keys: Json[] };
  return JSON.stringify({ keys: [{ ...keys[0], ...change }] });
}

const problemOf = (text: string): string => (parseEvidenceKeys(text) as { problem: string }).problem;

describe('a key set', () => {
  test('that was generated and rotated has contiguous windows, and the last key has no end', () => {
    const rotated = parseEvidenceKeys(rotateEvidenceKeys(KEYS, 5000));
    expect(
      'keys' in rotated && rotated.keys.map(({ notBeforeMs, expiresMs }) => [notBeforeMs, expiresMs]),
    ).toEqual([
      [1000, 5000],
      [5000, undefined],
    ]);
    expect(() => rotateEvidenceKeys(KEYS, 1000)).toThrow('cannot be rotated at this time');
    expect(() => rotateEvidenceKeys('{}', 5000)).toThrow('cannot be used: it is not a JWK Set');
  });

  test('may have lost the private part of a retired key', () => {
    const { keys } = JSON.parse(rotateEvidenceKeys(KEYS, 5000)) as { keys: Json[] };
    delete keys[0].d;
    expect(parseEvidenceKeys(JSON.stringify({ keys }))).toHaveProperty('keys');
  });

  const [first, second] = (JSON.parse(rotateEvidenceKeys(KEYS, 5000)) as { keys: [Json, Json] }).keys;
  const set = (...keys: Json[]): string => JSON.stringify({ keys });

  test.each([
    ['no JSON', 'x', 'it is not JSON'],
    ['no set', '[]', 'it is not a JWK Set, which has an array of keys'],
    ['no key', '{"keys":[]}', 'there is no key'],
    ['another type of key', changed({ kty: 'EC' }), 'key 1 is not an Ed25519 key (kty OKP, crv Ed25519)'],
    ['another algorithm', changed({ alg: 'ES256' }), 'key 1 is not an Ed25519 key (kty OKP, crv Ed25519)'],
    [
      'a kid that is invalid in a DID',
      changed({ kid: 'a b' }),
      "key 1 needs a kid of 1 to 64 letters, digits, '.', '_' and '-'",
    ],
    [
      'a public key that is too short',
      changed({ kid: 'k', x: 'AAAA' }),
      'x of k is not a public key of 32 bytes in base64url',
    ],
    [
      'a private key of a different public key',
      changed({ kid: 'k', d: second.d }),
      'x and d of k do not belong together',
    ],
    [
      'no beginning',
      changed({ kid: 'k', cycles_nbf_ms: undefined }),
      'cycles_nbf_ms of k is not a time in milliseconds',
    ],
    [
      'an end before the beginning',
      changed({ kid: 'k', cycles_exp_ms: 1000 }),
      'cycles_exp_ms of k is not a time in milliseconds after cycles_nbf_ms',
    ],
    [
      'an end of the last key',
      changed({ kid: 'k', cycles_exp_ms: 1001 }),
      'the last key, k, must have no cycles_exp_ms, and d to sign with',
    ],
    [
      'no private part of the last key',
      changed({ kid: 'k', d: undefined }),
      'the last key, k, must have no cycles_exp_ms, and d to sign with',
    ],
    ['a kid twice', set(first, { ...second, kid: first.kid }), 'two keys have the same kid'],
    [
      'windows that overlap',
      set({ ...first, kid: 'a', cycles_exp_ms: 5001 }, { ...second, kid: 'b' }),
      'the windows of a and b overlap',
    ],
  ])('with %s is refused', (_, text, problem) => {
    expect(problemOf(text)).toBe(problem);
  });
});

describe('the configuration of evidence', () => {
  test('is off by default, and needs an identity and with an external Redis keys', () => {
    expect(loadConfig(EXTERNAL)).not.toHaveProperty('evidenceServerId');
    expect(problemsOf({ ...EXTERNAL, EVIDENCE_KEYS: KEYS })).toEqual([
      'EVIDENCE_SERVER_ID is required with EVIDENCE_KEYS: set the public base URL of the API with its /v1',
    ]);
    expect(problemsOf({ ...EXTERNAL, EVIDENCE_SERVER_ID: SERVER_ID })).toEqual([
      'EVIDENCE_KEYS is required with EVIDENCE_SERVER_ID and an external Redis: set the content of the file that npm run evidence-keys makes',
    ]);
    const config = loadConfig({ ...EXTERNAL, EVIDENCE_SERVER_ID: SERVER_ID, EVIDENCE_KEYS: KEYS });
    expect(config.evidenceServerId).toBe(SERVER_ID);
    expect(config.evidenceKeys).toHaveLength(1);
  });

  test('never shows a key', () => {
    const [line] = problemsOf({
      ...EXTERNAL,
      EVIDENCE_SERVER_ID: SERVER_ID,
      EVIDENCE_KEYS: changed({ kid: 'k', crv: 'X25519' }),
    });
    expect(line).toBe(
      'EVIDENCE_KEYS: its value is not allowed; give a set of evidence keys (key 1 is not an Ed25519 key (kty OKP, crv Ed25519))',
    );
  });

  test.each([
    'https://h/v1/',
    'https://h',
    'https://h/v1?a',
    'https://u:p@h/v1',
    'https://H/v1',
    'https://h:443/v1',
    'ftp://h/v1',
    'h/v1',
  ])('refuses %s as an identity, which has only one valid notation', (serverId) => {
    expect(problemsOf({ EVIDENCE_SERVER_ID: serverId })[0]).toContain('EVIDENCE_SERVER_ID');
  });

  test('generates a key with the embedded Redis once, for its owner only, and never logs it', () => {
    const lines: string[] = [];
    const logger = createLogger('info', { write: (line: string) => void lines.push(line) });
    const config = loadConfig({ DATA_DIR: dir, EVIDENCE_SERVER_ID: SERVER_ID });
    const keys = resolveEvidenceKeys(config, logger);
    const file = join(dir, 'evidence-keys.json');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(resolveEvidenceKeys(config, logger)?.[0].publicKey).toBe(keys?.[0].publicKey);
    expect(lines).toHaveLength(1);
    const { d } = (JSON.parse(readFileSync(file, 'utf8')) as { keys: [{ d: string }] }).keys[0];
    expect(lines[0]).not.toContain(d);
    expect(keys?.[0].notBeforeMs).toBeLessThan(new Date().getTime());
    expect(resolveEvidenceKeys(loadConfig({ DATA_DIR: dir }), logger)).toBeUndefined();
    chmodSync(file, 0o600);
    writeFileSync(file, 'x');
    expect(() => resolveEvidenceKeys(config, logger)).toThrow('holds no usable set of evidence keys');
  });
});

test('the command creates a set and rotates it in place, and never overwrites one', () => {
  const file = join(dir, 'keys.json');
  expect(evidenceKeys({ file, rotate: false })).toBe(`${file} has a first key`);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(() => evidenceKeys({ file, rotate: false })).toThrow(
    `${file} exists already; add --rotate to add a key to its set`,
  );
  expect(evidenceKeys({ file, rotate: true, at: '2999-01-31T12:00:00Z' })).toContain(
    'takes over at 2999-01-31T12:00:00.000Z',
  );
  expect(parseEvidenceKeys(readFileSync(file, 'utf8'))).toMatchObject({
    keys: [{}, { expiresMs: undefined }],
  });
  expect(() => evidenceKeys({ file, rotate: true, at: '2000-01-01T00:00:00Z' })).toThrow('in the future');
  expect(() => evidenceKeys({ file, rotate: true, at: 'soon' })).toThrow('"soon" is no time');
});
