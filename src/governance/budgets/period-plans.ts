import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { budgetKey, RedisService, type ScriptReply } from '../../redis/index.js';
import { type LabelledCounter, LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { boundariesAfter, parseRecurrence } from './recurrence.js';

/** Gives budgets with a recurrence the boundaries of their next periods, when a script says that they need them. */
@Injectable()
export class PeriodPlans {
  private readonly planned: LabelledCounter;
  /** Many budgets have the same rule. */
  private readonly plans = new LRUCache<string, number[]>({ max: 500 });

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.planned = metrics.counter({
      name: 'holdfast_budget_plans_total',
      help: 'Budgets whose next boundaries were computed from their recurrence, by outcome: PLANNED or SKIP.',
      labels: ['outcome'],
    });
  }

  /** A rule that cannot be read gets no boundaries, and its budget or window leaves the plans. */
  async plan(
    tag: string,
    {
      scope,
      unit,
      window,
      recurrence = '',
      ends = '',
    }: ScriptReply<'roll_over_budgets'>['unplanned'][number],
  ): Promise<void> {
    const cached = `${recurrence} ${ends}`;
    const rule = parseRecurrence(recurrence);
    const boundaries =
      this.plans.get(cached) ?? (rule === undefined ? [] : boundariesAfter(rule, Number(ends)));
    this.plans.set(cached, boundaries);
    const key = { budget: budgetKey(tag, unit, scope) };
    const request = { scope, unit, recurrence, rest: boundaries.map(String) };
    const { status } = await (window === undefined
      ? this.redis.scripts.call('plan_periods', key, request)
      : this.redis.scripts.call('plan_window', key, { ...request, window }));
    this.planned.inc({ outcome: status });
    if (status === 'SKIP') {
      this.logger.warn(
        { scope, unit, window, recurrence },
        'the boundaries of a budget could not be planned',
      );
    }
  }
}
