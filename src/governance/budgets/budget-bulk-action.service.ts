import { Injectable } from '@nestjs/common';
import { BulkActions, type BulkRun, type Changed, type RowFailure } from '../../bulk/index.js';
import { type Decided, Reclaims } from '../../expiry/index.js';
import { oneLine, Refusal, tenantClosed, type Unit } from '../../ledger/index.js';
import { budgetKey, Records, RedisService, type ScriptReply, tenantKey } from '../../redis/index.js';
import { fieldOf, type Origin } from '../../wire/index.js';
import { budgetMatcher, requireUtilizationRange } from './budget-filter.js';
import type { BudgetBulkActionDto, BudgetBulkFilterDto } from './budget.dto.js';
import { budgetOf, requireUnit } from './budget.js';

/** One budget that a bulk action changes. */
export interface MatchedBudget {
  readonly ledgerId: string;
  readonly scope: string;
  readonly unit: Unit;
}

/** Stands for the id of a budget whose record has lost it. */
export const NO_ID = '-';

/** Neither ids nor scopes nor units have spaces or commas. */
export const rowOf = ({ ledgerId, scope, unit }: MatchedBudget): string => `${ledgerId} ${scope} ${unit}`;

export function budgetOfRow(row: string): MatchedBudget {
  const [ledgerId, scope, unit] = row.split(' ') as [string, string, Unit];
  return { ledgerId, scope, unit };
}

/** How answers name the budget of a row. */
export function idOf(row: string): string {
  const { ledgerId, scope, unit } = budgetOfRow(row);
  return ledgerId === NO_ID ? `${scope} ${unit}` : ledgerId;
}

type Failed = Exclude<Decided<ScriptReply<'bulk_budget'>>, { status: 'SUCCEEDED' | 'SKIPPED' }>['status'];

export const FAILURES: Readonly<Record<Failed, RowFailure>> = {
  NOT_FOUND: { error_code: 'NOT_FOUND', message: 'there is no such budget' },
  TENANT_CLOSED: { error_code: 'TENANT_CLOSED', message: tenantClosed('budgets')[1] },
  BUDGET_CLOSED: { error_code: 'INVALID_TRANSITION', message: 'the budget is closed' },
  BUDGET_FROZEN: { error_code: 'INVALID_TRANSITION', message: 'the budget is frozen' },
  BUDGET_EXCEEDED: { error_code: 'BUDGET_EXCEEDED', message: 'the amount exceeds the remaining budget' },
  INT64_OVERFLOW: { error_code: 'INVALID_REQUEST', message: 'the amount would overflow int64 in the budget' },
};

/** Finds the rows of the budgets of a tenant that a filter matches. @throws Refusal TENANT_NOT_FOUND */
export async function matchBudgets(
  records: Records,
  filter: BudgetBulkFilterDto,
  found: (row: string) => void,
): Promise<void> {
  const tenantId = filter.tenant_id;
  if ((await records.read(tenantKey(records.tagOfTenant(tenantId), tenantId))) === undefined) {
    throw new Refusal('TENANT_NOT_FOUND', 'there is no such tenant', { field: 'filter.tenant_id' });
  }
  const { matches, mayMatch } = budgetMatcher(filter);
  await records.eachOwned('list_budgets', tenantId, (fields) => {
    const [scope, unit] = [fieldOf(fields, 'scope'), fieldOf(fields, 'unit') as Unit];
    // A damaged budget's row fails, and must not keep the others from being found.
    const budget = records.whole('budget', fields, () => budgetOf(fields, scope, unit));
    const isMatch =
      budget === undefined
        ? mayMatch({ tenant_id: tenantId, scope, unit, status: fields.get('status') ?? '' })
        : matches(budget);
    if (isMatch) {
      found(rowOf({ ledgerId: fields.get('ledger_id') ?? NO_ID, scope, unit }));
    }
  });
}

/** POST /v1/admin/budgets/bulk-action. */
@Injectable()
export class BudgetBulkActionService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly bulk: BulkActions,
    private readonly reclaims: Reclaims,
  ) {}

  /**
   * Funds every budget of one tenant that the filter matches; lua/governance/lib/funding.lua documents the operations.
   * @returns the JSON of a BudgetBulkActionResponse
   * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH (spent is in another unit than amount), TENANT_NOT_FOUND, COUNT_MISMATCH,
   * IDEMPOTENCY_MISMATCH; TooManyMatched; StoreUnavailable, after which a retry continues.
   */
  async apply(request: BudgetBulkActionDto, origin: Origin): Promise<string> {
    const { filter, action, amount, reason } = request;
    requireUtilizationRange(filter);
    // In the protocol, every other action ignores `spent`.
    const spent = action === 'RESET_SPENT' ? request.spent : undefined;
    requireUnit(amount.unit, 'spent', spent);
    const tenantId = filter.tenant_id;
    return this.bulk.apply({
      kind: 'budgets',
      request,
      origin,
      auditedActor: origin.actor,
      owner: tenantId,
      details: {
        unit: amount.unit,
        amount: amount.amount.toString(),
        spent: spent?.amount.toString() ?? '',
        reason: oneLine(reason),
      },
      match: (found) => matchBudgets(this.records, filter, found),
      change: (row, run) => this.change(request, budgetOfRow(row), run),
      idOf,
    });
  }

  private async change(
    { filter, action, amount, spent, reason }: BudgetBulkActionDto,
    { scope, unit }: MatchedBudget,
    run: BulkRun,
  ): Promise<Changed> {
    if (unit !== amount.unit) {
      const message = `the budget is in ${unit}, and the amount in ${amount.unit}`;
      return { failed: { error_code: 'INVALID_TRANSITION', message } };
    }
    const tenantId = filter.tenant_id;
    const reply = await this.reclaims.untilDecided(() =>
      this.redis.scripts.call(
        'bulk_budget',
        { budget: budgetKey(this.records.tagOfTenant(tenantId), unit, scope) },
        {
          ...run,
          tenantId,
          scope,
          unit,
          operation: action,
          amount: amount.amount.toString(),
          spent: (action === 'RESET_SPENT' ? spent?.amount.toString() : undefined) ?? '',
          reason: oneLine(reason),
          retentionMs: this.reclaims.retentionMs,
        },
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
