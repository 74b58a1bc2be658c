import { type Caller, requireTenantId, scopeAllowed } from '../../auth/index.js';
import {
  invalidField,
  parseAmount,
  parseScopePath,
  Refusal,
  refusalIn,
  type Refused,
  tenantClosed,
  tenantOfScope,
  treeOrder,
  type Unit,
} from '../../ledger/index.js';
import { fieldOf, type Fields, optionalText, timeOf } from '../../wire/index.js';
import { type BudgetPeriod, periodOf } from './budget-period.js';
import { BUDGET_STATUSES, type BudgetSortKey, type BudgetStatus } from './budget.dto.js';

export interface UnitAmount {
  readonly unit: Unit;
  readonly amount: bigint;
}

/** BudgetLedger of cycles-governance-admin-v0.1.25. */
export interface BudgetLedger extends BudgetPeriod {
  readonly ledger_id: string;
  readonly tenant_id: string;
  readonly scope: string;
  readonly scope_path: string;
  readonly unit: Unit;
  readonly allocated: UnitAmount;
  readonly remaining: UnitAmount;
  readonly reserved: UnitAmount;
  readonly spent: UnitAmount;
  readonly debt: UnitAmount;
  readonly overdraft_limit: UnitAmount;
  readonly is_over_limit: boolean;
  readonly commit_overage_policy?: string;
  readonly status: BudgetStatus;
  readonly created_at: string;
  readonly updated_at: string;
}

/** @throws Error when the record is corrupt. */
export function budgetOf(fields: Fields, scope: string, unit: Unit): BudgetLedger {
  const amount = (name: string): UnitAmount => ({ unit, amount: parseAmount(fields.get(name)) });
  const status = BUDGET_STATUSES.find((known) => known === fields.get('status'));
  if (status === undefined) {
    throw new Error(`corrupt budget record of ${scope} ${unit}: its status is ${fields.get('status')}`);
  }
  const debt = amount('debt');
  const overdraftLimit = amount('overdraft_limit');
  return {
    ledger_id: fieldOf(fields, 'ledger_id'),
    tenant_id: fieldOf(fields, 'tenant_id'),
    scope,
    scope_path: scope,
    unit,
    allocated: amount('allocated'),
    remaining: amount('remaining'),
    reserved: amount('reserved'),
    spent: amount('spent'),
    debt,
    overdraft_limit: overdraftLimit,
    // The scripts' rule: a capped charge marks the scope, and so does debt above a positive overdraft limit.
    is_over_limit:
      fields.get('is_over_limit') === '1' ||
      (overdraftLimit.amount > 0n && debt.amount > overdraftLimit.amount),
    ...optionalText(fields, 'commit_overage_policy'),
    status,
    ...periodOf(fields, `${scope} ${unit}`),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
  };
}

/** spent / allocated, or 0 when nothing is allocated, as listBudgets of cycles-governance-admin-v0.1.25 defines it. */
export function utilizationOf({ spent, allocated }: BudgetLedger): number {
  return allocated.amount === 0n ? 0 : Number(spent.amount) / Number(allocated.amount);
}

/** A share of what may be used. Of nothing, anything that is used is all of it. */
function shareOf(used: bigint, whole: bigint): number {
  return whole === 0n ? (used > 0n ? 1 : 0) : Number(used) / Number(whole);
}

/** Each window begins with `name,limit,spent`; see lua/lib/window_record.lua. */
const WINDOW = /^[a-z0-9_-]+,(\d+),(\d+),/;

/**
 * The share that is spent or held of what is allocated, or of the limit of one of the budget's windows, where it is highest. Windows
 * that cannot be read do not count.
 * @param fields of the budget's record
 */
export function usedShareOf({ spent, reserved, allocated }: BudgetLedger, fields: Fields): number {
  const windows = fields.get('windows')?.split(' ') ?? [];
  const ofWindows = windows.flatMap((text) => {
    const [, limit, charged] = WINDOW.exec(text) ?? [];
    return limit === undefined || charged === undefined
      ? []
      : [shareOf(BigInt(charged) + reserved.amount, BigInt(limit))];
  });
  return Math.max(shareOf(spent.amount + reserved.amount, allocated.amount), ...ofWindows);
}

export function sortValueOf(
  budget: BudgetLedger,
  key: Exclude<BudgetSortKey, 'used'>,
): string | number | bigint {
  switch (key) {
    case 'utilization':
      return utilizationOf(budget);
    case 'debt':
      return budget.debt.amount;
    case 'scope':
      return treeOrder(budget.scope);
    case 'commit_overage_policy':
      return budget.commit_overage_policy ?? '';
    default:
      return budget[key];
  }
}

/** A budget's scope in canonical form, and the tenant that owns it. */
export interface OwnedScope {
  readonly scope: string;
  readonly tenantId: string;
}

/**
 * Parses a budget's scope and checks that the caller may use it.
 *
 * @param named the tenant_id of an operator's request; undefined where the scope alone decides
 * @throws Refusal INVALID_REQUEST (malformed scope; an operator's tenant is not the scope's), FORBIDDEN (another tenant's
 * scope), INSUFFICIENT_PERMISSIONS (outside the key's scope filter).
 */
export function ownedScope(caller: Caller, scopeText: string, named?: string): OwnedScope {
  const scope = parseScopePath(scopeText);
  const tenantId = tenantOfScope(scope) as string;
  if (caller.kind === 'admin') {
    if (named !== undefined && named !== tenantId) {
      throw invalidField('scope', `scope must start with tenant:${named}, the tenant that tenant_id names`);
    }
    return { scope, tenantId };
  }
  if (tenantId !== caller.tenantId) {
    throw new Refusal('FORBIDDEN', 'the scope belongs to another tenant', { field: 'scope' });
  }
  if (!scopeAllowed(caller.scopeFilter, scope)) {
    throw new Refusal('INSUFFICIENT_PERMISSIONS', "the scope is outside the API key's scope filter", {
      field: 'scope',
    });
  }
  return { scope, tenantId };
}

/** @throws Refusal INVALID_REQUEST when an operator names no tenant. */
export function operatorsTenant(caller: Caller, named: string | undefined): string | undefined {
  return caller.kind === 'tenant' ? undefined : requireTenantId(named);
}

/** @throws Refusal UNIT_MISMATCH when an amount of a request is in another unit than the budget. */
export function requireUnit(unit: Unit, field: string, amount: { readonly unit: Unit } | undefined): void {
  if (amount !== undefined && amount.unit !== unit) {
    throw new Refusal('UNIT_MISMATCH', `${field}.unit must be ${unit}, the unit of the budget`, {
      field: `${field}.unit`,
    });
  }
}

/** The refusals that all scripts which change a budget have in common, and those of one script. */
export function budgetRefusal<Other extends string = never>(
  word:
    | Other
    | 'NOT_FOUND'
    | 'TENANT_CLOSED'
    | 'BUDGET_FROZEN'
    | 'BUDGET_CLOSED'
    | 'ALREADY_ACTIVE'
    | 'IDEMPOTENCY_MISMATCH',
  scope: string,
  unit: Unit,
  others?: Readonly<Record<Other, Refused>>,
): Error {
  const at = { scope, unit };
  const refusals: Readonly<Record<string, Refused>> = {
    NOT_FOUND: ['BUDGET_NOT_FOUND', `there is no ${unit} budget at ${scope}`, at],
    TENANT_CLOSED: tenantClosed('budgets'),
    BUDGET_FROZEN: ['BUDGET_FROZEN', `the budget at scope ${scope} is frozen`, at],
    BUDGET_CLOSED: ['BUDGET_CLOSED', `the budget at scope ${scope} is closed`, at],
    ALREADY_ACTIVE: ['DUPLICATE_RESOURCE', `the budget at scope ${scope} is already active`, at],
    IDEMPOTENCY_MISMATCH: [
      'IDEMPOTENCY_MISMATCH',
      'this idempotency key was used before with a different request',
    ],
    ...others,
  };
  return refusalIn(refusals, word, 'a budget script');
}
