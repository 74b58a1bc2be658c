import { availableParallelism } from 'node:os';
import type { HoldfastConfig } from '../../src/config/config.js';
import { DAY_MS } from '../../src/ledger/index.js';

export const KEY_HEX = 'ab'.repeat(32);

/** A variable whose value is a single field of the configuration. */
export interface Simple {
  readonly name: string;
  readonly field: keyof HoldfastConfig;
  readonly fallback: unknown;
  readonly good: readonly (readonly [text: string, value: unknown])[];
  readonly bad: readonly string[];
}

const number = (
  name: string,
  field: keyof HoldfastConfig,
  fallback: number | undefined,
  min: number,
  max: number,
): Simple => ({
  name,
  field,
  fallback,
  good: [
    [String(min), min],
    [` ${max} `, max],
  ],
  bad: [String(min - 1), String(max + 1), 'many', '1.5', '1e3', '0x10'],
});

const days = (
  name: string,
  field: keyof HoldfastConfig,
  fallback: number,
  min: number,
  max: number,
): Simple => {
  const { good, ...rest } = number(name, field, fallback * DAY_MS, min, max);
  return { ...rest, good: good.map(([text, value]) => [text, Number(value) * DAY_MS]) };
};

const limit = (name: string, field: keyof HoldfastConfig, fallback: number): Simple =>
  number(name, field, fallback, 0, 10_000_000);

const flag = (name: string, field: keyof HoldfastConfig, fallback: boolean): Simple => ({
  name,
  field,
  fallback,
  good: [
    ['true', true],
    ['FALSE', false],
    ['1', true],
    ['0', false],
  ],
  bad: ['maybe', 'yes', '2'],
});

const FULL_KIND = {
  kind: 'custom.acme.erp_2.post',
  risk_class: 'external_side_effect',
  description: 'Posts an invoice.',
  policy_key_spec: { host: true, resource_type: 'ledger' },
  mcp_tool_prefixes: ['acme_post_'],
};

export const SIMPLE: readonly Simple[] = [
  number('PORT', 'port', 7878, 0, 65_535),
  number('ADMIN_PORT', 'adminPort', undefined, 0, 65_535),
  { name: 'HOST', field: 'host', fallback: '0.0.0.0', good: [['127.0.0.1', '127.0.0.1']], bad: [] },
  {
    name: 'HOLDFAST_ROLES',
    field: 'roles',
    fallback: new Set(['api', 'sweeper', 'dispatcher', 'janitor', 'archiver']),
    good: [
      ['api', new Set(['api'])],
      [' sweeper , API', new Set(['sweeper', 'api'])],
    ],
    bad: ['boss', 'api,', 'api;sweeper'],
  },
  {
    name: 'HOLDFAST_WORKERS',
    field: 'workers',
    fallback: 1,
    good: [
      ['128', 128],
      ['Auto', availableParallelism()],
    ],
    bad: ['0', '129', 'many', '1.5'],
  },
  {
    name: 'DATA_DIR',
    field: 'dataDir',
    fallback: './.data',
    good: [['/var/lib/holdfast', '/var/lib/holdfast']],
    bad: [],
  },
  {
    name: 'ADMIN_API_KEY',
    field: 'adminApiKey',
    fallback: undefined,
    good: [['0123456789abcdef', '0123456789abcdef']],
    bad: ['0123456789abcde'],
  },
  {
    name: 'VIEWER_API_KEY',
    field: 'viewerApiKey',
    fallback: undefined,
    good: [['0123456789abcdef', '0123456789abcdef']],
    bad: ['0123456789abcde'],
  },
  { name: 'OIDC_CLIENT_ID', field: 'oidcClientId', fallback: undefined, good: [['app', 'app']], bad: [] },
  {
    name: 'OIDC_CLIENT_SECRET',
    field: 'oidcClientSecret',
    fallback: undefined,
    good: [['a secret', 'a secret']],
    bad: [],
  },
  {
    name: 'OIDC_ROLE_CLAIM',
    field: 'oidcRoleClaim',
    fallback: 'roles',
    good: [['realm_access.roles', 'realm_access.roles']],
    bad: [],
  },
  {
    name: 'OIDC_TENANT_CLAIM',
    field: 'oidcTenantClaim',
    fallback: undefined,
    good: [['holdfast.tenants', 'holdfast.tenants']],
    bad: [],
  },
  {
    name: 'OIDC_ROLES',
    field: 'oidcRoles',
    fallback: [
      { value: 'admin', role: 'admin' },
      { value: 'operator', role: 'operator' },
      { value: 'viewer', role: 'viewer' },
    ],
    good: [
      [
        String.raw`admin=CN=Owners\,OU=Groups\,DC=example,viewer=CORP\support`,
        [
          { value: 'CN=Owners,OU=Groups,DC=example', role: 'admin' },
          { value: String.raw`CORP\support`, role: 'viewer' },
        ],
      ],
      [
        'viewer = cn=support , viewer=finance',
        [
          { value: 'cn=support', role: 'viewer' },
          { value: 'finance', role: 'viewer' },
        ],
      ],
    ],
    bad: ['owners', 'metrics=scrapers', 'admin=', 'admin=a,', 'Admin=a'],
  },
  number('REDIS_COMMAND_TIMEOUT_MS', 'redisCommandTimeoutMs', 900, 50, 1000),
  {
    name: 'REDIS_APPENDFSYNC',
    field: 'embeddedAppendFsync',
    fallback: 'everysec',
    good: [
      ['always', 'always'],
      ['EverySec', 'everysec'],
    ],
    bad: ['no', 'sometimes'],
  },
  {
    name: 'REDIS_MAXMEMORY',
    field: 'embeddedMaxmemoryBytes',
    fallback: undefined,
    good: [
      ['0', 0],
      ['64mb', 67_108_864],
      ['2GB', 2_147_483_648],
      ['1000', 1000],
    ],
    bad: ['2g', '1.5gb', '-1', 'half', '99999999999gb'],
  },
  flag('HOLDFAST_ALLOW_EVICTION', 'allowEviction', false),
  flag('HOLDFAST_TEST_CLOCK', 'testClock', false),
  number('PARTITIONS', 'partitions', 64, 1, 256),
  number('SWEEP_INTERVAL_MS', 'sweepIntervalMs', 1000, 50, 60_000),
  number('SWEEP_BATCH_SIZE', 'sweepBatchSize', 1000, 1, 10_000),
  days('AUDIT_RETENTION_DAYS', 'auditRetentionMs', 30, 1, 3650),
  days('EVENT_RETENTION_DAYS', 'eventRetentionMs', 90, 1, 3650),
  days('AUDIT_LOG_RETENTION_DAYS', 'auditLogRetentionMs', 400, 1, 3650),
  days('AUDIT_LOG_BRIEF_RETENTION_DAYS', 'auditLogBriefRetentionMs', 30, 1, 3650),
  number('IDEMPOTENCY_TTL_MS', 'idempotencyTtlMs', DAY_MS, 60_000, 365 * DAY_MS),
  {
    name: 'ARCHIVE_DIR',
    field: 'archiveDir',
    fallback: '.data/archive',
    good: [['/var/lib/archive', '/var/lib/archive']],
    bad: [],
  },
  days('ARCHIVE_RETENTION_DAYS', 'archiveRetentionMs', 400, 1, 36_500),
  flag('ARCHIVE_METADATA', 'archiveMetadata', true),
  limit('RATE_LIMIT_PER_KEY_PER_MINUTE', 'rateLimitPerKeyPerMinute', 0),
  limit('RATE_LIMIT_AUTH_FAILURES_PER_MINUTE', 'rateLimitAuthFailuresPerMinute', 30),
  {
    name: 'TRUST_PROXY',
    field: 'trustProxy',
    fallback: undefined,
    good: [
      ['loopback', ['loopback']],
      [
        '10.0.0.0/8, UniqueLocal,::1 , 2001:db8::/32,192.168.1.1',
        ['10.0.0.0/8', 'uniquelocal', '::1', '2001:db8::/32', '192.168.1.1'],
      ],
    ],
    bad: [
      'true',
      '1',
      '*',
      'proxy.internal',
      '10.0.0.0/33',
      '10.0.0.0/0',
      '10.0.0.0/8/8',
      '10.0.0/8',
      '::/129',
      '::ffff:10.0.0.1/16',
      '10.0.0.1,',
    ],
  },
  {
    name: 'CORS_ORIGINS',
    field: 'corsOrigins',
    fallback: undefined,
    good: [
      ['https://dashboard.example.com', ['https://dashboard.example.com']],
      [
        'HTTPS://Dashboard.example.com:443/ , http://[::1]:3000',
        ['https://dashboard.example.com', 'http://[::1]:3000'],
      ],
    ],
    bad: [
      '*',
      'null',
      'dashboard.example.com',
      'ftp://files.example.com',
      'https://a.example.com/page',
      'https://a.example.com?',
      'https://me@a.example.com',
      'https://a.example.com,',
    ],
  },
  {
    name: 'WEBHOOK_SECRET_ENCRYPTION_KEY',
    field: 'webhookSecretEncryptionKey',
    fallback: undefined,
    good: [
      [KEY_HEX, Buffer.from(KEY_HEX, 'hex')],
      [Buffer.from(KEY_HEX, 'hex').toString('base64'), Buffer.from(KEY_HEX, 'hex')],
    ],
    bad: ['short', KEY_HEX.slice(2), `${KEY_HEX}zz`],
  },
  number('WEBHOOK_TIMEOUT_MS', 'webhookTimeoutMs', 10_000, 100, 60_000),
  {
    name: 'WEBHOOK_DNS_SERVERS',
    field: 'webhookDnsServers',
    fallback: undefined,
    good: [
      ['10.0.0.2', ['10.0.0.2']],
      ['10.0.0.2:5353, [fd00::2]:53,fd00::3', ['10.0.0.2:5353', '[fd00::2]:53', 'fd00::3']],
    ],
    bad: ['dns.example', '10.0.0.2,', '10.0.0.2:0x', '1.2.3'],
  },
  flag('RECORD_ACTIVITY', 'recordActivity', true),
  {
    name: 'CUSTOM_ACTION_KINDS',
    field: 'customActionKinds',
    fallback: [],
    good: [
      [
        '[{"kind":"custom.acme.erp.post","risk_class":"high_risk"}]',
        [{ kind: 'custom.acme.erp.post', risk_class: 'high_risk' }],
      ],
      [JSON.stringify([FULL_KIND]), [FULL_KIND]],
    ],
    bad: [
      'custom.acme.post',
      '{}',
      '[null]',
      ...[
        { kind: 'acme.post' },
        { kind: 'custom.acme' },
        { kind: 'custom.acme.' },
        { kind: 'custom.acme.a b' },
        { kind: `custom.acme.${'x'.repeat(60)}` },
        { risk_class: 'grave' },
        { risk_class: undefined },
        { description: 'x'.repeat(513) },
        { policy_key_spec: { port: true } },
        { policy_key_spec: { host: 'yes' } },
        { policy_key_spec: [] },
        { mcp_tool_prefixes: [1] },
        { deprecated: true },
      ].map((wrong) => JSON.stringify([{ ...FULL_KIND, ...wrong }])),
      JSON.stringify([FULL_KIND, FULL_KIND]),
    ],
  },
  {
    name: 'OBSERVE_ALLOW_SAMPLE_RATE',
    field: 'observeAllowSampleRate',
    fallback: 1,
    good: [
      ['0.1', 0.1],
      ['.25', 0.25],
      ['1.0', 1],
      ['0.000001', 0.000001],
    ],
    bad: ['0', '0.0', '1.1', '-0.1', '10%', '1e-3'],
  },
  number('HIGH_LATENCY_MS', 'highLatencyMs', 1000, 0, 10_000),
  {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    field: 'otlpEndpoint',
    fallback: undefined,
    good: [
      ['http://collector:4318', new URL('http://collector:4318')],
      ['https://traces.example.com/team', new URL('https://traces.example.com/team')],
    ],
    bad: [
      'collector:4318',
      'grpc://collector:4317',
      'http://user:secret@collector:4318',
      'http://collector?x=1',
    ],
  },
  {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    field: 'otlpHeaders',
    fallback: undefined,
    good: [
      ['Api-Key=ab%3Dc', { 'api-key': 'ab=c' }],
      ['a=1, b = two words', { a: '1', b: 'two words' }],
    ],
    bad: ['a', '=1', 'a b=1', 'a=%', 'a=%0A', 'a=1,'],
  },
  {
    name: 'OTEL_SERVICE_NAME',
    field: 'otelServiceName',
    fallback: 'holdfast',
    good: [['ledger', 'ledger']],
    bad: [],
  },
  {
    name: 'OTEL_TRACES_SAMPLER_ARG',
    field: 'otelTraceShare',
    fallback: 1,
    good: [
      ['0', 0],
      ['0.25', 0.25],
      ['1.0', 1],
    ],
    bad: ['1.5', '-1', '50%', '1e-3'],
  },
  {
    name: 'LOG_LEVEL',
    field: 'logLevel',
    fallback: 'info',
    good: [
      ['debug', 'debug'],
      ['WARN', 'warn'],
    ],
    bad: ['loud'],
  },
  flag('CYCLES_METRICS_TENANT_TAG_ENABLED', 'metricsTenantLabel', true),
];
