import type { Answer } from '../../answers/index.js';
import { type Caller, requireTenantId, scopeAllowed } from '../../auth/index.js';
import { invalidField, parseScopePath, Refusal, tenantOfScope } from '../../ledger/index.js';
import { fieldOf, type Fields, optionalText, optionalTime, readJson, timeOf } from '../../wire/index.js';
import { actionRulesOf } from './action-rules.js';
import { POLICY_STATUSES } from './policy.dto.js';

/** Policy of cycles-governance-admin-v0.1.25, with the members of cycles-governance-extensions-v0.1.26. */
export type Policy = Answer<'Policy'>;

/** The stored fields of reservation_ttl_override. They have its members' names. */
export const TTL_FIELDS = ['default_ttl_ms', 'max_ttl_ms', 'max_extensions'] as const;
/** The stored fields of rate_limits, likewise. */
export const RATE_FIELDS = ['max_reservations_per_minute', 'max_commits_per_minute'] as const;

/** An object of those fields that the record has, or nothing. */
function numbersOf<Name extends string>(
  fields: Fields,
  member: Name,
  names: readonly string[],
): Partial<Record<Name, Readonly<Record<string, number>>>> {
  const present = names.filter((name) => fields.has(name));
  const numbers = Object.fromEntries(present.map((name) => [name, Number(fieldOf(fields, name))]));
  return (present.length === 0 ? {} : { [member]: numbers }) as Partial<
    Record<Name, Readonly<Record<string, number>>>
  >;
}

/** The members that a list reads only for the rows of its page. @throws Error when the record is corrupt. */
export function policyTexts(fields: Fields): Pick<Policy, 'description' | 'caps'> {
  const caps = fields.get('caps');
  return {
    ...optionalText(fields, 'description'),
    ...(caps === undefined ? {} : { caps: readJson(caps) as Policy['caps'] }),
  };
}

/** @throws Error when the record is corrupt. */
export function policyOf(fields: Fields, policyId: string): Policy {
  const status = POLICY_STATUSES.find((known) => known === fields.get('status'));
  if (status === undefined) {
    throw new Error(`corrupt policy record ${policyId}: its status is ${fields.get('status')}`);
  }
  return {
    policy_id: policyId,
    name: fieldOf(fields, 'name'),
    ...policyTexts(fields),
    scope_pattern: fieldOf(fields, 'scope_pattern'),
    priority: Number(fieldOf(fields, 'priority')),
    ...optionalText(fields, 'commit_overage_policy'),
    ...numbersOf(fields, 'reservation_ttl_override', TTL_FIELDS),
    ...numbersOf(fields, 'rate_limits', RATE_FIELDS),
    ...actionRulesOf(fields),
    status,
    ...optionalTime(fields, 'effective_from'),
    ...optionalTime(fields, 'effective_until'),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
  };
}

/** A policy's pattern in canonical form, and the tenant that owns it. */
export interface OwnedPattern {
  readonly pattern: string;
  readonly tenantId: string;
}

/** The suffix of a pattern that covers all scopes below its scope. */
const BELOW = '/*';

const refuse = (message: string): Refusal => invalidField('scope_pattern', message);

/** The scope of a pattern, without the suffix. */
export function scopeOfPattern(pattern: string): string {
  return pattern.endsWith(BELOW) ? pattern.slice(0, -BELOW.length) : pattern;
}

function canonicalPattern(text: string): string {
  const scope = scopeOfPattern(text);
  try {
    return parseScopePath(scope) + text.slice(scope.length);
  } catch (error) {
    if (error instanceof Refusal) {
      throw refuse(
        `scope_pattern must be a scope, or a scope followed by '/*' for all scopes below it: ${error.message}`,
      );
    }
    throw error;
  }
}

/**
 * Parses a new policy's pattern and checks that the caller may govern those scopes. A policy belongs to one tenant, so its pattern
 * starts with that tenant. The patterns across tenants that the protocol sketches are not supported, because they have no owner.
 * @param named the request's tenant_id
 * @throws Refusal INVALID_REQUEST (malformed pattern; an operator's tenant is missing or not the pattern's; an API key that
 * names a tenant), FORBIDDEN (another tenant's scopes), INSUFFICIENT_PERMISSIONS (outside the key's scope filter).
 */
export function ownedPattern(caller: Caller, text: string, named: string | undefined): OwnedPattern {
  if (caller.kind === 'tenant' && named !== undefined) {
    throw invalidField('tenant_id', 'tenant_id must be absent with an API key, which belongs to one tenant');
  }
  const tenantId = caller.kind === 'tenant' ? caller.tenantId : requireTenantId(named);
  const pattern = canonicalPattern(text);
  const scope = scopeOfPattern(pattern);
  if (tenantOfScope(scope) !== tenantId) {
    throw caller.kind === 'admin'
      ? refuse(`scope_pattern must start with tenant:${tenantId}, the tenant that tenant_id names`)
      : new Refusal('FORBIDDEN', 'the pattern names scopes of another tenant', { field: 'scope_pattern' });
  }
  requireInFilter(caller, pattern);
  return { pattern, tenantId };
}

/** @throws Refusal INSUFFICIENT_PERMISSIONS when the pattern's scope is outside the key's scope filter. */
export function requireInFilter(caller: Caller, pattern: string): void {
  if (caller.kind === 'tenant' && !scopeAllowed(caller.scopeFilter, scopeOfPattern(pattern))) {
    throw new Refusal('INSUFFICIENT_PERMISSIONS', "the pattern is outside the API key's scope filter", {
      field: 'scope_pattern',
    });
  }
}
