import { Injectable } from '@nestjs/common';
import { BulkActions, type BulkRun, type Changed } from '../../bulk/index.js';
import { Reclaims } from '../../expiry/index.js';
import { fingerprintOf, invalidField, type Unit } from '../../ledger/index.js';
import { budgetKey, budgetTemplateKey, Records, RedisService } from '../../redis/index.js';
import { type Fields, fieldOf, type Origin } from '../../wire/index.js';
import { budgetRefusal } from '../budgets/budget.js';
import { budgetOfRow, FAILURES, idOf, NO_ID, rowOf } from '../budgets/budget-bulk-action.service.js';
import { GRANT_FAILURES } from '../credits/credits-bulk.service.js';
import { matchesPattern } from './budget-template.js';
import type { BudgetTemplateDto } from './budget-template.dto.js';
import { BudgetTemplatesService, type StoredTemplate } from './budget-templates.service.js';
import { TemplatePlans } from './template-plans.js';

/** The most budgets that one request changes, as for every bulk action. */
const AT_ONCE = 500;
const APPLY_FAILURES = { ...GRANT_FAILURES, ...FAILURES };

/** The template of a budget, as /ops/budgets/template shows it. */
export interface BudgetOrigin {
  readonly scope: string;
  readonly unit: Unit;
  readonly template_id?: string;
}

/** The budgets that templates have made. */
@Injectable()
export class MadeBudgetsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly templates: BudgetTemplatesService,
    private readonly bulk: BulkActions,
    private readonly reclaims: Reclaims,
    private readonly plans: TemplatePlans,
  ) {}

  /**
   * Sets a template, and gives budgets that it has made what it sets: 500 of those that differ. A repeated key does neither again.
   * @returns also the JSON of the outcome, and how many another request can change: frozen ones have to be unfrozen first
   * @throws Refusal IDEMPOTENCY_MISMATCH, and as BudgetTemplatesService.set does; StoreUnavailable, after which a retry continues
   */
  async setAndApply(
    templateId: string,
    { idempotency_key: given, ...terms }: BudgetTemplateDto,
    origin: Origin,
  ): Promise<StoredTemplate & { outcome: string; left: number }> {
    const idempotencyKey = requireIdempotencyKey(given);
    const tenantId = terms.tenant_id;
    let stored: StoredTemplate | undefined;
    const outcome = await this.bulk.apply({
      kind: 'templates',
      request: {
        action: 'APPLY_TEMPLATE',
        filter: { tenant_id: tenantId, template_id: templateId, terms: fingerprintOf(terms) },
        idempotency_key: idempotencyKey,
      },
      origin,
      auditedActor: origin.actor,
      owner: tenantId,
      // Only once the key is known to be new.
      match: async (found) => {
        stored = await this.templates.set(templateId, terms, origin);
        const frozen: string[] = [];
        let rows = 0;
        await this.eachDiffering(stored, (row, isFrozen) => {
          if (isFrozen) {
            frozen.push(row);
          } else if (rows < AT_ONCE) {
            rows += 1;
            found(row);
          }
        });
        // They fail. Behind the others, they do not keep these from their turn.
        frozen.slice(0, AT_ONCE - rows).forEach(found);
      },
      change: (row, run) => this.change(tenantId, templateId, row, run),
      idOf,
    });
    stored ??= await this.templates.read(tenantId, templateId);
    let left = 0;
    await this.eachDiffering(stored, (_, isFrozen) => {
      left += isFrozen ? 0 : 1;
    });
    return { ...stored, outcome, left };
  }

  /** @throws Refusal BUDGET_NOT_FOUND */
  async originOf(tenantId: string, scope: string, unit: Unit): Promise<BudgetOrigin> {
    const fields = await this.records.read(budgetKey(this.records.tagOfTenant(tenantId), unit, scope));
    if (fields === undefined) {
      throw budgetRefusal('NOT_FOUND', scope, unit);
    }
    const templateId = fields.get('template_id');
    return { scope, unit, ...(templateId !== undefined && { template_id: templateId }) };
  }

  /**
   * Visits the rows of the budgets that the template has made and that do not have its revision, but for closed ones. One that an
   * earlier template of its id has made is among them only if this one would make it, too.
   */
  private async eachDiffering(
    { template, revision }: StoredTemplate,
    found: (row: string, isFrozen: boolean) => void,
  ): Promise<void> {
    const { tenant_id: tenantId, template_id: templateId, scope_pattern: pattern, unit: made } = template;
    await this.records.eachOwned('list_budgets', tenantId, (fields: Fields) => {
      if (
        fields.get('template_id') === templateId &&
        fields.get('template_revision') !== revision &&
        fields.get('status') !== 'CLOSED' &&
        fields.get('unit') === made &&
        matchesPattern(fieldOf(fields, 'scope'), pattern)
      ) {
        const [scope, unit] = [fieldOf(fields, 'scope'), fieldOf(fields, 'unit') as Unit];
        const row = rowOf({ ledgerId: fields.get('ledger_id') ?? NO_ID, scope, unit });
        found(row, fields.get('status') === 'FROZEN');
      }
    });
  }

  private async change(tenantId: string, templateId: string, row: string, run: BulkRun): Promise<Changed> {
    const { scope, unit } = budgetOfRow(row);
    const tag = this.records.tagOfTenant(tenantId);
    const reply = await this.plans.untilDecided(() =>
      this.redis.scripts.call(
        'apply_budget_template',
        { budget: budgetKey(tag, unit, scope), template: budgetTemplateKey(tag, tenantId, templateId) },
        { ...run, tenantId, scope, unit, templateId, retentionMs: this.reclaims.retentionMs },
      ),
    );
    switch (reply.status) {
      case 'SUCCEEDED':
        return 'succeeded';
      case 'SKIPPED':
        return { skipped: reply.reason };
      default:
        return { failed: APPLY_FAILURES[reply.status] };
    }
  }
}

/** @throws Refusal INVALID_REQUEST */
function requireIdempotencyKey(key: string | undefined): string {
  if (key === undefined) {
    throw invalidField('idempotency_key', 'idempotency_key is required with apply_to_existing');
  }
  return key;
}
