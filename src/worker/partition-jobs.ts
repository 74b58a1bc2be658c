import { Injectable } from '@nestjs/common';
import { RedisService } from '../redis/index.js';
import { PartitionWalk, type Visitor } from './partition-walk.js';
import { type RegularJob, type Turn, Worker } from './worker.js';

/** A run may take this long: a small part of its interval, and thus of Redis' time. */
const BUDGET_MS = 500;

export interface PartitionJob<Place> extends Visitor<Place>, Omit<RegularJob, 'role' | 'run'> {
  /** How long a run may take. Default: half a second. */
  readonly budgetMs?: number;
  /** Called before each run. */
  readonly before?: () => Promise<void>;
}

/** One pass over all partitions, or as much of it as the time allows. @throws as PartitionWalk does */
export type PartitionRun = (budgetMs?: number, turn?: Turn) => Promise<void>;

/** Makes the regular jobs that look at all partitions. Constructors call it; the jobs begin with the application. */
@Injectable()
export class PartitionJobs {
  constructor(
    private readonly redis: RedisService,
    private readonly worker: Worker,
  ) {}

  /** @returns runs the job once, beside its turns */
  add<Place>(job: PartitionJob<Place>): PartitionRun {
    const walk = new PartitionWalk(job);
    const run: PartitionRun = async (budgetMs = job.budgetMs ?? BUDGET_MS, turn?) => {
      await job.before?.();
      await walk.run(this.redis.partitions, budgetMs, turn);
    };
    this.worker.addRegular({ ...job, role: 'janitor', run: (turn) => run(undefined, turn) });
    return run;
  }
}
