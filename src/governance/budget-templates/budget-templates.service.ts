import { Injectable } from '@nestjs/common';
import { invalidField, randomBase62, refusalIn, type Refused, tenantClosed } from '../../ledger/index.js';
import {
  budgetTemplateIndexKey,
  budgetTemplateKey,
  Records,
  RedisService,
  tenantKey,
} from '../../redis/index.js';
import {
  fieldOf,
  matchesSearch,
  type Origin,
  type Page,
  RecordSelection,
  sortOrderOf,
} from '../../wire/index.js';
import { requireUnit } from '../budgets/budget.js';
import { storedFields } from '../budgets/budgets.service.js';
import { recurrenceOf } from '../budgets/recurrence.dto.js';
import { recurrenceText } from '../budgets/recurrence.js';
import { windowRules } from '../budgets/windows.service.js';
import { type BudgetTemplate, creditsText, parsePattern, templateOf } from './budget-template.js';
import type { BudgetTemplateDto, BudgetTemplateListQueryDto } from './budget-template.dto.js';
import { TemplatePlans } from './template-plans.js';

/** What is stored, after a change or when it is read. */
export interface StoredTemplate {
  readonly template: BudgetTemplate;
  readonly isNew: boolean;
  /** Of what the template sets, as the budgets that it makes record it. */
  readonly revision: string;
}

/** Templates that make a budget when the first request comes to a scope without one. */
@Injectable()
export class BudgetTemplatesService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly plans: TemplatePlans,
  ) {}

  /**
   * Creates a template, or replaces all that it sets. Its pattern and unit cannot change.
   * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH, TENANT_NOT_FOUND, TENANT_CLOSED
   */
  async set(templateId: string, request: BudgetTemplateDto, origin: Origin): Promise<StoredTemplate> {
    requireTemplateId(templateId);
    const { tenant_id: tenantId, unit, allocated, overdraft_limit: overdraftLimit, windows = [] } = request;
    const pattern = parsePattern(request.scope_pattern, tenantId);
    requireUnit(unit, 'allocated', allocated);
    requireUnit(unit, 'overdraft_limit', overdraftLimit);
    if (request.period_ms !== undefined && request.recurrence !== undefined) {
      throw invalidField('period_ms', 'a template has either period_ms or recurrence');
    }
    const period = request.recurrence && recurrenceOf(request.recurrence, 'recurrence.');
    const rules = windowRules(windows, unit);
    const tag = this.records.tagOfTenant(tenantId);
    const reply = await this.redis.scripts.call(
      'set_budget_template',
      {
        template: budgetTemplateKey(tag, tenantId, templateId),
        templateIndex: budgetTemplateIndexKey(tag, tenantId),
        tenant: tenantKey(tag, tenantId),
      },
      {
        tenantId,
        templateId,
        scopePattern: pattern,
        unit,
        revision: randomBase62(16),
        ...origin,
        ...(await this.plans.textsOf(period, rules)),
        rest: [
          ...['allocated', allocated.amount.toString()],
          ...['overdraft_limit', (overdraftLimit?.amount ?? 0).toString()],
          ...storedFields(request),
          ...(request.period_ms === undefined ? [] : ['period_ms', request.period_ms.toString()]),
          ...(period === undefined ? [] : ['recurrence', recurrenceText(period)]),
          ...(windows.length === 0
            ? []
            : [
                'window_limits',
                windows.map(({ name, limit }) => `${name},${limit.amount}`).join(' '),
                'window_rules',
                rules.map(recurrenceText).join('|'),
              ]),
          ...(request.credits === undefined
            ? []
            : ['credits', creditsText(request.credits, unit, allocated.amount)]),
        ],
      },
    );
    if (reply.status !== 'CREATED' && reply.status !== 'UPDATED') {
      throw refusalOf(reply.status, 'limit' in reply ? reply.limit : undefined);
    }
    return {
      template: templateOf(reply.record, templateId),
      isNew: reply.status === 'CREATED',
      revision: fieldOf(reply.record, 'revision'),
    };
  }

  /** @throws Refusal NOT_FOUND */
  async read(tenantId: string, templateId: string): Promise<StoredTemplate> {
    requireTemplateId(templateId);
    const key = budgetTemplateKey(this.records.tagOfTenant(tenantId), tenantId, templateId);
    const fields = await this.records.read(key);
    if (fields === undefined) {
      throw refusalOf('NOT_FOUND');
    }
    return {
      template: templateOf(fields, templateId),
      isNew: false,
      revision: fieldOf(fields, 'revision'),
    };
  }

  /** Oldest first by default. @throws Refusal INVALID_REQUEST for another query's cursor. */
  async list(request: BudgetTemplateListQueryDto): Promise<Page<BudgetTemplate>> {
    const { cursor, limit, ...query } = request;
    const selection = new RecordSelection<BudgetTemplate>({
      query: { list: 'budget_templates', ...query },
      order: sortOrderOf({ sort_dir: query.sort_dir, cursor }, ['created_at'], {
        sortBy: 'created_at',
        direction: 'asc',
      }),
      cursor,
      limit,
      valueOf: (template) => template.created_at,
      idOf: (template) => template.template_id,
    });
    await this.records.eachOwned('list_budget_templates', query.tenant_id, (fields) => {
      const template = this.records.whole('budget_template', fields, () =>
        templateOf(fields, fieldOf(fields, 'template_id')),
      );
      if (
        template !== undefined &&
        matchesSearch(query.search, template.template_id, template.scope_pattern)
      ) {
        selection.offer(template);
      }
    });
    return selection.page();
  }

  /** The budgets that it has made stay. @throws Refusal NOT_FOUND */
  async remove(tenantId: string, templateId: string, origin: Origin): Promise<void> {
    requireTemplateId(templateId);
    const tag = this.records.tagOfTenant(tenantId);
    const { status } = await this.redis.scripts.call(
      'delete_budget_template',
      {
        template: budgetTemplateKey(tag, tenantId, templateId),
        templateIndex: budgetTemplateIndexKey(tag, tenantId),
      },
      { tenantId, templateId, revision: randomBase62(16), ...origin },
    );
    if (status !== 'DELETED') {
      throw refusalOf(status);
    }
  }
}

/** @throws Refusal INVALID_REQUEST */
function requireTemplateId(templateId: string): void {
  if (!/^[a-zA-Z0-9_.-]{1,64}$/.test(templateId)) {
    throw invalidField(
      'template_id',
      "template_id must have 1 to 64 characters: letters, digits, '_', '.' or '-'",
    );
  }
}

function refusalOf(word: string, limit?: number): Error {
  const refusals: Record<string, Refused> = {
    NOT_FOUND: ['NOT_FOUND', 'there is no such budget template'],
    TENANT_NOT_FOUND: ['TENANT_NOT_FOUND', 'there is no such tenant', { field: 'tenant_id' }],
    TENANT_SUSPENDED: [
      'INVALID_REQUEST',
      'the tenant is suspended; templates can only be created for active tenants',
      { field: 'tenant_id' },
    ],
    TENANT_CLOSED: tenantClosed('budget templates'),
    OTHER_PATTERN: [
      'INVALID_REQUEST',
      'the scope_pattern and the unit of a template cannot change; delete it and create another one',
      { field: 'scope_pattern' },
    ],
    TOO_MANY: [
      'INVALID_REQUEST',
      `a tenant can have at most ${limit} budget templates`,
      { field: 'template_id', limit },
    ],
  };
  return refusalIn(refusals, word, 'a budget template script');
}
