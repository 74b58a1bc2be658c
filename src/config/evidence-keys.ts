import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { DAY_MS } from '../ledger/index.js';

/** A key of the evidence key set: Ed25519, with the window in which it signs. */
export interface EvidenceKey {
  readonly kid: string;
  /** The 32 raw bytes in lower-case hex, as envelopes name the signer. */
  readonly publicKey: string;
  /** Absent for a retired key of which only the public part was kept. */
  readonly privateKey: KeyObject | undefined;
  /** Inclusive, by Redis' clock. */
  readonly notBeforeMs: number;
  /** Exclusive; absent for the last key. */
  readonly expiresMs: number | undefined;
}

/** Ordered by window; the windows do not overlap, and the last key has no end. */
export type EvidenceKeys = readonly [EvidenceKey, ...EvidenceKey[]];

/** One key as the set is written: a JWK of RFC 8037 with the protocol's window. */
interface WrittenKey {
  readonly kty: 'OKP';
  readonly crv: 'Ed25519';
  readonly kid: string;
  readonly x: string;
  readonly d?: string;
  readonly cycles_nbf_ms: number;
  readonly cycles_exp_ms?: number;
}

const KID = /^[A-Za-z0-9._-]{1,64}$/;
const RAW_KEY = /^[A-Za-z0-9_-]{43}$/;

/** A key set that cannot be used. The message never contains key material. */
class UnusableKeys extends Error {}

/** @throws UnusableKeys */
function parseKey(written: unknown, place: string): EvidenceKey {
  const { kty, crv, alg, kid, x, d, cycles_nbf_ms, cycles_exp_ms } = (written ?? {}) as Record<
    string,
    unknown
  >;
  if (kty !== 'OKP' || crv !== 'Ed25519' || (alg !== undefined && alg !== 'EdDSA')) {
    throw new UnusableKeys(`${place} is not an Ed25519 key (kty OKP, crv Ed25519)`);
  }
  if (typeof kid !== 'string' || !KID.test(kid)) {
    throw new UnusableKeys(`${place} needs a kid of 1 to 64 letters, digits, '.', '_' and '-'`);
  }
  if (typeof x !== 'string' || !RAW_KEY.test(x) || Buffer.from(x, 'base64url').toString('base64url') !== x) {
    throw new UnusableKeys(`x of ${kid} is not a public key of 32 bytes in base64url`);
  }
  if (d !== undefined && (typeof d !== 'string' || !RAW_KEY.test(d))) {
    throw new UnusableKeys(`d of ${kid} is not a private key of 32 bytes in base64url`);
  }
  if (!isTime(cycles_nbf_ms)) {
    throw new UnusableKeys(`cycles_nbf_ms of ${kid} is not a time in milliseconds`);
  }
  if (
    cycles_exp_ms !== undefined &&
    cycles_exp_ms !== null &&
    !(isTime(cycles_exp_ms) && cycles_exp_ms > cycles_nbf_ms)
  ) {
    throw new UnusableKeys(`cycles_exp_ms of ${kid} is not a time in milliseconds after cycles_nbf_ms`);
  }
  return {
    kid,
    publicKey: Buffer.from(x, 'base64url').toString('hex'),
    privateKey: d === undefined ? undefined : privateKeyOf(kid, x, d),
    notBeforeMs: cycles_nbf_ms,
    expiresMs: cycles_exp_ms ?? undefined,
  };
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** @throws UnusableKeys */
function privateKeyOf(kid: string, x: string, d: string): KeyObject {
  // Node accepts any x here and keeps the one that belongs to d.
  const key = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x, d }, format: 'jwk' });
  if (key.export({ format: 'jwk' }).x !== x) {
    throw new UnusableKeys(`x and d of ${kid} do not belong together`);
  }
  return key;
}

/** @throws UnusableKeys */
function requireUsable(keys: readonly EvidenceKey[]): asserts keys is EvidenceKeys {
  const last = keys.at(-1);
  if (last === undefined) {
    throw new UnusableKeys('there is no key');
  }
  if (new Set(keys.map(({ kid }) => kid)).size < keys.length) {
    throw new UnusableKeys('two keys have the same kid');
  }
  if (new Set(keys.map(({ publicKey }) => publicKey)).size < keys.length) {
    throw new UnusableKeys('a key is there twice');
  }
  for (const [index, { kid, expiresMs = Infinity }] of keys.entries()) {
    const next = keys[index + 1];
    if (next !== undefined && expiresMs > next.notBeforeMs) {
      throw new UnusableKeys(`the windows of ${kid} and ${next.kid} overlap`);
    }
  }
  if (last.expiresMs !== undefined || last.privateKey === undefined) {
    throw new UnusableKeys(`the last key, ${last.kid}, must have no cycles_exp_ms, and d to sign with`);
  }
}

/** Reads a JWK Set with private keys. Returns the keys, or why they cannot be used. */
export function parseEvidenceKeys(
  text: string,
): { readonly keys: EvidenceKeys } | { readonly problem: string } {
  let written: unknown;
  try {
    written = JSON.parse(text);
  } catch {
    return { problem: 'it is not JSON' };
  }
  const list = (written as { keys?: unknown } | null)?.keys;
  if (!Array.isArray(list)) {
    return { problem: 'it is not a JWK Set, which has an array of keys' };
  }
  try {
    const keys = list
      .map((key, index) => parseKey(key, `key ${index + 1}`))
      .sort((a, b) => a.notBeforeMs - b.notBeforeMs);
    requireUsable(keys);
    return { keys };
  } catch (error) {
    return { problem: error instanceof UnusableKeys ? error.message : 'one of its keys cannot be read' };
  }
}

function generateKey(notBeforeMs: number): WrittenKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  const { x = '', d = '' } = privateKey.export({ format: 'jwk' });
  const day = new Date(notBeforeMs).toISOString().slice(0, 10);
  const kid = `${day}-${Buffer.from(x, 'base64url').toString('hex', 0, 4)}`;
  return { kty: 'OKP', crv: 'Ed25519', kid, x, d, cycles_nbf_ms: notBeforeMs };
}

/**
 * The window of a first key starts this long before the time of the host that makes it, so that it covers Redis' time even if Redis'
 * clock is behind that host's.
 */
export const FIRST_KEY_LEAD_MS = DAY_MS;

/** A set of one new key that signs from `notBeforeMs` on, as text. */
export function generateEvidenceKeys(notBeforeMs: number): string {
  return JSON.stringify({ keys: [generateKey(notBeforeMs)] });
}

/**
 * The set with a new key that takes over from the last one at `atMs`, as text.
 * @throws Error if the set cannot be used, or its last key starts later than `atMs`.
 */
export function rotateEvidenceKeys(text: string, atMs: number): string {
  const parsed = parseEvidenceKeys(text);
  if ('problem' in parsed) {
    throw new Error(`the key set cannot be used: ${parsed.problem}`);
  }
  const lastKid = parsed.keys.at(-1)?.kid;
  const { keys } = JSON.parse(text) as { keys: WrittenKey[] };
  const ended = keys.map((key) => (key.kid === lastKid ? { ...key, cycles_exp_ms: atMs } : key));
  const rotated = JSON.stringify({ keys: [...ended, generateKey(atMs)] });
  const result = parseEvidenceKeys(rotated);
  if ('problem' in result) {
    throw new Error(`the key set cannot be rotated at this time: ${result.problem}`);
  }
  return rotated;
}
