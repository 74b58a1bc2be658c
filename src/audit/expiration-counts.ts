import { Injectable } from '@nestjs/common';
import { IsString } from 'class-validator';
import { partitionsOfTenants, patternsText, type Tenants } from '../auth/index.js';
import { fingerprintOf, invalidField } from '../ledger/index.js';
import { eventLogKey, isStreamId, RedisService, streamBound, tagOfPartition } from '../redis/index.js';
import { IsInt, Optional, pageEnd, placeAfter } from '../wire/index.js';
import { EXAMINED_A_RUN, type ExpirationSearch, SLACK_MS } from './expiration-feed.js';
import { boundMs, ExpirationFiltersDto, IsBound, searchOf, valuesOf } from './expirations.service.js';

const MAX_SLOTS = 1000;
const MIN_SLOT_MS = 1000;
/** Entries that one request examines: about 0.1 s of Redis' time, in slices of a millisecond. */
const EXAMINED_A_PAGE = 20_000;
const PLACE_ID = /^(?:|\((\d+-\d+))$/;

/** Query of GET /ops/expirations/counts. Both bounds are inclusive; the first slot starts at `from`. */
export class ExpirationCountsQueryDto extends ExpirationFiltersDto {
  @IsString()
  @IsBound()
  from!: string;

  @IsString()
  @IsBound()
  to!: string;

  /** The length of a slot. A window has at most 1,000 of them. */
  @Optional(IsInt({ min: MIN_SLOT_MS }))
  slot_ms?: number;
}

export interface CountsPage {
  /** Those with expirations, in the order of time. */
  readonly slots: readonly { readonly at_ms: number; readonly expirations: number }[];
  /** The part of the partitions that this page and those before it have read, from 0 to 1. */
  readonly share_read: number;
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

interface Walk {
  readonly partition: number;
  /** Where to go on in its log; empty to begin. */
  readonly start: string;
}

/**
 * GET /ops/expirations/counts. There is no index of expirations, so the event logs of the window are read, one partition after the
 * other. A page examines a bounded number of entries; the counts of all pages have to be added up.
 */
@Injectable()
export class ExpirationCounts {
  constructor(private readonly redis: RedisService) {}

  /**
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST, as for a list, and for more than 1,000 slots; StoreUnavailable
   */
  async page(query: ExpirationCountsQueryDto, tenants: Tenants): Promise<CountsPage> {
    const bounds = [requireBound('from', query.from), requireBound('to', query.to)] as const;
    const search = searchOf(query, bounds, tenants);
    const slotMs = slotLength(search.toMs - search.fromMs, query.slot_ms);
    const fingerprint = fingerprintOf(['expiration-counts', ...valuesOf(search), slotMs]);
    const { tenantId } = search;
    const partitions = partitionsOfTenants(
      tenantId === undefined ? tenants : [tenantId],
      this.redis.partitions,
    );
    let walk: Walk | undefined = walkOf(query.cursor, fingerprint, partitions);
    const counts = new Map<number, number>();
    let left = EXAMINED_A_PAGE;
    while (walk !== undefined && left > 0) {
      const { partition, start }: Walk = walk;
      const read = await this.readNext(search, slotMs, partition, start);
      for (const { slot, expirations } of read.counts) {
        counts.set(slot, (counts.get(slot) ?? 0) + expirations);
      }
      left -= read.examined;
      if (read.nextStart !== undefined) {
        walk = { partition, start: read.nextStart };
      } else {
        const next = partitions[partitions.indexOf(partition) + 1];
        walk = next === undefined ? undefined : { partition: next, start: '' };
      }
    }
    const slots = [...counts]
      .sort(([one], [other]) => one - other)
      .map(([slot, expirations]) => ({ at_ms: search.fromMs + slot * slotMs, expirations }));
    return {
      slots,
      share_read: walk === undefined ? 1 : partitions.indexOf(walk.partition) / partitions.length,
      ...pageEnd(fingerprint, walk && { value: walk.partition, id: walk.start }),
    };
  }

  private readNext(
    {
      fromMs,
      toMs,
      tenantId = '',
      tenants,
      scope = '',
      state,
    }: ExpirationSearch & { fromMs: number; toMs: number },
    slotMs: number,
    partition: number,
    start: string,
  ) {
    return this.redis.queries.call(
      'count_expirations',
      { eventLog: eventLogKey(tagOfPartition(partition)) },
      {
        start: start === '' ? streamBound(fromMs) : start,
        stop: streamBound(toMs + SLACK_MS),
        examine: EXAMINED_A_RUN,
        fromMs,
        toMs,
        slotMs,
        tenantId,
        tenants: patternsText(tenants),
        scope,
        state,
      },
    );
  }
}

function requireBound(field: string, text: string): number {
  const ms = boundMs(text);
  if (ms === undefined) {
    throw invalidField(field, `${field} must not be blank`);
  }
  return ms;
}

function slotLength(windowMs: number, wantedMs: number | undefined): number {
  const slotMs = wantedMs ?? Math.max(MIN_SLOT_MS, Math.ceil((windowMs + 1) / MAX_SLOTS));
  if (Math.floor(windowMs / slotMs) >= MAX_SLOTS) {
    throw invalidField('slot_ms', `the window has more than ${MAX_SLOTS} slots of this length`);
  }
  return slotMs;
}

function walkOf(cursor: string | undefined, fingerprint: string, partitions: readonly number[]): Walk {
  const after = placeAfter(fingerprint, cursor, (position) => {
    const entry = PLACE_ID.exec(position.id);
    return (
      entry !== null &&
      (entry[1] === undefined || isStreamId(entry[1])) &&
      partitions.includes(position.value as number)
    );
  });
  return after === undefined
    ? { partition: partitions[0] ?? 0, start: '' }
    : { partition: after.value as number, start: after.id };
}
