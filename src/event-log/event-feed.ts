import { Injectable } from '@nestjs/common';
import { mergedPage } from '../governance/listing/index.js';
import { MetricsRegistry, type LabelledCounter } from '../metrics/index.js';
import { partitionOfTenant, RedisService } from '../redis/index.js';
import type { CyclesEvent } from './event.js';
import type { EventPlace } from './event-id.js';
import { EventSource, positionOf, type EventPosition, type EventQuestion } from './event-source.js';

/** Entries that one page may cost: about a quarter of a second of Redis' time, in slices of a millisecond. */
const EXAMINED_A_PAGE = 50_000;
/** The share of a page that a partition has in store while many are merged, so that a page does not fetch many times what it holds. */
const SHARE_A_RUN_MERGED = 1 / 8;

export interface EventPageRequest {
  readonly limit: number;
  /** The event behind which the page begins. */
  readonly after: EventPlace | undefined;
}

export interface EventPage {
  readonly events: readonly CyclesEvent[];
  /** The id behind which the next page begins; undefined at the end. There need not be an event with this id. */
  readonly next: string | undefined;
  /** Whether it ended early. */
  readonly isCut: boolean;
  /** Entries that were looked at. */
  readonly examined: number;
}

/**
 * Events in the order of time, partition and entry: the logs of the partitions, merged. Each log is in order by itself, so it is
 * read only as far as the page goes. A page whose filters let few events pass ends early, where it has looked at enough.
 */
@Injectable()
export class EventFeed {
  private readonly cuts: LabelledCounter;

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
  ) {
    this.cuts = metrics.counter({
      name: 'holdfast_event_pages_cut_total',
      help: 'Pages of events that ended early because so many entries did not match.',
    });
  }

  /** @param examineMost entries to look at; some more are when partitions are merged. @throws StoreUnavailable */
  async page(
    question: EventQuestion,
    { limit, after }: EventPageRequest,
    examineMost = EXAMINED_A_PAGE,
  ): Promise<EventPage> {
    const { direction } = question;
    const page = await mergedPage<CyclesEvent, EventPosition>(
      this.sourcesOf(question, limit, after).map((source) => () => source.readOn()),
      {
        placeOf: ({ event_id: id }) => positionOf(id),
        isBefore: (one, other) => comesFirst(direction, one.order, other.order),
        limit,
        examineMost,
      },
    );
    if (page.isCut) {
      this.cuts.inc();
    }
    return { events: page.rows, next: page.next?.eventId, isCut: page.isCut, examined: page.examined };
  }

  private sourcesOf(question: EventQuestion, limit: number, after: EventPlace | undefined): EventSource[] {
    const all = Array.from({ length: this.redis.partitions }, (_, partition) => partition);
    const { tenantId } = question;
    // What concerns no tenant stands where it happened.
    const isOfOne = tenantId !== undefined && !tenantId.startsWith('__');
    const partitions = isOfOne ? [partitionOfTenant(tenantId, this.redis.partitions)] : all;
    const rowsARun = partitions.length === 1 ? limit + 1 : Math.ceil((limit + 1) * SHARE_A_RUN_MERGED);
    return partitions.map((partition) => new EventSource(this.redis, partition, question, rowsARun, after));
  }
}

/** Whether the first of two orders comes before the second one in this direction. */
function comesFirst(direction: 'asc' | 'desc', first: string, second: string): boolean {
  return direction === 'asc' ? first < second : first > second;
}
