import { createHmac, randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import type { AdminCaller } from './caller.js';
import { HostCookie } from './host-cookie.js';
import { OperatorKeys } from './operator-keys.js';
import { isTenantPattern } from './confinement.js';
import { isOperatorRole } from './operator-roles.js';
import { consoleSessionKey, orStoreError, RedisService, tagOfPartition } from '../redis/index.js';
import { isListOf, isObject, isOneOf, isOptional, isText, readStored } from '../wire/index.js';

export interface ConsoleSession {
  /** Names the session in the audit log. Grants nothing. */
  readonly id: string;
  /** The operator whose session it is, as of now. */
  readonly caller: AdminCaller;
  /** Time left. */
  readonly expiresInMs: number;
  /** With which the identity provider opened it, for the log-out there. */
  readonly idToken?: string;
}

export const SESSION_LIFETIME_MS = 8 * 3_600_000;
const COOKIE = new HostCookie('holdfast-session');
const TOKEN = /^[A-Za-z0-9_-]{43}$/;
const TOKEN_BYTES = 32;
const ID_LENGTH = 12;

/**
 * Sessions of the operators' console. The browser keeps a random token in a cookie, and Redis keeps a keyed hash of it: the key
 * contains the secrets that log-ins need, so changing ADMIN_API_KEY, VIEWER_API_KEY or the settings of the identity provider ends all
 * sessions, and reading Redis opens none.
 * A session that was opened with the key of a named operator lasts as long as that key: it ends with its expiry, its revocation, and the
 * overlap after its rotation.
 */
@Injectable()
export class ConsoleSessions {
  private readonly hashKey: string;

  constructor(
    @Inject(CONFIG) config: HoldfastConfig,
    private readonly redis: RedisService,
    private readonly operators: OperatorKeys,
  ) {
    const { adminApiKey, viewerApiKey, oidcIssuer, oidcClientId, oidcClientSecret } = config;
    const { oidcRoleClaim, oidcRoles, oidcTenantClaim } = config;
    this.hashKey = JSON.stringify([
      ...[adminApiKey, viewerApiKey],
      ...(oidcIssuer === undefined ? [] : [oidcIssuer, oidcClientId, oidcClientSecret]),
      ...(oidcIssuer === undefined ? [] : [oidcRoleClaim, oidcRoles]),
      ...(oidcTenantClaim === undefined ? [] : [oidcTenantClaim]),
    ]);
  }

  /** @throws StoreUnavailable */
  async create(owner: AdminCaller, idToken?: string): Promise<{ token: string; session: ConsoleSession }> {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const { key, id } = this.placeOf(token);
    await orStoreError(
      this.redis.client.set(key, JSON.stringify({ ...owner, idToken }), 'PX', SESSION_LIFETIME_MS),
    );
    return { token, session: { id, caller: named(owner, id), expiresInMs: SESSION_LIFETIME_MS } };
  }

  /** The session of a token, unless it has ended. @throws StoreUnavailable */
  async find(token: string): Promise<ConsoleSession | undefined> {
    const { key, id } = this.placeOf(token);
    const [text, expiresInMs] = await orStoreError(
      Promise.all([this.redis.client.get(key), this.redis.client.pttl(key)]),
    );
    const stored = text === null || expiresInMs <= 0 ? undefined : ownerOf(text);
    if (stored === undefined) {
      return undefined;
    }
    const { idToken, ...owner } = stored;
    const current = owner.secretHash === undefined ? owner : await this.operators.findNamed(owner.secretHash);
    return typeof current === 'string'
      ? undefined
      : { id, caller: named(current, id), expiresInMs, ...(idToken !== undefined && { idToken }) };
  }

  /** Returns whether there was a session. @throws StoreUnavailable */
  async end(token: string): Promise<boolean> {
    return (await orStoreError(this.redis.client.del(this.placeOf(token).key))) === 1;
  }

  private placeOf(token: string): { key: string; id: string } {
    const digest = createHmac('sha256', this.hashKey).update(token).digest();
    const tag = tagOfPartition(digest.readUInt16BE() % this.redis.partitions);
    const hash = digest.toString('base64url');
    return { key: consoleSessionKey(tag, hash), id: `ses_${hash.slice(0, ID_LENGTH)}` };
  }
}

type StoredOwner = AdminCaller & { readonly idToken?: string };

const isOwner = isObject<StoredOwner>({
  kind: isOneOf('admin'),
  role: isOperatorRole,
  tenants: isOptional(isListOf(isTenantPattern)),
  keyId: isOptional(isText),
  secretHash: isOptional(isText),
  idToken: isOptional(isText),
});

/** Whom a stored session belongs to; undefined if a version with another form has stored it. */
function ownerOf(text: string): StoredOwner | undefined {
  try {
    return readStored(text, isOwner, 'a session');
  } catch {
    return undefined;
  }
}

/** Sessions of the keys that belong to nobody by name are named themselves. */
function named(owner: AdminCaller, sessionId: string): AdminCaller {
  return owner.keyId?.includes(':') === true ? owner : { ...owner, keyId: sessionId };
}

/** The token that a request has in its cookie. */
export function sessionTokenIn(request: FastifyRequest): string | undefined {
  const token = COOKIE.read(request);
  return token !== undefined && TOKEN.test(token) ? token : undefined;
}

/** The Set-Cookie header that stores a token, or without one removes it. */
export function sessionCookie(request: FastifyRequest, token?: string): string {
  return COOKIE.header(request, token, SESSION_LIFETIME_MS);
}
