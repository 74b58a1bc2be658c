import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isEnvelopeOf, seal, sha256Hex, type Statement, unsealed } from '../../src/evidence/envelope.js';
import { type KeySet, verifyEnvelope } from '../../src/evidence/verification.js';
import { GOVERNANCE_ERROR_CODES, RUNTIME_ERROR_CODES } from '../../src/ledger/refusal.js';
import { readJson } from '../../src/wire/exact-json.js';
import { canonicalJson } from '../../src/wire/json.js';
import { type Json } from '../support/holdfast.js';
import { envelopeProblems, evidenceFixtures, specAbsence } from '../support/spec/index.js';

const SERVER_ID = 'https://cycles.example.com/v1';
const NO_KEYS: KeySet = { kind: 'none' };
const ISSUED_AT_MS = 1_810_000_000_000;

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const x = publicKey.export({ format: 'jwk' }).x as string;
const signer = Buffer.from(x, 'base64url').toString('hex');

const statement = (payload: object, more: Partial<Statement> = {}): Statement => ({
  artifact: 'decide',
  payload,
  issuedAtMs: ISSUED_AT_MS,
  traceId: '0af7651916cd43dd8448eb211c80319c',
  serverId: SERVER_ID,
  signer,
  ...more,
});

const absence = specAbsence();
const withSpec = absence === undefined ? test : test.skip;
const skipped = absence === undefined ? '' : ` (skipped: ${absence})`;

withSpec(`all 13 fixtures of the protocol are reproduced byte for byte, and verified${skipped}`, () => {
  const fixtures = evidenceFixtures();
  expect(fixtures).toHaveLength(13);
  for (const { name, text } of fixtures) {
    const envelope = readJson(text) as Json;
    const [[artifact, payload]] = Object.entries(envelope.payload) as [[Statement['artifact'], object]];
    expect(canonicalJson(envelope)).toBe(text);
    expect(envelopeProblems(text)).toEqual([]);
    const { trace_id: traceId, ...others } = envelope;
    const again = {
      artifact,
      payload,
      issuedAtMs: envelope.issued_at_ms,
      serverId: envelope.server_id,
      signer: envelope.signer_did,
    };
    const unsigned =
      traceId === undefined
        ? canonicalJson({ ...others, evidence_id: '', signature: '' })
        : unsealed({ ...again, traceId });
    expect({ name, id: sha256Hex(unsigned) }).toEqual({ name, id: envelope.evidence_id });
    expect(isEnvelopeOf(envelope.evidence_id, text)).toBe(true);
    expect(verifyEnvelope(text, NO_KEYS, envelope.signer_did)).toMatchObject({
      disposition: 'binding_only',
      pinned: true,
    });
    const key = Buffer.from(envelope.signer_did, 'hex').toString('base64url');
    const keys = JSON.stringify({
      keys: [{ kty: 'OKP', crv: 'Ed25519', x: key, kid: 'k', cycles_nbf_ms: 0 }],
    });
    expect(verifyEnvelope(text, { kind: 'found', text: keys }).disposition).toBe('authentic');
  }
});

describe('an envelope', () => {
  test('equals the result of two full canonicalizations, whatever the payload holds, and its text is canonical', () => {
    const names = fc.constantFrom('evidence_id', 'signature', 'signer_did', '"signature":""', 'a');
    const values = fc.oneof(
      fc.constant(''),
      fc.string({ unit: 'grapheme' }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    );
    fc.assert(
      fc.property(fc.dictionary(names, values), (metadata) => {
        const { evidenceId, text } = seal(statement({ request: { metadata } }), privateKey);
        const parsed = readJson(text) as Json;
        expect(text).toBe(canonicalJson(parsed));
        expect(sha256Hex(canonicalJson({ ...parsed, evidence_id: '', signature: '' }))).toBe(evidenceId);
        expect(parsed.evidence_id).toBe(evidenceId);
        expect(isEnvelopeOf(evidenceId, text)).toBe(true);
        expect(verifyEnvelope(text, NO_KEYS).disposition).toBe('binding_only');
      }),
    );
  });

  test('keeps an int64 exactly, with every digit', () => {
    const of = (amount: bigint) => seal(statement({ request: { estimate: { amount } } }), privateKey);
    const { text } = of(9_223_372_036_854_775_807n);
    expect(text).toContain('"amount":9223372036854775807}');
    expect(verifyEnvelope(text, NO_KEYS).disposition).toBe('binding_only');
    expect(of(9_007_199_254_740_993n).evidenceId).not.toBe(of(9_007_199_254_740_992n).evidenceId);
    expect(verifyEnvelope(text.replace('775807}', '775806}'), NO_KEYS)).toMatchObject({
      disposition: 'signature_invalid',
      reason: 'evidence_id is not the hash of the content',
    });
  });

  test('of the same statement and key has the same bytes', () => {
    const one = seal(statement({ a: 1, b: [2] }), privateKey);
    expect(seal(statement({ b: [2], a: 1 }), privateKey)).toEqual(one);
  });

  test('whose content, id or signature was changed does not match its id', () => {
    const { evidenceId, text } = seal(statement({ a: 1 }), privateKey);
    expect(isEnvelopeOf(evidenceId, text.replace('"a":1', '"a":2'))).toBe(false);
    expect(isEnvelopeOf(sha256Hex('another'), text)).toBe(false);
    expect(isEnvelopeOf(evidenceId, '')).toBe(false);
    expect(isEnvelopeOf(evidenceId, text.slice(0, -200))).toBe(false);
  });
});

describe('a verifier', () => {
  const { text } = seal(statement({ request: {}, response: {} }), privateKey);
  const jwk = (more: object = {}) => ({
    kty: 'OKP',
    crv: 'Ed25519',
    alg: 'EdDSA',
    kid: 'k1',
    x,
    cycles_nbf_ms: 0,
    ...more,
  });
  const found = (...keys: object[]): KeySet => ({ kind: 'found', text: JSON.stringify({ keys }) });
  const asDid = (serverHash = sha256Hex(SERVER_ID), kid = 'k1'): string =>
    seal(statement({ request: {} }, { signer: `did:cycles:${serverHash}#${kid}` }), privateKey).text;
  const denied = (error: unknown): string => {
    const response = { error, message: 'refused', request_id: 'r' };
    const payload = { endpoint: 'POST /v1/decide', http_status: 409, response };
    return seal(statement(payload, { artifact: 'error' }), privateKey).text;
  };
  const nested = (levels: number): string =>
    text.replace('"request":{}', `"request":${'['.repeat(levels)}${']'.repeat(levels)}`);
  const another = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x as string;

  test.each<[string, string, KeySet, string]>([
    ['a raw key without a set', text, NO_KEYS, 'binding_only'],
    ['a raw key in the set', text, found(jwk()), 'authentic'],
    [
      'a retired key whose window covers the time',
      text,
      found(jwk({ cycles_exp_ms: ISSUED_AT_MS + 1, status: 'retired' })),
      'authentic',
    ],
    [
      'a window that ends at that very time',
      text,
      found(jwk({ cycles_exp_ms: ISSUED_AT_MS })),
      'signer_authority_failed',
    ],
    [
      'a window that begins at that very time',
      text,
      found(jwk({ cycles_nbf_ms: ISSUED_AT_MS })),
      'authentic',
    ],
    [
      'a window that begins later',
      text,
      found(jwk({ cycles_nbf_ms: ISSUED_AT_MS + 1 })),
      'signer_authority_failed',
    ],
    ['a set without the key', text, found(jwk({ x: another })), 'signer_authority_failed'],
    ['an empty set', text, found(), 'signer_authority_failed'],
    ['the key twice', text, found(jwk(), jwk({ kid: 'k2' })), 'signer_authority_failed'],
    ['a kid twice', text, found(jwk(), jwk({ x: another })), 'signer_authority_failed'],
    [
      'two keys without a kid',
      text,
      found(jwk(), jwk({ kid: undefined }), jwk({ kid: undefined })),
      'authentic',
    ],
    ['another alg', text, found(jwk({ alg: 'ES256' })), 'signer_authority_failed'],
    ['no alg', text, found(jwk({ alg: undefined })), 'authentic'],
    [
      'a set without a start of the window',
      text,
      found(jwk({ cycles_nbf_ms: undefined })),
      'signer_authority_failed',
    ],
    ['a set that could not be fetched', text, { kind: 'unavailable' }, 'signer_resolution_failed'],
    ['a set that is not JSON', text, { kind: 'found', text: '<html>' }, 'signer_resolution_failed'],
    ['a DID in the set', asDid(), found(jwk()), 'authentic'],
    ['a DID without a set', asDid(), NO_KEYS, 'signer_resolution_failed'],
    [
      'a DID of another server',
      asDid(sha256Hex('https://other.example/v1')),
      found(jwk()),
      'signer_authority_failed',
    ],
    ['a DID with an unknown kid', asDid(undefined, 'k9'), found(jwk()), 'signer_authority_failed'],
    ['a DID with the kid of another key', asDid(), found(jwk({ x: another })), 'signature_invalid'],
    [
      'a signature of something else',
      text.replace(/"signature":"../, '"signature":"00'),
      found(jwk()),
      'signature_invalid',
    ],
    ['no JSON', 'no', NO_KEYS, 'malformed'],
    ['a list', '[]', NO_KEYS, 'malformed'],
    ['a further member', text.replace('{', '{"more":1,'), NO_KEYS, 'malformed'],
    ['another schema', text.replace('evidence/v0.1', 'evidence/v9'), NO_KEYS, 'malformed'],
    [
      'an artifact type that is not the payload’s',
      text.replace('"artifact_type":"decide"', '"artifact_type":"commit"'),
      NO_KEYS,
      'malformed',
    ],
    [
      'a forged payload before the genuine one',
      text.replace('"payload":{', '"payload":{"decide":{"request":{},"response":{}}},"payload":{'),
      NO_KEYS,
      'malformed',
    ],
    [
      'a forged server before the genuine one',
      text.replace('"server_id"', '"server_id":"https://forged.example","server_id"'),
      NO_KEYS,
      'malformed',
    ],
    [
      'a member twice deep inside',
      text.replace('"request":{', '"request":{"a":1,"a":1,'),
      NO_KEYS,
      'malformed',
    ],
    [
      'a key set with a member twice',
      asDid(),
      { kind: 'found', text: `{"keys":[],${JSON.stringify({ keys: [jwk()] }).slice(1)}` },
      'signer_resolution_failed',
    ],
    ['two payloads', text.replace('"payload":{', '"payload":{"commit":{},'), NO_KEYS, 'malformed'],
    ['a payload 2,000 levels deep', nested(2000), NO_KEYS, 'malformed'],
    ['a payload 100,000 levels deep', nested(100_000), NO_KEYS, 'malformed'],
    ['a payload 250 levels deep', nested(250), NO_KEYS, 'signature_invalid'],
    ['a denial', denied('BUDGET_EXCEEDED'), NO_KEYS, 'binding_only'],
    ['a code that is not in the document', denied('ACTION_QUOTA_EXCEEDED'), NO_KEYS, 'malformed'],
    ['a denial without a code', denied(undefined), NO_KEYS, 'malformed'],
    [
      'a code that is a number beyond 2^53',
      denied('X').replace('"X"', '9007199254740993'),
      NO_KEYS,
      'malformed',
    ],
    [
      'a number beyond the range of doubles',
      text.replace('"request":{}', '"request":{"a":1e999}'),
      NO_KEYS,
      'malformed',
    ],
    ['a lone surrogate', text.replace('"request":{}', '"request":{"a":"\\ud800"}'), NO_KEYS, 'malformed'],
  ])('finds %s', (_, envelope, keySet, disposition) => {
    expect(verifyEnvelope(envelope, keySet).disposition).toBe(disposition);
  });

  withSpec(`refuses the error codes that the document does not have, and no others${skipped}`, () => {
    for (const code of [...RUNTIME_ERROR_CODES, ...GOVERNANCE_ERROR_CODES]) {
      const isOfDocument = envelopeProblems(denied(code)).length === 0;
      const { disposition } = verifyEnvelope(denied(code), NO_KEYS);
      expect([code, disposition]).toEqual([code, isOfDocument ? 'binding_only' : 'malformed']);
    }
  });

  test('says whether the signer is the expected one', () => {
    expect(verifyEnvelope(text, NO_KEYS, signer).pinned).toBe(true);
    expect(verifyEnvelope(text, NO_KEYS, '0'.repeat(64)).pinned).toBe(false);
    expect(verifyEnvelope(text, NO_KEYS)).not.toHaveProperty('pinned');
  });
});
