import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { scopeAllowed, type Caller } from '../auth/index.js';
import { ExpiryMetrics } from '../expiry/index.js';
import { deriveScopes, Refusal, SCOPE_LEVELS, type SubjectLevels } from '../ledger/index.js';
import { RedisService, reservationKey, tagOfReservationId, toStoreError, type Reply } from '../redis/index.js';
import type { Operation } from './operation.js';
import { PACKED_PIECES, packedScope, scopeValues } from './packed-scope.js';
import { refusalOf } from './script-refusals.js';

const DAY_MS = 86_400_000;
/** The record's fields of the levels below the tenant, in the order of SCOPE_LEVELS. */
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

/** What commit, release, extend and get share when they call their scripts. */
@Injectable()
export class ReservationStore {
  readonly retentionMs: number;
  readonly idempotencyTtlMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly expiry: ExpiryMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.retentionMs = config.auditRetentionDays * DAY_MS;
    this.idempotencyTtlMs = config.idempotencyTtlMs;
  }

  /**
   * The hash tag under which a reservation's keys live.
   * @throws Refusal NOT_FOUND when the id is none of ours.
   */
  tagOf(reservationId: string): string {
    const tag = tagOfReservationId(reservationId, this.redis.partitions);
    if (tag === undefined) {
      throw refusalOf(['NOT_FOUND']);
    }
    return tag;
  }

  /**
   * A key that is confined to some scopes may touch only reservations inside them. The subject of a reservation never
   * changes, so reading it ahead of the script is no race; keys without a filter skip the read.
   * @throws Refusal FORBIDDEN when the reservation lies outside the key's scope filter.
   */
  async requireInScope({ caller }: Operation<Caller>, tag: string, reservationId: string): Promise<void> {
    if (caller.kind === 'admin' || caller.scopeFilter.length === 0) {
      return;
    }
    const [tenantId, ...values] = await this.readScope(reservationKey(tag, reservationId)).catch((error: unknown) => {
      throw toStoreError(error);
    });
    if (typeof tenantId !== 'string') {
      return;
    }
    const subject = levelsBelow(values);
    if (!scopeAllowed(caller.scopeFilter, deriveScopes(subject, tenantId).at(-1) as string)) {
      throw new Refusal('FORBIDDEN', "the reservation lies outside the API key's scope filter");
    }
  }

  /** The tenant and the levels below it, whichever form the record has. */
  private async readScope(key: string): Promise<(string | null)[]> {
    const [subject, ...values] = await this.redis.client.hmget(key, 'su', 'tn', ...LEVEL_FIELDS);
    if (typeof subject === 'string') {
      return scopeValues(subject);
    }
    return typeof values[0] === 'string' ? values : packedScope(await this.redis.client.hmget(key, ...PACKED_PIECES));
  }

  /**
   * Checks a settling script's reply.
   * @returns the reply when it carries the status word of success.
   * @throws Refusal for every other word; an expiry that the script ran on the way is counted.
   */
  settled(reply: Reply, success: string): Reply {
    if (reply[0] === success) {
      return reply;
    }
    if (reply[0] === 'RESERVATION_EXPIRED' && reply[1] === 'now') {
      this.expiry.record('access', ['EXPIRED', reply[2] as string, reply[3] as string], reply[4]);
    } else if (reply[0] === 'QUARANTINED') {
      this.expiry.record('access', reply, undefined);
    }
    throw refusalOf(reply);
  }
}
