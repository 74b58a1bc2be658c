import { DAY_MS } from '../ledger/index.js';
import { customKinds } from './action-kinds.js';
import { ARCHIVE } from './archive-variables.js';
import {
  bytes,
  days,
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
import { PROVIDER } from './provider.js';
import { NONE, optional, secret, setting, type Variable } from './variable.js';

const GENERATED = '(generated with the embedded Redis, else required)';

const PER_MINUTE_MAX = 10_000_000;

const SERVICE = {
  port: setting('PORT', '7878', integer(0, 65535)).describe(
    'HTTP port; 0 picks a free one.',
    'Whose port 7878 is taken.',
  ),
  adminPort: optional('ADMIN_PORT', NONE, integer(0, 65535)).describe(
    'If set, only this port serves /v1/admin, /ops, /console and /metrics, with everything else; 0 picks a free one.',
    "Who keeps operators' requests inside a network.",
  ),
  host: setting('HOST', '0.0.0.0', text).describe(
    'Address that the listeners bind to.',
    'Who listens on one interface only.',
  ),
  roles: setting('HOLDFAST_ROLES', ROLES.join(','), roles).describe(
    'What this instance does; health and metrics are always served.',
    'Who scales requests and background work separately.',
  ),
  workers: setting('HOLDFAST_WORKERS', '1', workers).describe(
    'Processes that serve the port together; auto starts one for each processor.',
    'Whose one instance needs more than one processor.',
  ),
  dataDir: setting('DATA_DIR', './.data', text).describe(
    'Directory of the embedded Redis and the generated keys.',
    'Who keeps the ledger on a volume.',
  ),
  adminApiKey: secret('ADMIN_API_KEY', GENERATED, minLength(16)).describe(
    'The key of the operators, at least 16 characters.',
    'Everyone with an external Redis.',
  ),
  viewerApiKey: secret('VIEWER_API_KEY', NONE, minLength(16)).describe(
    'A key that opens everything the operators can read, and no change; at least 16 characters.',
    'Whose support or dashboards only read.',
  ),
};

export const REDIS_ADDRESS = {
  redisUrl: secret('REDIS_URL', '(embedded Redis)', redisUrl).describe(
    'A single Redis or Valkey: redis:// or rediss:// (TLS).',
    'Who has a Redis.',
  ),
  sentinels: optional('REDIS_SENTINELS', NONE, endpoints(26379)).describe(
    'Sentinels as host:port, comma-separated; needs REDIS_MASTER_NAME.',
    'Whose Redis fails over by Sentinel.',
  ),
  masterName: optional('REDIS_MASTER_NAME', NONE, text).describe(
    'Name of the master in the Sentinels.',
    'Whose Redis fails over by Sentinel.',
  ),
  clusterNodes: optional('REDIS_CLUSTER_NODES', NONE, endpoints(6379)).describe(
    'Some nodes of a Redis Cluster as host:port, comma-separated.',
    'Whose Redis is a cluster.',
  ),
  redisUsername: optional('REDIS_USERNAME', '(default user)', text).describe(
    'ACL user, if REDIS_URL names none.',
    'Whose Redis has ACL users, and keeps passwords out of URLs.',
  ),
  redisPassword: secret('REDIS_PASSWORD', NONE, text).describe(
    'Password, if REDIS_URL names none.',
    'Who keeps passwords out of URLs.',
  ),
  sentinelPassword: secret('REDIS_SENTINEL_PASSWORD', NONE, text).describe(
    'Password of the Sentinels.',
    'Whose Sentinels ask for one.',
  ),
  redisTls: setting('REDIS_TLS', 'false', flag).describe(
    'TLS to Redis, Sentinels and cluster nodes; rediss:// turns it on too.',
    'Whose Sentinels or cluster speak TLS.',
  ),
  redisTlsCaFile: optional('REDIS_TLS_CA_FILE', "(the system's)", text).describe(
    'PEM file with the CA that signed the servers.',
    'Who has a private CA.',
  ),
  redisTlsRejectUnauthorized: setting('REDIS_TLS_REJECT_UNAUTHORIZED', 'true', flag).describe(
    'false accepts any certificate.',
    'Whose servers announce addresses that their certificates do not name.',
  ),
};

const STORE = {
  redisCommandTimeoutMs: setting('REDIS_COMMAND_TIMEOUT_MS', '900', integer(50, 1000)).describe(
    'Redis commands that take longer fail with 503.',
    'Whose callers give up sooner.',
  ),
  embeddedAppendFsync: setting('REDIS_APPENDFSYNC', 'everysec', oneOf('everysec', 'always')).describe(
    'How often the embedded Redis flushes its log to disk: everysec or always.',
    'Who may not lose a second at a crash of the host.',
  ),
  embeddedMaxmemoryBytes: optional(
    'REDIS_MAXMEMORY',
    '(three quarters of the memory of the machine or container, minus 256mb for each process of the service)',
    bytes,
  ).describe(
    'Memory that the embedded Redis may use, such as 2gb; 0 sets no limit.',
    'Whose machine also runs other programs.',
  ),
  allowEviction: setting('HOLDFAST_ALLOW_EVICTION', 'false', flag).describe(
    'true allows a start on a Redis that may evict the ledger.',
    'Who tries Holdfast on a Redis that they cannot configure.',
  ),
  partitions: setting('PARTITIONS', '64', integer(1, 256)).describe(
    'Partitions that tenants are spread over; fixed at the first start.',
    'Who has a large cluster, or a small test.',
  ),
};

const SWEEP = {
  sweepIntervalMs: setting('SWEEP_INTERVAL_MS', '1000', integer(50, 60_000)).describe(
    'Longest pause between two sweeps for expired reservations.',
    "Who counts commands to Redis, or wants to see an idle sweeper's figures sooner.",
  ),
  sweepBatchSize: setting('SWEEP_BATCH_SIZE', '1000', integer(1, 10_000)).describe(
    'Reservations in a page of a sweep.',
    'Whose Redis is slow, or whose bursts of expirations are large.',
  ),
};

const RETENTION = {
  auditRetentionMs: setting('AUDIT_RETENTION_DAYS', '30', days(1, 3650)).describe(
    'How long an ended reservation can be looked up.',
    'Whose memory is short, or whose auditors ask for longer.',
  ),
  eventRetentionMs: setting('EVENT_RETENTION_DAYS', '90', days(1, 3650)).describe(
    'How long an event is kept, at least AUDIT_RETENTION_DAYS; up to twice as long while no dispatcher has read it.',
    'Whose memory is short, or whose auditors ask for longer.',
  ),
  auditLogRetentionMs: setting('AUDIT_LOG_RETENTION_DAYS', '400', days(1, 3650)).describe(
    'How long an audit row is kept.',
    'Whose auditors ask for longer.',
  ),
  auditLogBriefRetentionMs: setting('AUDIT_LOG_BRIEF_RETENTION_DAYS', '30', days(1, 3650)).describe(
    'How long an audit row of a successful read or of a request without valid credentials is kept, at most AUDIT_LOG_RETENTION_DAYS.',
    'Whose auditors ask for reads, too.',
  ),
  idempotencyTtlMs: setting('IDEMPOTENCY_TTL_MS', String(DAY_MS), integer(60_000, 365 * DAY_MS)).describe(
    'How long a repeated request gets the first response.',
    'Whose clients retry for longer than a day, or whose memory is short.',
  ),
};

const LIMITS = {
  rateLimitPerKeyPerMinute: setting(
    'RATE_LIMIT_PER_KEY_PER_MINUTE',
    '0',
    integer(0, PER_MINUTE_MAX),
  ).describe(
    'Requests of one API key per minute on the runtime plane, per instance; 0 means no limit.',
    'Whose tenants do not trust one another.',
  ),
  rateLimitAuthFailuresPerMinute: setting(
    'RATE_LIMIT_AUTH_FAILURES_PER_MINUTE',
    '30',
    integer(0, PER_MINUTE_MAX),
  ).describe(
    'Wrong keys and log-ins of one address and kind of key per minute, per instance, and ten times as many of operators from all addresses; further ones get 429, not 401. A key that was given out, such as a revoked one, is not counted. 0 means no limit.',
    'Who has many callers behind one address.',
  ),
};

const TESTING = {
  testClock: setting('HOLDFAST_TEST_CLOCK', 'false', flag).describe(
    'true lets operators advance the time of the whole deployment, for tests of clients; never for production.',
    'Who tests a client against time.',
  ),
};

const NETWORK = {
  trustProxy: optional('TRUST_PROXY', NONE, proxies).describe(
    'Proxies whose X-Forwarded-For is trusted: addresses, CIDR ranges, loopback, linklocal, uniquelocal.',
    'Who has a proxy in front.',
  ),
  corsOrigins: optional('CORS_ORIGINS', NONE, origins).describe(
    'Origins of web pages that may call the API from a browser, comma-separated.',
    'Who calls the API from web pages.',
  ),
};

const ACTIONS = {
  customActionKinds: setting('CUSTOM_ACTION_KINDS', '[]', customKinds).describe(
    "The deployment's own kinds of actions as a JSON array; the same on every instance.",
    'Whose agents do what the protocol has no kind for.',
  ),
  observeAllowSampleRate: setting('OBSERVE_ALLOW_SAMPLE_RATE', '1', positiveShare).describe(
    'Share of allowed reserves in observe mode that emit reservation.observed_allowed; 1 is all of them.',
    'Whose observed traffic is heavy.',
  ),
};

const WEBHOOKS = {
  webhookSecretEncryptionKey: secret('WEBHOOK_SECRET_ENCRYPTION_KEY', GENERATED, key32).describe(
    'Encrypts webhook secrets and headers: 32 bytes, hex or base64; the same on every instance.',
    'Everyone with an external Redis.',
  ),
  webhookTimeoutMs: setting('WEBHOOK_TIMEOUT_MS', '10000', integer(100, 60_000)).describe(
    'How long an endpoint may take to answer one delivery.',
    'Whose endpoints work before they answer.',
  ),
  webhookDnsServers: optional('WEBHOOK_DNS_SERVERS', "(the system's)", dnsServers).describe(
    'Name servers for webhook hosts: addresses, with a port if it is not 53, comma-separated.',
    'Whose webhook hosts only an internal name server knows.',
  ),
};

const EVIDENCE = {
  evidenceServerId: optional('EVIDENCE_SERVER_ID', '(no evidence is issued)', serverId).describe(
    'Public base URL of the API with its /v1; issues signed evidence under this identity, the same on every instance. Some published clients refuse answers with evidence: see docs/evidence.md.',
    'Who wants signed evidence.',
  ),
  evidenceKeys: secret(
    'EVIDENCE_KEYS',
    '(generated with the embedded Redis, else required with EVIDENCE_SERVER_ID)',
    evidenceKeys,
  ).describe(
    'JWK Set with the Ed25519 keys that sign evidence, retired ones included; the same on every instance.',
    'Who wants signed evidence with an external Redis.',
  ),
};

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const TELEMETRY = {
  logLevel: setting('LOG_LEVEL', 'info', oneOf(...LOG_LEVELS)).describe(
    'Least severe level to log.',
    'Who looks for a fault, or pays for logs.',
  ),
  recordActivity: setting('RECORD_ACTIVITY', 'true', flag).describe(
    "Whether instances add up what they did in Redis: for the console's graphs and spike events.",
    'Whose Redis is billed by the command.',
  ),
  highLatencyMs: setting('HIGH_LATENCY_MS', '1000', integer(0, 10_000)).describe(
    'system.high_latency is emitted if the 99th percentile of an operation over five minutes exceeds this; 0 turns it off.',
    'Whose promise to callers is another.',
  ),
  metricsTenantLabel: setting('CYCLES_METRICS_TENANT_TAG_ENABLED', 'true', flag).describe(
    'Whether metrics have the tenant as a label.',
    'Who has so many tenants that series are expensive.',
  ),
  otlpEndpoint: optional('OTEL_EXPORTER_OTLP_ENDPOINT', '(no traces are sent)', httpUrl).describe(
    'Base URL of an OpenTelemetry collector for OTLP over HTTP; traces go to /v1/traces below it.',
    'Who collects traces.',
  ),
  otlpHeaders: secret('OTEL_EXPORTER_OTLP_HEADERS', NONE, headerList).describe(
    'Headers for the collector as name=value, comma-separated, values percent-encoded.',
    'Whose collector asks for a key.',
  ),
  otelServiceName: setting('OTEL_SERVICE_NAME', 'holdfast', text).describe(
    'Service name in traces.',
    'Who has several deployments.',
  ),
  otelTraceShare: setting('OTEL_TRACES_SAMPLER_ARG', '1', share).describe(
    'Share of traces to record.',
    'Who pays for traces.',
  ),
};

/** The variables whose values the configuration holds under the same names. The Redis address is assembled from several. */
export const SETTINGS = {
  ...SERVICE,
  ...PROVIDER,
  ...STORE,
  ...SWEEP,
  ...RETENTION,
  ...ARCHIVE,
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
  ...PROVIDER,
  ...REDIS_ADDRESS,
  ...SETTINGS,
});
