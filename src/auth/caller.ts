import type { ScopeFilter } from './scope-filter.js';

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
