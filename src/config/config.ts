import { type DynamicModule, Global, Module } from '@nestjs/common';
import { Reading } from './reading.js';
import { readRedis } from './redis-config.js';
import { type Endpoint, type Role, VARIABLES } from './variables.js';

export interface TlsConfig {
  /** PEM text of the CA; absent means the system's own list. */
  readonly ca?: string;
  readonly rejectUnauthorized: boolean;
}

interface RedisAccess {
  readonly username?: string;
  readonly password?: string;
  readonly tls?: TlsConfig;
}

export interface SingleRedisConfig extends RedisAccess {
  readonly mode: 'single';
  /** Without user and password, so that it may be shown. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly db: number;
}

export interface SentinelRedisConfig extends RedisAccess {
  readonly mode: 'sentinel';
  readonly sentinels: readonly Endpoint[];
  readonly masterName: string;
  readonly sentinelPassword?: string;
}

export interface ClusterRedisConfig extends RedisAccess {
  readonly mode: 'cluster';
  readonly nodes: readonly Endpoint[];
}

export type RedisConfig =
  { readonly mode: 'embedded' } | SingleRedisConfig | SentinelRedisConfig | ClusterRedisConfig;

export interface HoldfastConfig {
  readonly port: number;
  readonly adminPort?: number;
  readonly host: string;
  readonly roles: ReadonlySet<Role>;
  readonly dataDir: string;
  /** Absent only with the embedded Redis, until `resolveAdminApiKey` has found or made it. */
  readonly adminApiKey?: string;
  readonly redis: RedisConfig;
  readonly redisCommandTimeoutMs: number;
  readonly queryConcurrency: number;
  readonly queryConcurrencyPerTenant: number;
  readonly queryQueueMs: number;
  /** Percent. */
  readonly queryTimeShare: number;
  readonly partitions: number;
  readonly allowEviction: boolean;
  readonly embeddedAppendFsync: 'everysec' | 'always';
  readonly sweepIntervalMs: number;
  readonly sweepBatchSize: number;
  readonly sweepLeaseMs: number;
  /** Percent. */
  readonly sweepTimeShare: number;
  readonly sweepAlertMs: number;
  readonly auditRetentionDays: number;
  readonly eventRetentionDays: number;
  readonly auditLogRetentionDays: number;
  readonly auditLogBriefRetentionDays: number;
  readonly idempotencyTtlMs: number;
  readonly bodyLimitBytes: number;
  readonly metadataLimitBytes: number;
  /** What a tenant may own, unless its own limits say otherwise; 0 is no limit. */
  readonly tenantMaxLiveReservations: number;
  readonly tenantMaxBudgets: number;
  readonly tenantMaxPolicies: number;
  readonly tenantMaxApiKeys: number;
  readonly tenantMaxWebhooks: number;
  readonly tenantMaxStoredBytes: number;
  /** Requests in a minute, as each instance counts them; 0 is no limit. */
  readonly rateLimitPerKeyPerMinute: number;
  readonly rateLimitAuthFailuresPerMinute: number;
  readonly rateLimitPublicPerMinute: number;
  /** Absent when no proxy is believed. */
  readonly trustProxy?: readonly string[];
  /** Absent when no script of another origin is let in. */
  readonly corsOrigins?: readonly string[];
  /** Absent only with the embedded Redis, until `resolveWebhookSecretKey` has found or made it. */
  readonly webhookSecretEncryptionKey?: Buffer;
  readonly webhookUnboundSecrets: 'accept' | 'refuse';
  /** Of one attempt. */
  readonly webhookTimeoutMs: number;
  readonly webhookConcurrency: number;
  /** Absent when the system's are asked. */
  readonly webhookDnsServers?: readonly string[];
  readonly webhookPollMs: number;
  readonly webhookLeaseMs: number;
  readonly webhookStaleAfterMs: number;
  readonly webhookDeliveryRetentionDays: number;
  readonly webhookAlertMs: number;
  readonly logLevel: string;
  readonly metricsTenantLabel: boolean;
  readonly shutdownGraceMs: number;
}

/** One line for each bad value, each naming the variable and what is allowed. No value of a secret is ever in it. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';

  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
  }
}

/** In-flight requests get this long at shutdown; the whole stop must stay under 10 s, Redis and its child included. */
export const SHUTDOWN_GRACE_MS = 8000;

function queryLimits(
  reading: Reading,
): Pick<
  HoldfastConfig,
  'queryConcurrency' | 'queryConcurrencyPerTenant' | 'queryQueueMs' | 'queryTimeShare'
> {
  return {
    queryConcurrency: reading.required(VARIABLES.queryConcurrency),
    queryConcurrencyPerTenant: reading.required(VARIABLES.queryConcurrencyPerTenant),
    queryQueueMs: reading.required(VARIABLES.queryQueueMs),
    queryTimeShare: reading.required(VARIABLES.queryTimeShare),
  };
}

function webhookSettings(
  reading: Reading,
): Pick<
  HoldfastConfig,
  Extract<
    keyof typeof VARIABLES,
    `webhook${string}Ms` | `webhook${string}Days` | 'webhookConcurrency' | 'webhookUnboundSecrets'
  >
> {
  return {
    webhookUnboundSecrets: reading.required(VARIABLES.webhookUnboundSecrets),
    webhookTimeoutMs: reading.required(VARIABLES.webhookTimeoutMs),
    webhookConcurrency: reading.required(VARIABLES.webhookConcurrency),
    webhookPollMs: reading.required(VARIABLES.webhookPollMs),
    webhookLeaseMs: reading.required(VARIABLES.webhookLeaseMs),
    webhookStaleAfterMs: reading.required(VARIABLES.webhookStaleAfterMs),
    webhookDeliveryRetentionDays: reading.required(VARIABLES.webhookDeliveryRetentionDays),
    webhookAlertMs: reading.required(VARIABLES.webhookAlertMs),
  };
}

/** Reads and checks the whole configuration. A value of blanks counts as unset. */
export function loadConfig(env: NodeJS.ProcessEnv): HoldfastConfig {
  const reading = new Reading(env);
  const redis = readRedis(reading);
  const adminPort = reading.optional(VARIABLES.adminPort);
  const adminApiKey = reading.optional(VARIABLES.adminApiKey);
  const trustProxy = reading.optional(VARIABLES.trustProxy);
  const corsOrigins = reading.optional(VARIABLES.corsOrigins);
  const webhookDnsServers = reading.optional(VARIABLES.webhookDnsServers);
  const webhookSecretEncryptionKey = reading.optional(VARIABLES.webhookSecretEncryptionKey);
  if (redis.mode !== 'embedded' && !reading.isSet(VARIABLES.adminApiKey)) {
    reading.refuse('ADMIN_API_KEY is required with an external Redis: set at least 16 characters');
  }
  if (redis.mode !== 'embedded' && !reading.isSet(VARIABLES.webhookSecretEncryptionKey)) {
    reading.refuse(
      'WEBHOOK_SECRET_ENCRYPTION_KEY is required with an external Redis: set 32 bytes, written as 64 hex digits or as base64',
    );
  }
  const config: HoldfastConfig = {
    port: reading.required(VARIABLES.port),
    ...(adminPort === undefined ? {} : { adminPort }),
    host: reading.required(VARIABLES.host),
    roles: reading.required(VARIABLES.roles),
    dataDir: reading.required(VARIABLES.dataDir),
    ...(adminApiKey === undefined ? {} : { adminApiKey }),
    redis,
    redisCommandTimeoutMs: reading.required(VARIABLES.redisCommandTimeoutMs),
    ...queryLimits(reading),
    partitions: reading.required(VARIABLES.partitions),
    allowEviction: reading.required(VARIABLES.allowEviction),
    embeddedAppendFsync: reading.required(VARIABLES.embeddedAppendFsync),
    sweepIntervalMs: reading.required(VARIABLES.sweepIntervalMs),
    sweepBatchSize: reading.required(VARIABLES.sweepBatchSize),
    sweepLeaseMs: reading.required(VARIABLES.sweepLeaseMs),
    sweepTimeShare: reading.required(VARIABLES.sweepTimeShare),
    sweepAlertMs: reading.required(VARIABLES.sweepAlertMs),
    auditRetentionDays: reading.required(VARIABLES.auditRetentionDays),
    eventRetentionDays: reading.required(VARIABLES.eventRetentionDays),
    auditLogRetentionDays: reading.required(VARIABLES.auditLogRetentionDays),
    auditLogBriefRetentionDays: reading.required(VARIABLES.auditLogBriefRetentionDays),
    idempotencyTtlMs: reading.required(VARIABLES.idempotencyTtlMs),
    bodyLimitBytes: reading.required(VARIABLES.bodyLimitBytes),
    metadataLimitBytes: reading.required(VARIABLES.metadataLimitBytes),
    tenantMaxLiveReservations: reading.required(VARIABLES.tenantMaxLiveReservations),
    tenantMaxBudgets: reading.required(VARIABLES.tenantMaxBudgets),
    tenantMaxPolicies: reading.required(VARIABLES.tenantMaxPolicies),
    tenantMaxApiKeys: reading.required(VARIABLES.tenantMaxApiKeys),
    tenantMaxWebhooks: reading.required(VARIABLES.tenantMaxWebhooks),
    tenantMaxStoredBytes: reading.required(VARIABLES.tenantMaxStoredBytes),
    rateLimitPerKeyPerMinute: reading.required(VARIABLES.rateLimitPerKeyPerMinute),
    rateLimitAuthFailuresPerMinute: reading.required(VARIABLES.rateLimitAuthFailuresPerMinute),
    rateLimitPublicPerMinute: reading.required(VARIABLES.rateLimitPublicPerMinute),
    ...(trustProxy === undefined ? {} : { trustProxy }),
    ...(corsOrigins === undefined ? {} : { corsOrigins }),
    ...(webhookSecretEncryptionKey === undefined ? {} : { webhookSecretEncryptionKey }),
    ...(webhookDnsServers === undefined ? {} : { webhookDnsServers }),
    ...webhookSettings(reading),
    logLevel: reading.required(VARIABLES.logLevel),
    metricsTenantLabel: reading.required(VARIABLES.metricsTenantLabel),
    shutdownGraceMs: SHUTDOWN_GRACE_MS,
  };
  if (config.adminPort !== undefined && config.adminPort === config.port && config.port !== 0) {
    reading.refuse(`ADMIN_PORT must differ from PORT (${config.port})`);
  }
  if (reading.problems.length > 0) {
    throw new ConfigError(reading.problems);
  }
  return config;
}

/** Where executables are searched; read when needed, since it is the machine's setting and not Holdfast's. */
export function searchPath(): string {
  return process.env['PATH'] ?? '';
}

/** The environment that main.ts starts from; nothing outside this folder reads it. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** What this is, as the OpenAPI document and webhook deliveries name it; a test compares it with package.json. */
export const HOLDFAST_VERSION = '0.6.0';

/** Injects the checked configuration of this process, a HoldfastConfig. */
export const CONFIG = Symbol('CONFIG');

@Global()
@Module({})
export class ConfigModule {
  static forRoot(config: HoldfastConfig): DynamicModule {
    return { module: ConfigModule, providers: [{ provide: CONFIG, useValue: config }], exports: [CONFIG] };
  }
}
