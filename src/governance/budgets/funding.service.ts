import { Inject, Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { stringifyJson } from '../../http/index.js';
import { fingerprintOf, parseAmount, Refusal, type Unit } from '../../ledger/index.js';
import { budgetKey, idempotencyKey, RedisService, tenantKey } from '../../redis/index.js';
import { Records, timeOf } from '../listing/index.js';
import type { Origin } from '../origin.js';
import { ownedScope, requireTenantId } from './budget-access.js';
import type { UnitAmount } from './budget.js';
import type { BudgetFundingDto, BudgetFundingQueryDto } from './budget.dto.js';

/** BudgetFundingResponse of cycles-governance-admin-v0.1.25. All figures are of the one step that changed them. */
export interface Funding {
  readonly operation: 'CREDIT';
  readonly previous_allocated: UnitAmount;
  readonly new_allocated: UnitAmount;
  readonly previous_remaining: UnitAmount;
  readonly new_remaining: UnitAmount;
  readonly previous_debt: UnitAmount;
  readonly new_debt: UnitAmount;
  readonly previous_spent: UnitAmount;
  readonly new_spent: UnitAmount;
  readonly timestamp: string;
}

/** POST /v1/admin/budgets/fund. */
@Injectable()
export class FundingService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Adds funds; debt is paid first. With an idempotency key a repetition returns the first outcome, without one it funds again.
   * @throws Refusal INVALID_REQUEST (also when a figure would leave int64), UNIT_MISMATCH, FORBIDDEN, INSUFFICIENT_PERMISSIONS,
   * BUDGET_NOT_FOUND, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, BUDGET_FROZEN, BUDGET_CLOSED.
   */
  async credit(caller: Caller, query: BudgetFundingQueryDto, request: BudgetFundingDto, origin: Origin): Promise<Funding> {
    const { scope, tenantId } = ownedScope(caller, query.scope, requireTenantId(caller, query.tenant_id));
    const { unit } = query;
    const { amount, metadata, idempotency_key: key } = request;
    if (amount.unit !== unit) {
      throw new Refusal('UNIT_MISMATCH', `amount.unit must be ${unit}, the unit of the budget`, { field: 'amount.unit' });
    }
    const tag = this.records.tagOfTenant(tenantId);
    const [word, , ...figures] = await this.redis.scripts.run(
      'fund_budget',
      [budgetKey(tag, unit, scope), idempotencyKey.fund(tag, unit, scope, key ?? ''), tenantKey(tag, tenantId)],
      [
        tenantId, scope, unit, amount.amount.toString(), key === undefined ? '' : fingerprintOf(request),
        this.config.idempotencyTtlMs, request.reason ?? '', metadata === undefined ? '' : stringifyJson(metadata), ...origin,
      ],
    );
    if (word !== 'FUNDED') {
      throw refusalOf(word, scope, unit);
    }
    return fundingOf(figures, unit);
  }
}

function fundingOf(figures: readonly string[], unit: Unit): Funding {
  const amount = (index: number): UnitAmount => ({ unit, amount: parseAmount(figures[index]) });
  return {
    operation: 'CREDIT',
    previous_allocated: amount(0),
    new_allocated: amount(1),
    previous_remaining: amount(2),
    new_remaining: amount(3),
    previous_debt: amount(4),
    new_debt: amount(5),
    previous_spent: amount(6),
    new_spent: amount(7),
    timestamp: timeOf(figures[8] ?? ''),
  };
}

function refusalOf(word: string | undefined, scope: string, unit: Unit): Error {
  const details = { scope, unit };
  switch (word) {
    case 'NOT_FOUND':
      return new Refusal('BUDGET_NOT_FOUND', `there is no ${unit} budget at ${scope}`, details);
    case 'IDEMPOTENCY_MISMATCH':
      return new Refusal('IDEMPOTENCY_MISMATCH', 'this idempotency key was used before with a different request');
    case 'TENANT_CLOSED':
      return new Refusal('TENANT_CLOSED', 'the tenant is closed; its budgets no longer change');
    case 'BUDGET_FROZEN':
      return new Refusal('BUDGET_FROZEN', `the budget at scope ${scope} is frozen`, details);
    case 'BUDGET_CLOSED':
      return new Refusal('BUDGET_CLOSED', `the budget at scope ${scope} is closed`, details);
    case 'INT64_OVERFLOW':
      return new Refusal('INVALID_REQUEST', `the amount would take the budget at scope ${scope} beyond int64`, {
        field: 'amount.amount',
        ...details,
      });
    default:
      return new Error(`fund_budget answered ${word}`);
  }
}
