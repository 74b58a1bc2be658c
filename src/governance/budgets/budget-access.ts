import { scopeAllowed, type Caller } from '../../auth/index.js';
import { parseScopePath, Refusal, tenantOfScope, type Unit } from '../../ledger/index.js';

/** A ledger's scope in canonical form, and the tenant that owns it. */
export interface OwnedScope {
  readonly scope: string;
  readonly tenantId: string;
}

/**
 * Which tenant's ledger a caller means, and whether it may.
 *
 * @param named the tenant that the request names, for an operator's request that must name one; undefined where the scope says it all.
 * @throws Refusal INVALID_REQUEST (malformed scope; an operator's tenant is not the scope's), FORBIDDEN (another tenant's
 * scope), INSUFFICIENT_PERMISSIONS (outside the key's scope filter).
 */
export function ownedScope(caller: Caller, scopeText: string, named?: string): OwnedScope {
  const scope = parseScopePath(scopeText);
  const tenantId = tenantOfScope(scope) as string;
  if (caller.kind === 'admin') {
    if (named !== undefined && named !== tenantId) {
      throw new Refusal(
        'INVALID_REQUEST',
        `scope must start with tenant:${named}, the tenant that tenant_id names`,
        { field: 'scope' },
      );
    }
    return { scope, tenantId };
  }
  if (tenantId !== caller.tenantId) {
    throw new Refusal('FORBIDDEN', 'the scope belongs to another tenant', { field: 'scope' });
  }
  if (!scopeAllowed(caller.scopeFilter, scope)) {
    throw new Refusal('INSUFFICIENT_PERMISSIONS', "the scope lies outside the API key's scope filter", {
      field: 'scope',
    });
  }
  return { scope, tenantId };
}

/** @throws Refusal INVALID_REQUEST when an operator names no tenant. */
export function requireTenantId(caller: Caller, tenantId: string | undefined): string | undefined {
  if (caller.kind === 'tenant') {
    return undefined;
  }
  if (tenantId === undefined || tenantId === '') {
    throw new Refusal('INVALID_REQUEST', 'tenant_id is required with the admin key', { field: 'tenant_id' });
  }
  return tenantId;
}

/** @throws Refusal UNIT_MISMATCH when an amount of a request is in another unit than the budget. */
export function requireUnit(unit: Unit, field: string, amount: { readonly unit: Unit } | undefined): void {
  if (amount !== undefined && amount.unit !== unit) {
    throw new Refusal('UNIT_MISMATCH', `${field}.unit must be ${unit}, the unit of the budget`, {
      field: `${field}.unit`,
    });
  }
}

/** What the refusing status words mean that all scripts have which change a budget. */
export function budgetRefusal(word: string | undefined, scope: string, unit: Unit): Error {
  const details = { scope, unit };
  switch (word) {
    case 'NOT_FOUND':
      return new Refusal('BUDGET_NOT_FOUND', `there is no ${unit} budget at ${scope}`, details);
    case 'TENANT_CLOSED':
      return new Refusal('TENANT_CLOSED', 'the tenant is closed; its budgets no longer change');
    case 'BUDGET_FROZEN':
      return new Refusal('BUDGET_FROZEN', `the budget at scope ${scope} is frozen`, details);
    case 'BUDGET_CLOSED':
      return new Refusal('BUDGET_CLOSED', `the budget at scope ${scope} is closed`, details);
    case 'ALREADY_ACTIVE':
      return new Refusal('DUPLICATE_RESOURCE', `the budget at scope ${scope} is active already`, details);
    default:
      return new Error(`a budget script answered ${word}`);
  }
}
