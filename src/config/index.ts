export {
  type ClusterRedisConfig,
  CONFIG,
  ConfigError,
  ConfigModule,
  HOLDFAST_VERSION,
  type HoldfastConfig,
  loadConfig,
  processEnvironment,
  type RedisConfig,
  searchPath,
  type SentinelRedisConfig,
  type SingleRedisConfig,
  type TlsConfig,
} from './config.js';
export { ExpectedSecret, resolveAdminApiKey, resolveWebhookSecretKey } from './secrets.js';
export type { Role } from './variables.js';
