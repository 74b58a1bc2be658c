import { setTimeout as delay } from 'node:timers/promises';
import { ConcurrencyLimiter, StoreUnavailable, TimeShare } from '../redis/index.js';

/**
 * Runs at Redis at the same time, of different owners. With one, each owner would wait for the round trips of all before it. On a cluster, a
 * silent master must not stop the work on the others.
 */
const AT_ONCE = 4;

export interface SharedTimeTerms {
  /** Above 0; with 1, there are no pauses. */
  readonly share: number;
  /** Called for each pause, which all owners share. */
  readonly paused: () => void;
}

/** Limits background work at Redis: owners take turns, and all together use at most a share of Redis' time. */
export class SharedRedisTime {
  private readonly runs = new ConcurrencyLimiter({ total: AT_ONCE, perOwner: 1 });
  private time = new TimeShare(this.terms.share);
  private pause: Promise<void> | undefined;
  /** Ends the pause early. */
  private endOfPause = new AbortController();

  constructor(private readonly terms: SharedTimeTerms) {}

  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const claim = { owner };
    await this.runs.acquire(claim);
    try {
      while (this.time.pauseMs() > 0) {
        this.pause ??= this.takePause();
        await this.pause;
      }
      const { time } = this;
      time.begin();
      try {
        return await work();
      } finally {
        time.end();
      }
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        // Redis was unreachable, not busy, so the wait is no debt. A pause for it would hold up runs that owe nothing.
        this.time = new TimeShare(this.terms.share);
        this.endOfPause.abort();
        this.endOfPause = new AbortController();
      }
      throw error;
    } finally {
      this.runs.release(claim);
    }
  }

  private async takePause(): Promise<void> {
    this.terms.paused();
    const pauseMs = Math.ceil(this.time.pauseMs());
    await delay(pauseMs, undefined, { ref: false, signal: this.endOfPause.signal }).catch(() => undefined);
    this.pause = undefined;
  }
}
