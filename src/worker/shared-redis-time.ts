import { setTimeout as delay } from 'node:timers/promises';
import { ConcurrencyLimiter, StoreUnavailable, TimeShare } from '../redis/index.js';

/** A silent master must not stop the work on the others. */
const AT_ONCE_ON_CLUSTER = 4;

export interface SharedTimeTerms {
  /** Above 0; with 1, there are no pauses. */
  readonly share: number;
  readonly isCluster: boolean;
  /** Called for each pause. */
  readonly paused: () => void;
}

/** Limits background work at Redis: owners take turns, and all together use at most a share of Redis' time. */
export class SharedRedisTime {
  private readonly runs: ConcurrencyLimiter;
  private time: TimeShare;

  constructor(private readonly terms: SharedTimeTerms) {
    this.runs = new ConcurrencyLimiter({ total: terms.isCluster ? AT_ONCE_ON_CLUSTER : 1, perOwner: 1 });
    this.time = new TimeShare(terms.share);
  }

  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const claim = { owner };
    await this.runs.acquire(claim);
    try {
      for (let pauseMs = this.time.pauseMs(); pauseMs > 0; pauseMs = this.time.pauseMs()) {
        this.terms.paused();
        await delay(Math.ceil(pauseMs), undefined, { ref: false });
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
        // Redis was unreachable, not busy, so the wait is no debt.
        this.time = new TimeShare(this.terms.share);
      }
      throw error;
    } finally {
      this.runs.release(claim);
    }
  }
}
