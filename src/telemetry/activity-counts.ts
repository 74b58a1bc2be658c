/** What the console shows per second. `late_<n>` counts expirations by the bucket of their lateness. */
export type Activity = 'reserves' | 'commits' | 'denials' | 'expirations' | `late_${number}`;

/**
 * What this instance did since it was last asked. Counting is a few nanoseconds; src/operators/activity-recorder.ts adds the counts of
 * all instances up in Redis.
 */
export class ActivityCounts {
  private counts = new Map<Activity, number>();

  add(activity: Activity, by = 1): void {
    this.counts.set(activity, (this.counts.get(activity) ?? 0) + by);
  }

  /** Returns the counts and starts over. */
  take(): ReadonlyMap<Activity, number> {
    const taken = this.counts;
    this.counts = new Map();
    return taken;
  }
}
