import { createHmac, randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { consoleSessionKey, orStoreError, partitionCode, RedisService, tagOf } from '../redis/index.js';

/** Viewers may do everything but change something. */
export type OperatorRole = 'operator' | 'viewer';

export interface ConsoleSession {
  /** Names the session in the audit log. Grants nothing. */
  readonly id: string;
  readonly role: OperatorRole;
  /** Time left. */
  readonly expiresInMs: number;
}

export const SESSION_LIFETIME_MS = 8 * 3_600_000;
/** The `__Host-` prefix makes browsers insist on Secure, on the path `/` and on this host alone. */
const SECURE_COOKIE = '__Host-holdfast-session';
const PLAIN_COOKIE = 'holdfast-session';
const TOKEN = /^[A-Za-z0-9_-]{43}$/;
const TOKEN_BYTES = 32;
const ID_LENGTH = 12;

/**
 * Sessions of the operators' console. The browser keeps a random token in a cookie, and Redis keeps a keyed hash of it: the key
 * contains the secrets that log-ins need, so changing ADMIN_API_KEY or VIEWER_API_KEY ends all sessions, and reading Redis opens none.
 */
@Injectable()
export class ConsoleSessions {
  private readonly hashKey: string;

  constructor(
    @Inject(CONFIG) config: HoldfastConfig,
    private readonly redis: RedisService,
  ) {
    this.hashKey = JSON.stringify([config.adminApiKey, config.viewerApiKey]);
  }

  /** @throws StoreUnavailable */
  async create(role: OperatorRole): Promise<{ token: string; session: ConsoleSession }> {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const { key, id } = this.placeOf(token);
    await orStoreError(this.redis.client.set(key, role, 'PX', SESSION_LIFETIME_MS));
    return { token, session: { id, role, expiresInMs: SESSION_LIFETIME_MS } };
  }

  /** The session of a token, unless it has ended. @throws StoreUnavailable */
  async find(token: string): Promise<ConsoleSession | undefined> {
    const { key, id } = this.placeOf(token);
    const [role, expiresInMs] = await orStoreError(
      Promise.all([this.redis.client.get(key), this.redis.client.pttl(key)]),
    );
    return (role === 'operator' || role === 'viewer') && expiresInMs > 0
      ? { id, role, expiresInMs }
      : undefined;
  }

  /** Returns whether there was a session. @throws StoreUnavailable */
  async end(token: string): Promise<boolean> {
    return (await orStoreError(this.redis.client.del(this.placeOf(token).key))) === 1;
  }

  private placeOf(token: string): { key: string; id: string } {
    const digest = createHmac('sha256', this.hashKey).update(token).digest();
    const tag = tagOf(partitionCode(digest.readUInt16BE() % this.redis.partitions));
    const hash = digest.toString('base64url');
    return { key: consoleSessionKey(tag, hash), id: `ses_${hash.slice(0, ID_LENGTH)}` };
  }
}

/** The token in a Cookie header, if it has one. */
export function sessionTokenIn(cookies: string | undefined): string | undefined {
  if (cookies?.includes(PLAIN_COOKIE) !== true) {
    return undefined;
  }
  const values = new Map(
    cookies.split(';').map((pair): [string, string] => {
      const [name = '', value = ''] = pair.trim().split('=', 2);
      return [name, value];
    }),
  );
  const token = values.get(SECURE_COOKIE) ?? values.get(PLAIN_COOKIE);
  return token !== undefined && TOKEN.test(token) ? token : undefined;
}

/** The Set-Cookie header that stores a token, or without one removes it. @param secure whether the page came over TLS */
export function sessionCookie(secure: boolean, token?: string): string {
  const name = secure ? SECURE_COOKIE : PLAIN_COOKIE;
  const maxAgeS = token === undefined ? 0 : SESSION_LIFETIME_MS / 1000;
  return `${name}=${token ?? ''}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}${secure ? '; Secure' : ''}`;
}
