import type { ScriptAnswer } from '../../redis/index.js';
import type { DispatchTarget } from '../subscriptions/dispatch-target.js';

/** One event of the log as it was read; `event` is empty when the entry was deleted. */
export type LogEntry = ScriptAnswer<'dispatch_page', 'HELD'>['events'][number];

/** A delivery that is still to be queued. */
export interface WantedDelivery {
  readonly entryId: string;
  readonly tenant: string;
  /** `trace` as the log holds it: trace id and flags, or empty. */
  readonly event: { readonly type: string; readonly trace: string };
  readonly target: DispatchTarget;
}

/** Events of one tenant that are kept at hand. A tenant with more is read again from Redis when these are queued. */
const KEPT_OF_TENANT = 250;
/** Events that are kept at hand in one partition; beyond that each tenant keeps its first only. */
const KEPT = 500;

interface TenantEvents {
  readonly tenant: string;
  /** Oldest first. */
  readonly kept: LogEntry[];
  /** What is left of the deliveries of the first one, when a batch ended in the middle of them. */
  rest: readonly WantedDelivery[] | undefined;
  /** Behind which entry the tenant's events were read and are not kept; undefined when all are. */
  unkeptAfter: string | undefined;
}

/** What one run of `queue_deliveries` makes: deliveries, and the events that need no more of them. */
export interface Batch {
  readonly complete: string[];
  readonly deliveries: WantedDelivery[];
}

/**
 * The events of a partition that were read and are not queued yet. Tenants take turns, so that one with a long backlog delays nobody else,
 * and each tenant's events stay in order. All of them are unacknowledged in Redis, so what is forgotten here is read again.
 */
export class EventBacklog {
  /** The tenant whose turn is next stands first. */
  private readonly tenants = new Map<string, TenantEvents>();
  private keptCount = 0;

  get isEmpty(): boolean {
    return this.tenants.size === 0;
  }

  get isFull(): boolean {
    return this.keptCount >= KEPT;
  }

  /** Whether some tenant has more events than are kept. What these wait for is that tenant's own doing. */
  get hasExcess(): boolean {
    return [...this.tenants.values()].some(({ unkeptAfter }) => unkeptAfter !== undefined);
  }

  /** When the oldest event was written that does not wait behind others of its tenant beyond the bound; by Redis' clock. */
  get oldestMs(): number | undefined {
    const instants = [...this.tenants.values()]
      .filter(({ unkeptAfter }) => unkeptAfter === undefined)
      .map(({ kept }) => Number.parseInt(kept[0]?.entryId ?? '', 10));
    return instants.length === 0 ? undefined : Math.min(...instants);
  }

  /** Events that were read from the log, in its order. */
  add(entries: readonly LogEntry[]): void {
    for (const entry of entries) {
      const tenant = tenantOf(entry);
      const events = this.tenants.get(tenant) ?? {
        tenant,
        kept: [],
        rest: undefined,
        unkeptAfter: undefined,
      };
      this.tenants.set(tenant, events);
      this.keep(events, entry);
    }
  }

  /** Set when the tenant whose turn it is has queued all that was kept: behind which entry to read its events again. */
  get toRefill(): { readonly tenant: string; readonly after: string } | undefined {
    const [first] = this.tenants.values();
    return first?.kept.length === 0 && first.unkeptAfter !== undefined
      ? { tenant: first.tenant, after: first.unkeptAfter }
      : undefined;
  }

  /** @param entries of all tenants, read again behind the tenant's `after`; none when there is nothing any more */
  refill(tenant: string, entries: readonly LogEntry[]): void {
    const known = this.tenants.get(tenant);
    if (known === undefined) {
      return;
    }
    known.unkeptAfter = undefined;
    this.add(entries.filter((entry) => tenantOf(entry) === tenant));
    known.unkeptAfter ??= entries.at(-1)?.entryId;
    this.endTurn(known);
  }

  /**
   * Takes the next deliveries out, tenant by tenant, until there are as many as one script makes.
   * @param wanted the deliveries of an event
   */
  takeBatch(size: number, wanted: (entry: LogEntry) => readonly WantedDelivery[]): Batch {
    const batch: Batch = { complete: [], deliveries: [] };
    for (const events of [...this.tenants.values()]) {
      this.takeFrom(events, batch, size, wanted);
      this.endTurn(events);
      if (batch.deliveries.length >= size || batch.complete.length >= KEPT_OF_TENANT) {
        break;
      }
    }
    return batch;
  }

  private endTurn(events: TenantEvents): void {
    this.tenants.delete(events.tenant);
    if (events.kept.length > 0 || events.unkeptAfter !== undefined) {
      this.tenants.set(events.tenant, events);
    }
  }

  /** Unless there are enough, or earlier ones were not kept. */
  private keep(events: TenantEvents, entry: LogEntry): void {
    if (events.unkeptAfter !== undefined) {
      return;
    }
    if (events.kept.length < KEPT_OF_TENANT && (!this.isFull || events.kept.length === 0)) {
      events.kept.push(entry);
      this.keptCount += 1;
    } else {
      events.unkeptAfter = events.kept.at(-1)?.entryId;
    }
  }

  private takeFrom(
    events: TenantEvents,
    { complete, deliveries }: Batch,
    size: number,
    wanted: (entry: LogEntry) => readonly WantedDelivery[],
  ): void {
    while (events.kept.length > 0 && complete.length < KEPT_OF_TENANT) {
      const entry = events.kept[0] as LogEntry;
      const left = events.rest ?? wanted(entry);
      const room = size - deliveries.length;
      deliveries.push(...left.slice(0, room));
      if (left.length > room) {
        events.rest = left.slice(room);
        return;
      }
      events.rest = undefined;
      events.kept.shift();
      this.keptCount -= 1;
      complete.push(entry.entryId);
    }
  }
}

function tenantOf({ event }: LogEntry): string {
  return event.get('tn') ?? '';
}
