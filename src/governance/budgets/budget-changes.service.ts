import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { stringifyJson } from '../../http/index.js';
import { oneLine } from '../../ledger/index.js';
import { budgetKey, RedisService, type Reply } from '../../redis/index.js';
import { fieldsOf, Records } from '../listing/index.js';
import type { Origin } from '../origin.js';
import { budgetRefusal, ownedScope, requireUnit } from './budget-access.js';
import { budgetOf, type BudgetLedger } from './budget.js';
import type { BudgetLookupQueryDto, BudgetStatusTransitionDto, BudgetUpdateDto } from './budget.dto.js';

/** What operators change of a ledger beside its funds. */
@Injectable()
export class BudgetChangesService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
  ) {}

  /**
   * Changes the overdraft limit, the overage policy or the metadata; also of a frozen ledger. What is not named stays.
   * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED.
   */
  async update(
    caller: Caller,
    query: BudgetLookupQueryDto,
    request: BudgetUpdateDto,
    origin: Origin,
  ): Promise<BudgetLedger> {
    const { scope, tenantId } = ownedScope(caller, query.scope);
    const { unit } = query;
    const { overdraft_limit: overdraftLimit, commit_overage_policy: policy, metadata } = request;
    requireUnit(unit, 'overdraft_limit', overdraftLimit);
    const reply = await this.redis.scripts.run(
      'update_budget',
      [budgetKey(this.records.tagOfTenant(tenantId), unit, scope)],
      [
        tenantId,
        scope,
        unit,
        overdraftLimit?.amount.toString() ?? '',
        ...origin,
        ...(policy === undefined ? [] : ['commit_overage_policy', policy]),
        ...(metadata === undefined ? [] : ['metadata', stringifyJson(metadata)]),
      ],
    );
    return this.changed(reply, scope, query);
  }

  /**
   * @param verb freeze: ACTIVE to FROZEN, no new reservations, commits or funding; unfreeze: back.
   * @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED, BUDGET_FROZEN (freeze: is so already),
   * DUPLICATE_RESOURCE (unfreeze: is active already; the protocol has no code of its own for this 409).
   */
  async setFrozen(
    verb: 'freeze' | 'unfreeze',
    caller: Caller,
    query: BudgetLookupQueryDto,
    { reason, metadata }: BudgetStatusTransitionDto,
    origin: Origin,
  ): Promise<BudgetLedger> {
    const { scope, tenantId } = ownedScope(caller, query.scope);
    const reply = await this.redis.scripts.run(
      `${verb}_budget`,
      [budgetKey(this.records.tagOfTenant(tenantId), query.unit, scope)],
      [
        tenantId,
        scope,
        query.unit,
        oneLine(reason),
        metadata === undefined ? '' : stringifyJson(metadata),
        ...origin,
      ],
    );
    return this.changed(reply, scope, query);
  }

  private changed([word, ...record]: Reply, scope: string, { unit }: BudgetLookupQueryDto): BudgetLedger {
    if (word !== 'CHANGED') {
      throw budgetRefusal(word, scope, unit);
    }
    return budgetOf(fieldsOf(record), scope, unit);
  }
}
