import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, ExpectedSecret, type HoldfastConfig } from '../config/index.js';

/** The operator's key. */
@Injectable()
export class AdminKey {
  private readonly expected: ExpectedSecret | undefined;

  constructor(@Inject(CONFIG) config: HoldfastConfig) {
    this.expected = config.adminApiKey === undefined ? undefined : new ExpectedSecret(config.adminApiKey);
  }

  /** @throws Error when the server has no admin key, which is a mistake of its operator and not of the caller. */
  matches(presented: string): boolean {
    if (this.expected === undefined) {
      throw new Error('an admin key was presented, but this server was started without one');
    }
    return this.expected.matches(presented);
  }
}
