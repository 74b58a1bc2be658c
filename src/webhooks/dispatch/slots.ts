/** What a slot is asked for: one endpoint, which may have been slow to answer the last time. */
export interface SlotWish {
  readonly subscriptionId: string;
  readonly slow: boolean;
}

export interface SlotLimits {
  /** Attempts at the same time, in all. */
  readonly total: number;
  /** Of one subscription. */
  readonly perSubscription: number;
}

interface Waiting extends SlotWish {
  readonly since: number;
  readonly go: (got: boolean) => void;
}

/**
 * How many attempts this process makes at the same time. An endpoint that hangs keeps a slot until its time is over, so none gets
 * more than its own bound, and those that were slow the last time share half of the slots: however many of them there are, the others
 * find the other half.
 */
export class Slots {
  private taken = 0;
  private takenBySlow = 0;
  private readonly bySubscription = new Map<string, number>();
  private readonly waiting: Waiting[] = [];
  private closed = false;

  constructor(private readonly limits: SlotLimits) {}

  get isClosed(): boolean {
    return this.closed;
  }

  get inUse(): number {
    return this.taken;
  }

  /** How long the first in the queue has waited although its own endpoint is within its bound, in ms. */
  longestWaitMs(now: number): number {
    const first = this.waiting.find(({ subscriptionId, slow }) => !slow && this.countOf(subscriptionId) < this.limits.perSubscription);
    return first === undefined ? 0 : now - first.since;
  }

  /** @returns whether there was one; it must be given back. */
  tryTake(wish: SlotWish): boolean {
    if (this.closed || !this.fits(wish)) {
      return false;
    }
    this.taken += 1;
    this.takenBySlow += wish.slow ? 1 : 0;
    this.bySubscription.set(wish.subscriptionId, this.countOf(wish.subscriptionId) + 1);
    return true;
  }

  /** Waits for one, first come first served among those that fit. @returns false when there will be none any more. */
  take(wish: SlotWish): Promise<boolean> {
    if (this.closed || this.tryTake(wish)) {
      return Promise.resolve(!this.closed);
    }
    return new Promise((go) => this.waiting.push({ ...wish, since: performance.now(), go }));
  }

  giveBack({ subscriptionId, slow }: SlotWish): void {
    this.taken -= 1;
    this.takenBySlow -= slow ? 1 : 0;
    const left = this.countOf(subscriptionId) - 1;
    if (left > 0) {
      this.bySubscription.set(subscriptionId, left);
    } else {
      this.bySubscription.delete(subscriptionId);
    }
    const next = this.waiting.findIndex((wish) => this.fits(wish));
    if (next >= 0) {
      const [wish] = this.waiting.splice(next, 1) as [Waiting];
      wish.go(this.tryTake(wish));
    }
  }

  /** Sends all who wait away; nobody gets a slot any more. */
  close(): void {
    this.closed = true;
    for (const { go } of this.waiting.splice(0)) {
      go(false);
    }
  }

  private fits({ subscriptionId, slow }: SlotWish): boolean {
    return (
      this.taken < this.limits.total &&
      (!slow || this.takenBySlow < this.limits.total / 2) &&
      this.countOf(subscriptionId) < this.limits.perSubscription
    );
  }

  private countOf(subscriptionId: string): number {
    return this.bySubscription.get(subscriptionId) ?? 0;
  }
}
