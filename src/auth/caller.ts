import {
  Refusal,
  SCOPE_LEVELS,
  type ScopeLevel,
  SEGMENT_MAX_LENGTH,
  SEGMENT_PATTERN,
} from '../ledger/index.js';

/** A valid API key's owner, as Redis knew it at most a second ago. */
export interface TenantCaller {
  readonly kind: 'tenant';
  /** The effective tenant of the request. */
  readonly tenantId: string;
  readonly keyId: string;
  /** As granted; ask `grants`, which knows the wildcards. */
  readonly permissions: ReadonlySet<string>;
  /** Empty when the key is not confined; see `scopeAllowed`. */
  readonly scopeFilter: ScopeFilter;
}

/** The operator, who may do all and has no tenant. */
export interface AdminCaller {
  readonly kind: 'admin';
}

export type Caller = TenantCaller | AdminCaller;

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the access guard on every operation that declares `@Access`. */
    caller?: Caller;
  }
}

/**
 * ApiKey.scope_filter of cycles-governance-admin-v0.1.25: where a key may act. An entry is one or more segments joined by
 * '/', each of which a scope must hold; `level:*` asks for nothing. Entries belong together by the deepest level that they
 * name: of one level any entry may match, and every level must. So `["workspace:eng", "agent:*"]` limits a key to the
 * workspace eng, as the document's own example says, and `["agent:a", "agent:b"]` admits both agents.
 */
export type ScopeFilter = readonly string[];

/** Whether a key with this filter may act on a canonical (lower-case) scope path. No entries are no restriction. */
export function scopeAllowed(filter: ScopeFilter, scopePath: string): boolean {
  if (filter.length === 0) {
    return true;
  }
  const framed = `/${scopePath}/`;
  const levels = new Map<number, boolean>();
  for (const entry of filter) {
    const segments = entry.split('/');
    const level = Math.max(...segments.map(levelOf));
    levels.set(level, levels.get(level) === true || segments.every((segment) => holds(framed, segment)));
  }
  return [...levels.values()].every((matched) => matched);
}

function levelOf(segment: string): number {
  return SCOPE_LEVELS.indexOf(segment.slice(0, Math.max(segment.indexOf(':'), 0)) as ScopeLevel);
}

function holds(framed: string, segment: string): boolean {
  return segment.endsWith(':*') || framed.includes(`/${segment}/`);
}

/** Whether a text is an entry as described above; a level that is misspelt would silently match nothing. */
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

/**
 * Whose records a list shows: those of the key's tenant, or for an operator those of the tenant that is named, if any.
 * @throws Refusal FORBIDDEN when an API key names another tenant: its own records would pass for those of the other one.
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
