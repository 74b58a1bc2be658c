import type { Delivery } from './delivery.js';
import type { DispatchPartition } from './dispatch-partition.js';

/** How many deliveries of one lane are kept at hand; the others stay in Redis until these are done. */
export const LANE_PAGE = 100;

/**
 * The deliveries of one tenant's events to one subscription that wait for their first attempt, as far as this process knows them.
 * The list in Redis is the truth; this is the head of it, so that a delivery which was just queued need not be read back.
 */
export class Lane {
  /** The first of the list in Redis, without a gap. */
  ready: Delivery[] = [];
  /** Whether there may be more in Redis behind them. */
  more = true;
  /** How many there are in Redis, by the last that was heard. */
  left = 0;
  running = false;
  /** Whether its endpoint was slow to answer the last time. */
  slow = false;
  /** Whether something was queued while the list was being read. */
  private missed = false;

  constructor(
    readonly name: string,
    readonly subscriptionId: string,
    readonly tenant: string,
    public partition: DispatchPartition,
  ) {}

  /** A delivery that was just pushed to the end of the list. */
  add(delivery: Delivery): void {
    this.left += 1;
    if (this.more || this.ready.length >= LANE_PAGE) {
      this.more = true;
      this.missed = true;
    } else {
      this.ready.push(delivery);
    }
  }

  /** Forgets what is known: something may have gone wrong between here and Redis. */
  forget(): void {
    this.ready = [];
    this.more = true;
  }

  beginReading(): void {
    this.more = true;
    this.missed = false;
  }

  /** @param wasAll whether the list ended there when it was read */
  endReading(deliveries: Delivery[], wasAll: boolean): void {
    this.ready = deliveries;
    this.more = !wasAll || this.missed;
    this.left = Math.max(this.left, deliveries.length);
  }

  /** The first one is done. @param left how many are in Redis after it */
  shift(left: number): void {
    this.ready.shift();
    this.left = left;
    // Others may push to the list, too: a replay does.
    if (this.ready.length === 0 && left > 0) {
      this.more = true;
    }
  }
}
