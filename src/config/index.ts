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
export { ExpectedSecret, resolveAdminApiKey, resolveWebhookSecretKey } from './secrets.js';
export type {
  ClusterRedisConfig,
  RedisConfig,
  SentinelRedisConfig,
  SingleRedisConfig,
  TlsConfig,
} from './redis-config.js';
export type { Role } from './parsers.js';
