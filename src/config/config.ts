import { join } from 'node:path';
import { type DynamicModule, Global, Module } from '@nestjs/common';
import { type Constants, CONSTANTS } from './constants.js';
import { readRedis, type RedisConfig } from './redis-config.js';
import { EnvironmentReader, type Variable } from './variable.js';
import { SETTINGS } from './variables.js';

/** The value of each setting, and of each optional variable that was given. */
type ValuesOf<Variables extends Record<string, Variable>> = {
  readonly [Key in keyof Variables as Variables[Key]['kind'] extends 'setting' ? Key : never]: ValueOf<
    Variables[Key]
  >;
} & {
  readonly [Key in keyof Variables as Variables[Key]['kind'] extends 'optional' ? Key : never]?: ValueOf<
    Variables[Key]
  >;
};

type ValueOf<V> = V extends Variable<infer T> ? T : never;

/**
 * The checked configuration of a process; variables.ts and constants.ts describe each value. With the embedded Redis, `adminApiKey`,
 * `webhookSecretEncryptionKey` and `evidenceKeys` are absent until the functions of secrets.ts have read or generated them.
 */
export interface HoldfastConfig extends ValuesOf<typeof SETTINGS>, Constants {
  readonly redis: RedisConfig;
}

/** One line per problem, naming the variable and what is allowed. Never contains the value of a secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';

  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
  }
}

/** @throws ConfigError with every problem found. */
export function loadConfig(env: NodeJS.ProcessEnv): HoldfastConfig {
  const reader = new EnvironmentReader(env);
  const redis = readRedis(reader);
  if (redis.mode !== 'embedded' && !reader.isSet(SETTINGS.adminApiKey)) {
    reader.addProblem('ADMIN_API_KEY is required with an external Redis: set at least 16 characters');
  }
  if (redis.mode !== 'embedded' && !reader.isSet(SETTINGS.webhookSecretEncryptionKey)) {
    reader.addProblem(
      'WEBHOOK_SECRET_ENCRYPTION_KEY is required with an external Redis: set 32 bytes, written as 64 hex digits or as base64',
    );
  }
  if (reader.isSet(SETTINGS.evidenceKeys) && !reader.isSet(SETTINGS.evidenceServerId)) {
    reader.addProblem(
      'EVIDENCE_SERVER_ID is required with EVIDENCE_KEYS: set the public base URL of the API with its /v1',
    );
  }
  if (
    redis.mode !== 'embedded' &&
    reader.isSet(SETTINGS.evidenceServerId) &&
    !reader.isSet(SETTINGS.evidenceKeys)
  ) {
    reader.addProblem(
      'EVIDENCE_KEYS is required with EVIDENCE_SERVER_ID and an external Redis: set the content of the file that npm run evidence-keys makes',
    );
  }
  const { oidcIssuer, oidcClientId, oidcClientSecret } = SETTINGS;
  if (reader.isSet(oidcIssuer) && !(reader.isSet(oidcClientId) && reader.isSet(oidcClientSecret))) {
    reader.addProblem('OIDC_CLIENT_ID and OIDC_CLIENT_SECRET are required with OIDC_ISSUER');
  }
  const settings = readSettings(reader);
  const config: HoldfastConfig = {
    ...CONSTANTS,
    ...settings,
    ...(redis.mode === 'embedded' && {
      archiveDir: settings.archiveDir ?? join(settings.dataDir, 'archive'),
    }),
    redis,
  };
  if (config.testClock && (redis.mode === 'sentinel' || redis.mode === 'cluster')) {
    reader.addProblem('HOLDFAST_TEST_CLOCK needs the embedded Redis, or a single one that REDIS_URL names');
  }
  if (config.adminPort !== undefined && config.adminPort === config.port && config.port !== 0) {
    reader.addProblem(`ADMIN_PORT must differ from PORT (${config.port})`);
  }
  if (reader.problems.length > 0) {
    throw new ConfigError(reader.problems);
  }
  return config;
}

/**
 * The configuration of one of several workers. Shares of Redis' time are divided, so that together they keep Redis no busier than one
 * process may.
 */
export function configOfWorker(config: HoldfastConfig, embeddedSocket: () => string): HoldfastConfig {
  return {
    ...config,
    redis: config.redis.mode === 'embedded' ? { mode: 'socket', path: embeddedSocket() } : config.redis,
    queryTimeShare: config.queryTimeShare / config.workers,
    sweepTimeShare: config.sweepTimeShare / config.workers,
    webhookTimeShare: config.webhookTimeShare / config.workers,
    archiveTimeShare: config.archiveTimeShare / config.workers,
    archiveLateTimeShare: config.archiveLateTimeShare / config.workers,
  };
}

function readSettings(reader: EnvironmentReader): ValuesOf<typeof SETTINGS> {
  const values: Record<string, unknown> = {};
  for (const [key, variable] of Object.entries<Variable>(SETTINGS)) {
    const value = isSetting(variable) ? reader.givenOrDefault(variable) : reader.given(variable);
    if (value !== undefined) {
      values[key] = value;
    }
  }
  return values as ValuesOf<typeof SETTINGS>;
}

function isSetting(variable: Variable): variable is Variable<unknown, 'setting'> {
  return variable.kind === 'setting';
}

/** PATH, where executables are found. It belongs to the machine, so it is not part of the configuration. */
export function searchPath(): string {
  return process.env['PATH'] ?? '';
}

/** For main.ts; nothing else outside this folder reads the environment. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** The version in the OpenAPI document and in webhook deliveries. A test compares it with package.json. */
export const HOLDFAST_VERSION = '0.8.0';

/** Injects the checked configuration of this process, a HoldfastConfig. */
export const CONFIG = Symbol('CONFIG');

@Global()
@Module({})
export class ConfigModule {
  static forRoot(config: HoldfastConfig): DynamicModule {
    return { module: ConfigModule, providers: [{ provide: CONFIG, useValue: config }], exports: [CONFIG] };
  }
}
