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
/** Each tab may have begun one. The oldest gives way: a cookie has about 4 KB. */
const MOST_BEGUN = 4;
const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Keeps the log-ins that a browser has begun in a sealed cookie, so that only the browser that began it can finish it, on any instance, and whoever only begins
 * log-ins fills no store. The provider accepts each code once, so a cookie that is kept opens nothing.
 */
export class LogInCookies {
  private readonly key: Buffer;

  /** @param secret the same on every instance */
  constructor(secret: string) {
    this.key = Buffer.from(hkdfSync('sha256', secret, '', 'holdfast log-in cookie', 32));
  }

  /** The Set-Cookie header for a begun log-in, beside those that the browser has begun in other tabs. */
  add(request: FastifyRequest, begun: BegunLogIn): string {
    return this.seal(request, [...this.open(request), begun].slice(-MOST_BEGUN));
  }

  /** The one that a query finishes: `state` names it. */
  find(request: FastifyRequest, query: string): BegunLogIn | undefined {
    const state = new URLSearchParams(query).get('state');
    const all = this.open(request);
    // Of a state that is none of them, the last one says what is wrong.
    return all.find((begun) => begun.state === state) ?? all.at(-1);
  }

  /** The Set-Cookie header without one that was finished. */
  without(request: FastifyRequest, { state }: BegunLogIn): string {
    const left = this.open(request).filter((begun) => begun.state !== state);
    return left.length === 0
      ? COOKIE.header(request, undefined, LOG_IN_LIFETIME_MS)
      : this.seal(request, left);
  }

  private seal(request: FastifyRequest, begun: readonly BegunLogIn[]): string {
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

  /** What is in the cookie of a request, if this deployment has sealed it. */
  private open(request: FastifyRequest): readonly BegunLogIn[] {
    const sealed = Buffer.from(COOKIE.read(request) ?? '', 'base64url');
    if (sealed.length <= IV_BYTES + TAG_BYTES) {
      return [];
    }
    const decipher = createDecipheriv(ALGORITHM, this.key, sealed.subarray(0, IV_BYTES));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    try {
      const text =
        decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
      const begun: unknown = JSON.parse(text);
      // A version before has sealed one by itself.
      return Array.isArray(begun) ? (begun as readonly BegunLogIn[]) : [];
    } catch {
      return [];
    }
  }
}
