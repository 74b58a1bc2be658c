import { hash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Refusal } from '../ledger/index.js';
import { apiKeyHashKey, apiKeyKey, RedisService, StoreUnavailable, tagOfKeySecret } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import type { TenantCaller } from './caller.js';
import { AUTH_METRICS } from './auth.metrics.js';
import { type Found, KeyAnswers } from './key-answers.js';
import { readTexts } from '../wire/index.js';

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
  | 'revoked_operator'
  | 'expired_operator'
  | 'missing_permission'
  | 'missing_role'
  | 'other_tenant'
  | 'ended_session'
  | 'forged_request'
  | 'provider_log_in';

/** They say that somebody known may not do something. */
const NO_FAILED_AUTHENTICATIONS: ReadonlySet<AuthFailure> = new Set([
  'missing_permission',
  'missing_role',
  'other_tenant',
]);

/** They say that somebody has presented what was never given out, or not in this form. */
const GUESSES: ReadonlySet<AuthFailure> = new Set(['malformed_key', 'unknown_key', 'wrong_admin_key']);

/** A secret that nobody was given. Only these are limited: the key of a suspended tenant, a revoked or an expired one is no guess. */
export class WrongSecret extends Refusal {
  constructor(message: string) {
    super('UNAUTHORIZED', message);
  }
}

/** Counts authentications since the start of the process, for the rate at which they fail. */
@Injectable()
export class AuthAttempts {
  made = 0;
  failed = 0;

  constructor(private readonly metrics: MetricsRegistry) {
    metrics.of(AUTH_METRICS);
  }

  /** @returns what to throw */
  unauthorized(reason: AuthFailure, message: string): Refusal {
    this.refused(reason);
    return GUESSES.has(reason) ? new WrongSecret(message) : new Refusal('UNAUTHORIZED', message);
  }

  refused(reason: AuthFailure): void {
    if (!NO_FAILED_AUTHENTICATIONS.has(reason)) {
      this.made += 1;
      this.failed += 1;
    }
    this.metrics.of(AUTH_METRICS).failures.inc({ reason });
  }

  succeeded(): void {
    this.made += 1;
  }
}

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

/**
 * Finds the caller of an API key's secret. Usually that takes a hash and a look-up in a bounded cache; otherwise one round trip.
 */
@Injectable()
export class ApiKeyVerifier {
  private readonly counts = this.metrics.of(AUTH_METRICS);
  private readonly answers = new KeyAnswers<TenantCaller, AuthFailure>();
  private cannotNoteUses = false;

  constructor(
    private readonly redis: RedisService,
    private readonly attempts: AuthAttempts,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

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
    const caller = this.answers.cached(secretHash);
    if (caller !== undefined) {
      this.counts.cacheHits.inc();
      return caller;
    }
    this.counts.cacheMisses.inc();
    return this.answers.ask(secretHash, () => this.lookUp(tag, secretHash));
  }

  forget(secretHash: string): void {
    this.answers.forget(secretHash);
  }

  refusal(reason: AuthFailure): Refusal {
    return this.attempts.unauthorized(reason, NOT_VALID);
  }

  private async callerOf(lookup: Promise<TenantCaller | AuthFailure>): Promise<TenantCaller> {
    const verdict = await lookup;
    if (typeof verdict === 'string') {
      throw this.refusal(verdict);
    }
    return verdict;
  }

  private async lookUp(tag: string, secretHash: string): Promise<Found<TenantCaller, AuthFailure>> {
    const reply = await this.redis.scripts.call(
      'authenticate',
      { secretHash: apiKeyHashKey(tag, secretHash) },
      {},
    );
    if (reply.status !== 'OK') {
      return FAILURES[reply.status];
    }
    if (!reply.useNoted) {
      void this.noteUse(tag, reply.keyId);
    }
    const { keyId, tenantId, permissions, scopeFilter, referencesEvidence, expiresInMs } = reply;
    return {
      owner: {
        kind: 'tenant',
        keyId,
        tenantId,
        permissions: new Set(readTexts(permissions, `permissions of the API key ${keyId}`)),
        scopeFilter: readTexts(scopeFilter, `scope_filter of the API key ${keyId}`),
        referencesEvidence,
      },
      expiresInMs,
    };
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
}
