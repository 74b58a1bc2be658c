import { sign } from 'node:crypto';
import type { EvidenceKey, EvidenceKeys } from '../config/index.js';
import { type Envelope, seal, sha256Hex, type Statement, unsealed } from './envelope.js';

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
