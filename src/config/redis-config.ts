import { readFileSync } from 'node:fs';
import type { EnvironmentReader } from './variable.js';
import type { Endpoint } from './parsers.js';
import { REDIS_ADDRESS } from './variables.js';

const DEFAULT_PORT = 6379;
export interface TlsConfig {
  /** PEM text of the CA; without it, the system's CAs count. */
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
  /** Without user and password, so that it is safe to log. */
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

/** The embedded Redis of another process: what the workers of a group have. */
interface SocketRedisConfig {
  readonly mode: 'socket';
  readonly path: string;
}

export type RedisConfig =
  | { readonly mode: 'embedded' }
  | SocketRedisConfig
  | SingleRedisConfig
  | SentinelRedisConfig
  | ClusterRedisConfig;

const EMBEDDED: RedisConfig = { mode: 'embedded' };

interface Access {
  username?: string;
  password?: string;
  tls?: TlsConfig;
}

/** A single server, Sentinels or a cluster, whichever is addressed; without an address, the embedded Redis. */
export function readRedis(reader: EnvironmentReader): RedisConfig {
  const addresses = [REDIS_ADDRESS.redisUrl, REDIS_ADDRESS.sentinels, REDIS_ADDRESS.clusterNodes].filter(
    (one) => reader.isSet(one),
  );
  if (addresses.length > 1) {
    reader.addProblem(
      `${addresses.map((one) => one.name).join(' and ')} exclude each other; set one of them`,
    );
    return EMBEDDED;
  }
  if (reader.isSet(REDIS_ADDRESS.sentinels) !== reader.isSet(REDIS_ADDRESS.masterName)) {
    reader.addProblem('REDIS_SENTINELS and REDIS_MASTER_NAME go together; set both or none');
    return EMBEDDED;
  }
  if (addresses.length === 0) {
    rejectCredentialsWithoutAddress(reader);
    return EMBEDDED;
  }
  if (reader.isSet(REDIS_ADDRESS.redisUrl)) {
    return readSingle(reader);
  }
  return reader.isSet(REDIS_ADDRESS.sentinels) ? readSentinel(reader) : readCluster(reader);
}

/** Someone who sets a password forgot the address. Starting an empty embedded ledger instead would hide that. */
function rejectCredentialsWithoutAddress(reader: EnvironmentReader): void {
  const access = [
    REDIS_ADDRESS.redisUsername,
    REDIS_ADDRESS.redisPassword,
    REDIS_ADDRESS.redisTls,
    REDIS_ADDRESS.redisTlsCaFile,
  ];
  for (const variable of [
    ...access,
    REDIS_ADDRESS.sentinelPassword,
    REDIS_ADDRESS.redisTlsRejectUnauthorized,
  ]) {
    if (reader.isSet(variable)) {
      reader.addProblem(
        `${variable.name} is set without REDIS_URL, REDIS_SENTINELS or REDIS_CLUSTER_NODES; set one of them`,
      );
    }
  }
}

function readSingle(reader: EnvironmentReader): RedisConfig {
  const url = reader.given(REDIS_ADDRESS.redisUrl);
  if (url === undefined) {
    return EMBEDDED;
  }
  const access = readAccess(reader, url);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port);
  const db = Number(url.pathname.slice(1));
  const shown = `${access.tls === undefined ? 'redis' : 'rediss'}://${url.hostname}:${port}/${db}`;
  return { mode: 'single', url: shown, host, port, db, ...access };
}

function readSentinel(reader: EnvironmentReader): RedisConfig {
  const access = readAccess(reader);
  const sentinels = reader.given(REDIS_ADDRESS.sentinels);
  const masterName = reader.given(REDIS_ADDRESS.masterName);
  const sentinelPassword = reader.given(REDIS_ADDRESS.sentinelPassword);
  if (sentinels === undefined || masterName === undefined) {
    return EMBEDDED;
  }
  return {
    mode: 'sentinel',
    sentinels,
    masterName,
    ...access,
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
  };
}

function readCluster(reader: EnvironmentReader): RedisConfig {
  const access = readAccess(reader);
  const nodes = reader.given(REDIS_ADDRESS.clusterNodes);
  return nodes === undefined ? EMBEDDED : { mode: 'cluster', nodes, ...access };
}

function readAccess(reader: EnvironmentReader, url?: URL): Access {
  const access: Access = {};
  const username = decodeURIComponent(url?.username ?? '') || reader.given(REDIS_ADDRESS.redisUsername);
  const password = decodeURIComponent(url?.password ?? '') || reader.given(REDIS_ADDRESS.redisPassword);
  if (username !== undefined) {
    access.username = username;
  }
  if (password !== undefined) {
    access.password = password;
  }
  if (username !== undefined && password === undefined) {
    reader.addProblem('REDIS_PASSWORD is required with a Redis user name');
  }
  const tls = readTls(reader, url);
  if (tls !== undefined) {
    access.tls = tls;
  }
  return access;
}

function readTls(reader: EnvironmentReader, url?: URL): TlsConfig | undefined {
  const byUrl = url?.protocol === 'rediss:';
  const byFlag = reader.given(REDIS_ADDRESS.redisTls);
  if (byUrl && byFlag === false) {
    reader.addProblem('REDIS_TLS is false, but REDIS_URL starts with rediss://; make them agree');
  }
  const rejectUnauthorized = reader.givenOrDefault(REDIS_ADDRESS.redisTlsRejectUnauthorized);
  const caFile = reader.given(REDIS_ADDRESS.redisTlsCaFile);
  if (!byUrl && byFlag !== true) {
    if (caFile !== undefined) {
      reader.addProblem('REDIS_TLS_CA_FILE is set, but TLS is off; set REDIS_TLS=true or use rediss://');
    }
    return undefined;
  }
  const ca = caFile === undefined ? undefined : readCa(reader, caFile);
  return ca === undefined ? { rejectUnauthorized } : { rejectUnauthorized, ca };
}

function readCa(reader: EnvironmentReader, file: string): string | undefined {
  try {
    const pem = readFileSync(file, 'utf8');
    if (pem.includes('-----BEGIN CERTIFICATE-----')) {
      return pem;
    }
    reader.addProblem(
      `REDIS_TLS_CA_FILE: ${JSON.stringify(file)} holds no PEM certificate; give a file that does`,
    );
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    reader.addProblem(
      `REDIS_TLS_CA_FILE: ${JSON.stringify(file)} cannot be read (${code}); give a readable PEM file`,
    );
  }
  return undefined;
}
