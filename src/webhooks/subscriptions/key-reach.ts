import { scopeAllowed, type Caller } from '../../auth/index.js';
import { Refusal } from '../../ledger/index.js';

/** The tenant whose subscriptions a caller reaches; operators reach all. */
export const reachOf = (caller: Caller): string => (caller.kind === 'tenant' ? caller.tenantId : '');

/**
 * Whether a key that is confined to some scopes may see or have a subscription with this scope filter. Without a filter a
 * subscription receives the events of all of its tenant's scopes, which only a key that is not confined may ask for.
 */
export function withinKey(caller: Caller, scopeFilter: string | undefined): boolean {
  if (caller.kind === 'admin' || caller.scopeFilter.length === 0) {
    return true;
  }
  return scopeFilter !== undefined && scopeAllowed(caller.scopeFilter, fixedScope(scopeFilter));
}

/** @throws Refusal INSUFFICIENT_PERMISSIONS */
export function requireWithinKey(caller: Caller, scopeFilter: string | undefined): void {
  if (!withinKey(caller, scopeFilter)) {
    throw new Refusal(
      'INSUFFICIENT_PERMISSIONS',
      "the subscription would receive events from outside the API key's scope filter; give it a scope_filter inside",
      {
        field: 'scope_filter',
      },
    );
  }
}

/** The segments before the first wildcard: what every scope that a filter matches begins with. */
function fixedScope(scopeFilter: string): string {
  const star = scopeFilter.indexOf('*');
  return star < 0 ? scopeFilter : scopeFilter.slice(0, Math.max(scopeFilter.lastIndexOf('/', star), 0));
}
