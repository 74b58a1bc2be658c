import { Injectable } from '@nestjs/common';
import { ExpiryMetrics } from '../../expiry/index.js';
import {
  partitionCode,
  partitionOfTenant,
  RedisService,
  reservationIndexKey,
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
      const reply = await this.redis.queries.run(
        'list_reservations',
        [index],
        [
          tenantId,
          direction,
          fromMs,
          toMs,
          place?.value.toString() ?? '',
          place?.id ?? '',
          EXAMINED_A_RUN,
          limit,
          this.store.retentionMs,
          trace.requestId,
          traceText(trace),
          ...conditions,
          ...more,
        ],
      );
      const [nowMs, walkedMs = '', walkedId = ''] = reply;
      ended = walkedMs === '';
      place = ended ? place : { value: BigInt(walkedMs), id: walkedId };
      let next = this.countOutcomes(reply, 3, nowMs);
      next = this.reportDamaged(reply, next);
      return rowsOf(reply, next, (reservationId, reason) => this.damaged.report(reservationId, reason));
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

  private countOutcomes(reply: readonly string[], first: number, nowMs: string | undefined): number {
    const end = first + 1 + 3 * Number(reply[first]);
    for (let index = first + 1; index < end; index += 3) {
      this.expiry.record('access', reply.slice(index, index + 3), nowMs);
    }
    return end;
  }

  private reportDamaged(reply: readonly string[], first: number): number {
    const end = first + 1 + 2 * Number(reply[first]);
    for (let index = first + 1; index < end; index += 2) {
      this.damaged.report(reply[index] as string, reply[index + 1] as string);
    }
    return end;
  }
}

/** The reply has the names of the fields first, then each row's values in that order. */
function rowsOf(
  reply: readonly string[],
  first: number,
  onDamage: (reservationId: string, reason: string) => void,
): ReservationSummary[] {
  const start = first + 1 + Number(reply[first]);
  const names = reply.slice(first + 1, start);
  const rows: ReservationSummary[] = [];
  for (let index = start; index < reply.length; index += names.length) {
    const record = new Map<string, string>();
    for (const [offset, name] of names.entries()) {
      const value = reply[index + offset];
      if (value !== undefined && value !== '') {
        record.set(name, value);
      }
    }
    const reservationId = record.get('id') as string;
    rows.push(summaryOf(reservationId, record, (reason) => onDamage(reservationId, reason)));
  }
  return rows;
}
