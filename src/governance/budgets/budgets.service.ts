import { Injectable } from '@nestjs/common';
import { type Caller, listedTenant, mayActFor, scopeAllowed } from '../../auth/index.js';
import { Reclaims } from '../../expiry/index.js';
import {
  invalidField,
  oneLine,
  randomBase62,
  scopePrefixOf,
  tenantOfScope,
  type Unit,
} from '../../ledger/index.js';
import { TenantLimits } from '../../limits/index.js';
import {
  budgetIndexKey,
  budgetKey,
  codeOfTenant,
  Records,
  RedisService,
  type ScriptReply,
  tagOf,
  tenantKey,
} from '../../redis/index.js';
import {
  fieldOf,
  type Fields,
  type Origin,
  type Page,
  RecordSelection,
  sortOrderOf,
  stringifyJson,
} from '../../wire/index.js';
import {
  BUDGET_SORT_KEYS,
  type BudgetCreateDto,
  type BudgetListQueryDto,
  type BudgetLookupQueryDto,
  type BudgetPeriodUpdateDto,
  type BudgetStatusTransitionDto,
  type BudgetUpdateDto,
} from './budget.dto.js';
import { budgetMatcher, requireUtilizationRange } from './budget-filter.js';
import { periodArguments, periodRefusal } from './budget-period.js';
import {
  type BudgetLedger,
  budgetOf,
  budgetRefusal,
  operatorsTenant,
  ownedScope,
  requireUnit,
  sortValueOf,
  usedShareOf,
} from './budget.js';
import { KeptOrders, offerByScope } from './budget-orders.js';

@Injectable()
export class BudgetsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly limits: TenantLimits,
    private readonly orders: KeptOrders,
  ) {}

  /**
   * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH, FORBIDDEN, INSUFFICIENT_PERMISSIONS, DUPLICATE_RESOURCE, TENANT_CLOSED, LIMIT_EXCEEDED.
   */
  async create(caller: Caller, request: BudgetCreateDto, origin: Origin): Promise<BudgetLedger> {
    if (caller.kind === 'tenant' && request.tenant_id !== undefined) {
      throw invalidField(
        'tenant_id',
        'tenant_id must be absent with an API key, which belongs to one tenant',
      );
    }
    const { scope, tenantId } = ownedScope(caller, request.scope, operatorsTenant(caller, request.tenant_id));
    const { unit, allocated, overdraft_limit: overdraftLimit } = request;
    const period = periodArguments(request);
    if (request.period_start !== undefined && request.period_end === undefined) {
      throw periodRefusal('NO_END');
    }
    requireUnit(unit, 'allocated', allocated);
    requireUnit(unit, 'overdraft_limit', overdraftLimit);
    const code = codeOfTenant(tenantId, this.redis.partitions);
    const tag = tagOf(code);
    const reply = await this.redis.scripts.call(
      'create_budget',
      {
        budget: budgetKey(tag, unit, scope),
        budgetIndex: budgetIndexKey(tag, tenantId),
        tenant: tenantKey(tag, tenantId),
      },
      {
        tenantId,
        ledgerId: `ldg_${code}${randomBase62(16)}`,
        scope,
        unit,
        allocated: allocated.amount.toString(),
        overdraftLimit: (overdraftLimit?.amount ?? 0).toString(),
        ...origin,
        maxBudgets: this.limits.deployment.budgets,
        ...period,
        rest: storedFields(request),
      },
    );
    if (reply.status !== 'CREATED') {
      throw this.creationRefusal(reply, scope, unit);
    }
    return budgetOf(reply.record, scope, unit);
  }

  /** @throws Refusal INVALID_REQUEST, FORBIDDEN, INSUFFICIENT_PERMISSIONS, BUDGET_NOT_FOUND. */
  async lookUp(caller: Caller, { scope: scopeText, unit }: BudgetLookupQueryDto): Promise<BudgetLedger> {
    const { scope, tenantId } = ownedScope(caller, scopeText);
    const reply = await this.redis.scripts.call(
      'get_budget',
      { budget: budgetKey(this.records.tagOfTenant(tenantId), unit, scope) },
      { scope },
    );
    if (reply.status !== 'FOUND') {
      throw budgetRefusal(reply.status, scope, unit);
    }
    return budgetOf(reply.record, scope, unit);
  }

  /**
   * Highest utilization first by default. An API key sees its own tenant's budgets inside its scope filter, an
   * operator those of its tenants.
   * @throws Refusal INVALID_REQUEST for another query's cursor, or for utilization_min above utilization_max.
   */
  async list(caller: Caller, request: BudgetListQueryDto): Promise<Page<BudgetLedger>> {
    const { cursor, limit, ...query } = request;
    const order = sortOrderOf(request, BUDGET_SORT_KEYS, { sortBy: 'utilization', direction: 'desc' });
    const { sortBy } = order;
    // The windows of a budget are no member of the protocol's ledger.
    const shares = new WeakMap<BudgetLedger, number>();
    requireUtilizationRange(query);
    const tenantId = listedTenant(caller, query.tenant_id);
    const scopeFilter = caller.kind === 'tenant' ? caller.scopeFilter : [];
    const tenants = caller.kind === 'admin' ? caller.tenants : undefined;
    const selection = new RecordSelection<BudgetLedger>({
      query: { list: 'budgets', ...query, tenant_id: tenantId ?? '', scope_filter: scopeFilter, tenants },
      order,
      cursor,
      limit,
      valueOf: (budget) => (sortBy === 'used' ? (shares.get(budget) as number) : sortValueOf(budget, sortBy)),
      idOf: (budget) => `${budget.scope} ${budget.unit}`,
    });
    const { matches } = budgetMatcher(query);
    const listed = (fields: Fields): BudgetLedger | undefined => {
      const scope = fieldOf(fields, 'scope');
      // Nothing outside of the key's scope filter or of the operator's tenants is named, either.
      if (!scopeAllowed(scopeFilter, scope) || !mayActFor(tenants, tenantOfScope(scope) ?? '')) {
        return undefined;
      }
      return this.records.whole('budget', fields, () => {
        const budget = budgetOf(fields, scope, fieldOf(fields, 'unit') as Unit);
        if (!matches(budget)) {
          return undefined;
        }
        if (sortBy === 'used') {
          shares.set(budget, usedShareOf(budget, fields));
        }
        return budget;
      });
    };
    if (order.sortBy === 'scope' && tenantId !== undefined && tenantId !== '') {
      const above = scopePrefixOf(query.scope_prefix);
      await offerByScope(
        this.records,
        tenantId,
        { direction: order.direction, above, limit },
        selection,
        listed,
      );
      return selection.page();
    }
    return (await this.orders.page(selection, listed)) ?? this.readAll(selection, tenantId, listed);
  }

  private async readAll(
    selection: RecordSelection<BudgetLedger>,
    tenantId: string | undefined,
    listed: (fields: Fields) => BudgetLedger | undefined,
  ): Promise<Page<BudgetLedger>> {
    const order = this.orders.newOrder(selection);
    await this.records.eachOwned('list_budgets', tenantId, (fields) => {
      const budget = listed(fields);
      if (budget !== undefined) {
        selection.offer(budget);
        order.offer(selection.placeOf(budget));
      }
    });
    order.keep();
    return selection.page();
  }

  private creationRefusal(
    reply: Exclude<ScriptReply<'create_budget'>, { status: 'CREATED' }>,
    scope: string,
    unit: Unit,
  ): Error {
    if (reply.status === 'LIMIT_EXCEEDED') {
      return this.limits.refusal(reply);
    }
    if (reply.status === 'INVALID_PERIOD') {
      return periodRefusal(reply.reason);
    }
    const at = { field: 'scope' };
    return budgetRefusal(reply.status, scope, unit, {
      TENANT_NOT_FOUND: ['INVALID_REQUEST', "the scope's tenant does not exist", at],
      TENANT_SUSPENDED: [
        'INVALID_REQUEST',
        'the tenant is suspended; budgets can only be created for active tenants',
        at,
      ],
      DUPLICATE: ['DUPLICATE_RESOURCE', `there is already a ${unit} budget at ${scope}`, { scope, unit }],
    });
  }
}

/** The fields of the record that a request sets as they are, as field and value pairs. */
export function storedFields({
  commit_overage_policy: overagePolicy,
  rollover_policy: rolloverPolicy,
  metadata,
}: BudgetUpdateDto & BudgetPeriodUpdateDto): string[] {
  return [
    ...(overagePolicy === undefined ? [] : ['commit_overage_policy', overagePolicy]),
    ...(rolloverPolicy === undefined ? [] : ['rollover_policy', rolloverPolicy]),
    ...(metadata === undefined ? [] : ['metadata', stringifyJson(metadata)]),
  ];
}

/** Updates, freezes and unfreezes budgets. */
@Injectable()
export class BudgetChangesService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly reclaims: Reclaims,
  ) {}

  /**
   * Changes the given ones of overdraft limit, policies, period and metadata, even on a frozen budget.
   * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED.
   */
  async update(
    caller: Caller,
    query: BudgetLookupQueryDto,
    request: BudgetUpdateDto & BudgetPeriodUpdateDto,
    origin: Origin,
  ): Promise<BudgetLedger> {
    const { scope, tenantId } = ownedScope(caller, query.scope);
    const { unit } = query;
    const { overdraft_limit: overdraftLimit } = request;
    requireUnit(unit, 'overdraft_limit', overdraftLimit);
    const reply = await this.reclaims.untilDecided(() =>
      this.redis.scripts.call(
        'update_budget',
        { budget: budgetKey(this.records.tagOfTenant(tenantId), unit, scope) },
        {
          tenantId,
          scope,
          unit,
          overdraftLimit: overdraftLimit?.amount.toString() ?? '',
          ...origin,
          ...periodArguments(request),
          retentionMs: this.reclaims.retentionMs,
          rest: storedFields(request),
        },
      ),
    );
    if (reply.status === 'INVALID_PERIOD') {
      throw periodRefusal(reply.reason);
    }
    return this.changed(reply, scope, query);
  }

  /**
   * @param verb freeze takes a budget from ACTIVE to FROZEN, where it accepts no reserves, commits or funding; unfreeze takes it back
   * @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED, BUDGET_FROZEN (freeze: already frozen),
   * DUPLICATE_RESOURCE (unfreeze: already active; the protocol has no specific code for this 409).
   */
  async setFrozen(
    verb: 'freeze' | 'unfreeze',
    caller: Caller,
    query: BudgetLookupQueryDto,
    { reason, metadata }: BudgetStatusTransitionDto,
    origin: Origin,
  ): Promise<BudgetLedger> {
    const { scope, tenantId } = ownedScope(caller, query.scope);
    const reply = await this.redis.scripts.call(
      'set_frozen',
      { budget: budgetKey(this.records.tagOfTenant(tenantId), query.unit, scope) },
      {
        tenantId,
        scope,
        unit: query.unit,
        status: verb === 'freeze' ? 'FROZEN' : 'ACTIVE',
        reason: oneLine(reason),
        metadata: metadata === undefined ? '' : stringifyJson(metadata),
        ...origin,
      },
    );
    return this.changed(reply, scope, query);
  }

  private changed(
    reply: Exclude<ScriptReply<'update_budget' | 'set_frozen'>, { status: 'INVALID_PERIOD' }>,
    scope: string,
    { unit }: BudgetLookupQueryDto,
  ): BudgetLedger {
    if (reply.status !== 'CHANGED') {
      throw budgetRefusal(reply.status, scope, unit);
    }
    return budgetOf(reply.record, scope, unit);
  }
}
