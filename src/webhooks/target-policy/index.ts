export { SecuritySettings } from './security-settings.js';
export { HostLookups, LOOKUPS_BUSY } from './host-lookups.js';
export { parseHosts, resolverOf, type ResolveHost } from './name-servers.js';
export { TARGET_BLOCKED, TargetPolicy } from './target-policy.js';
export { matchesGlob } from './url-patterns.js';
export { TargetMetrics } from './target.metrics.js';
export { TargetPolicyModule } from './target-policy.module.js';
