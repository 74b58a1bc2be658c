import { customKinds } from './action-kinds.js';
import {
  bytes,
  dnsServers,
  endpoints,
  evidenceKeys,
  flag,
  headerList,
  httpUrl,
  integer,
  key32,
  minLength,
  oneOf,
  origins,
  proxies,
  redisUrl,
  ROLES,
  roles,
  serverId,
  positiveShare,
  share,
  text,
  workers,
} from './parsers.js';
import { optional, secret, setting, type Variable } from './variable.js';

const NONE = '(none)';
const GENERATED = '(generated with the embedded Redis, else required)';

const COUNT = integer(0, 1_000_000_000);
const PER_MINUTE_MAX = 10_000_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

const SERVICE = {
  port: setting('PORT', '7878', integer(0, 65535)).describe('HTTP port; 0 picks a free one.'),
  adminPort: optional('ADMIN_PORT', NONE, integer(0, 65535)).describe('A second HTTP port for the same API.'),
  host: setting('HOST', '0.0.0.0', text).describe('Address that the listeners bind to.'),
  roles: setting('HOLDFAST_ROLES', ROLES.join(','), roles).describe(
    'What this instance does; health and metrics are always served.',
  ),
  workers: setting('HOLDFAST_WORKERS', '1', workers).describe(
    'Processes that serve the port together; auto starts one for each processor.',
  ),
  dataDir: setting('DATA_DIR', './.data', text).describe(
    'Directory of the embedded Redis and the generated keys.',
  ),
  adminApiKey: secret('ADMIN_API_KEY', GENERATED, minLength(16)).describe(
    'The key of the operators, at least 16 characters.',
  ),
  viewerApiKey: secret('VIEWER_API_KEY', NONE, minLength(16)).describe(
    'A key that opens everything the operators can read, and no change; at least 16 characters.',
  ),
};

export const REDIS_ADDRESS = {
  redisUrl: secret('REDIS_URL', '(embedded Redis)', redisUrl).describe(
    'A single Redis or Valkey: redis:// or rediss:// (TLS).',
  ),
  sentinels: optional('REDIS_SENTINELS', NONE, endpoints(26379)).describe(
    'Sentinels as host:port, comma-separated; needs REDIS_MASTER_NAME.',
  ),
  masterName: optional('REDIS_MASTER_NAME', NONE, text).describe('Name of the master in the Sentinels.'),
  clusterNodes: optional('REDIS_CLUSTER_NODES', NONE, endpoints(6379)).describe(
    'Some nodes of a Redis Cluster as host:port, comma-separated.',
  ),
  redisUsername: optional('REDIS_USERNAME', '(default user)', text).describe(
    'ACL user, if REDIS_URL names none.',
  ),
  redisPassword: secret('REDIS_PASSWORD', NONE, text).describe('Password, if REDIS_URL names none.'),
  sentinelPassword: secret('REDIS_SENTINEL_PASSWORD', NONE, text).describe('Password of the Sentinels.'),
  redisTls: setting('REDIS_TLS', 'false', flag).describe(
    'TLS to Redis, Sentinels and cluster nodes; rediss:// turns it on too.',
  ),
  redisTlsCaFile: optional('REDIS_TLS_CA_FILE', "(the system's)", text).describe(
    'PEM file with the CA that signed the servers.',
  ),
  redisTlsRejectUnauthorized: setting('REDIS_TLS_REJECT_UNAUTHORIZED', 'true', flag).describe(
    'false accepts any certificate.',
  ),
};

const STORE = {
  redisCommandTimeoutMs: setting('REDIS_COMMAND_TIMEOUT_MS', '900', integer(50, 1000)).describe(
    'Redis commands that take longer fail with 503.',
  ),
  queryConcurrency: setting('QUERY_CONCURRENCY', '8', integer(1, 1000)).describe(
    'Lists, searches, exports and other queries that an instance answers at once.',
  ),
  queryConcurrencyPerTenant: setting('QUERY_CONCURRENCY_PER_TENANT', '4', integer(1, 1000)).describe(
    'The same for one tenant; operators count as one tenant.',
  ),
  queryQueueMs: setting('QUERY_QUEUE_MS', '1000', integer(0, 30_000)).describe(
    'How long a query may wait before it gets 429, and at random up to a quarter longer; 0 refuses at once.',
  ),
  queryTimeShare: setting('QUERY_TIME_SHARE', '25', integer(1, 100)).describe(
    'Percentage of time that the queries of an instance may keep Redis busy; the rest is for the ledger.',
  ),
  embeddedAppendFsync: setting('REDIS_APPENDFSYNC', 'everysec', oneOf('everysec', 'always')).describe(
    'How often the embedded Redis flushes its log to disk: everysec or always.',
  ),
  embeddedMaxmemoryBytes: optional(
    'REDIS_MAXMEMORY',
    '(three quarters of the memory of the machine or container, minus 256mb for each process of the service)',
    bytes,
  ).describe('Memory that the embedded Redis may use, such as 2gb; 0 sets no limit.'),
  allowEviction: setting('HOLDFAST_ALLOW_EVICTION', 'false', flag).describe(
    'true allows a start on a Redis that may evict the ledger.',
  ),
  partitions: setting('PARTITIONS', '64', integer(1, 256)).describe(
    'Partitions that tenants are spread over; fixed at the first start.',
  ),
};

const SWEEP = {
  sweepIntervalMs: setting('SWEEP_INTERVAL_MS', '1000', integer(50, 60_000)).describe(
    'Longest pause between two sweeps for expired reservations.',
  ),
  sweepBatchSize: setting('SWEEP_BATCH_SIZE', '1000', integer(1, 10_000)).describe(
    'Reservations in a page of a sweep.',
  ),
  sweepLeaseMs: setting('SWEEP_LEASE_MS', '5000', integer(1000, 300_000)).describe(
    'Time after which others take over the partitions of a silent sweeper.',
  ),
  sweepTimeShare: setting('SWEEP_TIME_SHARE', '90', integer(1, 100)).describe(
    'Percentage of time that a sweeper with a backlog works; the rest is for requests.',
  ),
  sweepAlertMs: setting('SWEEP_ALERT_MS', '30000', integer(1000, HOUR_MS)).describe(
    'Readiness turns red if no sweep has succeeded, or a due reservation has waited, for this long.',
  ),
};

const RETENTION = {
  auditRetentionDays: setting('AUDIT_RETENTION_DAYS', '30', integer(1, 3650)).describe(
    'How long an ended reservation can be looked up.',
  ),
  eventRetentionDays: setting('EVENT_RETENTION_DAYS', '90', integer(1, 3650)).describe(
    'How long an event is kept, at least AUDIT_RETENTION_DAYS; up to twice as long while no dispatcher has read it.',
  ),
  auditLogRetentionDays: setting('AUDIT_LOG_RETENTION_DAYS', '400', integer(1, 3650)).describe(
    'How long an audit row is kept.',
  ),
  auditLogBriefRetentionDays: setting('AUDIT_LOG_BRIEF_RETENTION_DAYS', '30', integer(1, 3650)).describe(
    'How long an audit row of a successful read or of a request without valid credentials is kept, at most AUDIT_LOG_RETENTION_DAYS.',
  ),
  idempotencyTtlMs: setting('IDEMPOTENCY_TTL_MS', String(DAY_MS), integer(60_000, 365 * DAY_MS)).describe(
    'How long a repeated request gets the first response.',
  ),
};

const LIMITS = {
  bodyLimitBytes: setting('BODY_LIMIT_BYTES', '262144', integer(1024, 16_777_216)).describe(
    'Largest request body. All valid requests fit, unless METADATA_LIMIT_BYTES is raised.',
  ),
  metadataLimitBytes: setting('METADATA_LIMIT_BYTES', '16384', integer(256, 1_048_576)).describe(
    'Largest metadata of a request, in bytes of JSON; also for metrics.custom and webhook headers.',
  ),
  tenantMaxLiveReservations: setting('TENANT_MAX_LIVE_RESERVATIONS', '1000000', COUNT).describe(
    'Live reservations of a tenant; 0 means no limit.',
  ),
  waitersPerTenant: setting('WAITERS_PER_TENANT', '1000', integer(0, 10_000)).describe(
    'Reserves of a tenant that may wait for funds at once; further ones are refused at once.',
  ),
  tenantMaxBudgets: setting('TENANT_MAX_BUDGETS', '100000', COUNT).describe(
    'Budgets of a tenant; 0 means no limit.',
  ),
  tenantMaxPolicies: setting('TENANT_MAX_POLICIES', '1000', COUNT).describe(
    'Policies of a tenant; 0 means no limit.',
  ),
  tenantMaxApiKeys: setting('TENANT_MAX_API_KEYS', '1000', COUNT).describe(
    'API keys of a tenant, including revoked and expired ones; 0 means no limit.',
  ),
  tenantMaxWebhooks: setting('TENANT_MAX_WEBHOOKS', '100', integer(0, 1000)).describe(
    'Webhook subscriptions of a tenant; 0 means only the limit of 1000 for any owner.',
  ),
  tenantMaxStoredBytes: setting(
    'TENANT_MAX_STORED_BYTES',
    '68719476736',
    integer(0, 999_999_999_999),
  ).describe('Estimated bytes stored for a tenant; 0 means no limit.'),
  rateLimitPerKeyPerMinute: setting(
    'RATE_LIMIT_PER_KEY_PER_MINUTE',
    '0',
    integer(0, PER_MINUTE_MAX),
  ).describe('Requests of one API key per minute on the runtime plane, per instance; 0 means no limit.'),
  rateLimitAuthFailuresPerMinute: setting(
    'RATE_LIMIT_AUTH_FAILURES_PER_MINUTE',
    '30',
    integer(0, PER_MINUTE_MAX),
  ).describe(
    'Wrong keys and log-ins of one address and kind of key per minute, per instance; further ones get 429, not 401; 0 means no limit.',
  ),
  rateLimitPublicPerMinute: setting(
    'RATE_LIMIT_PUBLIC_PER_MINUTE',
    '300',
    integer(0, PER_MINUTE_MAX),
  ).describe(
    'Requests of one address per minute for /docs, /openapi.json, action kinds, evidence and its keys, per instance; 0 means no limit.',
  ),
};

const TESTING = {
  testClocks: setting('HOLDFAST_TEST_CLOCKS', 'false', flag).describe(
    'true allows tenants whose time stands still until it is advanced, for tests of clients.',
  ),
};

const NETWORK = {
  trustProxy: optional('TRUST_PROXY', NONE, proxies).describe(
    'Proxies whose X-Forwarded-For is trusted: addresses, CIDR ranges, loopback, linklocal, uniquelocal.',
  ),
  corsOrigins: optional('CORS_ORIGINS', NONE, origins).describe(
    'Origins of web pages that may call the API from a browser, comma-separated.',
  ),
};

const ACTIONS = {
  customActionKinds: setting('CUSTOM_ACTION_KINDS', '[]', customKinds).describe(
    "The deployment's own kinds of actions as a JSON array; the same on every instance.",
  ),
  observeAllowSampleRate: setting('OBSERVE_ALLOW_SAMPLE_RATE', '1', positiveShare).describe(
    'Share of allowed reserves in observe mode that emit reservation.observed_allowed; 1 is all of them.',
  ),
};

const WEBHOOKS = {
  webhookSecretEncryptionKey: secret('WEBHOOK_SECRET_ENCRYPTION_KEY', GENERATED, key32).describe(
    'Encrypts webhook secrets and headers: 32 bytes, hex or base64; the same on every instance.',
  ),
  webhookTimeoutMs: setting('WEBHOOK_TIMEOUT_MS', '10000', integer(100, 60_000)).describe(
    'How long an endpoint may take to answer one delivery.',
  ),
  webhookConcurrency: setting('WEBHOOK_CONCURRENCY', '1000', integer(2, 10_000)).describe(
    'Deliveries that an instance attempts at once.',
  ),
  webhookDnsServers: optional('WEBHOOK_DNS_SERVERS', "(the system's)", dnsServers).describe(
    'Name servers for webhook hosts: addresses, with a port if it is not 53, comma-separated.',
  ),
  webhookPollMs: setting('WEBHOOK_POLL_MS', '100', integer(10, 10_000)).describe(
    'Time from one check for new events to the next.',
  ),
  webhookTimeShare: setting('WEBHOOK_TIME_SHARE', '75', integer(1, 100)).describe(
    'Percentage of time that queueing deliveries may keep Redis busy; the rest is for the ledger.',
  ),
  webhookLeaseMs: setting('WEBHOOK_LEASE_MS', '5000', integer(1000, 300_000)).describe(
    'Time after which others take over the partitions of a silent dispatcher.',
  ),
  webhookStaleAfterMs: setting('WEBHOOK_STALE_AFTER_MS', String(DAY_MS), integer(1000, 30 * DAY_MS)).describe(
    'A delivery older than this at its turn is given up.',
  ),
  webhookDeliveryRetentionDays: setting('WEBHOOK_DELIVERY_RETENTION_DAYS', '14', integer(1, 365)).describe(
    'How long a delivery can be looked up.',
  ),
  webhookAlertMs: setting('WEBHOOK_ALERT_MS', '30000', integer(1000, HOUR_MS)).describe(
    'Readiness turns red if an event has waited this long for dispatch.',
  ),
};

const EVIDENCE = {
  evidenceServerId: optional('EVIDENCE_SERVER_ID', '(no evidence is issued)', serverId).describe(
    'Public base URL of the API with its /v1; issues signed evidence under this identity, the same on every instance. Some published clients refuse answers with evidence: see docs/evidence.md.',
  ),
  evidenceKeys: secret(
    'EVIDENCE_KEYS',
    '(generated with the embedded Redis, else required with EVIDENCE_SERVER_ID)',
    evidenceKeys,
  ).describe(
    'JWK Set with the Ed25519 keys that sign evidence, retired ones included; the same on every instance.',
  ),
};

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const TELEMETRY = {
  logLevel: setting('LOG_LEVEL', 'info', oneOf(...LOG_LEVELS)).describe('Least severe level to log.'),
  recordActivity: setting('RECORD_ACTIVITY', 'true', flag).describe(
    "Whether instances add up what they did in Redis: for the console's graphs and spike events.",
  ),
  highLatencyMs: setting('HIGH_LATENCY_MS', '1000', integer(0, 10_000)).describe(
    'system.high_latency is emitted if the 99th percentile of an operation over five minutes exceeds this; 0 turns it off.',
  ),
  metricsTenantLabel: setting('CYCLES_METRICS_TENANT_TAG_ENABLED', 'true', flag).describe(
    'Whether metrics have the tenant as a label.',
  ),
  otlpEndpoint: optional('OTEL_EXPORTER_OTLP_ENDPOINT', '(no traces are sent)', httpUrl).describe(
    'Base URL of an OpenTelemetry collector for OTLP over HTTP; traces go to /v1/traces below it.',
  ),
  otlpHeaders: secret('OTEL_EXPORTER_OTLP_HEADERS', NONE, headerList).describe(
    'Headers for the collector as name=value, comma-separated, values percent-encoded.',
  ),
  otelServiceName: setting('OTEL_SERVICE_NAME', 'holdfast', text).describe('Service name in traces.'),
  otelTraceShare: setting('OTEL_TRACES_SAMPLER_ARG', '1', share).describe('Share of traces to record.'),
};

/** The variables whose values the configuration holds under the same names. The Redis address is assembled from several. */
export const SETTINGS = {
  ...SERVICE,
  ...STORE,
  ...SWEEP,
  ...RETENTION,
  ...LIMITS,
  ...TESTING,
  ...NETWORK,
  ...ACTIONS,
  ...WEBHOOKS,
  ...EVIDENCE,
  ...TELEMETRY,
};

/** Every variable that Holdfast reads, in the order of docs/configuration.md; its test compares the two. */
export const CONFIG_VARIABLES: readonly Variable[] = Object.values<Variable>({
  ...SERVICE,
  ...REDIS_ADDRESS,
  ...SETTINGS,
});
