import { Inject, Injectable } from '@nestjs/common';
import { type Caller, scopeAllowed } from '../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { ExpiryMetrics } from '../expiry/index.js';
import { deriveScopes, Refusal, SCOPE_LEVELS, type SubjectLevels } from '../ledger/index.js';
import {
  RedisService,
  type Reply,
  reservationKey,
  StoreUnavailable,
  tagOfReservationId,
  toStoreError,
} from '../redis/index.js';
import type { Operation } from './admission.js';
import { PACKED_PIECES, packedScope, scopeValues } from './packed-scope.js';
import { DamagedRecords, refusalOf } from './script-refusals.js';

const DAY_MS = 86_400_000;
/** The record's fields for the levels below the tenant, in the order of SCOPE_LEVELS. */
const LEVEL_FIELDS = ['ws', 'ap', 'wf', 'ag', 'ts'] as const;

function levelsBelow(values: readonly (string | null)[]): SubjectLevels {
  const subject: SubjectLevels = {};
  values.forEach((value, index) => {
    if (typeof value === 'string') {
      subject[SCOPE_LEVELS[index + 1] as keyof SubjectLevels] = value;
    }
  });
  return subject;
}

function outOfScope(): Refusal {
  return new Refusal('FORBIDDEN', "the reservation is outside the API key's scope filter");
}

/** What commit, release, extend and get share: locating a reservation, scope checks, and checking a script's reply. */
@Injectable()
export class ReservationStore {
  readonly retentionMs: number;
  readonly idempotencyTtlMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly expiry: ExpiryMetrics,
    private readonly damaged: DamagedRecords,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.retentionMs = config.auditRetentionDays * DAY_MS;
    this.idempotencyTtlMs = config.idempotencyTtlMs;
  }

  /**
   * The hash tag under which a reservation's keys live.
   * @throws Refusal NOT_FOUND when Holdfast never issued such an id.
   */
  tagOf(reservationId: string): string {
    const tag = tagOfReservationId(reservationId, this.redis.partitions);
    if (tag === undefined) {
      throw refusalOf(['NOT_FOUND']);
    }
    return tag;
  }

  /**
   * A key with a scope filter may only touch reservations inside it. A reservation's subject never changes, so reading it before
   * the script runs is not a race. Keys without a filter skip the read.
   * @throws Refusal FORBIDDEN when the reservation lies outside the key's scope filter.
   */
  async requireInScope({ caller }: Operation<Caller>, tag: string, reservationId: string): Promise<void> {
    if (caller.kind === 'admin' || caller.scopeFilter.length === 0) {
      return;
    }
    const [tenantId, ...values] = await this.readScope(reservationKey(tag, reservationId)).catch(
      (error: unknown) => {
        if (error instanceof Error && error.message.startsWith('WRONGTYPE')) {
          return [];
        }
        throw toStoreError(error);
      },
    );
    if (typeof tenantId !== 'string') {
      await this.requireMissing(tag, reservationId);
      return;
    }
    const subject = levelsBelow(values);
    if (!scopeAllowed(caller.scopeFilter, deriveScopes(subject, tenantId).at(-1) as string)) {
      throw outOfScope();
    }
  }

  /** A record whose scope cannot be read is outside every scope filter. */
  private async requireMissing(tag: string, reservationId: string): Promise<void> {
    const found = await this.redis.client
      .exists(reservationKey(tag, reservationId))
      .catch((error: unknown) => {
        throw toStoreError(error);
      });
    if (found === 1) {
      throw outOfScope();
    }
  }

  /** The tenant and the levels below it, from a live or a packed record. Empty or null when the key holds no record. */
  private async readScope(key: string): Promise<(string | null)[]> {
    const [subject, ...values] = await this.redis.client.hmget(key, 'su', 'tn', ...LEVEL_FIELDS);
    if (typeof subject === 'string') {
      return scopeValues(subject);
    }
    return typeof values[0] === 'string'
      ? values
      : packedScope(await this.redis.client.hmget(key, ...PACKED_PIECES));
  }

  /**
   * Checks a script's reply. Counts an expiry or a quarantine that it reports.
   * @returns the reply if its status word is `success`
   * @throws Refusal for every other word, StoreUnavailable while the reservation is in quarantine.
   */
  settled(reply: Reply, success: string, reservationId: string): Reply {
    if (reply[0] === success) {
      return reply;
    }
    if (reply[0] === 'RESERVATION_EXPIRED' && reply[1] === 'now') {
      this.expiry.record('access', ['EXPIRED', reply[2] as string, reply[3] as string], reply[4]);
    } else if (reply[0] === 'QUARANTINED') {
      this.quarantined(reservationId, reply);
      throw new StoreUnavailable('quarantine');
    } else if (reply[0] === 'NOT_FOUND' && reply[1] === 'NOT_A_RECORD') {
      this.damaged.report(reservationId, 'NOT_A_RECORD');
    }
    throw refusalOf(reply);
  }

  /** `QUARANTINED reason tenant`, followed by `again` if the reservation already was in quarantine. */
  private quarantined(reservationId: string, outcome: Reply): void {
    this.damaged.report(reservationId, outcome[1] as string);
    if (outcome[3] !== 'again') {
      this.expiry.record('access', outcome.slice(0, 3), undefined);
    }
  }
}
