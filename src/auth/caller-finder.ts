import { Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { ADMIN_KEY_HEADER, API_KEY_HEADER, presentedKey } from './access.guard.js';
import type { AccessRule } from './access.js';
import { AdminKey } from './admin-key.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import type { Caller } from './caller.js';

/** Tells whose request it was that ended before the access guard looked at its key. It decides about no access. */
@Injectable()
export class CallerFinder {
  constructor(
    private readonly adminKey: AdminKey,
    private readonly verifier: ApiKeyVerifier,
  ) {}

  /** @param rule of the operation; without one either key counts. Never rejects: undefined also when the store cannot tell. */
  async find(request: FastifyRequest, rule: AccessRule | undefined): Promise<Caller | undefined> {
    try {
      const adminKey =
        rule === undefined || rule.admin === true ? presentedKey(request, ADMIN_KEY_HEADER) : undefined;
      if (adminKey !== undefined) {
        return this.adminKey.matches(adminKey) ? { kind: 'admin' } : undefined;
      }
      const secret =
        rule === undefined || rule.tenant !== undefined ? presentedKey(request, API_KEY_HEADER) : undefined;
      return secret === undefined ? undefined : await this.verifier.verify(secret);
    } catch {
      return undefined;
    }
  }
}
