import { createPublicKey, verify } from 'node:crypto';
import { PROTOCOL_ERROR_CODES } from '../ledger/index.js';
import { canonicalJson, depthWithin, isPlainObject, JsonProblem, readJson } from '../wire/index.js';
import { ARTIFACT_TYPES, type ArtifactType, SCHEMA_VERSION, sha256Hex } from './envelope.js';

/** The dispositions of cycles-evidence-v0.2, and `malformed` for anything that is not an envelope. */
export type Disposition =
  | 'authentic'
  | 'binding_only'
  | 'signer_authority_failed'
  | 'signer_resolution_failed'
  | 'signature_invalid'
  | 'malformed';

/** The key set of the verifier: not asked for, not available, or the text of a JWK Set. */
export type KeySet =
  { readonly kind: 'none' | 'unavailable' } | { readonly kind: 'found'; readonly text: string };

export interface Verification {
  readonly disposition: Disposition;
  /** Why it is not better than that. */
  readonly reason?: string;
  /** Whether the signer is the expected one, if one is expected. */
  readonly pinned?: boolean;
  readonly envelope?: ParsedEnvelope;
}

export interface ParsedEnvelope {
  readonly schema_version: string;
  readonly artifact_type: ArtifactType;
  readonly server_id: string;
  readonly signer_did: string;
  readonly issued_at_ms: number;
  readonly trace_id?: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly evidence_id: string;
  readonly signature: string;
}

/** Envelopes of this server nest at most 40 levels deep. Much deeper ones would exhaust the stack of the canonical form. */
const MAX_DEPTH = 256;

const RAW_KEY = /^[0-9a-f]{64}$/;
const DID = /^did:cycles:([0-9a-f]{64})#(.+)$/;

const isText = (value: unknown): boolean => typeof value === 'string';
const matches = (pattern: RegExp) => (value: unknown) => typeof value === 'string' && pattern.test(value);

/** What each member must be. Others are not allowed. */
const MEMBERS: Readonly<Record<keyof ParsedEnvelope, (value: unknown) => boolean>> = {
  schema_version: (value) => value === SCHEMA_VERSION,
  artifact_type: (value) => ARTIFACT_TYPES.includes(value as ArtifactType),
  server_id: isText,
  signer_did: (value) => isText(value) && (RAW_KEY.test(value as string) || DID.test(value as string)),
  issued_at_ms: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  trace_id: (value) => value === undefined || matches(/^[0-9a-f]{32}$/)(value),
  payload: isPlainObject,
  evidence_id: matches(/^[0-9a-f]{64}$/),
  signature: matches(/^[0-9a-f]{128}$/),
};

/** What is wrong with the payload, or undefined. Verifiers must refuse error codes that the document does not have. */
function payloadProblem({ artifact_type: artifact, payload }: ParsedEnvelope): string | undefined {
  const members = Object.keys(payload);
  if (members.length !== 1 || members[0] !== artifact) {
    return `the payload of artifact_type ${artifact} must have that member and no other`;
  }
  const { error } = payload as {
    readonly error?: { readonly response?: { readonly error?: unknown } } | null;
  };
  const code = error?.response?.error;
  return artifact === 'error' && !(PROTOCOL_ERROR_CODES as readonly unknown[]).includes(code)
    ? `an envelope has no error code ${typeof code === 'string' ? JSON.stringify(code) : 'that is no text'}`
    : undefined;
}

/** Parses an envelope. Returns it, or what is wrong with it. */
function parseEnvelope(text: string): ParsedEnvelope | string {
  let parsed: unknown;
  try {
    parsed = readJson(text);
  } catch (error) {
    return error instanceof JsonProblem ? `it ${error.message}` : 'it is not JSON';
  }
  if (typeof parsed !== 'object' || parsed === null) {
    return 'it is not a JSON object';
  }
  if (!depthWithin(parsed, MAX_DEPTH)) {
    return `it nests more than ${MAX_DEPTH} levels deep`;
  }
  const given = parsed as Record<string, unknown>;
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(MEMBERS, name));
  if (unknown !== undefined) {
    return `an envelope has no member ${JSON.stringify(unknown)}`;
  }
  const wrong = Object.entries(MEMBERS).find(([name, isValid]) => !isValid(given[name]));
  if (wrong !== undefined) {
    return `${wrong[0]} is missing or not valid`;
  }
  const envelope = parsed as ParsedEnvelope;
  return payloadProblem(envelope) ?? envelope;
}

interface Jwk {
  readonly kid: string;
  readonly key: Buffer;
  readonly notBeforeMs: number;
  readonly expiresMs: number;
}

/** A key of the set, or undefined where it is not a valid one: it is then no candidate. */
function candidateOf(written: unknown): Jwk | undefined {
  const {
    kty,
    crv,
    alg,
    kid,
    x,
    cycles_nbf_ms: nbf,
    cycles_exp_ms: exp,
  } = (written ?? {}) as Record<string, unknown>;
  const isUsable =
    kty === 'OKP' &&
    crv === 'Ed25519' &&
    (alg === undefined || alg === 'EdDSA') &&
    typeof kid === 'string' &&
    typeof x === 'string' &&
    /^[A-Za-z0-9_-]{43}$/.test(x) &&
    Number.isSafeInteger(nbf) &&
    (exp === undefined || exp === null || Number.isSafeInteger(exp));
  return isUsable
    ? {
        kid,
        key: Buffer.from(x, 'base64url'),
        notBeforeMs: nbf as number,
        expiresMs: (exp as number | null) ?? Infinity,
      }
    : undefined;
}

/** The keys of a set, or undefined if the text is not a JWK Set. */
function keysOf(text: string): readonly unknown[] | undefined {
  try {
    const { keys } = readJson(text) as { keys?: unknown };
    return Array.isArray(keys) ? keys : undefined;
  } catch {
    return undefined;
  }
}

/** The key that the document's rules select for the envelope, or why there is none. */
function selectKey(envelope: ParsedEnvelope, written: readonly unknown[]): Buffer | string {
  const kids = written.map((key) => (key as { kid?: unknown } | null)?.kid).filter(isText);
  if (new Set(kids).size < kids.length) {
    return 'the key set has a kid twice';
  }
  const [, , kid] = DID.exec(envelope.signer_did) ?? [];
  const named = written
    .map(candidateOf)
    .filter((key) => key !== undefined)
    .filter((key) => (kid === undefined ? key.key.toString('hex') === envelope.signer_did : key.kid === kid));
  const covering = named.filter(
    ({ notBeforeMs, expiresMs }) => notBeforeMs <= envelope.issued_at_ms && envelope.issued_at_ms < expiresMs,
  );
  const [selected] = covering;
  if (selected !== undefined && covering.length === 1) {
    return selected.key;
  }
  return named.length === 0
    ? 'the key set does not have the key'
    : `${covering.length} keys of the set cover the time of issue`;
}

/** DER for an Ed25519 public key up to its 32 raw bytes (RFC 8410). */
const DER_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

function signedBy(envelope: ParsedEnvelope, key: Buffer): boolean {
  const signed = canonicalJson({ ...envelope, signature: '' });
  try {
    const publicKey = createPublicKey({ key: Buffer.concat([DER_PREFIX, key]), format: 'der', type: 'spki' });
    return verify(null, Buffer.from(signed), publicKey, Buffer.from(envelope.signature, 'hex'));
  } catch {
    return false;
  }
}

function judge(envelope: ParsedEnvelope, keySet: KeySet): Verification {
  const invalid = (reason: string): Verification => ({ disposition: 'signature_invalid', reason });
  if (sha256Hex(canonicalJson({ ...envelope, evidence_id: '', signature: '' })) !== envelope.evidence_id) {
    return invalid('evidence_id is not the hash of the content');
  }
  const [did, serverHash] = DID.exec(envelope.signer_did) ?? [];
  if (did === undefined && !signedBy(envelope, Buffer.from(envelope.signer_did, 'hex'))) {
    return invalid('the signature does not belong to the content and the key');
  }
  if (did !== undefined && serverHash !== sha256Hex(envelope.server_id)) {
    return { disposition: 'signer_authority_failed', reason: 'signer_did does not belong to server_id' };
  }
  if (keySet.kind === 'none' && did === undefined) {
    return { disposition: 'binding_only', reason: 'no key set was asked whether the signer is the server’s' };
  }
  const keys = keySet.kind === 'found' ? keysOf(keySet.text) : undefined;
  if (keys === undefined) {
    return { disposition: 'signer_resolution_failed', reason: 'the key set could not be read' };
  }
  const key = selectKey(envelope, keys);
  if (typeof key === 'string') {
    return { disposition: 'signer_authority_failed', reason: key };
  }
  return signedBy(envelope, key)
    ? { disposition: 'authentic' }
    : invalid('the signature does not belong to the content and the key');
}

/** Verifies the text of an envelope by the rules of cycles-evidence-v0.2. Never throws. */
export function verifyEnvelope(text: string, keySet: KeySet, expectedSigner?: string): Verification {
  const envelope = parseEnvelope(text);
  if (typeof envelope === 'string') {
    return { disposition: 'malformed', reason: envelope };
  }
  return {
    ...judge(envelope, keySet),
    envelope,
    ...(expectedSigner === undefined ? {} : { pinned: expectedSigner === envelope.signer_did }),
  };
}
