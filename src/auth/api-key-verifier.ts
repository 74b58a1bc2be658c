import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { Cluster, Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { CONFIG, ExpectedSecret, type HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import {
  apiKeyHashKey,
  apiKeyKey,
  keyRevokedChannel,
  RedisService,
  type ScriptReply,
  StoreUnavailable,
  tagOfKeySecret,
} from '../redis/index.js';
import { type Instruments, LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import type { TenantCaller } from './caller.js';
import type { OperatorRole } from './console-sessions.js';
import { AUTH_METRICS } from './auth.metrics.js';

/** Why a request was refused: the label `reason` of holdfast_auth_failures_total. */
export type AuthFailure =
  | 'missing_key'
  | 'malformed_key'
  | 'unknown_key'
  | 'revoked_key'
  | 'expired_key'
  | 'tenant_suspended'
  | 'missing_admin_key'
  | 'wrong_admin_key'
  | 'missing_permission'
  | 'ended_session'
  | 'forged_request'
  | 'read_only';

/** Counts authentications since the start of the process, for the rate at which they fail. */
@Injectable()
export class AuthAttempts {
  made = 0;
  /** A lack of permissions is not a failed authentication. */
  failed = 0;

  constructor(private readonly metrics: MetricsRegistry) {
    metrics.of(AUTH_METRICS);
  }

  refused(reason: AuthFailure): void {
    if (reason !== 'missing_permission') {
      this.made += 1;
      this.failed += 1;
    }
    this.metrics.of(AUTH_METRICS).failures.inc({ reason });
  }

  succeeded(): void {
    this.made += 1;
  }
}

/** The maximum age of a cache entry, counted from before the look-up in Redis. Revocations are announced much sooner. */
const LIFETIME_MS = 1000;
const MAX_ENTRIES = 10_000;

/** The same message for every reason, so that it does not reveal which keys exist. */
const NOT_VALID = 'the X-Cycles-API-Key is missing or not valid';

const FAILURES = {
  UNKNOWN: 'unknown_key',
  REVOKED: 'revoked_key',
  EXPIRED: 'expired_key',
  TENANT_SUSPENDED: 'tenant_suspended',
} as const satisfies Record<string, AuthFailure>;

/** Redis and this process store only the SHA-256 of a secret. Secrets have 256 random bits, so they need no slow hash. */
export function hashOfSecret(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

function listOf(text: string, keyId: string): string[] {
  const list: unknown = JSON.parse(text);
  if (!Array.isArray(list) || !list.every((entry) => typeof entry === 'string')) {
    throw new Error(`the record of the API key ${keyId} has a malformed list`);
  }
  return list;
}

/**
 * Finds the caller of an API key's secret. Usually that takes a hash and a look-up in a bounded cache; otherwise one round trip, shared
 * by concurrent requests with the same key. Refusals are not cached, because a key that becomes valid must work at once, and guessed
 * keys would evict valid ones.
 */
@Injectable()
export class ApiKeyVerifier {
  private readonly counts: Instruments<typeof AUTH_METRICS>;
  private readonly cache = new LRUCache<string, TenantCaller>({ max: MAX_ENTRIES, ttl: LIFETIME_MS });
  private readonly lookups = new Map<string, Promise<TenantCaller | AuthFailure>>();
  private cannotNoteUses = false;

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: AuthAttempts,
    metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.counts = metrics.of(AUTH_METRICS);
  }

  /**
   * The caller if the key is cached, else a promise of it.
   * @throws Refusal UNAUTHORIZED, with the same message whatever is wrong with the key
   * @throws StoreUnavailable
   */
  verify(secret: string): TenantCaller | Promise<TenantCaller> {
    const found = this.find(secret);
    if (found instanceof Promise) {
      return this.callerOf(found);
    }
    if (typeof found === 'string') {
      throw this.refusal(found);
    }
    return found;
  }

  /** The caller before the access guard has judged the key, or undefined. Counts no failure. @throws StoreUnavailable */
  async recognise(secret: string): Promise<TenantCaller | undefined> {
    const found = await this.find(secret);
    return typeof found === 'string' ? undefined : found;
  }

  private find(secret: string): TenantCaller | AuthFailure | Promise<TenantCaller | AuthFailure> {
    const tag = tagOfKeySecret(secret, this.redis.partitions);
    if (tag === undefined) {
      return 'malformed_key';
    }
    const secretHash = hashOfSecret(secret);
    const caller = this.cache.get(secretHash);
    if (caller !== undefined) {
      this.counts.cacheHits.inc();
      return caller;
    }
    this.counts.cacheMisses.inc();
    return this.lookups.get(secretHash) ?? this.lookUp(tag, secretHash);
  }

  /** Removes a key from the cache. The result of a look-up in progress is not cached. */
  forget(secretHash: string): void {
    this.cache.delete(secretHash);
    this.lookups.delete(secretHash);
  }

  refusal(reason: AuthFailure): Refusal {
    this.attempts.refused(reason);
    return new Refusal('UNAUTHORIZED', NOT_VALID);
  }

  private async callerOf(lookup: Promise<TenantCaller | AuthFailure>): Promise<TenantCaller> {
    const verdict = await lookup;
    if (typeof verdict === 'string') {
      throw this.refusal(verdict);
    }
    return verdict;
  }

  private lookUp(tag: string, secretHash: string): Promise<TenantCaller | AuthFailure> {
    // The reply of Redis may be as old as this.
    const start = performance.now();
    const lookup: Promise<TenantCaller | AuthFailure> = this.redis.scripts
      .call('authenticate', { secretHash: apiKeyHashKey(tag, secretHash) }, {})
      .then((reply) => {
        const verdict = this.verdictOf(reply);
        if (reply.status === 'OK' && !reply.useNoted) {
          void this.noteUse(tag, reply.keyId);
        }
        if (reply.status === 'OK' && typeof verdict === 'object' && this.lookups.get(secretHash) === lookup) {
          this.cache.set(secretHash, verdict, {
            start,
            ttl: Math.max(1, Math.min(LIFETIME_MS, reply.expiresInMs)),
          });
        }
        return verdict;
      })
      .finally(() => {
        if (this.lookups.get(secretHash) === lookup) {
          this.lookups.delete(secretHash);
        }
      });
    this.lookups.set(secretHash, lookup);
    return lookup;
  }

  /** No request waits for it. A key in use is looked up each second, so what fails is tried again. Never rejects. */
  private async noteUse(tag: string, keyId: string): Promise<void> {
    try {
      const { status } = await this.redis.scripts.call('note_key_use', { apiKey: apiKeyKey(tag, keyId) }, {});
      if (status === 'NOTED') {
        this.counts.keyUses.inc({ outcome: 'noted' });
      }
      this.cannotNoteUses = false;
    } catch (error) {
      this.counts.keyUses.inc({ outcome: 'failed' });
      if (!this.cannotNoteUses && !(error instanceof StoreUnavailable)) {
        this.cannotNoteUses = true;
        this.logger.error({ err: error, key_id: keyId }, 'cannot note when API keys are used');
      }
    }
  }

  private verdictOf(reply: ScriptReply<'authenticate'>): TenantCaller | AuthFailure {
    if (reply.status !== 'OK') {
      return FAILURES[reply.status];
    }
    const { keyId, tenantId, permissions, scopeFilter, referencesEvidence } = reply;
    return {
      kind: 'tenant',
      keyId,
      tenantId,
      permissions: new Set(listOf(permissions, keyId)),
      scopeFilter: listOf(scopeFilter, keyId),
      referencesEvidence,
    };
  }
}

/** Checks the operators' keys: ADMIN_API_KEY and VIEWER_API_KEY. */
@Injectable()
export class AdminKey {
  private readonly expected: ExpectedSecret | undefined;
  private readonly viewers: ExpectedSecret | undefined;

  constructor(@Inject(CONFIG) { adminApiKey, viewerApiKey }: HoldfastConfig) {
    this.expected = adminApiKey === undefined ? undefined : new ExpectedSecret(adminApiKey);
    this.viewers = viewerApiKey === undefined ? undefined : new ExpectedSecret(viewerApiKey);
  }

  /**
   * What the owner of a key may do; undefined if the key is not an operators' key.
   * @throws Error if the server has no admin key, which is the operator's mistake, not the caller's.
   */
  roleOf(presented: string): OperatorRole | undefined {
    if (this.expected === undefined) {
      throw new Error('an admin key was presented, but this server was started without one');
    }
    if (this.expected.matches(presented)) {
      return 'operator';
    }
    return this.viewers?.matches(presented) === true ? 'viewer' : undefined;
  }
}

/**
 * Subscribes to revocations and removes revoked keys from the cache at once. Without a subscription, a revoked key works until its
 * cache entry expires, at most one second, so a lost subscription does not stop the service.
 */
@Injectable()
export class KeyRevocations implements OnModuleInit {
  constructor(
    private readonly redis: RedisService,
    private readonly verifier: ApiKeyVerifier,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  async onModuleInit(): Promise<void> {
    const subscriber = this.redis.subscriber();
    subscriber.on('message', (_channel: string, secretHash: string) => {
      this.verifier.forget(secretHash);
    });
    // A new connection has no subscriptions.
    subscriber.on('ready', () => void this.subscribe(subscriber));
    await this.subscribe(subscriber);
  }

  /** Never rejects. If it fails because the connection was lost, the next connection subscribes. */
  private async subscribe(subscriber: Redis | Cluster): Promise<void> {
    try {
      await subscriber.subscribe(keyRevokedChannel());
    } catch (error) {
      this.logger.warn(
        { err: error },
        'cannot subscribe to revoked API keys; a revoked key works for up to another second',
      );
    }
  }
}
