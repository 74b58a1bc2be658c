import type { DrainReport } from './partition-drain.js';
import type { SweepPartition } from './sweep-partition.js';

/** How many of the last ticks that did something are reported. */
const TICKS_KEPT = 10;

export interface Tick extends DrainReport {
  /** Redis' time of the last beat before the tick. */
  readonly at_ms: number;
  readonly duration_ms: number;
}

/** What an instance reports about its sweep, with its announcement. */
export interface SweepReport {
  readonly partitions: readonly string[];
  readonly backlog: number;
  readonly oldest_due_for_ms: number;
  readonly quarantined: number;
  readonly awaiting_cleanup: number;
  readonly oldest_awaiting_for_ms: number;
  readonly last_success_age_ms: number;
  readonly ticks: number;
  readonly last_ticks: readonly Tick[];
}

/** Remembers the results of the last ticks, for readiness, metrics, and GET /ops/sweeper. */
export class SweepHistory {
  private readonly last: Tick[] = [];
  private ticks = 0;
  private successAt = performance.now();

  /** Ticks without work and without a failure are only counted. */
  add(tick: Tick, succeeded: boolean): void {
    this.ticks += 1;
    if (succeeded) {
      this.successAt = performance.now();
    }
    if (tick.judged > 0 || tick.failed > 0) {
      this.last.unshift({ ...tick, duration_ms: Math.round(tick.duration_ms) });
      this.last.splice(TICKS_KEPT);
    }
  }

  ageMs(): number {
    return Math.round(performance.now() - this.successAt);
  }

  report(held: readonly SweepPartition[]): SweepReport {
    return {
      partitions: held.map(({ code }) => code).sort(),
      ...totals(held),
      last_success_age_ms: this.ageMs(),
      ticks: this.ticks,
      last_ticks: this.last,
    };
  }
}

type Totals = Pick<
  SweepReport,
  'backlog' | 'oldest_due_for_ms' | 'quarantined' | 'awaiting_cleanup' | 'oldest_awaiting_for_ms'
>;

/** Totals over the partitions, as of when each was last read. */
export function totals(held: readonly SweepPartition[]): Totals {
  const now = performance.now();
  return {
    backlog: held.reduce((sum, { due }) => sum + due, 0),
    oldest_due_for_ms: Math.round(Math.max(0, ...held.map((partition) => partition.oldestDueForMs(now)))),
    quarantined: held.reduce((sum, { quarantined }) => sum + quarantined, 0),
    awaiting_cleanup: held.reduce((sum, { awaitingCleanup }) => sum + awaitingCleanup, 0),
    oldest_awaiting_for_ms: Math.round(
      Math.max(0, ...held.map((partition) => partition.oldestAwaitingForMs(now))),
    ),
  };
}
