export { sharedPrefixes } from './action-kinds.js';
export {
  CONFIG,
  ConfigError,
  ConfigModule,
  configOfWorker,
  HOLDFAST_VERSION,
  type HoldfastConfig,
  loadConfig,
  processEnvironment,
  searchPath,
} from './config.js';
export { type Constants, CONSTANTS } from './constants.js';
export {
  type EvidenceKey,
  type EvidenceKeys,
  FIRST_KEY_LEAD_MS,
  generateEvidenceKeys,
  rotateEvidenceKeys,
} from './evidence-keys.js';
export {
  ExpectedSecret,
  resolveAdminApiKey,
  resolveEvidenceKeys,
  resolveWebhookSecretKey,
} from './secrets.js';
export type {
  ClusterRedisConfig,
  RedisConfig,
  SentinelRedisConfig,
  SingleRedisConfig,
  TlsConfig,
} from './redis-config.js';
export type { Role } from './parsers.js';
export type { RoleOfClaim } from './provider.js';
