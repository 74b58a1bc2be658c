import { Injectable } from '@nestjs/common';
import { BulkActions, type BulkRun, type Changed } from '../../bulk/index.js';
import { Reclaims } from '../../expiry/index.js';
import { Refusal, type Unit } from '../../ledger/index.js';
import { budgetKey, budgetTemplateKey, Records, RedisService } from '../../redis/index.js';
import { type Fields, fieldOf, type Origin } from '../../wire/index.js';
import { budgetRefusal } from '../budgets/budget.js';
import { matchesPattern } from './budget-template.js';
import { budgetOfRow, FAILURES, idOf, NO_ID, rowOf } from '../budgets/budget-bulk-action.service.js';

/** The most budgets that one request changes, as for every bulk action. */
const AT_ONCE = 500;

/** A template at one of its revisions. */
interface Revised {
  readonly tenantId: string;
  readonly templateId: string;
  readonly pattern: string;
  readonly unit: Unit;
  readonly revision: string;
}

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
    private readonly bulk: BulkActions,
    private readonly reclaims: Reclaims,
  ) {}

  /**
   * Gives budgets that a template has made what it sets now: 500 of those that differ.
   * @returns the JSON of the outcome, and how many are still to be changed
   * @throws Refusal IDEMPOTENCY_MISMATCH; StoreUnavailable, after which a retry continues
   */
  async apply(
    template: Revised,
    idempotencyKey: string,
    origin: Origin,
  ): Promise<{ outcome: string; left: number }> {
    const { tenantId, templateId, revision } = template;
    const outcome = await this.bulk.apply({
      kind: 'templates',
      request: {
        action: 'APPLY_TEMPLATE',
        filter: { tenant_id: tenantId, template_id: templateId, revision },
        idempotency_key: idempotencyKey,
      },
      origin,
      auditedActor: origin.actor,
      owner: tenantId,
      match: async (found) => {
        let rows = 0;
        await this.eachDiffering(template, (row) => {
          rows += 1;
          if (rows <= AT_ONCE) {
            found(row);
          }
        });
      },
      change: (row, run) => this.change(template, row, run),
      idOf,
    });
    let left = 0;
    await this.eachDiffering(template, () => {
      left += 1;
    });
    return { outcome, left };
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
    { tenantId, templateId, pattern, unit: made, revision }: Revised,
    found: (row: string) => void,
  ): Promise<void> {
    await this.records.eachOwned('list_budgets', tenantId, (fields: Fields) => {
      if (
        fields.get('template_id') === templateId &&
        fields.get('template_revision') !== revision &&
        fields.get('status') !== 'CLOSED' &&
        fields.get('unit') === made &&
        matchesPattern(fieldOf(fields, 'scope'), pattern)
      ) {
        const [scope, unit] = [fieldOf(fields, 'scope'), fieldOf(fields, 'unit') as Unit];
        found(rowOf({ ledgerId: fields.get('ledger_id') ?? NO_ID, scope, unit }));
      }
    });
  }

  private async change({ tenantId, templateId }: Revised, row: string, run: BulkRun): Promise<Changed> {
    const { scope, unit } = budgetOfRow(row);
    const tag = this.records.tagOfTenant(tenantId);
    const reply = await this.reclaims.decided(() =>
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
        return { failed: FAILURES[reply.status] };
    }
  }
}

/** @throws Refusal INVALID_REQUEST */
export function requireIdempotencyKey(key: string | undefined): string {
  if (key === undefined) {
    throw new Refusal('INVALID_REQUEST', 'idempotency_key is required with apply_to_existing', {
      field: 'idempotency_key',
    });
  }
  return key;
}
