import { Injectable } from '@nestjs/common';
import { RedisService } from '../redis/index.js';
import { PartitionWalk, type Turn, Worker } from '../worker/index.js';
import { SPIKE_METRICS } from './spikes.metrics.js';
import { type Instruments, MetricsRegistry } from '../telemetry/index.js';

/** A pass may take this long: a small part of its interval, and thus of Redis' time. */
const BUDGET_MS = 500;

/** Makes the regular jobs that look at all partitions. Call it while modules are initialised. */
@Injectable()
export class PartitionJobs {
  private readonly counts: Instruments<typeof SPIKE_METRICS>;

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
    private readonly worker: Worker,
  ) {
    this.counts = metrics.of(SPIKE_METRICS);
  }

  /**
   * @param visit works on a part of a partition, as a visitor of PartitionWalk does
   * @returns runs the job once: a pass over all partitions, or as much of it as the time allows
   */
  add<Place>(
    name: string,
    intervalMs: number,
    visit: (tag: string, place: Place | undefined) => Promise<Place | undefined>,
  ): (budgetMs: number, turn?: Turn) => Promise<void> {
    const walk = new PartitionWalk<Place>({
      undone: 'not checked',
      visit,
      cut: () => this.counts.cuts.inc(),
    });
    const run = (budgetMs: number, turn?: Turn): Promise<void> =>
      walk.run(this.redis.partitions, budgetMs, turn);
    this.worker.addRegular({ name, role: 'janitor', intervalMs, run: (turn) => run(BUDGET_MS, turn) });
    return run;
  }
}
