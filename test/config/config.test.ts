import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';

import { ConfigError, loadConfig } from '../../src/config/config.js';
import { resolveAdminApiKey, resolveWebhookSecretKey } from '../../src/config/secrets.js';
import { CONFIG_VARIABLES } from '../../src/config/variables.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { KEY_HEX, SIMPLE } from './simple-variables.js';

const WEBHOOK_KEY = { WEBHOOK_SECRET_ENCRYPTION_KEY: KEY_HEX };
/** What an external Redis requires besides its address. */
const ADMIN = { ADMIN_API_KEY: 'sixteen-or-more-characters', ...WEBHOOK_KEY };

let dir = '';

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'holdfast-test-config-'));
});

afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).problems;
  }
  return [];
}

const REDIS_VARIABLES =
  'URL SENTINELS MASTER_NAME CLUSTER_NODES USERNAME PASSWORD SENTINEL_PASSWORD TLS TLS_CA_FILE TLS_REJECT_UNAUTHORIZED'
    .split(' ')
    .map((name) => `REDIS_${name}`);
/** Tested in evidence-keys.test.ts. */
const EVIDENCE_VARIABLES = ['EVIDENCE_KEYS', 'EVIDENCE_SERVER_ID'];

test('every variable is tested here, and has a description and somebody who would set it', () => {
  const tried = [
    ...SIMPLE.map(({ name }) => name),
    ...REDIS_VARIABLES,
    ...EVIDENCE_VARIABLES,
    'OIDC_ISSUER',
  ].sort();
  expect(CONFIG_VARIABLES.map(({ name }) => name).sort()).toEqual(tried);
  for (const { doc, fallback, setBy } of CONFIG_VARIABLES) {
    expect(doc).toMatch(/\.$/);
    expect(fallback).not.toBe('');
    expect(setBy).toMatch(/^(Who|Whose|Everyone) .*\.$/);
  }
});

describe.each(SIMPLE)('$name', ({ name, field, fallback, good, bad }) => {
  test('has its default when it is unset, empty or blank', () => {
    expect(loadConfig({})[field]).toEqual(fallback);
    expect(loadConfig({ [name]: '' })[field]).toEqual(fallback);
    expect(loadConfig({ [name]: ' \t ' })[field]).toEqual(fallback);
  });

  test('accepts allowed values', () => {
    for (const [text, value] of good) {
      expect(loadConfig({ [name]: text })[field]).toEqual(value);
    }
  });

  test('refuses anything else with one line that names it and says what is allowed', () => {
    for (const text of bad) {
      const problems = problemsOf({ [name]: text });
      expect(problems).toHaveLength(1);
      expect(problems[0]).toMatch(new RegExp(`^${name}: .* is not allowed; give [^\\n]+$`));
    }
  });
});

describe('the Redis addressing', () => {
  test('is the embedded Redis when nothing is set', () => {
    expect(loadConfig({}).redis).toEqual({ mode: 'embedded' });
    expect(loadConfig({ REDIS_URL: '  ', REDIS_PASSWORD: '' }).redis).toEqual({ mode: 'embedded' });
  });

  test('is a single server by REDIS_URL, whose shown form has no credentials', () => {
    expect(loadConfig({ ...ADMIN, REDIS_URL: 'redis://redis.internal' }).redis).toEqual({
      mode: 'single',
      url: 'redis://redis.internal:6379/0',
      host: 'redis.internal',
      port: 6379,
      db: 0,
    });
    expect(loadConfig({ ...ADMIN, REDIS_URL: 'rediss://me:p%40ss@[::1]:7000/3' }).redis).toEqual({
      mode: 'single',
      url: 'rediss://[::1]:7000/3',
      host: '::1',
      port: 7000,
      db: 3,
      username: 'me',
      password: 'p@ss',
      tls: { rejectUnauthorized: true },
    });
    expect(
      loadConfig({ ...ADMIN, REDIS_URL: 'redis://h', REDIS_USERNAME: 'u', REDIS_PASSWORD: 'p' }).redis,
    ).toMatchObject({ username: 'u', password: 'p' });
  });

  test.each([
    'http://h:1',
    'redis:',
    'h:6379',
    'redis://h/one',
    'redis://h:99999',
    'redis://u:%@h',
    'redis://h?db=1',
  ])('refuses REDIS_URL %s without repeating it', (url) => {
    const problems = problemsOf({ ...ADMIN, REDIS_URL: url });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/^REDIS_URL: its value is not allowed; give a URL such as /);
  });

  test('is a master behind Sentinels, with their own password', () => {
    const env = {
      ...ADMIN,
      REDIS_SENTINELS: 'a:1, b ,[::1]:3',
      REDIS_MASTER_NAME: 'm',
      REDIS_SENTINEL_PASSWORD: 's',
      REDIS_PASSWORD: 'p',
    };
    expect(loadConfig(env).redis).toEqual({
      mode: 'sentinel',
      sentinels: [
        { host: 'a', port: 1 },
        { host: 'b', port: 26_379 },
        { host: '::1', port: 3 },
      ],
      masterName: 'm',
      sentinelPassword: 's',
      password: 'p',
    });
  });

  test('is a cluster', () => {
    expect(loadConfig({ ...ADMIN, REDIS_CLUSTER_NODES: 'a:7000,b', REDIS_TLS: 'true' }).redis).toEqual({
      mode: 'cluster',
      nodes: [
        { host: 'a', port: 7000 },
        { host: 'b', port: 6379 },
      ],
      tls: { rejectUnauthorized: true },
    });
  });

  test.each([
    ['REDIS_SENTINELS', { REDIS_SENTINELS: 'a:0', REDIS_MASTER_NAME: 'm' }],
    ['REDIS_SENTINELS', { REDIS_SENTINELS: 'redis://a', REDIS_MASTER_NAME: 'm' }],
    ['REDIS_CLUSTER_NODES', { REDIS_CLUSTER_NODES: 'a:7000,' }],
    ['REDIS_TLS', { REDIS_URL: 'redis://h', REDIS_TLS: 'perhaps' }],
    ['REDIS_TLS_REJECT_UNAUTHORIZED', { REDIS_URL: 'rediss://h', REDIS_TLS_REJECT_UNAUTHORIZED: 'no' }],
  ])('a bad %s is refused by name', (name, env) => {
    const problems = problemsOf({ ...ADMIN, ...env });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name}: .* is not allowed; give `));
  });

  test.each([
    [
      'two addressings',
      { REDIS_URL: 'redis://h', REDIS_CLUSTER_NODES: 'a:1' },
      'REDIS_URL and REDIS_CLUSTER_NODES exclude each other; set one of them',
    ],
    [
      'Sentinels without a master name',
      { REDIS_SENTINELS: 'a:1' },
      'REDIS_SENTINELS and REDIS_MASTER_NAME go together; set both or none',
    ],
    [
      'a master name without Sentinels',
      { REDIS_MASTER_NAME: 'm' },
      'REDIS_SENTINELS and REDIS_MASTER_NAME go together; set both or none',
    ],
    [
      'a password without an address',
      { REDIS_PASSWORD: 'p' },
      'REDIS_PASSWORD is set without REDIS_URL, REDIS_SENTINELS or REDIS_CLUSTER_NODES; set one of them',
    ],
    [
      'a Sentinel password without Sentinels',
      { REDIS_SENTINEL_PASSWORD: 'p' },
      'REDIS_SENTINEL_PASSWORD is set without REDIS_URL, REDIS_SENTINELS or REDIS_CLUSTER_NODES; set one of them',
    ],
    [
      'a user without a password',
      { REDIS_URL: 'redis://h', REDIS_USERNAME: 'u' },
      'REDIS_PASSWORD is required with a Redis user name',
    ],
    [
      'TLS by URL and not by flag',
      { REDIS_URL: 'rediss://h', REDIS_TLS: 'false' },
      'REDIS_TLS is false, but REDIS_URL starts with rediss://; make them agree',
    ],
    [
      'a CA without TLS',
      { REDIS_URL: 'redis://h', REDIS_TLS_CA_FILE: '/ca' },
      'REDIS_TLS_CA_FILE is set, but TLS is off; set REDIS_TLS=true or use rediss://',
    ],
    [
      'a CA file that does not exist',
      { REDIS_URL: 'rediss://h', REDIS_TLS_CA_FILE: '/no/ca' },
      'REDIS_TLS_CA_FILE: "/no/ca" cannot be read (ENOENT); give a readable PEM file',
    ],
    [
      'a provider without a client',
      { OIDC_ISSUER: 'https://login.example.com', OIDC_CLIENT_ID: 'holdfast' },
      'OIDC_CLIENT_ID and OIDC_CLIENT_SECRET are required with OIDC_ISSUER',
    ],
    [
      'one port for two listeners',
      { PORT: '9000', ADMIN_PORT: '9000' },
      'ADMIN_PORT must differ from PORT (9000)',
    ],
  ])('%s is refused', (_what, env, line) => {
    expect(problemsOf({ ...ADMIN, ...env })).toEqual([line]);
  });

  test('the issuer of a provider needs TLS, except on this machine', () => {
    const client = { OIDC_CLIENT_ID: 'holdfast', OIDC_CLIENT_SECRET: 'secret' };
    for (const issuer of [
      'https://login.example.com/realms/staff',
      'http://localhost:8080',
      'http://[::1]:1',
    ]) {
      expect(loadConfig({ ...ADMIN, ...client, OIDC_ISSUER: issuer }).oidcIssuer).toEqual(new URL(issuer));
    }
    for (const issuer of ['http://login.example.com', 'login', 'https://h/?a=b', 'https://me@h', 'ftp://h']) {
      expect(problemsOf({ ...ADMIN, ...client, OIDC_ISSUER: issuer })).toEqual([
        expect.stringContaining('OIDC_ISSUER'),
      ]);
    }
  });

  test('an external Redis needs an admin key, because a generated one would differ on every instance', () => {
    expect(problemsOf({ ...WEBHOOK_KEY, REDIS_URL: 'redis://h' })).toEqual([
      'ADMIN_API_KEY is required with an external Redis: set at least 16 characters',
    ]);
  });

  test('an external Redis needs a key for webhook secrets: what one instance encrypts the others must be able to read', () => {
    const line =
      'WEBHOOK_SECRET_ENCRYPTION_KEY is required with an external Redis: set 32 bytes, written as 64 hex digits or as base64';
    for (const address of [
      { REDIS_URL: 'redis://h' },
      { REDIS_SENTINELS: 'a:1', REDIS_MASTER_NAME: 'm' },
      { REDIS_CLUSTER_NODES: 'a:1' },
    ]) {
      expect(problemsOf({ ADMIN_API_KEY: ADMIN.ADMIN_API_KEY, ...address })).toEqual([line]);
      expect(loadConfig({ ...ADMIN, ...address }).webhookSecretEncryptionKey).toEqual(
        Buffer.from(KEY_HEX, 'hex'),
      );
    }
  });

  test('a test clock needs a Redis with one time: the embedded or a single one', () => {
    const clock = { ...ADMIN, HOLDFAST_TEST_CLOCK: 'true' };
    const line = 'HOLDFAST_TEST_CLOCK needs the embedded Redis, or a single one that REDIS_URL names';
    expect(problemsOf({ ...clock, REDIS_SENTINELS: 'a:1', REDIS_MASTER_NAME: 'm' })).toEqual([line]);
    expect(problemsOf({ ...clock, REDIS_CLUSTER_NODES: 'a:1' })).toEqual([line]);
    expect(loadConfig({ ...clock, REDIS_URL: 'redis://h' }).testClock).toBe(true);
    expect(loadConfig({ HOLDFAST_TEST_CLOCK: 'true' }).testClock).toBe(true);
  });

  test('a CA file is read, and must hold a certificate', () => {
    const ca = join(dir, 'ca.pem');
    writeFileSync(ca, 'no certificate');
    const env = {
      ...ADMIN,
      REDIS_URL: 'redis://h',
      REDIS_TLS: 'true',
      REDIS_TLS_CA_FILE: ca,
      REDIS_TLS_REJECT_UNAUTHORIZED: 'false',
    };
    expect(problemsOf(env)).toEqual([
      `REDIS_TLS_CA_FILE: "${ca}" holds no PEM certificate; give a file that does`,
    ]);
    const pem = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';
    writeFileSync(ca, pem);
    expect(loadConfig(env).redis).toMatchObject({
      url: 'rediss://h:6379/0',
      tls: { rejectUnauthorized: false, ca: pem },
    });
  });
});

test('every invalid value has its own line, and none contains a secret', () => {
  const secret = 'tell-nobody';
  const problems = problemsOf({
    PORT: 'x',
    LOG_LEVEL: 'y',
    ADMIN_API_KEY: secret,
    WEBHOOK_SECRET_ENCRYPTION_KEY: secret,
    REDIS_URL: `ftp://user:${secret}@h`,
  });
  expect(problems.map((line) => line.split(':')[0]).sort()).toEqual([
    'ADMIN_API_KEY',
    'LOG_LEVEL',
    'PORT',
    'REDIS_URL',
    'WEBHOOK_SECRET_ENCRYPTION_KEY',
  ]);
  expect(problems.join('\n')).not.toContain(secret);
  expect(problems.every((line) => !line.includes('\n'))).toBe(true);
});

function capture(): { lines: string[]; logger: ReturnType<typeof createLogger> } {
  const lines: string[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  return { lines, logger: createLogger('info', sink) };
}

describe('the admin key with the embedded Redis', () => {
  test('is generated at the first start, shown once, and stored so that only its owner can read it', () => {
    const config = loadConfig({ DATA_DIR: join(dir, 'data') });
    const { lines, logger } = capture();
    const key = resolveAdminApiKey(config, logger);
    expect(key).toMatch(/^adm_[A-Za-z0-9_-]{43}$/);
    expect(lines.filter((line) => line.includes(key))).toHaveLength(1);
    const file = join(dir, 'data', 'admin-api-key');
    expect(readFileSync(file, 'utf8')).toBe(`${key}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(resolveAdminApiKey(config, logger)).toBe(key);
    expect(lines).toHaveLength(1);
  });

  test('is the configured one if there is one, and then nothing is written', () => {
    const config = loadConfig({ ...ADMIN, DATA_DIR: join(dir, 'data') });
    expect(resolveAdminApiKey(config, capture().logger)).toBe(ADMIN.ADMIN_API_KEY);
    expect(() => statSync(join(dir, 'data'))).toThrow('ENOENT');
  });

  test('the key of viewers must differ from it, because it opens more than reading', () => {
    const config = loadConfig({ ...ADMIN, VIEWER_API_KEY: ADMIN.ADMIN_API_KEY });
    expect(() => resolveAdminApiKey(config, capture().logger)).toThrow(
      'VIEWER_API_KEY must differ from the admin key, which opens more than reading',
    );
  });

  test('fails with one line when its directory cannot be written, or the stored text is not a key', () => {
    const file = join(dir, 'file');
    writeFileSync(file, '');
    const below = loadConfig({ DATA_DIR: join(file, 'below') });
    expect(() => resolveAdminApiKey(below, capture().logger)).toThrow(
      /^DATA_DIR: .* cannot store the admin key \(ENOTDIR\); give a writable directory$/,
    );
    writeFileSync(join(dir, 'admin-api-key'), 'short\n');
    expect(() => resolveAdminApiKey(loadConfig({ DATA_DIR: dir }), capture().logger)).toThrow(
      /holds no key of at least 16 characters; remove it/,
    );
  });
});

describe('the key for webhook secrets with the embedded Redis', () => {
  test('is generated at the first start, never shown, and stored so that only its owner can read it', () => {
    const config = loadConfig({ DATA_DIR: join(dir, 'data') });
    const { lines, logger } = capture();
    const key = resolveWebhookSecretKey(config, logger);
    expect(key).toHaveLength(32);
    const file = join(dir, 'data', 'webhook-secret-key');
    expect(readFileSync(file, 'utf8')).toBe(`${key.toString('hex')}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(resolveWebhookSecretKey(config, logger)).toEqual(key);
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toContain(key.toString('hex'));
  });

  test('is the configured one if there is one, and then nothing is written', () => {
    const config = loadConfig({ ...WEBHOOK_KEY, DATA_DIR: join(dir, 'data') });
    expect(resolveWebhookSecretKey(config, capture().logger).toString('hex')).toBe(KEY_HEX);
    expect(() => statSync(join(dir, 'data'))).toThrow('ENOENT');
  });

  test('stops the start with one line when the stored text is not a key: a new one could decrypt none of the stored secrets', () => {
    writeFileSync(join(dir, 'webhook-secret-key'), 'short\n');
    expect(() => resolveWebhookSecretKey(loadConfig({ DATA_DIR: dir }), capture().logger)).toThrow(
      /webhook-secret-key holds no key of 32 bytes in hex; restore it/,
    );
  });
});

describe('the log', () => {
  test('contains no secret, wherever it was configured', () => {
    const lines: string[] = [];
    const sink = new Writable({
      write(chunk: Buffer, _encoding, done) {
        lines.push(chunk.toString());
        done();
      },
    });
    const logger = createLogger('info', sink);
    const headers = {
      authorization: 'Bearer s3cret',
      'x-cycles-api-key': 's3cret',
      'x-admin-api-key': 's3cret',
    };
    logger.info({ headers }, 'a');
    logger.info({ req: { headers } }, 'b');
    logger.info({ key_secret: 's3cret', password: 's3cret' }, 'c');
    logger.info({ redis: { config: { password: 's3cret' } } }, 'd');
    logger.info({ url: 'redis://user:s3cret@host:1/0' }, 'e');
    const failure = Object.assign(new Error('cannot reach redis://user:s3cret@host'), {
      command: { name: 'auth', args: ['s3cret'] },
    });
    logger.error({ err: failure }, 'f');
    expect(lines).toHaveLength(6);
    expect(lines.join('')).not.toContain('s3cret');
    expect(lines.join('')).toContain('"command":"auth"');
  });
});
