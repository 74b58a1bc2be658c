import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../metrics/index.js';
import { partitionOfTenant, RedisService } from '../redis/index.js';
import type { CyclesEvent } from './event.js';
import { eventOrder, type EventPlace } from './event-id.js';
import { comesFirst, EventSource, type EventQuestion } from './event-source.js';

/** Entries that one page may cost: about a quarter of a second of Redis' time, in slices of a millisecond. */
export const EXAMINED_A_PAGE = 50_000;
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
    this.cuts = metrics.counter({ name: 'holdfast_event_pages_cut_total', help: 'Pages of events that ended early because so many entries did not match.' });
  }

  /** @param examineMost entries to look at; some more are when partitions are merged. @throws StoreUnavailable */
  async page(question: EventQuestion, { limit, after }: EventPageRequest, examineMost = EXAMINED_A_PAGE): Promise<EventPage> {
    const merge = new EventMerge(this.sourcesOf(question, limit, after), question.direction);
    const events: CyclesEvent[] = [];
    const pageTo = (next: string | undefined, isCut = false): EventPage => ({ events: events.slice(0, limit), next, isCut, examined: merge.examined });
    // One event more than the page holds tells whether there is another page.
    while (events.length <= limit) {
      const event = merge.take();
      if (event !== undefined) {
        events.push(event);
      } else if (merge.isAtEnd) {
        return pageTo(undefined);
      } else if (merge.examined >= examineMost) {
        this.cuts.inc();
        return pageTo(merge.reached, true);
      } else {
        await merge.readOn();
      }
    }
    return pageTo(events[limit - 1]?.event_id);
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

class EventMerge {
  constructor(
    private readonly sources: readonly EventSource[],
    private readonly direction: 'asc' | 'desc',
  ) {}

  get examined(): number {
    return this.sources.reduce((sum, { examined }) => sum + examined, 0);
  }

  get isAtEnd(): boolean {
    return this.sources.every((source) => source.head === undefined && !source.isOpen);
  }

  /** The event id up to which all is known: that of the source that is furthest behind. */
  get reached(): string | undefined {
    let first: string | undefined;
    for (const { isOpen, reached } of this.sources) {
      if (isOpen && reached !== undefined && (first === undefined || comesFirst(this.direction, eventOrder(reached), eventOrder(first)))) {
        first = reached;
      }
    }
    return first;
  }

  /** The next event, or undefined when it is not known yet which one it is, or there is none. */
  take(): CyclesEvent | undefined {
    let first: EventSource | undefined;
    let firstOrder = '';
    for (const source of this.sources) {
      if (source.head !== undefined) {
        const order = eventOrder(source.head.event_id);
        if (first === undefined || comesFirst(this.direction, order, firstOrder)) {
          first = source;
          firstOrder = order;
        }
      }
    }
    if (first === undefined || this.sources.some((source) => source.mayPrecede(firstOrder))) {
      return undefined;
    }
    const event = first.head;
    first.shift();
    return event;
  }

  /** Reads on where nothing is in store, all partitions side by side. */
  async readOn(): Promise<void> {
    await Promise.all(this.sources.filter(({ isOpen }) => isOpen).map((source) => source.readOn()));
  }
}
