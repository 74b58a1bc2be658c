import { Injectable } from '@nestjs/common';
import { RedisService } from '../redis/index.js';
import { PartitionPass, type Turn, Worker } from '../worker/index.js';
import { SpikeMetrics } from './spike.metrics.js';

/** A pass may take this long: a small part of its interval, and thus of Redis' time. */
const BUDGET_MS = 500;

/** Makes the regular jobs that look at all partitions. Call it while modules are initialised. */
@Injectable()
export class PartitionJobs {
  constructor(
    private readonly redis: RedisService,
    private readonly metrics: SpikeMetrics,
    private readonly worker: Worker,
  ) {}

  /**
   * @param step works on a part of a partition, and returns whether there is more
   * @returns runs the job once: a pass over all partitions, or as much of it as the time allows
   */
  add(
    name: string,
    intervalMs: number,
    step: (tag: string) => Promise<boolean>,
  ): (budgetMs: number, turn?: Turn) => Promise<void> {
    const pass = new PartitionPass(step, () => this.metrics.cut());
    const run = async (budgetMs: number, turn?: Turn): Promise<void> => {
      await pass.walk(this.redis.partitions, budgetMs, turn);
    };
    this.worker.addRegular({ name, role: 'janitor', intervalMs, run: (turn) => run(BUDGET_MS, turn) });
    return run;
  }
}
