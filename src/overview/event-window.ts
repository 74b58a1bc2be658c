import { type CyclesEvent, eventIdOf, eventOrder, toEvent } from '../events/index.js';
import { categoryOf, type EventCategory } from '../ledger/index.js';
import { eventLogKey, partitionCode, type RedisService, type ScriptReply, tagOf } from '../redis/index.js';

/** The window of cycles-governance-admin-v0.1.25. */
const WINDOW_S = 3600;
/** Events are counted in slots of this length, so the start of the window is exact to within it. */
const SLOT_MS = 10_000;
/** Entries of a log that one script examines: one to two milliseconds of Redis' time. */
const EXAMINED_A_RUN = 250;
/** Entries that one refresh examines in all partitions, about 0.3 s of Redis' time. The next ones read what it leaves. */
const EXAMINED_A_REFRESH = 50_000;

type Counted = ScriptReply<'count_events'>;
type Kind = 'reservation.denied' | 'reservation.expired';

interface NamedEvent {
  readonly code: string;
  readonly entryId: string;
  readonly kind: string;
}

/** What the window holds. */
export interface EventSummary {
  /** Shorter than an hour while the logs are still being read. All figures are about this window. */
  readonly windowS: number;
  readonly byCategory: ReadonlyMap<EventCategory, number>;
  readonly denialsByReason: ReadonlyMap<string, number>;
  readonly total: number;
  /** The newest, newest first. */
  readonly denials: readonly CyclesEvent[];
  readonly expiries: readonly CyclesEvent[];
}

interface SlotCount {
  readonly slot: number;
  readonly type: string;
  readonly reason: string;
  events: number;
}

/** A part of a log that has been read, newest entries first. */
class Stretch {
  readonly counts = new Map<string, SlotCount>();
  named: NamedEvent[] = [];
  newest: string | undefined;
  /** Where to continue reading. Undefined at the end. */
  next: string | undefined = '+';

  add(code: string, { nextStart, newest, counts, recent }: Counted): void {
    for (const { slot, type, reason = '', events } of counts) {
      const name = `${slot} ${type} ${reason}`;
      const known = this.counts.get(name);
      if (known === undefined) {
        this.counts.set(name, { slot, type, reason, events });
      } else {
        known.events += events;
      }
    }
    this.named.push(...recent.map(({ entryId, type }) => ({ code, entryId, kind: type })));
    this.newest ??= newest;
    this.next = nextStart;
  }

  /** Takes over a newer part that ends where this one begins. */
  prepend(newer: Stretch): void {
    for (const [name, count] of newer.counts) {
      const known = this.counts.get(name);
      if (known === undefined) {
        this.counts.set(name, count);
      } else {
        known.events += count.events;
      }
    }
    this.named = [...newer.named, ...this.named];
    this.newest = newer.newest ?? this.newest;
  }

  /** Forgets what is older than the window. */
  prune(startMs: number, kept: number): void {
    const first = Math.floor(startMs / SLOT_MS);
    for (const [name, { slot }] of this.counts) {
      if (slot < first) {
        this.counts.delete(name);
      }
    }
    const left = this.named.filter(({ entryId }) => msOf(entryId) >= startMs);
    this.named = ['reservation.denied', 'reservation.expired'].flatMap((kind) =>
      left.filter((event) => event.kind === kind).slice(0, kept),
    );
  }
}

const msOf = (entryId: string): number => Number(entryId.replace('(', '').split('-', 1)[0]);

/** The window of one partition. What was read once is not read again. */
class PartitionWindow {
  private kept: Stretch | undefined;
  /** What is newer than `kept`, while there may be a gap between the two. */
  private ahead: Stretch | undefined;
  private startMs = 0;

  constructor(
    private readonly redis: RedisService,
    private readonly code: string,
  ) {}

  begin(startMs: number): void {
    this.startMs = startMs;
    this.ahead = new Stretch();
  }

  get isComplete(): boolean {
    return this.ahead === undefined && this.kept?.next === undefined;
  }

  /** Reads a bounded part of what is left, the newest first. @returns how many entries it examined. @throws StoreUnavailable */
  async readNext(listed: number): Promise<number> {
    const stretch = this.ahead ?? this.kept ?? new Stretch();
    const known = this.kept?.newest;
    const isGap = this.ahead !== undefined && known !== undefined && msOf(known) >= this.startMs;
    const reply = await this.redis.queries.call(
      'count_events',
      { eventLog: eventLogKey(tagOf(this.code)) },
      {
        start: stretch.next ?? '+',
        stop: isGap ? `(${known}` : this.startMs,
        examine: EXAMINED_A_RUN,
        slotMs: SLOT_MS,
        keep: listed,
      },
    );
    stretch.add(this.code, reply);
    if (this.ahead !== undefined && stretch.next === undefined) {
      if (isGap) {
        this.kept?.prepend(stretch);
      } else {
        this.kept = stretch;
      }
      this.ahead = undefined;
    }
    return reply.examined;
  }

  /** Ends a refresh. A gap that it could not close makes everything older than the gap unknown. */
  end(listed: number): { stretch: Stretch; fromMs: number } {
    if (this.ahead !== undefined) {
      this.kept = this.ahead;
      this.ahead = undefined;
    }
    const stretch = this.kept as Stretch;
    stretch.prune(this.startMs, listed);
    const { next } = stretch;
    return {
      stretch,
      fromMs: next === undefined ? this.startMs : next === '+' ? Number.POSITIVE_INFINITY : msOf(next) + 1,
    };
  }
}

/** Counts the events of the last hour. Each refresh reads what is new, and a bounded part of what it has not read yet. */
export class EventWindow {
  private readonly partitions: readonly PartitionWindow[] = Array.from(
    { length: this.redis.partitions },
    (_, partition) => new PartitionWindow(this.redis, partitionCode(partition)),
  );

  constructor(
    private readonly redis: RedisService,
    private readonly listed: number,
    private readonly examinedARefresh = EXAMINED_A_REFRESH,
  ) {}

  /** @param nowMs the time of Redis. Refreshes must not overlap. @throws StoreUnavailable */
  async refresh(nowMs: number): Promise<EventSummary> {
    const startMs = nowMs - WINDOW_S * 1000;
    for (const partition of this.partitions) {
      partition.begin(startMs);
    }
    let left = this.examinedARefresh;
    let unread = this.partitions;
    do {
      // The first round reads every partition: of one that was never read, nothing is known.
      for (const partition of unread) {
        if (left > 0 || unread === this.partitions) {
          left -= await partition.readNext(this.listed);
        }
      }
      unread = unread.filter(({ isComplete }) => !isComplete);
    } while (unread.length > 0 && left > 0);
    return this.summary(nowMs, startMs);
  }

  private async summary(nowMs: number, startMs: number): Promise<EventSummary> {
    const parts = this.partitions.map((partition) => partition.end(this.listed));
    const fromMs = Math.min(nowMs, Math.max(startMs, ...parts.map((part) => part.fromMs)));
    const firstSlot = fromMs === startMs ? Math.floor(fromMs / SLOT_MS) : Math.ceil(fromMs / SLOT_MS);
    const byCategory = new Map<EventCategory, number>();
    const denialsByReason = new Map<string, number>();
    let total = 0;
    for (const { slot, type, reason, events } of parts.flatMap(({ stretch }) => [
      ...stretch.counts.values(),
    ])) {
      if (slot >= firstSlot) {
        total += events;
        const category = categoryOf(type);
        byCategory.set(category, (byCategory.get(category) ?? 0) + events);
        if (reason !== '') {
          denialsByReason.set(reason, (denialsByReason.get(reason) ?? 0) + events);
        }
      }
    }
    const named = parts
      .flatMap(({ stretch }) => stretch.named)
      .filter(({ entryId }) => msOf(entryId) >= fromMs);
    return {
      windowS: fromMs === startMs ? WINDOW_S : Math.floor((nowMs - fromMs) / 1000),
      total,
      byCategory,
      denialsByReason,
      denials: await this.newest(named, 'reservation.denied'),
      expiries: await this.newest(named, 'reservation.expired'),
    };
  }

  private async newest(named: readonly NamedEvent[], kind: Kind): Promise<CyclesEvent[]> {
    const order = ({ code, entryId }: NamedEvent): string =>
      eventOrder(eventIdOf({ partition: code, entryId }));
    const newest = named
      .filter((event) => event.kind === kind)
      .sort((one, other) => (order(one) < order(other) ? 1 : -1))
      .slice(0, this.listed);
    const events: CyclesEvent[] = [];
    for (const { code, entryId } of newest) {
      const eventLog = eventLogKey(tagOf(code));
      const found = await this.redis.queries.call(
        'list_events',
        { eventLog, walked: eventLog },
        { direction: 'asc', start: entryId, stop: entryId, examine: 1, limit: 1, rest: [] },
      );
      // None if it was removed after its retention.
      events.push(...found.events.map(({ event }) => toEvent(code, entryId, event)));
    }
    return events;
  }
}
