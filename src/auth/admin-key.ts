import { createHash, timingSafeEqual } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** The operator's key, compared in a time that tells nothing about it. */
@Injectable()
export class AdminKey {
  private readonly expected: Buffer | undefined;

  constructor(@Inject(CONFIG) config: HoldfastConfig) {
    this.expected = config.adminApiKey === undefined ? undefined : digest(config.adminApiKey);
  }

  /** @throws Error when the server has no admin key, which is a mistake of its operator and not of the caller. */
  matches(presented: string): boolean {
    if (this.expected === undefined) {
      throw new Error('an admin key was presented, but this server was started without one');
    }
    // Digests have one length, so the comparison takes the same time for every key.
    return timingSafeEqual(digest(presented), this.expected);
  }
}
