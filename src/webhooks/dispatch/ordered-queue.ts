import type { Delivery } from './delivery.js';
import type { DispatchPartition } from './dispatch-partition.js';

/** Deliveries of an ordered queue that are kept at hand; the others stay in Redis until these are done. */
const KEPT = 1000;
/** How many may have been accepted by their endpoint while that is still being written down: a crash repeats them. */
const UNSETTLED = 16;

/**
 * The deliveries of one tenant's events to one subscription that wait for their first attempt, as far as this process knows them.
 * The list in Redis is the truth; this is the head of it, so that a delivery which was just queued need not be read back.
 */
export class OrderedQueue {
  /** The first of those in Redis whose outcome is not known, without a gap. */
  ready: Delivery[] = [];
  /** Whether there may be more in Redis behind them. */
  more = true;
  /** How many there are in Redis, by the last that was heard. */
  left = 0;
  isRunning = false;
  /** Whether its endpoint was slow to answer the last time. */
  isSlow = false;
  /** Whether something was queued while the list was being read. */
  private missed = false;
  private readonly settling = new Set<Promise<void>>();
  private unwritten: { readonly error: unknown } | undefined;

  constructor(
    readonly name: string,
    readonly subscriptionId: string,
    readonly tenant: string,
    public partition: DispatchPartition,
  ) {}

  get isEmpty(): boolean {
    return this.ready.length === 0 && !this.more;
  }

  /**
   * A delivery that was just pushed to the end of the list.
   * @param hasRoom whether this process can keep it at hand
   */
  add(delivery: Delivery, hasRoom: boolean): void {
    this.left += 1;
    if (this.more || !hasRoom || this.ready.length >= KEPT) {
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

  /** The outcome of the first one is known and being written down. @param writing ends with how many are in Redis after it */
  shift(writing: Promise<number>): void {
    this.ready.shift();
    const settling: Promise<void> = writing
      .then(
        (left) => {
          this.left = left;
        },
        (error: unknown) => {
          this.unwritten = { error };
        },
      )
      .finally(() => this.settling.delete(settling));
    this.settling.add(settling);
  }

  /** Whether the next attempt may be made before the earlier ones are written down. */
  get mayGoOn(): boolean {
    return this.unwritten === undefined && this.settling.size < UNSETTLED;
  }

  /** Resolves when nothing is being written down. Rejects when something could not be, which is then in Redis as it was. */
  async settled(): Promise<void> {
    await Promise.all(this.settling);
    const { unwritten } = this;
    this.unwritten = undefined;
    // Others may push to the list, too: a replay does.
    this.more ||= this.ready.length === 0 && this.left > 0;
    if (unwritten !== undefined) {
      throw unwritten.error;
    }
  }
}
