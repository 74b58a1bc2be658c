/** A request for a slot, by an owner such as a tenant or a subscription. */
export interface Claim {
  readonly owner: string;
  /** Whether the work is expected to occupy its slot for long. */
  readonly slow?: boolean;
}

export interface ConcurrencyLimits {
  /** Slots of all owners together. */
  readonly total: number;
  readonly perOwner: number;
  /** Claims of one owner that may wait. Unlimited by default. */
  readonly waitingPerOwner?: number;
}

export interface WaitOptions {
  /** The longest wait, unlimited by default. With 0, a claim never waits. */
  readonly waitMs?: number;
  /** Ends the wait, for example when the client has disconnected. */
  readonly signal?: AbortSignal | undefined;
}

/** `full`: too many claims of the owner are waiting. `late`: `waitMs` is over. `gone`: the signal was aborted. */
export type Denial = 'full' | 'late' | 'gone' | 'closed';

interface Waiter {
  readonly claim: Claim;
  readonly since: number;
  readonly end: (result: 'acquired' | Denial) => void;
}

/**
 * Limits concurrent work, in total and per owner. Free slots go to waiting owners in turn, so a long queue of one owner does not delay
 * the others. Slow claims get at most half of the slots, so the other half is always left for the rest.
 */
export class ConcurrencyLimiter {
  private taken = 0;
  private takenBySlow = 0;
  private readonly byOwner = new Map<string, number>();
  /** Waiting claims by owner. The owner whose turn is next comes first. */
  private readonly queues = new Map<string, Waiter[]>();
  private closed = false;

  constructor(private readonly limits: ConcurrencyLimits) {}

  get isClosed(): boolean {
    return this.closed;
  }

  get inUse(): number {
    return this.taken;
  }

  get waiting(): number {
    return [...this.queues.values()].reduce((sum, queue) => sum + queue.length, 0);
  }

  /** The longest current wait in ms, of claims that are not slow and whose owners are below their own limit. */
  longestWaitMs(now: number): number {
    let longest = 0;
    for (const [owner, queue] of this.queues) {
      const first =
        this.countOf(owner) < this.limits.perOwner
          ? queue.find(({ claim }) => claim.slow !== true)
          : undefined;
      longest = first === undefined ? longest : Math.max(longest, now - first.since);
    }
    return longest;
  }

  /** Takes a slot if one is free. It must be given back. */
  tryAcquire(claim: Claim): boolean {
    if (this.closed || !this.fits(claim)) {
      return false;
    }
    this.taken += 1;
    this.takenBySlow += claim.slow === true ? 1 : 0;
    this.byOwner.set(claim.owner, this.countOf(claim.owner) + 1);
    return true;
  }

  /** Waits for a slot. If the result is `acquired`, it must be given back. */
  async acquire(claim: Claim, { waitMs, signal }: WaitOptions = {}): Promise<'acquired' | Denial> {
    if (signal?.aborted === true) {
      return 'gone';
    }
    if (this.tryAcquire(claim)) {
      return 'acquired';
    }
    if (this.closed) {
      return 'closed';
    }
    if (
      waitMs === 0 ||
      (this.queues.get(claim.owner)?.length ?? 0) >= (this.limits.waitingPerOwner ?? Infinity)
    ) {
      return 'full';
    }
    return this.wait(claim, waitMs, signal);
  }

  release({ owner, slow }: Claim): void {
    this.taken -= 1;
    this.takenBySlow -= slow === true ? 1 : 0;
    const left = this.countOf(owner) - 1;
    if (left > 0) {
      this.byOwner.set(owner, left);
    } else {
      this.byOwner.delete(owner);
    }
    // One slot can let two in: one that its owner's limit held up, and one that the limit of slow claims did.
    while (this.admitNext()) {
      // The next one in turn.
    }
  }

  /** Denies all waiting and future claims. */
  close(): void {
    this.closed = true;
    for (const { end } of [...this.queues.values()].flat()) {
      end('closed');
    }
  }

  private wait(
    claim: Claim,
    waitMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<'acquired' | Denial> {
    return new Promise((resolve) => {
      const leave = (): void => waiter.end('gone');
      const timer = waitMs === undefined ? undefined : setTimeout(() => waiter.end('late'), waitMs);
      const waiter: Waiter = {
        claim,
        since: performance.now(),
        end: (result) => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', leave);
          this.remove(waiter);
          resolve(result);
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      const queue = this.queues.get(claim.owner);
      if (queue === undefined) {
        this.queues.set(claim.owner, [waiter]);
      } else {
        queue.push(waiter);
      }
    });
  }

  private remove(waiter: Waiter): void {
    const { owner } = waiter.claim;
    const left = this.queues.get(owner)?.filter((other) => other !== waiter) ?? [];
    if (left.length > 0) {
      this.queues.set(owner, left);
    } else {
      this.queues.delete(owner);
    }
  }

  private admitNext(): boolean {
    for (const queue of this.queues.values()) {
      const next = queue.find(({ claim }) => this.tryAcquire(claim));
      if (next !== undefined) {
        next.end('acquired');
        this.moveToEnd(next.claim.owner);
        return true;
      }
    }
    return false;
  }

  private moveToEnd(owner: string): void {
    const queue = this.queues.get(owner);
    if (queue !== undefined) {
      this.queues.delete(owner);
      this.queues.set(owner, queue);
    }
  }

  private fits({ owner, slow }: Claim): boolean {
    const { total, perOwner } = this.limits;
    return (
      this.taken < total && (slow !== true || this.takenBySlow < total / 2) && this.countOf(owner) < perOwner
    );
  }

  private countOf(owner: string): number {
    return this.byOwner.get(owner) ?? 0;
  }
}
