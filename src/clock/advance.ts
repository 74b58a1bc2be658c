import { Injectable } from '@nestjs/common';
import { ExpiryService } from '../expiry/index.js';
import { BudgetRollovers } from '../governance/index.js';
import { RedisService, tagOfPartition, testClockKey } from '../redis/index.js';

/** Longest work of one request. */
const TIME_BUDGET_MS = 20_000;

/**
 * Takes the clock from one instant at which something is due to the next, and lets the sweeper and the job for idle budgets do at each what
 * they would do then. While an advance is under way the clock stands, so everything that happens at an instant has its time, whoever does it.
 * Any number of instances may do this at once: none of them leaves an instant before it has itself done what is due there.
 */
@Injectable()
export class Advance {
  private readonly tags: readonly string[] = Array.from({ length: this.redis.partitions }, (_, partition) =>
    tagOfPartition(partition),
  );

  constructor(
    private readonly redis: RedisService,
    private readonly expiry: ExpiryService,
    private readonly rollovers: BudgetRollovers,
  ) {}

  /** Ends when the clock has reached its target, or after 20 s. */
  async run(): Promise<void> {
    const deadline = performance.now() + TIME_BUDGET_MS;
    const goesOn = (): boolean => performance.now() <= deadline;
    let doneMs: number | undefined;
    while (goesOn()) {
      const reply = await this.redis.scripts.call(
        'step_advance',
        { testClock: testClockKey() },
        { doneMs: doneMs ?? '', rest: this.tags },
      );
      if (reply.status === 'ENDED') {
        return;
      }
      const due = reply.partitions.map(Number);
      const { cut } = await this.expiry.sweepNow(due, goesOn);
      for (const partition of due) {
        await this.rollovers.rollOverNow(partition, goesOn);
      }
      doneMs = cut ? undefined : reply.nowMs;
    }
  }
}
