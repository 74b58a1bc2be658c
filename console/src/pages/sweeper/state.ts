import type { Schema } from '../../api/operations';

export type SweeperState = Schema<'SweeperState'>;
export type Partition = Schema<'SweepPartition'>;
export type Instance = Schema<'SweepInstance'>;

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
