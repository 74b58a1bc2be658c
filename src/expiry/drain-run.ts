import type { SweepPartition } from './sweep-partition.js';

/**
 * Candidates of one call, and of all calls in flight: Redis works on one call while the outcomes of another are read. Redis runs calls that
 * arrive together without a pause, so this bounds how long the sweep can block other clients: about 2 ms at 50 µs each.
 */
export const CALL_SIZE = 20;
const MOST_UNDER_WAY = 2 * CALL_SIZE;
/** Partitions drained concurrently. If each has few due holds, serial round trips would add up to lateness. */
export const SIDE_BY_SIDE = 4;
/**
 * A sweep is late if a hold is found this long after its deadline. Beside requests that saturate the service, a call waits for 10 ms and
 * more, so that one call at a time and a pause as long as its wait would leave most of what becomes due. A late sweep does not pause.
 */
export const LATE_MS = 250;
/**
 * Calls of a late sweep in flight, of one partition or several: so many for each LATE_MS, so that it takes no more of Redis than it needs.
 */
export const LATE_CALLS = 8;
/**
 * At most, from 1.5 s on: about what a page of the default size holds. Until then, lateness that grows takes a growing share from requests.
 * Each call is a command of its own, of less than 1 ms at 25 to 35 µs for a hold among many. If Redis reads all of them at once, other
 * clients wait for some 30 ms.
 */
export const MOST_LATE_CALLS = 48;
export const LATE_SIDE_BY_SIDE = 16;

/** The result of one pass over some partitions. */
export interface DrainReport {
  judged: number;
  expired: number;
  /** Partitions and candidates that could not be judged. */
  failed: number;
  /** True if the time budget ended the pass before everything due was judged. */
  cut: boolean;
}

export interface Pass {
  /** Token of the lease. Empty for none, which is harmless, because expire_page.lua decides by the record. */
  readonly token: string;
  /** Called before every batch. False if the pass must end: its time is up, or it is no longer wanted. */
  goesOn(): boolean;
  /** Called when another instance holds the partition. */
  lost(partition: SweepPartition): void;
}

/** Bounds the candidates in flight. Strictly first come, first served, so a large request is not overtaken by small ones. */
class Calls {
  private readonly waiting: { readonly count: number; readonly go: () => void }[] = [];
  private underWay = 0;

  constructor(private readonly most: () => number) {}

  async take(count: number): Promise<void> {
    if (this.waiting.length > 0 || this.underWay + count > this.most()) {
      await new Promise<void>((go) => this.waiting.push({ count, go }));
    } else {
      this.underWay += count;
    }
  }

  give(count: number): void {
    this.underWay -= count;
    for (
      let next = this.waiting[0];
      next !== undefined && this.underWay + next.count <= this.most();
      next = this.waiting[0]
    ) {
      this.waiting.shift();
      this.underWay += next.count;
      next.go();
    }
  }
}

/** The candidates of one page that no batch has taken yet. */
export class Page {
  /** Set if nothing of it may be judged any more. */
  isCut = false;
  private taken = 0;

  constructor(
    private readonly ids: readonly string[],
    readonly readAt: number,
  ) {}

  get left(): number {
    return this.ids.length - this.taken;
  }

  take(count: number): readonly string[] {
    const batch = this.ids.slice(this.taken, this.taken + count);
    this.taken += batch.length;
    return batch;
  }
}

/** The state of one pass. */
export class Run {
  /** Whether it was late at any time. */
  wasLate = false;
  readonly calls = new Calls(() => Math.max(MOST_UNDER_WAY, this.lateCalls * CALL_SIZE));
  readonly report: DrainReport = { judged: 0, expired: 0, failed: 0, cut: false };
  owedMs = 0;
  /** Lowest time per candidate among the calls of this pass. */
  fastestMs = Number.POSITIVE_INFINITY;
  private readonly stuck = new Map<string, number>();

  constructor(
    readonly pass: Pass,
    /** Those that still have something due, as far as is known. */
    readonly open: Set<SweepPartition>,
    /** The events of one pass share a trace. */
    readonly trace: string,
  ) {}

  get isLate(): boolean {
    return this.lateCalls > 0;
  }

  /** How many calls may be in flight because the latest partition is late. 0 as soon as none is. */
  get lateCalls(): number {
    const now = performance.now();
    let latestMs = 0;
    for (const partition of this.open) {
      latestMs = Math.max(latestMs, partition.overdueMs(now));
    }
    return latestMs > LATE_MS ? Math.min(MOST_LATE_CALLS, LATE_CALLS * Math.floor(latestMs / LATE_MS)) : 0;
  }

  stays(code: string): void {
    this.stuck.set(code, (this.stuck.get(code) ?? 0) + 1);
  }

  stayed({ code }: SweepPartition): number {
    return this.stuck.get(code) ?? 0;
  }
}
