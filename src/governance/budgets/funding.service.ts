import { Inject, Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import type { Caller } from '../../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { Reclaims } from '../../expiry/index.js';
import { fingerprintOf, oneLine, parseAmount, type Unit } from '../../ledger/index.js';
import { budgetKey, idempotencyKey, Records, RedisService, type ScriptAnswer } from '../../redis/index.js';
import { type Origin, stringifyJson, timeOf } from '../../wire/index.js';
import type { BudgetFundingDto, BudgetFundingQueryDto, FundingOperation } from './budget.dto.js';
import { budgetRefusal, operatorsTenant, ownedScope, requireUnit, type UnitAmount } from './budget.js';

/** BudgetFundingResponse of cycles-governance-admin-v0.1.25. All figures come from the one step that changed them. */
export type Funding = Answer<'BudgetFundingResponse'>;

/** POST /v1/admin/budgets/fund. */
@Injectable()
export class FundingService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly reclaims: Reclaims,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Applies one funding operation; lua/governance/fund_budget.lua documents each. With an idempotency key, a retry returns the
   * first outcome; without one, it is applied again.
   * @throws Refusal INVALID_REQUEST (also when a figure would leave int64), UNIT_MISMATCH, FORBIDDEN, INSUFFICIENT_PERMISSIONS,
   * BUDGET_NOT_FOUND, IDEMPOTENCY_MISMATCH, TENANT_CLOSED, BUDGET_FROZEN, BUDGET_CLOSED, BUDGET_EXCEEDED (a DEBIT above the remaining budget).
   */
  async fund(
    caller: Caller,
    query: BudgetFundingQueryDto,
    request: BudgetFundingDto,
    origin: Origin,
  ): Promise<Funding> {
    const { scope, tenantId } = ownedScope(caller, query.scope, operatorsTenant(caller, query.tenant_id));
    const { unit } = query;
    const { operation, amount, metadata, idempotency_key: key } = request;
    // In the protocol, every other operation ignores `spent`.
    const spent = operation === 'RESET_SPENT' ? request.spent : undefined;
    requireUnit(unit, 'amount', amount);
    requireUnit(unit, 'spent', spent);
    const tag = this.records.tagOfTenant(tenantId);
    const reply = await this.reclaims.untilDecided(() =>
      this.redis.scripts.call(
        'fund_budget',
        {
          budget: budgetKey(tag, unit, scope),
          idempotency: idempotencyKey.fund(tag, unit, scope, key ?? ''),
        },
        {
          tenantId,
          scope,
          unit,
          operation,
          amount: amount.amount.toString(),
          spent: spent?.amount.toString() ?? '',
          fingerprint: key === undefined ? '' : fingerprintOf(request),
          idempotencyTtlMs: this.config.idempotencyTtlMs,
          reason: oneLine(request.reason),
          metadata: metadata === undefined ? '' : stringifyJson(metadata),
          ...origin,
          retentionMs: this.reclaims.retentionMs,
        },
      ),
    );
    if (reply.status !== 'FUNDED') {
      throw refusalOf(reply.status, scope, unit);
    }
    return fundingOf(operation, reply, unit);
  }
}

function fundingOf(
  operation: FundingOperation,
  funded: ScriptAnswer<'fund_budget', 'FUNDED'>,
  unit: Unit,
): Funding {
  const amount = (figure: string): UnitAmount => ({ unit, amount: parseAmount(figure) });
  return {
    operation,
    previous_allocated: amount(funded.previousAllocated),
    new_allocated: amount(funded.newAllocated),
    previous_remaining: amount(funded.previousRemaining),
    new_remaining: amount(funded.newRemaining),
    previous_debt: amount(funded.previousDebt),
    new_debt: amount(funded.newDebt),
    previous_spent: amount(funded.previousSpent),
    new_spent: amount(funded.newSpent),
    timestamp: timeOf(funded.timestampMs.toString()),
  };
}

function refusalOf(word: string, scope: string, unit: Unit): Error {
  const at = { scope, unit };
  return budgetRefusal(word, scope, unit, {
    BUDGET_EXCEEDED: ['BUDGET_EXCEEDED', `the amount exceeds the remaining budget at scope ${scope}`, at],
    INT64_OVERFLOW: [
      'INVALID_REQUEST',
      `the amount would overflow int64 in the budget at scope ${scope}`,
      { field: 'amount.amount', ...at },
    ],
  });
}
