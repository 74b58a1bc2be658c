import { Injectable } from '@nestjs/common';
import {
  correlatedEventsKey,
  eventLogKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  streamBound,
  type StreamRange,
  streamRange,
  tagOf,
  tenantEventsKey,
} from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { EXAMINED_A_PAGE, mergedPage, type Batch } from '../wire/index.js';
import { type CyclesEvent, eventIdOf, eventOrder, type EventPlace, toEvent } from './event.js';
import { EVENT_METRICS } from './events.metrics.js';

/** Entries of a log that one script examines: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 250;

/** The search that all partitions have in common. */
export interface EventSearch {
  readonly direction: 'asc' | 'desc';
  /** Inclusive bounds in ms. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** These two have indexes. With neither, the whole log is read. */
  readonly tenantId: string | undefined;
  readonly correlationId: string | undefined;
  /** Condition and value pairs for lua/events/list_events.lua. */
  readonly conditions: readonly string[];
  /** Whether the caller may see the event. */
  readonly matches: (event: CyclesEvent) => boolean;
}

/** The position of an event among those of all partitions. */
export interface EventPosition {
  readonly eventId: string;
  readonly order: string;
}

export function positionOf(eventId: string): EventPosition {
  return { eventId, order: eventOrder(eventId) };
}

/** The matching events of one partition, read in batches. */
export class PartitionEvents {
  private readonly code: string;
  private readonly log: string;
  private readonly walked: string;
  private start: string;
  private readonly stop: string;

  constructor(
    private readonly redis: RedisService,
    partition: number,
    private readonly search: EventSearch,
    private readonly rowsARun: number,
    after: EventPlace | undefined,
  ) {
    this.code = partitionCode(partition);
    const tag = tagOf(this.code);
    this.log = eventLogKey(tag);
    this.walked = walkedKey(tag, search);
    ({ start: this.start, stop: this.stop } = boundsOf(this.code, search, after));
  }

  /** Reads the next batch. @throws StoreUnavailable */
  async readNext(): Promise<Batch<CyclesEvent, EventPosition>> {
    const { direction, conditions, matches } = this.search;
    const { nextStart, examined, events } = await this.redis.queries.call(
      'list_events',
      { eventLog: this.log, walked: this.walked },
      {
        direction,
        start: this.start,
        stop: this.stop,
        examine: EXAMINED_A_RUN,
        limit: this.rowsARun,
        rest: conditions,
      },
    );
    this.start = nextStart ?? '';
    const rows = events
      .map(({ entryId, event }) => toEvent(this.code, entryId, event))
      .filter((event) => matches(event));
    const reached =
      nextStart === undefined
        ? undefined
        : positionOf(eventIdOf({ partition: this.code, entryId: nextStart.slice(1) }));
    return { rows, reached, examined };
  }
}

/** The index to read, or the log itself. */
function walkedKey(tag: string, { tenantId, correlationId }: EventSearch): string {
  if (correlationId !== undefined) {
    return correlatedEventsKey(tag, correlationId);
  }
  return tenantId === undefined ? eventLogKey(tag) : tenantEventsKey(tag, tenantId);
}

/** Where reading a partition starts and ends. */
function boundsOf(code: string, search: EventSearch, after: EventPlace | undefined): StreamRange {
  if (after === undefined) {
    return streamRange(search);
  }
  const atMs = Number(after.entryId.split('-', 1)[0]);
  if (after.partition === code) {
    return streamRange(search, { atMs, start: `(${after.entryId}` });
  }
  // At the instant where the previous page ended, either the lower or the higher partitions are still to come.
  const isDown = search.direction === 'desc';
  const isLeft = isDown ? code < after.partition : code > after.partition;
  return streamRange(search, { atMs, start: streamBound(isLeft ? atMs : isDown ? atMs - 1 : atMs + 1) });
}

/** The share of a page that each partition fetches at a time while many are merged, so that a page does not read many times its size. */
const SHARE_A_RUN_MERGED = 1 / 8;

export interface EventPageRequest {
  readonly limit: number;
  /** The page starts after this event. */
  readonly after: EventPlace | undefined;
}

export interface EventPage {
  readonly events: readonly CyclesEvent[];
  /** The next page starts after this id; undefined at the end. There need not be an event with this id. */
  readonly next: string | undefined;
  /** Whether the page ended at the limit of examined entries. */
  readonly endedEarly: boolean;
  /** Number of entries examined. */
  readonly examined: number;
}

/**
 * Events by time, partition and entry: the logs of the partitions, merged. Each log is already in order, so it is read only as far as
 * the page needs. A page whose filters match few events ends early.
 */
@Injectable()
export class EventFeed {
  private readonly counts = this.metrics.of(EVENT_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
  ) {}

  /** @param maxExamined the most entries to examine; merging partitions may examine a few more. @throws StoreUnavailable */
  async page(
    search: EventSearch,
    { limit, after }: EventPageRequest,
    maxExamined = EXAMINED_A_PAGE,
  ): Promise<EventPage> {
    const { direction } = search;
    const page = await mergedPage<CyclesEvent, EventPosition>(
      this.partitionsOf(search, limit, after).map((partition) => () => partition.readNext()),
      {
        placeOf: ({ event_id: id }) => positionOf(id),
        isBefore: (one, other) => comesFirst(direction, one.order, other.order),
        limit,
        maxExamined,
      },
    );
    if (page.endedEarly) {
      this.counts.pagesCut.inc();
    }
    return {
      events: page.rows,
      next: page.next?.eventId,
      endedEarly: page.endedEarly,
      examined: page.examined,
    };
  }

  private partitionsOf(search: EventSearch, limit: number, after: EventPlace | undefined): PartitionEvents[] {
    const all = Array.from({ length: this.redis.partitions }, (_, partition) => partition);
    const { tenantId } = search;
    // Events without a tenant are in the partition where they happened.
    const isOfOne = tenantId !== undefined && !tenantId.startsWith('__');
    const partitions = isOfOne ? [partitionOfTenant(tenantId, this.redis.partitions)] : all;
    const rowsARun = partitions.length === 1 ? limit + 1 : Math.ceil((limit + 1) * SHARE_A_RUN_MERGED);
    return partitions.map((partition) => new PartitionEvents(this.redis, partition, search, rowsARun, after));
  }
}

/** Whether the first sort key precedes the second one in this direction. */
function comesFirst(direction: 'asc' | 'desc', first: string, second: string): boolean {
  return direction === 'asc' ? first < second : first > second;
}
