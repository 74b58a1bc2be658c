import { hash, timingSafeEqual } from 'node:crypto';

function digestOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

/** A secret that callers present. Every comparison with one is made here, in a time that tells nothing about it. */
export class ExpectedSecret {
  private readonly digest: Buffer;

  constructor(secret: string) {
    this.digest = digestOf(secret);
  }

  matches(presented: string): boolean {
    // Digests have one length, so the comparison takes the same time for every text.
    return timingSafeEqual(digestOf(presented), this.digest);
  }
}
