import { hash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { CONFIG, ExpectedSecret, type HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import { apiKeyHashKey, RedisService, type ScriptReply, tagOfKeySecret } from '../redis/index.js';
import { type LabelledCounter, MetricsRegistry } from '../telemetry/index.js';
import type { TenantCaller } from './caller.js';

/** Why a request was not let through: the `reason` label of holdfast_auth_failures_total. */
export type AuthFailure =
  | 'missing_key'
  | 'malformed_key'
  | 'unknown_key'
  | 'revoked_key'
  | 'expired_key'
  | 'tenant_suspended'
  | 'missing_admin_key'
  | 'wrong_admin_key'
  | 'missing_permission';

@Injectable()
export class AuthMetrics {
  private readonly failures: LabelledCounter;
  private readonly hits: LabelledCounter;
  private readonly misses: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.failures = metrics.counter({
      name: 'holdfast_auth_failures_total',
      help: 'Requests that were refused for their key or its permissions.',
      labels: ['reason'],
    });
    this.hits = metrics.counter({
      name: 'holdfast_auth_cache_hits_total',
      help: 'API keys that were verified without a round trip to Redis.',
    });
    this.misses = metrics.counter({
      name: 'holdfast_auth_cache_misses_total',
      help: 'API keys that had to be looked up in Redis.',
    });
  }

  failed(reason: AuthFailure): void {
    this.failures.inc({ reason });
  }

  hit(): void {
    this.hits.inc();
  }

  missed(): void {
    this.misses.inc();
  }
}

/** An entry may be this old at most, counted from before Redis was asked; a revocation is announced much sooner. */
const LIFETIME_MS = 1000;
const MAX_ENTRIES = 10_000;

/** One wording for every reason, so that nobody learns which keys exist or existed. */
const NOT_VALID = 'the API key is missing or not valid';

const FAILURES = {
  UNKNOWN: 'unknown_key',
  REVOKED: 'revoked_key',
  EXPIRED: 'expired_key',
  TENANT_SUSPENDED: 'tenant_suspended',
} as const satisfies Record<string, AuthFailure>;

/** What is stored of a secret: its SHA-256. 256 random bits need no slow hash, and no dump of Redis or of this process holds a key. */
export function hashOfSecret(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

function listOf(text: string, keyId: string): string[] {
  const list: unknown = JSON.parse(text);
  if (!Array.isArray(list) || !list.every((entry) => typeof entry === 'string')) {
    throw new Error(`the record of the API key ${keyId} holds a list that is none`);
  }
  return list;
}

/**
 * Turns an API key's secret into its caller. In the steady state that costs a hash and a look into a bounded cache; else
 * one round trip, which requests with the same key that arrive meanwhile share. Refusals are not kept: a key that works
 * again must work at once, and guessed keys would only push out good ones.
 */
@Injectable()
export class ApiKeyVerifier {
  private readonly known = new LRUCache<string, TenantCaller>({ max: MAX_ENTRIES, ttl: LIFETIME_MS });
  private readonly asking = new Map<string, Promise<TenantCaller | AuthFailure>>();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: AuthMetrics,
  ) {}

  /**
   * The caller at once when the key is known, else a promise of it.
   * @throws Refusal UNAUTHORIZED, in the same words whatever is wrong with the key.
   * @throws StoreUnavailable when Redis cannot tell.
   */
  verify(secret: string): TenantCaller | Promise<TenantCaller> {
    const tag = tagOfKeySecret(secret, this.redis.partitions);
    if (tag === undefined) {
      throw this.refusal('malformed_key');
    }
    const secretHash = hashOfSecret(secret);
    const caller = this.known.get(secretHash);
    if (caller !== undefined) {
      this.metrics.hit();
      return caller;
    }
    this.metrics.missed();
    return this.answerOf(this.asking.get(secretHash) ?? this.lookUp(tag, secretHash));
  }

  /** Forgets a key: the next request asks Redis again, and an answer that is under way is not kept. */
  forget(secretHash: string): void {
    this.known.delete(secretHash);
    this.asking.delete(secretHash);
  }

  refusal(reason: AuthFailure): Refusal {
    this.metrics.failed(reason);
    return new Refusal('UNAUTHORIZED', NOT_VALID);
  }

  private async answerOf(lookup: Promise<TenantCaller | AuthFailure>): Promise<TenantCaller> {
    const verdict = await lookup;
    if (typeof verdict === 'string') {
      throw this.refusal(verdict);
    }
    return verdict;
  }

  private lookUp(tag: string, secretHash: string): Promise<TenantCaller | AuthFailure> {
    // The age of an entry counts from before the question, because the answer may be as old as that.
    const start = performance.now();
    const lookup: Promise<TenantCaller | AuthFailure> = this.redis.scripts
      .call('authenticate', { secretHash: apiKeyHashKey(tag, secretHash) }, {})
      .then((reply) => {
        const verdict = this.verdictOf(reply);
        if (reply.status === 'OK' && typeof verdict === 'object' && this.asking.get(secretHash) === lookup) {
          this.known.set(secretHash, verdict, {
            start,
            ttl: Math.max(1, Math.min(LIFETIME_MS, reply.expiresInMs)),
          });
        }
        return verdict;
      })
      .finally(() => {
        if (this.asking.get(secretHash) === lookup) {
          this.asking.delete(secretHash);
        }
      });
    this.asking.set(secretHash, lookup);
    return lookup;
  }

  private verdictOf(reply: ScriptReply<'authenticate'>): TenantCaller | AuthFailure {
    if (reply.status !== 'OK') {
      return FAILURES[reply.status];
    }
    const { keyId, tenantId, permissions, scopeFilter } = reply;
    return {
      kind: 'tenant',
      keyId,
      tenantId,
      permissions: new Set(listOf(permissions, keyId)),
      scopeFilter: listOf(scopeFilter, keyId),
    };
  }
}

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
