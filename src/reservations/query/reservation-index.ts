import { Injectable } from '@nestjs/common';
import { ExpiryMetrics } from '../../expiry/index.js';
import {
  partitionCode,
  partitionOfTenant,
  RedisService,
  reservationIndexKey,
  type ScriptReply,
  tagOf,
} from '../../redis/index.js';
import { type Position, type RequestTrace, traceText } from '../../wire/index.js';
import { ReservationStore } from '../reservation-store.js';
import { DamagedRecords } from '../script-refusals.js';
import type { ListQuery } from './list-query.js';
import { type ReservationSummary, summaryOf } from './reservation-view.js';

/** Entries that one script examines: one or two milliseconds of Redis' time, during which every other request waits. */
export const EXAMINED_A_RUN = 100;

/** A walk through a tenant's reservations in the order of their creation, a few at a time. */
export interface IndexWalk {
  /** Where the last run ended; undefined before the first one. */
  readonly place: Position | undefined;
  readonly ended: boolean;
  /**
   * Reads the next matching rows.
   * @param limit the most rows to return
   * @param more further conditions, as alternating names and values
   */
  readNext(limit: number, more?: readonly string[]): Promise<ReservationSummary[]>;
}

/** Reads the index of a tenant's reservations. The script expires overdue holds that it finds. */
@Injectable()
export class ReservationIndex {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly expiry: ExpiryMetrics,
    private readonly damaged: DamagedRecords,
  ) {}

  walk(query: ListQuery, direction: 'asc' | 'desc', trace: RequestTrace, from?: Position): IndexWalk {
    const { tenantId, conditions, fromMs = '-inf', toMs = '+inf' } = query;
    const index = reservationIndexKey(
      tagOf(partitionCode(partitionOfTenant(tenantId, this.redis.partitions))),
      tenantId,
    );
    let [place, ended] = [from, false];
    const readNext = async (limit: number, more: readonly string[] = []): Promise<ReservationSummary[]> => {
      const reply = await this.redis.queries.call(
        'list_reservations',
        { reservationIndex: index },
        {
          tenantId,
          walkDir: direction,
          fromMs,
          toMs,
          walkedMs: place?.value.toString() ?? '',
          walkedId: place?.id ?? '',
          examine: EXAMINED_A_RUN,
          limit,
          retentionMs: this.store.retentionMs,
          requestId: trace.requestId,
          trace: traceText(trace),
          rest: [...conditions, ...more],
        },
      );
      const { walkedMs, walkedId = '' } = reply;
      ended = walkedMs === undefined;
      place = walkedMs === undefined ? place : { value: BigInt(walkedMs), id: walkedId };
      for (const outcome of reply.outcomes) {
        this.expiry.outcome('access', outcome, reply.nowMs);
      }
      // A damaged record is shown with what can be known of it, and never silently.
      for (const { reservationId, reason } of reply.unreadable) {
        this.damaged.report(reservationId, reason);
      }
      return reply.rows.map((row) => this.summaryOf(row));
    };
    return {
      readNext,
      get place(): Position | undefined {
        return place;
      },
      get ended(): boolean {
        return ended;
      },
    };
  }

  private summaryOf(row: ScriptReply<'list_reservations'>['rows'][number]): ReservationSummary {
    const record = new Map(Object.entries(row));
    return summaryOf(row.id, record, (reason) => this.damaged.report(row.id, reason));
  }
}
