import {
  invalidField,
  Refusal,
  SCOPE_LEVELS,
  type ScopeLevel,
  SEGMENT_MAX_LENGTH,
  SEGMENT_PATTERN,
} from '../ledger/index.js';
import type { Tenants } from './confinement.js';
import type { OperatorRole } from './operator-roles.js';

/** The owner of a valid API key. At most one second old. */
export interface TenantCaller {
  readonly kind: 'tenant';
  /** The effective tenant of the request. */
  readonly tenantId: string;
  readonly keyId: string;
  /** As stored. Use `grants` to check one, which handles the wildcards. */
  readonly permissions: ReadonlySet<string>;
  /** Empty if the key may act on all scopes; see `scopeAllowed`. */
  readonly scopeFilter: ScopeFilter;
  /** Whether answers refer to their evidence. Strict models of some clients refuse answers with references. */
  readonly referencesEvidence: boolean;
}

/** An operator, who has no tenant, and may do what the role allows. At most one second old. */
export interface AdminCaller {
  readonly kind: 'admin';
  readonly role: OperatorRole;
  /** Absent for the whole deployment. */
  readonly tenants?: Tenants;
  /**
   * Who it is in the audit log and in events, if not the admin key itself: `operator:<name>`, `oidc:<name>`, a session that the admin key
   * opened, or `viewer`.
   */
  readonly keyId?: string;
  /** Of the key, for a named operator. */
  readonly secretHash?: string;
}

export type Caller = TenantCaller | AdminCaller;

/** Whether answers to the caller refer to their evidence. It is issued all the same: a key only decides what its client sees. */
export function seesEvidence(caller: Caller): boolean {
  return caller.kind === 'admin' || caller.referencesEvidence;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the access guard on every operation that declares `@Access`. */
    caller?: Caller;
    /** Judges the caller of a request that had to wait again, as if the request came now. @throws as the access guard */
    readmit?: (request: FastifyRequest) => Promise<void>;
  }
}

/**
 * The scopes that a key may act on: ApiKey.scope_filter of cycles-governance-admin-v0.1.25. An entry is one or more segments joined by
 * '/', all of which the scope must contain; `level:*` matches everything. Entries are grouped by the deepest level that they name. A
 * scope must match at least one entry of each group. So `["workspace:eng", "agent:*"]` limits a key to the workspace eng, as in the
 * example of the specification, and `["agent:a", "agent:b"]` allows both agents.
 */
export type ScopeFilter = readonly string[];

/** Whether a key with this filter may act on a canonical (lower-case) scope path. An empty filter allows all. */
export function scopeAllowed(filter: ScopeFilter, scopePath: string): boolean {
  if (filter.length === 0) {
    return true;
  }
  const framed = `/${scopePath}/`;
  return segmentsOf(filter).every((alternatives) =>
    alternatives.some((segments) => segments.every((segment) => framed.includes(`/${segment}/`))),
  );
}

/**
 * The segments that a filter asks for, for a query that applies it to many scopes: of each group, at least one entry must have all of its
 * segments in the scope. One that has no segments left matches everything.
 */
export function segmentsOf(filter: ScopeFilter): string[][][] {
  const levels = new Map<number, string[][]>();
  for (const entry of filter) {
    const segments = entry.split('/');
    const level = Math.max(...segments.map(levelOf));
    const asked = segments.filter((segment) => !segment.endsWith(':*'));
    levels.set(level, [...(levels.get(level) ?? []), asked]);
  }
  return [...levels.values()];
}

function levelOf(segment: string): number {
  return SCOPE_LEVELS.indexOf(segment.slice(0, Math.max(segment.indexOf(':'), 0)) as ScopeLevel);
}

/** Whether a text is a valid entry. A misspelt level would silently match nothing. */
export function isScopeFilterEntry(text: string): boolean {
  return text.split('/').every((segment) => {
    const colon = segment.indexOf(':');
    const value = segment.slice(colon + 1);
    return (
      SCOPE_LEVELS.includes(segment.slice(0, Math.max(colon, 0)).toLowerCase() as ScopeLevel) &&
      (value === '*' || (SEGMENT_PATTERN.test(value) && value.length <= SEGMENT_MAX_LENGTH))
    );
  });
}

/** The tenant that an operator names. @throws Refusal INVALID_REQUEST if it is missing */
export function requireTenantId(named: string | undefined): string {
  if (named === undefined || named === '') {
    throw invalidField('tenant_id', 'tenant_id is required with the admin key');
  }
  return named;
}

/**
 * The tenant whose records a list shows: that of the API key, or for an operator the one that the request names, if any.
 * @throws Refusal FORBIDDEN if the request names another tenant than that of its API key.
 */
export function listedTenant(caller: Caller, named: string | undefined): string | undefined {
  if (caller.kind === 'admin') {
    return named;
  }
  if (named !== undefined && named !== '' && named !== caller.tenantId) {
    throw new Refusal(
      'FORBIDDEN',
      'tenant_id is not the tenant of the API key; leave it out, or use the admin key',
      { field: 'tenant_id' },
    );
  }
  return caller.tenantId;
}
