import type { ConnectionOptions } from 'node:tls';
import {
  Cluster,
  type ClusterOptions as AnyClusterOptions,
  Redis,
  type RedisOptions as AnyRedisOptions,
} from 'ioredis';
import type {
  ClusterRedisConfig,
  RedisConfig,
  SentinelRedisConfig,
  SingleRedisConfig,
  TlsConfig,
} from '../config/index.js';
import { replaceAnswerLimits } from './answer-limits.js';

replaceAnswerLimits();

/**
 * The timeouts that keep commands from waiting without limit.
 *
 * - Without a connection, commands fail at once instead of being queued (`enableOfflineQueue: false`).
 * - `socketTimeout` drops the whole connection when the server has been silent for that long. All waiting commands fail together. A
 *   server that wakes up may still execute those that its kernel had received; the message of the 503 says so. Later commands never
 *   reach it.
 * - `commandTimeout` fails a command that waits too long while the server answers others. It is slightly longer than `socketTimeout`.
 *   Otherwise, a caller could retry on a silent connection before it is dropped.
 * - Time in which this process stands still counts against neither; see answer-limits.ts.
 * - Commands whose replies were lost are not sent again, because only the caller knows whether that is safe.
 */
export interface ConnectionTimes {
  /** REDIS_COMMAND_TIMEOUT_MS. */
  readonly commandTimeoutMs: number;
}

/** `replyMapping` stays unset, so replies have the same shapes under RESP2 and RESP3. */
type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>;
type ClusterOptions = Omit<AnyClusterOptions, 'redisOptions'> & { readonly redisOptions?: RedisOptions };

/** The address of Redis. The embedded one is a socket. */
export type RedisTarget = Exclude<RedisConfig, { mode: 'embedded' }>;

/** The name of Holdfast's connections in CLIENT LIST. */
export const CONNECTION_NAME = 'holdfast';
/** The name of the connection for queries in CLIENT LIST. */
export const QUERY_CONNECTION_NAME = 'holdfast-queries';

const CONNECT_TIMEOUT_MS = 2000;
/** How much longer `commandTimeout` is than `socketTimeout`. */
const COMMAND_TIMEOUT_MARGIN_MS = 100;
const LONGEST_RETRY_DELAY_MS = 500;
const SENTINEL_RECONNECT_MS = 30_000;
const SLOTS_REFRESH_MS = 5000;

/** Exponential backoff up to 500 ms, with jitter, so that instances do not reconnect in lockstep. */
function retryDelayMs(attempt: number): number {
  const ceiling = Math.min(25 * 2 ** Math.min(attempt, 10), LONGEST_RETRY_DELAY_MS);
  return Math.round(ceiling / 2 + Math.random() * (ceiling / 2));
}

function tlsOptions(tls: TlsConfig): ConnectionOptions {
  return { rejectUnauthorized: tls.rejectUnauthorized, ...(tls.ca === undefined ? {} : { ca: tls.ca }) };
}

function accessOptions(config: SingleRedisConfig | SentinelRedisConfig | ClusterRedisConfig): RedisOptions {
  return {
    ...(config.username === undefined ? {} : { username: config.username }),
    ...(config.password === undefined ? {} : { password: config.password }),
    ...(config.tls === undefined ? {} : { tls: tlsOptions(config.tls) }),
  };
}

function sentinelOptions(config: SentinelRedisConfig, times: ConnectionTimes): RedisOptions {
  const tls =
    config.tls === undefined ? {} : { enableTLSForSentinelMode: true, sentinelTLS: tlsOptions(config.tls) };
  return {
    sentinels: config.sentinels.map(({ host, port }) => ({ host, port })),
    name: config.masterName,
    role: 'master',
    ...(config.sentinelPassword === undefined ? {} : { sentinelPassword: config.sentinelPassword }),
    ...tls,
    ...accessOptions(config),
    sentinelCommandTimeout: times.commandTimeoutMs,
    sentinelRetryStrategy: retryDelayMs,
    sentinelReconnectStrategy: () => SENTINEL_RECONNECT_MS,
    // On +switch-master of a Sentinel, leaves an old master that still answers, for example behind a network partition.
    failoverDetector: true,
  };
}

function addressOptions(
  target: Exclude<RedisTarget, ClusterRedisConfig>,
  times: ConnectionTimes,
): RedisOptions {
  switch (target.mode) {
    case 'socket':
      return { path: target.path };
    case 'single':
      return { host: target.host, port: target.port, db: target.db, ...accessOptions(target) };
    case 'sentinel':
      return sentinelOptions(target, times);
  }
}

/** The server is a demoted master, or a proxy that still points to one. Reconnecting finds the new master. */
function isDemoted(error: Error): boolean {
  return error.message.startsWith('READONLY');
}

const COMMON: RedisOptions = {
  lazyConnect: true,
  connectionName: CONNECTION_NAME,
  connectTimeout: CONNECT_TIMEOUT_MS,
  keepAlive: 5000,
  // ioredis waits this long for the server after `disconnect`, even for a connection that is closed already, and keeps the process alive.
  disconnectTimeout: 100,
  autoResendUnfulfilledCommands: false,
  maxLoadingRetryTime: 250,
};

function commandOptions(times: ConnectionTimes, connectionName: string): RedisOptions {
  return {
    ...COMMON,
    connectionName,
    commandTimeout: times.commandTimeoutMs + COMMAND_TIMEOUT_MARGIN_MS,
    socketTimeout: times.commandTimeoutMs,
    maxRetriesPerRequest: 0,
  };
}

/**
 * Subscriptions wait for their connection, and have no `socketTimeout`, because a quiet channel is normal. The subscriber subscribes
 * again whenever the connection is `ready`. If ioredis did (`autoResubscribe`), failures would go unnoticed, and a connection that is
 * closed at that moment would end the process with an unhandled rejection.
 */
const SUBSCRIBER: RedisOptions = { ...COMMON, maxRetriesPerRequest: null, autoResubscribe: false };

function clusterOptions(config: ClusterRedisConfig, redisOptions: RedisOptions): ClusterOptions {
  return {
    lazyConnect: true,
    redisOptions: { ...redisOptions, ...accessOptions(config) },
    scaleReads: 'master',
    enableOfflineQueue: false,
    // Off, because ioredis does not follow MOVED errors of a pipeline that touches several moved slots.
    enableAutoPipelining: false,
    // 0 means that a command is not sent again after its connection broke, since it may have been executed.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 100,
    retryDelayOnTryAgain: 100,
    // Limits the number of redirections and, with the delays above, their time.
    maxRedirections: 6,
    slotsRefreshTimeout: 1000,
    slotsRefreshInterval: SLOTS_REFRESH_MS,
    clusterRetryStrategy: retryDelayMs,
  };
}

/**
 * A cluster node connects on its first command and fails all others until then. To avoid that, nodes are connected when the cluster
 * becomes ready, and when it discovers a node.
 */
function connectNodesEarly(cluster: Cluster): void {
  const connectIdle = (): void => {
    for (const node of cluster.status === 'ready' ? cluster.nodes() : []) {
      if (node.status === 'wait') {
        node.connect().catch(() => undefined);
      }
    }
  };
  cluster.on('ready', connectIdle);
  cluster.on('+node', () => setImmediate(connectIdle));
}

function createCluster(
  config: ClusterRedisConfig,
  redisOptions: RedisOptions,
  overrides: ClusterOptions = {},
): Cluster {
  const nodes = config.nodes.map(({ host, port }) => ({ host, port }));
  return new Cluster(nodes, { ...clusterOptions(config, redisOptions), ...overrides });
}

/** A client for commands and scripts. It connects when `connect()` is called. */
export function createCommandClient(
  target: RedisTarget,
  times: ConnectionTimes,
  connectionName = CONNECTION_NAME,
): Redis | Cluster {
  if (target.mode === 'cluster') {
    const cluster = createCluster(target, commandOptions(times, connectionName));
    connectNodesEarly(cluster);
    return cluster;
  }
  return new Redis({
    ...commandOptions(times, connectionName),
    ...addressOptions(target, times),
    // Off, because ioredis sends one automatic pipeline at a time and resolves all of it together. Each request would wait for the
    // slowest script of the pipeline, and Redis would idle between pipelines.
    enableAutoPipelining: false,
    enableOfflineQueue: false,
    retryStrategy: retryDelayMs,
    reconnectOnError: isDemoted,
  });
}

/** A client for pub/sub only. It connects with its first subscription. */
export function createSubscriberClient(target: RedisTarget, times: ConnectionTimes): Redis | Cluster {
  if (target.mode === 'cluster') {
    return createCluster(target, SUBSCRIBER, { enableOfflineQueue: true });
  }
  return new Redis({ ...SUBSCRIBER, ...addressOptions(target, times), retryStrategy: retryDelayMs });
}

/**
 * Reconnects a client that ioredis has ended, unless it was closed on purpose. ioredis ends a client for example when +switch-master of
 * a Sentinel arrives while the client is already looking for the new master.
 */
export function reviveWhenEnded(client: Redis | Cluster, closing: AbortSignal): void {
  client.on('end', () => {
    const retry = setTimeout(() => {
      if (!closing.aborted && client.status === 'end') {
        client.connect().catch(() => undefined);
      }
    }, retryDelayMs(1));
    retry.unref();
  });
}

/** The address for messages, without user and password. */
export function describeTarget(target: RedisTarget): string {
  switch (target.mode) {
    case 'socket':
      return `embedded Redis at ${target.path}`;
    case 'single':
      return `Redis at ${target.url}`;
    case 'sentinel':
      return `Redis master ${target.masterName} of the Sentinels ${listOf(target.sentinels)}`;
    case 'cluster':
      return `Redis Cluster at ${listOf(target.nodes)}`;
  }
}

function listOf(endpoints: readonly { host: string; port: number }[]): string {
  return endpoints.map(({ host, port }) => `${host}:${port}`).join(',');
}
