import { fieldsOf } from '../governance/listing/index.js';
import { correlatedEventsKey, eventLogKey, partitionCode, RedisService, tagOf, tenantEventsKey } from '../redis/index.js';
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

/** One partition's events that match, some ahead of the reader. */
export class EventSource {
  /** Entries that were looked at. */
  examined = 0;
  private readonly code: string;
  private readonly log: string;
  private readonly walked: string;
  private events: CyclesEvent[] = [];
  private next = 0;
  private start: string;
  private readonly stop: string;
  private ended = false;
  private reachedOrder: string | undefined;
  private reachedId: string | undefined;

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

  get head(): CyclesEvent | undefined {
    return this.events[this.next];
  }

  shift(): void {
    this.next += 1;
  }

  /** Whether there may be more behind what it has in store. */
  get isOpen(): boolean {
    return this.head === undefined && !this.ended;
  }

  /** The event id of the last entry that was looked at: all up to there is known. Undefined before the first look. */
  get reached(): string | undefined {
    return this.reachedId;
  }

  /** Whether an event of this source that is not known yet might come before the given one. */
  mayPrecede(order: string): boolean {
    if (!this.isOpen) {
      return false;
    }
    return this.reachedOrder === undefined || !comesFirst(this.question.direction, order, this.reachedOrder);
  }

  /** Looks at a further stretch. @throws StoreUnavailable */
  async readOn(): Promise<void> {
    const { direction, conditions, matches } = this.question;
    const [next = '', examined, ...reply] = await this.redis.scripts.run(
      'list_events',
      [this.log, this.walked],
      [direction, this.start, this.stop, EXAMINED_A_RUN, this.rowsARun, ...conditions],
    );
    this.examined += Number(examined);
    this.start = next;
    this.ended = next === '';
    if (!this.ended) {
      this.reachedId = eventIdOf({ partition: this.code, entryId: next.slice(1) });
      this.reachedOrder = eventOrder(this.reachedId);
    }
    this.events = [];
    this.next = 0;
    for (let index = 0; index < reply.length; ) {
      const [entryId, count] = reply.slice(index, index + 2) as [string, string];
      const end = index + 2 + Number(count);
      const event = toEvent(this.code, entryId, fieldsOf(reply.slice(index + 2, end)));
      if (matches(event)) {
        this.events.push(event);
      }
      index = end;
    }
  }
}

/** Whether the first of two orders comes before the second one in this direction. */
export function comesFirst(direction: 'asc' | 'desc', first: string, second: string): boolean {
  return direction === 'asc' ? first < second : first > second;
}

function walkedKey(tag: string, { tenantId, correlationId }: EventQuestion): string {
  if (correlationId !== undefined) {
    return correlatedEventsKey(tag, correlationId);
  }
  return tenantId === undefined ? eventLogKey(tag) : tenantEventsKey(tag, tenantId);
}

/** Where a partition's walk starts and ends. */
function boundsOf(code: string, { direction, fromMs, toMs }: EventQuestion, after: EventPlace | undefined): [string, string] {
  const isDown = direction === 'desc';
  const [first, last] = isDown ? [toMs, fromMs] : [fromMs, toMs];
  const stop = last === undefined ? (isDown ? '-' : '+') : String(last);
  const start = first === undefined ? (isDown ? '+' : '-') : String(first);
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
  return [String(isLeft ? afterMs : isDown ? afterMs - 1 : afterMs + 1), stop];
}
