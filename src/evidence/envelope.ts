import { hash, type KeyObject, sign } from 'node:crypto';
import type { EvidenceKey, EvidenceKeys } from '../config/index.js';
import { canonicalJson } from '../wire/index.js';

/** CyclesEvidence of cycles-evidence-v0.2: a signed, content-addressed record of what an operation answered. */
export const SCHEMA_VERSION = 'cycles-evidence/v0.1';

export const ARTIFACT_TYPES = ['decide', 'reserve', 'commit', 'release', 'error'] as const;
export type ArtifactType = (typeof ARTIFACT_TYPES)[number];

/** What an envelope states. */
export interface Statement {
  readonly artifact: ArtifactType;
  /** The member of `payload` that has the artifact's name. */
  readonly payload: object;
  readonly issuedAtMs: number;
  readonly traceId: string;
  readonly serverId: string;
  /** Raw public key in hex, or a DID. */
  readonly signer: string;
}

export interface Envelope {
  readonly evidenceId: string;
  /** The canonical JSON, signed. */
  readonly text: string;
}

/** The envelope without its id and signature, which are empty strings in what the id is the hash of. */
export function unsealed(statement: Statement): string {
  return canonicalJson({
    schema_version: SCHEMA_VERSION,
    artifact_type: statement.artifact,
    server_id: statement.serverId,
    signer_did: statement.signer,
    issued_at_ms: statement.issuedAtMs,
    trace_id: statement.traceId,
    payload: { [statement.artifact]: statement.payload },
    evidence_id: '',
    signature: '',
  });
}

export function sha256Hex(text: string): string {
  return hash('sha256', text, 'hex');
}

const EMPTY_ID = '"evidence_id":""';
const EMPTY_SIGNATURE = '"signature":""';

/** Puts the value between the quotes at the end of `member`, which begins at `at`. */
function fill(text: string, at: number, member: string, value: string): string {
  const inside = at + member.length - 1;
  return text.slice(0, inside) + value + text.slice(inside);
}

/**
 * Hashes and signs. In the canonical order of members, only `artifact_type` comes before the id, and only the identity of the signer
 * and the trace come after the signature. So the first empty id and the last empty signature are the envelope's own, whatever the
 * payload holds, and the text need not be made canonical again for the signature.
 */
export function seal(statement: Statement, privateKey: KeyObject): Envelope {
  const text = unsealed(statement);
  const evidenceId = sha256Hex(text);
  const named = fill(text, text.indexOf(EMPTY_ID), EMPTY_ID, evidenceId);
  const signature = sign(null, Buffer.from(named), privateKey).toString('hex');
  return { evidenceId, text: fill(named, named.lastIndexOf(EMPTY_SIGNATURE), EMPTY_SIGNATURE, signature) };
}

/** Whether a stored text is the envelope of this id: its content hashes to it. Says nothing about the signature. */
export function isEnvelopeOf(evidenceId: string, text: string): boolean {
  const id = `"evidence_id":"${evidenceId}"`;
  const idAt = text.indexOf(id);
  const sealAt = text.lastIndexOf('"signature":"');
  const restAt = text.indexOf(',"signer_did":', sealAt);
  if (idAt === -1 || sealAt < idAt || restAt === -1) {
    return false;
  }
  const unsealedText =
    text.slice(0, idAt) +
    EMPTY_ID +
    text.slice(idAt + id.length, sealAt) +
    EMPTY_SIGNATURE +
    text.slice(restAt);
  return sha256Hex(unsealedText) === evidenceId;
}

/** No key can sign at the time of issue. */
export class CannotSign extends Error {
  override readonly name = 'CannotSign';
}

/** Signs with the key whose window covers the time of issue, so that every instance and every replay signs with the same one. */
export class Signer {
  constructor(
    private readonly serverId: string,
    private readonly keys: EvidenceKeys,
  ) {}

  /** @throws CannotSign */
  envelopeOf(statement: Omit<Statement, 'serverId' | 'signer'>): Envelope {
    const { publicKey, privateKey } = this.keyAt(statement.issuedAtMs);
    if (privateKey === undefined) {
      throw new CannotSign('the key of the time of issue has only its public part');
    }
    return seal({ ...statement, serverId: this.serverId, signer: publicKey }, privateKey);
  }

  /** The id of an envelope, which needs no private key. @throws CannotSign if there is no key either */
  evidenceIdOf(statement: Omit<Statement, 'serverId' | 'signer'>): string {
    const { publicKey } = this.keyAt(statement.issuedAtMs);
    return sha256Hex(unsealed({ ...statement, serverId: this.serverId, signer: publicKey }));
  }

  /** Tries the key of this time. @throws CannotSign, or what the signing fails with */
  probe(nowMs: number): EvidenceKey {
    const key = this.keyAt(nowMs);
    if (key.privateKey === undefined) {
      throw new CannotSign('the present key has only its public part');
    }
    sign(null, Buffer.from('probe'), key.privateKey);
    return key;
  }

  /** CyclesEvidenceJwks of the protocol as JSON text: public parts only, retired keys and announced ones included. */
  keySet(nowMs: number): string {
    return JSON.stringify({
      keys: this.keys.map(({ kid, publicKey, notBeforeMs, expiresMs }) => ({
        kty: 'OKP',
        crv: 'Ed25519',
        alg: 'EdDSA',
        kid,
        x: Buffer.from(publicKey, 'hex').toString('base64url'),
        cycles_nbf_ms: notBeforeMs,
        ...(expiresMs === undefined ? {} : { cycles_exp_ms: expiresMs }),
        status: expiresMs !== undefined && expiresMs <= nowMs ? 'retired' : 'active',
      })),
    });
  }

  private keyAt(atMs: number): EvidenceKey {
    const key = this.keys.find(
      ({ notBeforeMs, expiresMs = Infinity }) => notBeforeMs <= atMs && atMs < expiresMs,
    );
    if (key === undefined) {
      throw new CannotSign('no key covers the time of issue');
    }
    return key;
  }
}
