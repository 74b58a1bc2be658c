import { Inject, Injectable } from '@nestjs/common';
import { type Caller, scopeAllowed, type ScopeFilter } from '../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { countExpiry, type Decided, Reclaims } from '../expiry/index.js';
import { type Planned, TemplatePlans } from '../governance/index.js';
import { Refusal } from '../ledger/index.js';
import {
  RedisService,
  reservationKey,
  type ScriptReply,
  StoreUnavailable,
  tagOfReservationId,
} from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import type { Operation } from './admission.js';
import { DamagedRecords, refusalOf } from './script-refusals.js';

/** What the scripts answer that commit, release, extend, get and refund call. */
type SettlingReply = ScriptReply<'commit' | 'release' | 'extend' | 'get_reservation' | 'refund'>;

/** What the operations share: calling scripts until they decide, locating a reservation, scope checks, and checking a script's reply. */
@Injectable()
export class ReservationScripts {
  readonly retentionMs: number = this.reclaims.retentionMs;
  readonly idempotencyTtlMs: number = this.config.idempotencyTtlMs;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    private readonly reclaims: Reclaims,
    private readonly plans: TemplatePlans,
    private readonly damaged: DamagedRecords,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Runs a script until it decides: due holds come first, and the plans of templates.
   * @throws StoreUnavailable as Reclaims does, and what `run` throws
   */
  untilDecided<Answer extends { readonly status: string }>(
    run: () => Promise<Answer>,
  ): Promise<Planned<Decided<Answer>>> {
    return this.plans.untilDecided(run);
  }

  /**
   * The hash tag under which a reservation's keys live.
   * @throws Refusal NOT_FOUND when Holdfast never issued such an id.
   */
  tagOf(reservationId: string): string {
    const tag = tagOfReservationId(reservationId, this.redis.partitions);
    if (tag === undefined) {
      throw refusalOf({ status: 'NOT_FOUND' });
    }
    return tag;
  }

  /**
   * A key with a scope filter may only touch reservations inside it. A reservation's subject never changes, so reading it before
   * the script runs is not a race. Keys without a filter skip the read.
   * @throws Refusal FORBIDDEN when the reservation lies outside the key's scope filter.
   */
  requireInScope(
    { caller }: Operation<Caller>,
    tag: string,
    reservationId: string,
  ): Promise<void> | undefined {
    return caller.kind === 'admin' || caller.scopeFilter.length === 0
      ? undefined
      : this.requireIn(caller.scopeFilter, tag, reservationId);
  }

  private async requireIn(filter: ScopeFilter, tag: string, reservationId: string): Promise<void> {
    const found = await this.redis.scripts.call(
      'reservation_scope',
      { reservation: reservationKey(tag, reservationId) },
      {},
    );
    this.requireAllowed(filter, found, 'reservation');
  }

  /** @throws Refusal FORBIDDEN when what was found lies outside the filter. */
  requireAllowed(
    filter: ScopeFilter,
    found: ScriptReply<'reservation_scope' | 'debit_scope'>,
    what: string,
  ): void {
    // A record whose scope cannot be read is outside every scope filter.
    const allowed =
      found.status === 'NOT_FOUND' || (found.status === 'SCOPE' && scopeAllowed(filter, found.scopePath));
    if (!allowed) {
      throw new Refusal('FORBIDDEN', `the ${what} is outside the API key's scope filter`);
    }
  }

  /**
   * Checks a script's reply. Counts an expiry or a quarantine that it reports.
   * @returns the reply if its status word is `success`
   * @throws Refusal for every other word, StoreUnavailable while the reservation is in quarantine.
   */
  settled<Answer extends SettlingReply, Success extends Answer['status']>(
    reply: Answer,
    success: Success,
    reservationId: string,
  ): Extract<Answer, { status: Success }> {
    if (reply.status === success) {
      return reply as Extract<Answer, { status: Success }>;
    }
    this.note(reply, reservationId);
    throw refusalOf(reply);
  }

  /** @throws StoreUnavailable while the reservation is in quarantine. */
  note(reply: SettlingReply, reservationId: string): void {
    if (reply.status === 'RESERVATION_EXPIRED' && reply.onAccess !== undefined) {
      const { tenant = '', deadlineMs, nowMs } = reply;
      const word = reply.onAccess === 'charged' ? 'CHARGED' : 'EXPIRED';
      const outcome = { word, detail: tenant, secondDetail: String(deadlineMs) };
      countExpiry(this.metrics, 'access', outcome, nowMs);
    } else if (reply.status === 'QUARANTINED') {
      const { status: word, reason: detail, tenant: secondDetail = '', again } = reply;
      this.damaged.report(reservationId, detail);
      if (again === undefined) {
        countExpiry(this.metrics, 'access', { word, detail, secondDetail });
      }
      throw new StoreUnavailable('quarantine');
    } else if (reply.status === 'NOT_FOUND' && reply.defect !== undefined) {
      this.damaged.report(reservationId, reply.defect);
    }
  }
}
