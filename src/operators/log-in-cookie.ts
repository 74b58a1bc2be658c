import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

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
const SECURE_COOKIE = '__Host-holdfast-log-in';
const PLAIN_COOKIE = 'holdfast-log-in';
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
  seal(begun: BegunLogIn, secure: boolean): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.key, iv);
    const sealed = Buffer.concat([
      iv,
      cipher.update(JSON.stringify(begun), 'utf8'),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    return header(secure, sealed.toString('base64url'), LOG_IN_LIFETIME_MS / 1000);
  }

  /** The begun log-in in a Cookie header, if there is one that this deployment has sealed. */
  open(cookies: string | undefined): BegunLogIn | undefined {
    const sealed = Buffer.from(valueIn(cookies ?? ''), 'base64url');
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

/** The Set-Cookie header that removes a begun log-in. */
export function withoutLogIn(secure: boolean): string {
  return header(secure, '', 0);
}

function header(secure: boolean, value: string, maxAgeS: number): string {
  const name = secure ? SECURE_COOKIE : PLAIN_COOKIE;
  return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}${secure ? '; Secure' : ''}`;
}

function valueIn(cookies: string): string {
  const values = new Map(
    cookies.split(';').map((pair): [string, string] => {
      const [name = '', value = ''] = pair.trim().split('=', 2);
      return [name, value];
    }),
  );
  return values.get(SECURE_COOKIE) ?? values.get(PLAIN_COOKIE) ?? '';
}
