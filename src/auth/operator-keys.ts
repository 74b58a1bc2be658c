import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { CONFIG, ExpectedSecret, type HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import {
  operatorSecretKey,
  RedisService,
  StoreUnavailable,
  SYSTEM_OWNER,
  tagOfTenant,
} from '../redis/index.js';
import { type AuthFailure, AuthAttempts, hashOfSecret } from './api-key-verifier.js';
import type { AdminCaller } from './caller.js';
import { KeyAnswers } from './key-answers.js';
import { confinementOf } from './confinement.js';
import { isOperatorRole } from './operator-roles.js';

/** Names a named operator in the audit log, in events and in the console. No id of an API key or of a session looks like it. */
export function actorOfOperator(name: string): string {
  return `operator:${name}`;
}

const ADMIN: AdminCaller = { kind: 'admin', role: 'admin' };
const VIEWER: AdminCaller = { kind: 'admin', role: 'viewer', keyId: 'viewer' };

/** The form of the keys of named operators. Anything else is not looked up. */
const NAMED_KEY = /^opr_[0-9A-Za-z]{43}$/;
const FAILURES = {
  UNKNOWN: 'wrong_admin_key',
  REVOKED: 'revoked_operator',
  EXPIRED: 'expired_operator',
} as const satisfies Record<string, AuthFailure>;

/** Callers of metrics that are remembered while Redis is away. */
const MAX_REMEMBERED = 100;

/** Must not contain "X-Cycles-API-Key": the dashboard logs out on a 401, except if the message names that header. */
const NOT_VALID = 'this operation needs a valid X-Admin-API-Key';

type Answer = AdminCaller | AuthFailure;

/**
 * Finds the owner of an operator's key: ADMIN_API_KEY, VIEWER_API_KEY, or the key of a named operator. The keys of the environment are
 * recognised without Redis; the others are cached as API keys are, so a change of one is felt by every instance within a second.
 */
@Injectable()
export class OperatorKeys {
  private readonly admin: ExpectedSecret | undefined;
  private readonly viewer: ExpectedSecret | undefined;
  private readonly answers = new KeyAnswers<AdminCaller, AuthFailure>();
  private readonly listeners: (() => void)[] = [];
  private readonly remembered = new LRUCache<string, AdminCaller>({ max: MAX_REMEMBERED });

  constructor(
    @Inject(CONFIG) { adminApiKey, viewerApiKey }: HoldfastConfig,
    private readonly redis: RedisService,
    private readonly attempts: AuthAttempts,
  ) {
    this.admin = adminApiKey === undefined ? undefined : new ExpectedSecret(adminApiKey);
    this.viewer = viewerApiKey === undefined ? undefined : new ExpectedSecret(viewerApiKey);
  }

  /** The hash tag of the partition of all operators. */
  get tag(): string {
    return tagOfTenant(SYSTEM_OWNER, this.redis.partitions);
  }

  /**
   * The owner of a key, counted as an attempt.
   * @throws Refusal UNAUTHORIZED, with the same message whatever is wrong with the key; StoreUnavailable
   */
  verify(presented: string): AdminCaller | Promise<AdminCaller> {
    const found = this.find(presented);
    return found instanceof Promise ? found.then((answer) => this.callerOf(answer)) : this.callerOf(found);
  }

  /**
   * The same for whoever only scrapes: a key that was valid when Redis could last be asked is valid as long as Redis is away, because
   * metrics are needed then most.
   */
  async verifyScraper(presented: string): Promise<AdminCaller> {
    const secretHash = hashOfSecret(presented);
    try {
      const answer = await this.find(presented);
      if (typeof answer === 'string') {
        this.remembered.delete(secretHash);
      } else {
        this.remembered.set(secretHash, answer);
      }
      return this.callerOf(answer);
    } catch (error) {
      const known = error instanceof StoreUnavailable ? this.remembered.get(secretHash) : undefined;
      if (known === undefined) {
        throw error;
      }
      return known;
    }
  }

  /**
   * The owner of a key, or why it has none. Counts nothing.
   * @throws Error if the server has no admin key, which is the operator's mistake, not the caller's; StoreUnavailable
   */
  find(presented: string): Answer | Promise<Answer> {
    if (this.admin === undefined) {
      throw new Error('an admin key was presented, but this server was started without one');
    }
    if (this.admin.matches(presented)) {
      return ADMIN;
    }
    if (this.viewer?.matches(presented) === true) {
      return VIEWER;
    }
    return NAMED_KEY.test(presented) ? this.findNamed(hashOfSecret(presented)) : 'wrong_admin_key';
  }

  /** The operator whose key has this hash, or why it is not valid any more. @throws StoreUnavailable */
  findNamed(secretHash: string): Answer | Promise<Answer> {
    return (
      this.answers.cached(secretHash) ??
      this.answers.ask(secretHash, async () => {
        const reply = await this.redis.scripts.call(
          'authenticate_operator',
          { operatorSecret: operatorSecretKey(this.tag, secretHash) },
          { hash: secretHash },
        );
        if (reply.status !== 'OK') {
          return FAILURES[reply.status];
        }
        if (!isOperatorRole(reply.role)) {
          throw new Error(`the operator ${reply.operator} has the unknown role ${reply.role}`);
        }
        const keyId = actorOfOperator(reply.operator);
        const tenants = confinementOf(reply.tenants.split(' '));
        return {
          owner: { kind: 'admin', role: reply.role, tenants, keyId, secretHash },
          expiresInMs: reply.expiresInMs,
        };
      })
    );
  }

  /** What was announced as changed is not remembered either: it may have been revoked. */
  forget(secretHash: string): void {
    this.answers.forget(secretHash);
    this.remembered.delete(secretHash);
    this.listeners.forEach((listener) => listener());
  }

  /** Calls the listener when a key was revoked, rotated or changed, on whichever instance. */
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  refusal(reason: AuthFailure): Refusal {
    return this.attempts.unauthorized(reason, NOT_VALID);
  }

  private callerOf(answer: Answer): AdminCaller {
    if (typeof answer === 'string') {
      throw this.refusal(answer);
    }
    this.attempts.succeeded();
    return answer;
  }
}
