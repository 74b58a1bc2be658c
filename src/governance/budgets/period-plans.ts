import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { budgetKey, RedisService, type ScriptReply } from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { GOVERNANCE_METRICS } from '../governance.metrics.js';
import { TemplatePlans } from '../budget-templates/template-plans.js';
import { boundariesAfter, parseRecurrence } from './recurrence.js';

/** Stands for the scope where a template is to be planned; the tenant and its id follow. See lua/governance/lib/template_index.lua. */
const TEMPLATE = 'template';

type Found = ScriptReply<'roll_over_budgets'>;

/** Gives budgets with a recurrence the boundaries of their next periods and windows, when a script says that they need them. */
@Injectable()
export class PeriodPlans {
  private readonly counts = this.metrics.of(GOVERNANCE_METRICS);
  /** Many budgets have the same rule. */
  private readonly plans = new LRUCache<string, number[]>({ max: 500 });

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly templates: TemplatePlans,
  ) {}

  /** A rule that cannot be read gets no boundaries, and its budget or window leaves the plans. */
  async plan(
    tag: string,
    { scope, unit, window, recurrence = '', ends = '' }: Found['unplanned'][number],
  ): Promise<void> {
    if (scope === TEMPLATE) {
      await this.templates.plan(tag, unit, window ?? '');
      return;
    }
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
    this.counts.plans.inc({ outcome: status });
    if (status === 'SKIP') {
      this.logger.warn(
        { scope, unit, window, recurrence },
        'the boundaries of a budget or of one of its windows could not be planned',
      );
    }
  }

  reportDamaged(budget: Found['damaged'][number]): void {
    this.counts.damagedBoundaries.inc();
    this.logger.error(
      budget,
      'a budget cannot pass the end of a period or window, because its record is damaged',
    );
  }
}
