export { Access, accessRuleOf, type AccessRule } from './access.js';
export { AdminKey } from './admin-key.js';
export { ApiKeyVerifier, hashOfSecret } from './api-key-verifier.js';
export { AuthModule } from './auth.module.js';
export { CallerFinder } from './caller-finder.js';
export type { AdminCaller, Caller, TenantCaller } from './caller.js';
export { permissionList, PERMISSION_WORDS } from './permission-words.js';
export { DEFAULT_PERMISSIONS, grants, PERMISSIONS, type Permission } from './permissions.js';
export { isScopeFilterEntry, scopeAllowed, type ScopeFilter } from './scope-filter.js';
