import { Injectable } from '@nestjs/common';
import {
  correlatedEventsKey,
  eventLogKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  streamBound,
  tagOf,
  tenantEventsKey,
} from '../redis/index.js';
import { type LabelledCounter, MetricsRegistry } from '../telemetry/index.js';
import { fieldsOf, mergedPage, type Batch } from '../wire/index.js';
import { type CyclesEvent, eventIdOf, eventOrder, type EventPlace, toEvent } from './event.js';

/** Entries of a log that one script looks at: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 250;

/** What of the log is walked through. */
export interface EventQuestion {
  readonly direction: 'asc' | 'desc';
  /** Bounds in ms, both included. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** These two have indexes; with neither the whole log is looked at. */
  readonly tenantId: string | undefined;
  readonly correlationId: string | undefined;
  /** Condition and value pairs, as lua/list_events.lua takes them. */
  readonly conditions: readonly string[];
  /** Whether the asker may see the event. */
  readonly matches: (event: CyclesEvent) => boolean;
}

/** Where an event stands among those of all partitions. */
export interface EventPosition {
  readonly eventId: string;
  readonly order: string;
}

export function positionOf(eventId: string): EventPosition {
  return { eventId, order: eventOrder(eventId) };
}

/** One partition's events that match, read stretch by stretch. */
export class EventSource {
  private readonly code: string;
  private readonly log: string;
  private readonly walked: string;
  private start: string;
  private readonly stop: string;

  constructor(
    private readonly redis: RedisService,
    partition: number,
    private readonly question: EventQuestion,
    private readonly rowsARun: number,
    after: EventPlace | undefined,
  ) {
    this.code = partitionCode(partition);
    const tag = tagOf(this.code);
    this.log = eventLogKey(tag);
    this.walked = walkedKey(tag, question);
    [this.start, this.stop] = boundsOf(this.code, question, after);
  }

  /** Looks at a further stretch. @throws StoreUnavailable */
  async readNext(): Promise<Batch<CyclesEvent, EventPosition>> {
    const { direction, conditions, matches } = this.question;
    const [next = '', examined, ...reply] = await this.redis.queries.run(
      'list_events',
      [this.log, this.walked],
      [direction, this.start, this.stop, EXAMINED_A_RUN, this.rowsARun, ...conditions],
    );
    this.start = next;
    const events: CyclesEvent[] = [];
    for (let index = 0; index < reply.length;) {
      const [entryId, count] = reply.slice(index, index + 2) as [string, string];
      const end = index + 2 + Number(count);
      const event = toEvent(this.code, entryId, fieldsOf(reply.slice(index + 2, end)));
      if (matches(event)) {
        events.push(event);
      }
      index = end;
    }
    const reached =
      next === '' ? undefined : positionOf(eventIdOf({ partition: this.code, entryId: next.slice(1) }));
    return { rows: events, reached, examined: Number(examined) };
  }
}

function walkedKey(tag: string, { tenantId, correlationId }: EventQuestion): string {
  if (correlationId !== undefined) {
    return correlatedEventsKey(tag, correlationId);
  }
  return tenantId === undefined ? eventLogKey(tag) : tenantEventsKey(tag, tenantId);
}

/** Where a partition's walk starts and ends. */
function boundsOf(
  code: string,
  { direction, fromMs, toMs }: EventQuestion,
  after: EventPlace | undefined,
): [string, string] {
  const isDown = direction === 'desc';
  const [first, last] = isDown ? [toMs, fromMs] : [fromMs, toMs];
  const stop = last === undefined ? (isDown ? '-' : '+') : streamBound(last);
  const start = first === undefined ? (isDown ? '+' : '-') : streamBound(first);
  if (after === undefined) {
    return [start, stop];
  }
  const afterMs = Number(after.entryId.split('-', 1)[0]);
  if (first !== undefined && (isDown ? afterMs > first : afterMs < first)) {
    return [start, stop];
  }
  if (after.partition === code) {
    return [`(${after.entryId}`, stop];
  }
  // Of the instant at which the page before ended, either the partitions below its own are left or those above.
  const isLeft = isDown ? code < after.partition : code > after.partition;
  return [streamBound(isLeft ? afterMs : isDown ? afterMs - 1 : afterMs + 1), stop];
}

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
  readonly endedEarly: boolean;
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

  /** @param maxExamined entries to look at; some more are when partitions are merged. @throws StoreUnavailable */
  async page(
    question: EventQuestion,
    { limit, after }: EventPageRequest,
    maxExamined = EXAMINED_A_PAGE,
  ): Promise<EventPage> {
    const { direction } = question;
    const page = await mergedPage<CyclesEvent, EventPosition>(
      this.sourcesOf(question, limit, after).map((source) => () => source.readNext()),
      {
        placeOf: ({ event_id: id }) => positionOf(id),
        isBefore: (one, other) => comesFirst(direction, one.order, other.order),
        limit,
        maxExamined,
      },
    );
    if (page.endedEarly) {
      this.cuts.inc();
    }
    return {
      events: page.rows,
      next: page.next?.eventId,
      endedEarly: page.endedEarly,
      examined: page.examined,
    };
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
