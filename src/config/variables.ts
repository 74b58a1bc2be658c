import { Resolver } from 'node:dns';
import { isIP } from 'node:net';

/** Reads one setting from its text. Returns the value, or says what is allowed. The text is never blank. */
export type Parse<T> = (text: string) => { readonly value: T } | { readonly allowed: string };

/** One environment variable: the single place for its name, its default, and what it means. */
export interface Variable<T = unknown> {
  readonly name: string;
  /** As an operator would write it, or a remark in parentheses when there is none. */
  readonly fallback: string;
  readonly doc: string;
  readonly secret: boolean;
  readonly parse: Parse<T>;
}

function define<T>(
  name: string,
  fallback: string,
  parse: Parse<T>,
  doc: string,
  secret = false,
): Variable<T> {
  return { name, fallback, doc, secret, parse };
}

function integer(min: number, max: number): Parse<number> {
  const allowed = `a whole number from ${min} to ${max}`;
  return (text) => {
    const value = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
    return value >= min && value <= max ? { value } : { allowed };
  };
}

function oneOf<T extends string>(...values: readonly T[]): Parse<T> {
  return (text) => {
    const value = values.find((candidate) => candidate === text.toLowerCase());
    return value === undefined ? { allowed: `one of ${values.join(', ')}` } : { value };
  };
}

const text: Parse<string> = (value) => ({ value });

const flag: Parse<boolean> = (value) => {
  const lower = value.toLowerCase();
  if (lower === 'true' || lower === '1') {
    return { value: true };
  }
  return lower === 'false' || lower === '0' ? { value: false } : { allowed: 'true or false' };
};

export const ROLES = ['api', 'sweeper', 'dispatcher', 'janitor'] as const;
export type Role = (typeof ROLES)[number];

const roles: Parse<ReadonlySet<Role>> = (value) => {
  const names = value.split(',').map((name) => name.trim().toLowerCase());
  const known = names.flatMap((name) => ROLES.find((role) => role === name) ?? []);
  return known.length === names.length
    ? { value: new Set(known) }
    : { allowed: `a comma-separated list of ${ROLES.join(', ')}` };
};

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

function endpoints(defaultPort: number): Parse<readonly Endpoint[]> {
  const pattern = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@[\]]+))(?::(\d{1,5}))?$/;
  return (value) => {
    const parsed = value.split(',').map((part) => {
      const match = pattern.exec(part.trim());
      const port = Number(match?.[3] ?? defaultPort);
      const host = match?.[1] ?? match?.[2];
      return host !== undefined && port >= 1 && port <= 65535 ? { host, port } : undefined;
    });
    const good = parsed.filter((endpoint) => endpoint !== undefined);
    return good.length === parsed.length
      ? { value: good }
      : { allowed: `a comma-separated list of host:port (the port may be left out: ${defaultPort})` };
  };
}

const redisUrl: Parse<URL> = (value) => {
  const allowed = 'a URL such as redis://host:6379/0 or rediss://user:password@host:6379';
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isRedis =
    url !== undefined && (url.protocol === 'redis:' || url.protocol === 'rediss:') && url.hostname !== '';
  if (!isRedis || !/^\/?\d{0,5}$/.test(url.pathname) || url.search !== '' || url.hash !== '') {
    return { allowed };
  }
  try {
    decodeURIComponent(url.username + url.password);
  } catch {
    return { allowed: `${allowed}, with user and password percent-encoded` };
  }
  return { value: url };
};

function secret(minLength: number): Parse<string> {
  return (value) => (value.length >= minLength ? { value } : { allowed: `at least ${minLength} characters` });
}

const key32: Parse<Buffer> = (value) => {
  const key = /^[0-9a-fA-F]{64}$/.test(value)
    ? Buffer.from(value, 'hex')
    : /^[A-Za-z0-9+/_-]{43}=?$/.test(value)
      ? Buffer.from(value, 'base64')
      : Buffer.alloc(0);
  return key.length === 32 ? { value: key } : { allowed: '32 bytes, written as 64 hex digits or as base64' };
};

const NAMED_NETWORKS: readonly string[] = ['loopback', 'linklocal', 'uniquelocal'];

/** No number of hops and no "everybody": with either, any client could claim any address. */
const proxies: Parse<readonly string[]> = (value) => {
  const entries = value.split(',').map((entry) => entry.trim().toLowerCase());
  return entries.every((entry) => NAMED_NETWORKS.includes(entry) || isNetwork(entry))
    ? { value: entries }
    : { allowed: `a comma-separated list of addresses, CIDR ranges, ${NAMED_NETWORKS.join(', ')}` };
};

function isNetwork(text: string): boolean {
  const [address = '', bits, more] = text.split('/');
  // IPv4 in IPv6's form is left out: an IPv4 range covers it, and half of its ranges mean nothing.
  const longest = address.startsWith('::ffff:') ? 0 : ({ 4: 32, 6: 128 }[isIP(address)] ?? 0);
  return (
    longest > 0 &&
    more === undefined &&
    (bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= longest))
  );
}

/** An origin as browsers write it in `Origin`, or undefined when the text says more or less than one. There is no `*`: the pages are known. */
function originOf(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin =
    url !== undefined &&
    (url.protocol === 'https:' || url.protocol === 'http:') &&
    url.href === `${url.origin}/`;
  return isOrigin ? url.origin : undefined;
}

const origins: Parse<readonly string[]> = (value) => {
  const entries = value.split(',').map((entry) => originOf(entry.trim()));
  const good = entries.filter((origin) => origin !== undefined);
  return good.length === entries.length
    ? { value: good }
    : {
        allowed:
          'a comma-separated list of origins such as https://dashboard.example.com or http://localhost:3000',
      };
};

/** Node's own rule, which takes addresses with and without a port. */
function isDnsServer(text: string): boolean {
  try {
    new Resolver().setServers([text]);
    return true;
  } catch {
    return false;
  }
}

const dnsServers: Parse<readonly string[]> = (value) => {
  const entries = value.split(',').map((entry) => entry.trim());
  return entries.every(isDnsServer)
    ? { value: entries }
    : { allowed: 'a comma-separated list of addresses such as 10.0.0.2, 10.0.0.2:5353 or [fd00::2]:53' };
};

const DAY_MS = 86_400_000;

export const VARIABLES = {
  port: define('PORT', '7878', integer(0, 65535), 'HTTP port; 0 picks a free one.'),
  adminPort: define(
    'ADMIN_PORT',
    '(none)',
    integer(0, 65535),
    'A second HTTP port that serves the same API.',
  ),
  host: define('HOST', '0.0.0.0', text, 'Address that the listeners bind to.'),
  roles: define(
    'HOLDFAST_ROLES',
    ROLES.join(','),
    roles,
    'What this instance does; health and metrics are always served.',
  ),
  dataDir: define('DATA_DIR', './.data', text, 'Directory of the embedded Redis and the generated keys.'),
  adminApiKey: define(
    'ADMIN_API_KEY',
    '(generated with the embedded Redis, else required)',
    secret(16),
    'The key of the operators, at least 16 characters.',
    true,
  ),
  redisUrl: define(
    'REDIS_URL',
    '(embedded Redis)',
    redisUrl,
    'A single Redis or Valkey: redis:// or rediss:// (TLS).',
    true,
  ),
  sentinels: define(
    'REDIS_SENTINELS',
    '(none)',
    endpoints(26379),
    'Sentinels as host:port, comma-separated; needs REDIS_MASTER_NAME.',
  ),
  masterName: define('REDIS_MASTER_NAME', '(none)', text, 'Name of the master in the Sentinels.'),
  clusterNodes: define(
    'REDIS_CLUSTER_NODES',
    '(none)',
    endpoints(6379),
    'Some nodes of a Redis Cluster as host:port, comma-separated.',
  ),
  redisUsername: define('REDIS_USERNAME', '(default user)', text, 'ACL user, if REDIS_URL names none.'),
  redisPassword: define('REDIS_PASSWORD', '(none)', text, 'Password, if REDIS_URL names none.', true),
  sentinelPassword: define(
    'REDIS_SENTINEL_PASSWORD',
    '(none)',
    text,
    'Password of the Sentinels themselves.',
    true,
  ),
  redisTls: define(
    'REDIS_TLS',
    'false',
    flag,
    'TLS to Redis, Sentinels and cluster nodes; rediss:// turns it on too.',
  ),
  redisTlsCaFile: define(
    'REDIS_TLS_CA_FILE',
    "(the system's)",
    text,
    'PEM file with the CA that signed the servers.',
  ),
  redisTlsRejectUnauthorized: define(
    'REDIS_TLS_REJECT_UNAUTHORIZED',
    'true',
    flag,
    'false accepts any certificate.',
  ),
  redisCommandTimeoutMs: define(
    'REDIS_COMMAND_TIMEOUT_MS',
    '900',
    integer(50, 1000),
    'Redis commands that take longer fail with 503.',
  ),
  queryConcurrency: define(
    'QUERY_CONCURRENCY',
    '8',
    integer(1, 1000),
    'Lists, searches, exports and other queries that an instance answers at once.',
  ),
  queryConcurrencyPerTenant: define(
    'QUERY_CONCURRENCY_PER_TENANT',
    '4',
    integer(1, 1000),
    'The same for one tenant; operators count as one tenant.',
  ),
  queryQueueMs: define(
    'QUERY_QUEUE_MS',
    '1000',
    integer(0, 30_000),
    'How long a query may wait before it gets 429; 0 refuses at once.',
  ),
  queryTimeShare: define(
    'QUERY_TIME_SHARE',
    '25',
    integer(1, 100),
    'Percentage of time that the queries of an instance may keep Redis busy; the rest is for the ledger.',
  ),
  embeddedAppendFsync: define(
    'REDIS_APPENDFSYNC',
    'everysec',
    oneOf('everysec', 'always'),
    'How often the embedded Redis flushes its log to disk: everysec or always.',
  ),
  allowEviction: define(
    'HOLDFAST_ALLOW_EVICTION',
    'false',
    flag,
    'true allows a start on a Redis that may evict the ledger.',
  ),
  partitions: define(
    'PARTITIONS',
    '64',
    integer(1, 256),
    'Partitions that tenants are spread over, a power of two up to 256; fixed at the first start.',
  ),
  sweepIntervalMs: define(
    'SWEEP_INTERVAL_MS',
    '1000',
    integer(50, 60_000),
    'Longest pause between two sweeps for expired reservations.',
  ),
  sweepBatchSize: define(
    'SWEEP_BATCH_SIZE',
    '1000',
    integer(1, 10_000),
    'Reservations in a page of a sweep.',
  ),
  sweepLeaseMs: define(
    'SWEEP_LEASE_MS',
    '5000',
    integer(1000, 300_000),
    'Time after which others take over the partitions of a silent sweeper.',
  ),
  sweepTimeShare: define(
    'SWEEP_TIME_SHARE',
    '90',
    integer(1, 100),
    'Percentage of time that a sweeper with a backlog works; the rest is for requests.',
  ),
  sweepAlertMs: define(
    'SWEEP_ALERT_MS',
    '30000',
    integer(1000, 3_600_000),
    'Readiness turns red if no sweep has succeeded, or a due reservation has waited, for this long.',
  ),
  auditRetentionDays: define(
    'AUDIT_RETENTION_DAYS',
    '30',
    integer(1, 3650),
    'How long an ended reservation can be looked up.',
  ),
  eventRetentionDays: define(
    'EVENT_RETENTION_DAYS',
    '90',
    integer(1, 3650),
    'How long an event is kept, at least AUDIT_RETENTION_DAYS; up to twice as long while no dispatcher has read it.',
  ),
  auditLogRetentionDays: define(
    'AUDIT_LOG_RETENTION_DAYS',
    '400',
    integer(1, 3650),
    'How long an audit row is kept.',
  ),
  auditLogBriefRetentionDays: define(
    'AUDIT_LOG_BRIEF_RETENTION_DAYS',
    '30',
    integer(1, 3650),
    'How long an audit row of a successful read or of a request without valid credentials is kept, at most AUDIT_LOG_RETENTION_DAYS.',
  ),
  idempotencyTtlMs: define(
    'IDEMPOTENCY_TTL_MS',
    String(DAY_MS),
    integer(60_000, 365 * DAY_MS),
    'How long a repeated request gets the first response.',
  ),
  bodyLimitBytes: define('BODY_LIMIT_BYTES', '1048576', integer(1024, 16_777_216), 'Largest request body.'),
  metadataLimitBytes: define(
    'METADATA_LIMIT_BYTES',
    '16384',
    integer(256, 1_048_576),
    'Largest metadata of a request, in bytes of JSON; also for metrics.custom and webhook headers.',
  ),
  tenantMaxLiveReservations: define(
    'TENANT_MAX_LIVE_RESERVATIONS',
    '1000000',
    integer(0, 1_000_000_000),
    'Live reservations of a tenant; 0 means no limit.',
  ),
  tenantMaxBudgets: define(
    'TENANT_MAX_BUDGETS',
    '100000',
    integer(0, 1_000_000_000),
    'Budgets of a tenant; 0 means no limit.',
  ),
  tenantMaxPolicies: define(
    'TENANT_MAX_POLICIES',
    '1000',
    integer(0, 1_000_000_000),
    'Policies of a tenant; 0 means no limit.',
  ),
  tenantMaxApiKeys: define(
    'TENANT_MAX_API_KEYS',
    '1000',
    integer(0, 1_000_000_000),
    'API keys of a tenant, including revoked and expired ones; 0 means no limit.',
  ),
  tenantMaxWebhooks: define(
    'TENANT_MAX_WEBHOOKS',
    '100',
    integer(0, 1000),
    'Webhook subscriptions of a tenant; 0 means only the limit of 1000 for any owner.',
  ),
  tenantMaxStoredBytes: define(
    'TENANT_MAX_STORED_BYTES',
    '68719476736',
    integer(0, 999_999_999_999),
    'Estimated bytes stored for a tenant; 0 means no limit.',
  ),
  rateLimitPerKeyPerMinute: define(
    'RATE_LIMIT_PER_KEY_PER_MINUTE',
    '0',
    integer(0, 10_000_000),
    'Requests of one API key per minute on the runtime plane, per instance; 0 means no limit.',
  ),
  rateLimitAuthFailuresPerMinute: define(
    'RATE_LIMIT_AUTH_FAILURES_PER_MINUTE',
    '0',
    integer(0, 10_000_000),
    '401 responses to one address and kind of key per minute, per instance; further ones are 429; 0 means no limit.',
  ),
  rateLimitPublicPerMinute: define(
    'RATE_LIMIT_PUBLIC_PER_MINUTE',
    '300',
    integer(0, 10_000_000),
    'Requests of one address per minute for /docs and /openapi.json, per instance; 0 means no limit.',
  ),
  trustProxy: define(
    'TRUST_PROXY',
    '(none)',
    proxies,
    'Proxies whose X-Forwarded-For is trusted: addresses, CIDR ranges, loopback, linklocal, uniquelocal.',
  ),
  corsOrigins: define(
    'CORS_ORIGINS',
    '(none)',
    origins,
    'Origins of web pages that may call the API from a browser, comma-separated.',
  ),
  webhookSecretEncryptionKey: define(
    'WEBHOOK_SECRET_ENCRYPTION_KEY',
    '(generated with the embedded Redis, else required)',
    key32,
    'Encrypts webhook secrets and headers: 32 bytes, hex or base64; the same on every instance.',
    true,
  ),
  webhookUnboundSecrets: define(
    'WEBHOOK_UNBOUND_SECRETS',
    'accept',
    oneOf('accept', 'refuse'),
    'accept or refuse webhook secrets and headers encrypted by 0.5 or earlier; refuse them once all are encrypted anew.',
  ),
  webhookTimeoutMs: define(
    'WEBHOOK_TIMEOUT_MS',
    '10000',
    integer(100, 60_000),
    'How long an endpoint may take to answer one delivery.',
  ),
  webhookConcurrency: define(
    'WEBHOOK_CONCURRENCY',
    '1000',
    integer(2, 10_000),
    'Deliveries that an instance attempts at once.',
  ),
  webhookDnsServers: define(
    'WEBHOOK_DNS_SERVERS',
    "(the system's)",
    dnsServers,
    'Name servers for webhook hosts: addresses, with a port if it is not 53, comma-separated.',
  ),
  webhookPollMs: define(
    'WEBHOOK_POLL_MS',
    '100',
    integer(10, 10_000),
    'Pause between two checks for new events.',
  ),
  webhookLeaseMs: define(
    'WEBHOOK_LEASE_MS',
    '5000',
    integer(1000, 300_000),
    'Time after which others take over the partitions of a silent dispatcher.',
  ),
  webhookStaleAfterMs: define(
    'WEBHOOK_STALE_AFTER_MS',
    String(DAY_MS),
    integer(1000, 30 * DAY_MS),
    'A delivery older than this at its turn is given up.',
  ),
  webhookDeliveryRetentionDays: define(
    'WEBHOOK_DELIVERY_RETENTION_DAYS',
    '14',
    integer(1, 365),
    'How long a delivery can be looked up.',
  ),
  webhookAlertMs: define(
    'WEBHOOK_ALERT_MS',
    '30000',
    integer(1000, 3_600_000),
    'Readiness turns red if an event has waited this long for dispatch.',
  ),
  logLevel: define(
    'LOG_LEVEL',
    'info',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    'Least severe level to log.',
  ),
  metricsTenantLabel: define(
    'CYCLES_METRICS_TENANT_TAG_ENABLED',
    'true',
    flag,
    'Whether metrics have the tenant as a label.',
  ),
} as const satisfies Record<string, Variable>;

/** Every variable that Holdfast reads, for docs/configuration.md and its test. */
export const CONFIG_VARIABLES: readonly Variable[] = Object.values(VARIABLES);
