import { Injectable, type OnModuleInit } from '@nestjs/common';
import {
  bornKey,
  creditIndexKey,
  creditsTurnedKey,
  periodIndexKey,
  periodPlansKey,
  RedisService,
  rolledKey,
  tagOfPartition,
  turnedKey,
} from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { type Job, PartitionWalk, type Turn, type TurnReport, Worker } from '../../worker/index.js';
import { PeriodPlans } from './period-plans.js';
import { GOVERNANCE_METRICS } from '../governance.metrics.js';

/** Longest time between two looks at all partitions, which find the boundaries that other instances have added. */
const LOOK_MS = 1000;
/** The time between two looks varies by this much, so that instances do not look in step. */
const JITTER_SHARE = 0.1;
/** Budgets a run of the script: about a millisecond of Redis' time. */
const BUDGETS_A_RUN = 20;
/** Partitions whose scripts are sent together. */
const AT_ONCE = 16;
/** Longest turn, and the pause after one that had to stop, which leaves Redis to requests. */
const TURN_BUDGET_MS = 250;
const PAUSE_MS = 5;
const SHORTEST_SLEEP_MS = 20;

/**
 * Rolls over idle budgets, so that their events come within a second of the boundary. Budgets in use need no job: the script that uses
 * one rolls it over. lua/governance/roll_over_budgets.lua decides by Redis' clock, so any number of instances may do this at once. The
 * process' clock only decides when to look.
 */
@Injectable()
export class BudgetRollovers implements OnModuleInit, Job {
  readonly name = 'budget_rollover';
  readonly role = 'janitor';
  readonly afterErrorMs = LOOK_MS;
  private readonly counts = this.metrics.of(GOVERNANCE_METRICS);
  /** When each partition is next known to have something due, by the monotonic clock. */
  private readonly dueFrom = new Map<number, number>();
  private nextLookAt = 0;
  /** Partitions take turns, so none with many boundaries at once holds up the others. */
  private readonly walk: PartitionWalk;
  /** Rollovers of this turn. */
  private rolled = 0;

  constructor(
    private readonly redis: RedisService,
    private readonly worker: Worker,
    private readonly plans: PeriodPlans,
    private readonly metrics: MetricsRegistry,
  ) {
    this.walk = new PartitionWalk({
      undone: 'not rolled over',
      atOnce: AT_ONCE,
      visit: async (tag, _, { partition }) => (await this.rollOver(tag, partition)).more,
    });
  }

  onModuleInit(): void {
    this.worker.add(this);
  }

  async runTurn(turn: Turn): Promise<TurnReport> {
    const deadline = performance.now() + TURN_BUDGET_MS;
    if (performance.now() >= this.nextLookAt) {
      for (let partition = 0; partition < this.redis.partitions; partition += 1) {
        this.dueFrom.set(partition, 0);
      }
      this.nextLookAt = performance.now() + LOOK_MS * (1 - Math.random() * JITTER_SHARE);
    }
    this.rolled = 0;
    for (;;) {
      if (this.walk.isDone && !this.walk.begin(this.due())) {
        break;
      }
      const isOver = !turn.goesOn() || performance.now() > deadline;
      if (isOver || (await this.redis.inOneWrite(() => this.walk.step()))) {
        return { sleepMs: PAUSE_MS, ...(this.rolled > 0 && { outcome: 'success' }) };
      }
    }
    const wakeAt = Math.min(this.nextLookAt, ...this.dueFrom.values());
    return {
      sleepMs: Math.max(SHORTEST_SLEEP_MS, Math.ceil(wakeAt - performance.now())),
      ...(this.rolled > 0 && { outcome: 'success' }),
    };
  }

  /** Rolls over what is due in this partition now, beside turns. */
  async rollOverNow(partition: number, goesOn: () => boolean): Promise<void> {
    const tag = tagOfPartition(partition);
    while (goesOn() && (await this.rollOver(tag, partition)).found) {
      // A budget whose boundaries have just been planned may have one at this instant.
    }
  }

  private due(): number[] {
    const now = performance.now();
    return [...this.dueFrom].flatMap(([partition, from]) => (from <= now ? [partition] : []));
  }

  /** @returns whether there was something to do, and whether there is more */
  private async rollOver(tag: string, partition: number): Promise<{ found: boolean; more: boolean }> {
    // If the call fails, the next look at all partitions tries it again, and the others are not held up until then.
    this.dueFrom.set(partition, Number.POSITIVE_INFINITY);
    const { nowMs, nextMs, rolled, turned, born, creditsTurned, lateMs, more, damaged, unplanned } =
      await this.redis.scripts.call(
        'roll_over_budgets',
        {
          periodIndex: periodIndexKey(tag),
          rolled: rolledKey(tag),
          periodPlans: periodPlansKey(tag),
          turned: turnedKey(tag),
          born: bornKey(tag),
          creditIndex: creditIndexKey(tag),
          creditsTurned: creditsTurnedKey(tag),
        },
        { limit: BUDGETS_A_RUN },
      );
    if (nextMs !== undefined) {
      this.dueFrom.set(partition, performance.now() + nextMs - nowMs);
    }
    this.rolled += rolled;
    this.counts.rollovers.inc(rolled);
    this.counts.windowTurns.inc(turned);
    this.counts.births.inc(born);
    this.counts.creditMoments.inc(creditsTurned);
    if (lateMs !== undefined) {
      this.counts.creditLateness.observe(lateMs / 1000);
    }
    for (const budget of damaged) {
      this.plans.reportDamaged(budget);
    }
    for (const budget of unplanned) {
      await this.plans.plan(tag, budget);
      this.dueFrom.set(partition, 0);
    }
    return {
      found: rolled + creditsTurned + unplanned.length > 0,
      more: more || unplanned.length === BUDGETS_A_RUN,
    };
  }
}
