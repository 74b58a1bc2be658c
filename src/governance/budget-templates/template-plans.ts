import { Inject, Injectable } from '@nestjs/common';
import { budgetTemplateKey, Records, RedisService } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { parseRecurrence, type Recurrence } from '../budgets/recurrence.js';
import { RecurrenceService } from '../budgets/recurrence.service.js';
import { rulesOf } from './budget-template.js';

/** The boundaries to come of a template's rules, as its record stores them. */
export interface PlanTexts {
  readonly boundaries: string;
  readonly windowPlans: string;
}

/** Plans the boundaries that the periods and windows of a template's next budgets will have. */
@Injectable()
export class TemplatePlans {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly recurrences: RecurrenceService,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  async textsOf(period: Recurrence | undefined, windows: readonly Recurrence[]): Promise<PlanTexts> {
    const plans = await this.recurrences.plan(period === undefined ? windows : [period, ...windows]);
    const boundaries = period === undefined ? '' : String(plans.shift());
    return { boundaries, windowPlans: plans.map(String).join('|') };
  }

  /** Plans a template again, when a script says that it is time. If a rule cannot be read any more, it keeps what it has. */
  async plan(tag: string, tenantId: string, templateId: string): Promise<'PLANNED' | 'SKIP'> {
    const template = budgetTemplateKey(tag, tenantId, templateId);
    const fields = await this.records.read(template);
    const { recurrence, windows } = rulesOf(fields ?? new Map());
    const period = parseRecurrence(recurrence);
    const rules = windows.flatMap((rule) => parseRecurrence(rule) ?? []);
    const isWhole = (recurrence === '' || period !== undefined) && rules.length === windows.length;
    if (!isWhole) {
      this.logger.warn({ tenantId, templateId }, 'the boundaries of a budget template could not be planned');
    }
    const texts = isWhole ? await this.textsOf(period, rules) : { boundaries: '', windowPlans: '' };
    const { status } = await this.redis.scripts.call(
      'plan_budget_template',
      { template },
      { tenantId, templateId, revision: fields?.get('revision') ?? '', ...texts },
    );
    return status;
  }
}
