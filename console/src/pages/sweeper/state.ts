/** SweeperStateReport of src/expiry/sweeper-state.ts. */
export interface SweeperState {
  readonly now_ms: number;
  readonly instances: readonly Instance[];
  readonly unheld: readonly string[];
  readonly backlog: number;
  readonly lateness_ms: number;
  readonly quarantined: number;
  readonly awaiting_cleanup: number;
  readonly partitions: readonly Partition[];
  /** Partitions whose keys are damaged. */
  readonly unreadable: readonly string[];
}

export interface Partition {
  readonly partition: string;
  readonly held_by?: string;
  readonly lapses_in_ms?: number;
  readonly indexed: number;
  readonly due: number;
  readonly oldest_due_at_ms?: number;
  readonly next_deadline_at_ms?: number;
  readonly quarantined: number;
  readonly awaiting_cleanup: number;
}

export interface Instance {
  readonly instance: string;
  readonly lapses_in_ms: number;
  readonly holds: readonly string[];
  readonly last_success_age_ms?: number;
  readonly last_ticks?: readonly {
    readonly at_ms: number;
    readonly duration_ms: number;
    readonly judged: number;
    readonly expired: number;
    readonly failed: number;
    readonly cut: boolean;
  }[];
}

/** A hold is due for some milliseconds before it is swept; later than this it is late. */
const LATE_FROM_MS = 1000;

export const latenessOf = ({ oldest_due_at_ms: oldest }: Partition, nowMs: number): number =>
  oldest === undefined ? 0 : Math.max(0, nowMs - oldest);

export type Condition = 'quiet' | 'due' | 'late' | 'unheld';

export function conditionOf(partition: Partition, nowMs: number): Condition {
  if (partition.held_by === undefined) {
    return 'unheld';
  }
  if (partition.due === 0) {
    return 'quiet';
  }
  return latenessOf(partition, nowMs) > LATE_FROM_MS ? 'late' : 'due';
}
