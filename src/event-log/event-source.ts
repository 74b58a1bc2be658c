import { fieldsOf, type Stretch } from '../governance/listing/index.js';
import {
  correlatedEventsKey,
  eventLogKey,
  partitionCode,
  RedisService,
  streamBound,
  tagOf,
  tenantEventsKey,
} from '../redis/index.js';
import { toEvent, type CyclesEvent } from './event.js';
import { eventOrder, eventIdOf, type EventPlace } from './event-id.js';

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
  async readOn(): Promise<Stretch<CyclesEvent, EventPosition>> {
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
