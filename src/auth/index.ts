export { ApiKeyVerifier, AuthAttempts, hashOfSecret, WrongSecret } from './api-key-verifier.js';
export { AUTH_METRICS } from './auth.metrics.js';
export { AuthModule } from './auth.module.js';
export {
  type AdminCaller,
  type Caller,
  isScopeFilterEntry,
  listedTenant,
  requireTenantId,
  scopeAllowed,
  type ScopeFilter,
  seesEvidence,
  segmentsOf,
  type TenantCaller,
} from './caller.js';
export {
  confinementOf,
  EVERYTHING,
  isTenantPattern,
  MAX_TENANT_PATTERNS,
  mayActFor,
  partitionsOfTenants,
  patternsText,
  TENANT_PATTERN,
  type Tenants,
} from './confinement.js';
export {
  type ConsoleSession,
  ConsoleSessions,
  SESSION_LIFETIME_MS,
  sessionCookie,
  sessionTokenIn,
} from './console-sessions.js';
export { HostCookie } from './host-cookie.js';
export { OperatorKeys } from './operator-keys.js';
export { includesRole, OPERATOR_ROLES, type OperatorRole, ROLE_WORDS } from './operator-roles.js';
export { DEFAULT_PERMISSIONS, grants, type Permission, permissionList, PERMISSIONS } from './permissions.js';
export { ProviderUnavailable } from './provider-unavailable.js';
export { RateLimits, sourceOf } from './rate-limits.js';
