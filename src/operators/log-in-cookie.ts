import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { HostCookie } from '../auth/index.js';

/** What a log-in at the provider has to be finished with. */
export interface BegunLogIn {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly redirectUri: string;
  readonly begunAtMs: number;
}

/** As long as somebody may need to find a password and a second factor. */
export const LOG_IN_LIFETIME_MS = 600_000;
const COOKIE = new HostCookie('holdfast-log-in');
const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Keeps a begun log-in in a sealed cookie, so that only the browser that began it can finish it, on any instance, and whoever only begins
 * log-ins fills no store. The provider accepts each code once, so a cookie that is kept opens nothing.
 */
export class LogInCookies {
  private readonly key: Buffer;

  /** @param secret the same on every instance */
  constructor(secret: string) {
    this.key = Buffer.from(hkdfSync('sha256', secret, '', 'holdfast log-in cookie', 32));
  }

  /** The Set-Cookie header for a begun log-in. */
  seal(request: FastifyRequest, begun: BegunLogIn): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.key, iv);
    const sealed = Buffer.concat([
      iv,
      cipher.update(JSON.stringify(begun), 'utf8'),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    return COOKIE.header(request, sealed.toString('base64url'), LOG_IN_LIFETIME_MS);
  }

  /** The Set-Cookie header that removes a begun log-in. */
  removal(request: FastifyRequest): string {
    return COOKIE.header(request, undefined, LOG_IN_LIFETIME_MS);
  }

  /** The begun log-in in the cookie of a request, if there is one that this deployment has sealed. */
  open(request: FastifyRequest): BegunLogIn | undefined {
    const sealed = Buffer.from(COOKIE.read(request) ?? '', 'base64url');
    if (sealed.length <= IV_BYTES + TAG_BYTES) {
      return undefined;
    }
    const decipher = createDecipheriv(ALGORITHM, this.key, sealed.subarray(0, IV_BYTES));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    try {
      const text =
        decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
      return JSON.parse(text) as BegunLogIn;
    } catch {
      return undefined;
    }
  }
}
