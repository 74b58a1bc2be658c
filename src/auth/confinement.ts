import { TENANT_ID_PATTERN } from '../ledger/index.js';
import { partitionOfTenant } from '../redis/index.js';

/** The tenants that an operator is confined to: ids, or how they begin, as in `team-*`. Undefined for the whole deployment. */
export type Tenants = readonly string[] | undefined;

export const TENANT_PATTERN = /^(?:[a-z0-9-]{1,64}\*?|\*)$/;
export const MAX_TENANT_PATTERNS = 50;

/** Stands for the whole deployment, which is more than each of its tenants. */
export const EVERYTHING = '*';

export function isTenantPattern(text: unknown): text is string {
  return typeof text === 'string' && TENANT_PATTERN.test(text);
}

export function confinementOf(patterns: readonly string[]): Tenants {
  return patterns.includes(EVERYTHING) ? undefined : patterns;
}

/** Whether an operator may act for a tenant. No pattern matches `__system__`, which owns what is of the whole deployment. */
export function mayActFor(tenants: Tenants, tenantId: string): boolean {
  return (
    tenants === undefined ||
    (TENANT_ID_PATTERN.test(tenantId) &&
      tenants.some((pattern) =>
        pattern.endsWith('*') ? tenantId.startsWith(pattern.slice(0, -1)) : tenantId === pattern,
      ))
  );
}

/** The numbers of the partitions that have what is of these tenants. */
export function partitionsOfTenants(tenants: Tenants, partitions: number): number[] {
  return tenants === undefined || tenants.some((pattern) => pattern.endsWith('*'))
    ? Array.from({ length: partitions }, (_, number) => number)
    : [...new Set(tenants.map((tenantId) => partitionOfTenant(tenantId, partitions)))].sort(
        (one, other) => one - other,
      );
}

/** As scripts get them: see lua/lib/confinement.lua. */
export const patternsText = (tenants: Tenants): string => tenants?.join(' ') ?? '';
