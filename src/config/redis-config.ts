import { readFileSync } from 'node:fs';
import type { RedisConfig, TlsConfig } from './config.js';
import type { Reading } from './reading.js';
import { VARIABLES } from './variables.js';

const DEFAULT_PORT = 6379;
const EMBEDDED: RedisConfig = { mode: 'embedded' };

interface Access {
  username?: string;
  password?: string;
  tls?: TlsConfig;
}

/** Which Redis to use: one of three addressings, or none of them for the embedded one. */
export function readRedis(reading: Reading): RedisConfig {
  const addressings = [VARIABLES.redisUrl, VARIABLES.sentinels, VARIABLES.clusterNodes].filter((one) =>
    reading.isSet(one),
  );
  if (addressings.length > 1) {
    reading.refuse(`${addressings.map((one) => one.name).join(' and ')} exclude each other; set one of them`);
    return EMBEDDED;
  }
  if (reading.isSet(VARIABLES.sentinels) !== reading.isSet(VARIABLES.masterName)) {
    reading.refuse('REDIS_SENTINELS and REDIS_MASTER_NAME go together; set both or none');
    return EMBEDDED;
  }
  if (addressings.length === 0) {
    refuseAccessWithoutAddress(reading);
    return EMBEDDED;
  }
  if (reading.isSet(VARIABLES.redisUrl)) {
    return readSingle(reading);
  }
  return reading.isSet(VARIABLES.sentinels) ? readSentinel(reading) : readCluster(reading);
}

/** A password without an address is a forgotten address, and would silently start an empty embedded ledger. */
function refuseAccessWithoutAddress(reading: Reading): void {
  const access = [
    VARIABLES.redisUsername,
    VARIABLES.redisPassword,
    VARIABLES.redisTls,
    VARIABLES.redisTlsCaFile,
  ];
  for (const variable of [...access, VARIABLES.sentinelPassword, VARIABLES.redisTlsRejectUnauthorized]) {
    if (reading.isSet(variable)) {
      reading.refuse(
        `${variable.name} is set without REDIS_URL, REDIS_SENTINELS or REDIS_CLUSTER_NODES; set one of them`,
      );
    }
  }
}

function readSingle(reading: Reading): RedisConfig {
  const url = reading.optional(VARIABLES.redisUrl);
  if (url === undefined) {
    return EMBEDDED;
  }
  const access = readAccess(reading, url);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port);
  const db = Number(url.pathname.slice(1));
  const shown = `${access.tls === undefined ? 'redis' : 'rediss'}://${url.hostname}:${port}/${db}`;
  return { mode: 'single', url: shown, host, port, db, ...access };
}

function readSentinel(reading: Reading): RedisConfig {
  const access = readAccess(reading);
  const sentinels = reading.optional(VARIABLES.sentinels);
  const masterName = reading.optional(VARIABLES.masterName);
  const sentinelPassword = reading.optional(VARIABLES.sentinelPassword);
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

function readCluster(reading: Reading): RedisConfig {
  const access = readAccess(reading);
  const nodes = reading.optional(VARIABLES.clusterNodes);
  return nodes === undefined ? EMBEDDED : { mode: 'cluster', nodes, ...access };
}

function readAccess(reading: Reading, url?: URL): Access {
  const access: Access = {};
  const username = decodeURIComponent(url?.username ?? '') || reading.optional(VARIABLES.redisUsername);
  const password = decodeURIComponent(url?.password ?? '') || reading.optional(VARIABLES.redisPassword);
  if (username !== undefined) {
    access.username = username;
  }
  if (password !== undefined) {
    access.password = password;
  }
  if (username !== undefined && password === undefined) {
    reading.refuse('REDIS_PASSWORD is required with a Redis user name');
  }
  const tls = readTls(reading, url);
  if (tls !== undefined) {
    access.tls = tls;
  }
  return access;
}

function readTls(reading: Reading, url?: URL): TlsConfig | undefined {
  const byUrl = url?.protocol === 'rediss:';
  const byFlag = reading.optional(VARIABLES.redisTls);
  if (byUrl && byFlag === false) {
    reading.refuse('REDIS_TLS is false, but REDIS_URL starts with rediss://; make them agree');
  }
  const rejectUnauthorized = reading.required(VARIABLES.redisTlsRejectUnauthorized);
  const caFile = reading.optional(VARIABLES.redisTlsCaFile);
  if (!byUrl && byFlag !== true) {
    if (caFile !== undefined) {
      reading.refuse('REDIS_TLS_CA_FILE is set, but TLS is off; set REDIS_TLS=true or use rediss://');
    }
    return undefined;
  }
  const ca = caFile === undefined ? undefined : readCa(reading, caFile);
  return ca === undefined ? { rejectUnauthorized } : { rejectUnauthorized, ca };
}

function readCa(reading: Reading, file: string): string | undefined {
  try {
    const pem = readFileSync(file, 'utf8');
    if (pem.includes('-----BEGIN CERTIFICATE-----')) {
      return pem;
    }
    reading.refuse(
      `REDIS_TLS_CA_FILE: ${JSON.stringify(file)} holds no PEM certificate; give a file that does`,
    );
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    reading.refuse(
      `REDIS_TLS_CA_FILE: ${JSON.stringify(file)} cannot be read (${code}); give a readable PEM file`,
    );
  }
  return undefined;
}
