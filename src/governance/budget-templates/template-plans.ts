import { Inject, Injectable } from '@nestjs/common';
import { type Decided, Reclaims } from '../../expiry/index.js';
import { budgetTemplateKey, Records, RedisService } from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { parseRecurrence, type Recurrence } from '../budgets/recurrence.js';
import { RecurrenceService } from '../budgets/recurrence.service.js';
import { GOVERNANCE_METRICS } from '../governance.metrics.js';
import { rulesOf } from './budget-template.js';

interface Unplanned {
  readonly status: 'UNPLANNED';
  readonly tenantId: string;
  readonly templateId: string;
}

export type Planned<Answer extends { readonly status: string }> = Exclude<Answer, { status: 'UNPLANNED' }>;

/** The boundaries to come of a template's rules, as its record stores them. */
export interface PlanTexts {
  readonly boundaries: string;
  readonly windowPlans: string;
}

/** Plans the boundaries that the periods and windows of a template's next budgets will have. */
@Injectable()
export class TemplatePlans {
  private readonly counts = this.metrics.of(GOVERNANCE_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly recurrences: RecurrenceService,
    private readonly reclaims: Reclaims,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * Runs a script until it decides, as Reclaims does. If the boundaries of a template are over, because nobody has planned others for days,
   * plans them first: once for each template that the request needs, of which the reserves of a set can have dozens.
   * @throws StoreUnavailable as Reclaims does, and what `run` throws; an error if a template's rule cannot be read
   */
  async untilDecided<Answer extends { readonly status: string }>(
    run: () => Promise<Answer>,
  ): Promise<Planned<Decided<Answer>>> {
    const first = await run();
    if (first.status !== 'RECLAIMED' && first.status !== 'UNPLANNED') {
      return first as Planned<Decided<Answer>>;
    }
    const planned = new Set<string>();
    for (let earlier: Answer | undefined = first; ; earlier = undefined) {
      const reply: Decided<Answer> | Unplanned = await this.reclaims.untilDecided(run, earlier);
      if (!isUnplanned(reply)) {
        return reply as Planned<Decided<Answer>>;
      }
      const { tenantId, templateId } = reply;
      if (planned.has(templateId)) {
        throw new Error(`the boundaries of the budget template ${templateId} of ${tenantId} are over`);
      }
      planned.add(templateId);
      await this.plan(this.records.tagOfTenant(tenantId), tenantId, templateId);
    }
  }

  async textsOf(period: Recurrence | undefined, windows: readonly Recurrence[]): Promise<PlanTexts> {
    const plans = await this.recurrences.plan(period === undefined ? windows : [period, ...windows]);
    const boundaries = period === undefined ? '' : String(plans.shift());
    return { boundaries, windowPlans: plans.map(String).join('|') };
  }

  /** Plans a template again, when a script says that it is time. If a rule cannot be read any more, it keeps what it has. */
  async plan(tag: string, tenantId: string, templateId: string): Promise<void> {
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
    this.counts.plans.inc({ outcome: status });
  }
}

function isUnplanned(reply: { readonly status: string }): reply is Unplanned {
  return reply.status === 'UNPLANNED';
}
