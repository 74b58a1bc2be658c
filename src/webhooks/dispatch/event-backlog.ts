import type { ScriptAnswer } from '../../redis/index.js';
import type { OutgoingEvent } from './delivery.js';

/** One entry of the event log. `event` is empty if the entry was deleted. */
export type LogEntry = ScriptAnswer<'dispatch_page', 'HELD'>['events'][number];

/** A delivery still to be queued. */
export interface WantedDelivery {
  readonly entryId: string;
  readonly subscriptionId: string;
  readonly tenant: string;
  readonly event: OutgoingEvent;
}

/** An event whose deliveries are not all queued. */
interface KeptEvent extends LogEntry {
  /** Its remaining deliveries. Undefined before its turn. */
  left?: WantedDelivery[];
}

/** Events of one tenant kept in memory. Further ones are read again from Redis once these are queued. */
const KEPT_OF_TENANT = 250;
/** Events of one partition kept in memory. Beyond that, only the first of each tenant is kept. */
const KEPT = 500;

interface TenantEvents {
  readonly tenant: string;
  /** Oldest first. */
  readonly kept: KeptEvent[];
  /** The entry after which the tenant's events were read but not kept. Undefined if all are kept. */
  unkeptAfter: string | undefined;
  /** Whether its first event waits for the ordered queues that it goes to. */
  isHeld: boolean;
}

/** What one run of `queue_deliveries` takes: deliveries to make, and events that are complete. */
export interface Batch {
  readonly complete: string[];
  readonly deliveries: WantedDelivery[];
}

/**
 * Events of a partition that were read but not queued yet. Tenants take turns, so a long backlog of one does not delay the others, and each
 * tenant's events stay in order. All are unacknowledged in Redis, so events dropped here are read again.
 */
export class EventBacklog {
  /** In turn order: the next tenant comes first. */
  private readonly tenants = new Map<string, TenantEvents>();
  private keptCount = 0;

  get isEmpty(): boolean {
    return this.tenants.size === 0;
  }

  get isFull(): boolean {
    return this.keptCount >= KEPT;
  }

  /** Whether a tenant has more events than are kept, or its queues are long. Such events wait only for that tenant's own. */
  get hasExcess(): boolean {
    return [...this.tenants.values()].some(waitsForItself);
  }

  /** When the oldest event was written, by Redis' clock, leaving out tenants whose events wait for their own. */
  get oldestMs(): number | undefined {
    const instants = [...this.tenants.values()]
      .filter((events) => !waitsForItself(events))
      .map(({ kept }) => Number.parseInt(kept[0]?.entryId ?? '', 10));
    return instants.length === 0 ? undefined : Math.min(...instants);
  }

  /** Adds events read from the log, in its order. */
  add(entries: readonly LogEntry[]): void {
    for (const entry of entries) {
      const tenant = tenantOf(entry);
      const events = this.tenants.get(tenant) ?? { tenant, kept: [], unkeptAfter: undefined, isHeld: false };
      this.tenants.set(tenant, events);
      this.keep(events, entry);
    }
  }

  /** Set when the next tenant has queued all events that were kept: the entry after which to read its events again. */
  get toRefill(): { readonly tenant: string; readonly after: string } | undefined {
    const [first] = this.tenants.values();
    return first?.kept.length === 0 && first.unkeptAfter !== undefined
      ? { tenant: first.tenant, after: first.unkeptAfter }
      : undefined;
  }

  /** @param entries of all tenants, read after the tenant's `after`; empty at the end of the log */
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
   * Takes out the next deliveries, tenant by tenant, as many as one script makes.
   * @param wanted  returns the deliveries of an event
   * @param isAhead whether the queue of a delivery is long. If those of all deliveries of an event are, it waits, and its tenant with it.
   */
  takeBatch(
    size: number,
    wanted: (entry: LogEntry) => WantedDelivery[],
    isAhead: (delivery: WantedDelivery) => boolean,
  ): Batch {
    const batch: Batch = { complete: [], deliveries: [] };
    for (const events of [...this.tenants.values()]) {
      this.takeFrom(events, batch, size, wanted, isAhead);
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

  /** Keeps the event, unless the tenant has enough or earlier events of it were not kept. */
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
    wanted: (entry: LogEntry) => WantedDelivery[],
    isAhead: (delivery: WantedDelivery) => boolean,
  ): void {
    const { kept } = events;
    while (kept.length > 0 && complete.length < KEPT_OF_TENANT) {
      const event = kept[0] as KeptEvent;
      event.left ??= wanted(event);
      events.isHeld = event.left.length > 0 && event.left.every(isAhead);
      if (events.isHeld) {
        return;
      }
      deliveries.push(...event.left.splice(0, size - deliveries.length));
      if (event.left.length > 0) {
        return;
      }
      kept.shift();
      this.keptCount -= 1;
      complete.push(event.entryId);
    }
  }
}

function waitsForItself({ unkeptAfter, isHeld }: TenantEvents): boolean {
  return unkeptAfter !== undefined || isHeld;
}

function tenantOf({ event }: LogEntry): string {
  return event.get('tn') ?? '';
}
