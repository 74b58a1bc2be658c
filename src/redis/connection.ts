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

/**
 * How Holdfast talks to Redis so that no command waits without bound.
 *
 * - Nothing is queued while there is no connection (`enableOfflineQueue: false`): such a command fails at once.
 * - `socketTimeout` after a silent server was last asked something, the whole connection is dropped. That fails every waiting
 *   command together. What the server's kernel had taken by then a server that wakes up may still carry out, although its
 *   clients were told 503, which says as much; nothing that is asked later reaches it.
 * - `commandTimeout` bounds a command whose turn does not come although the server answers others. It is a little longer, or a
 *   caller would hear of a silent server, and ask again, before its connection is dropped.
 * - Commands whose reply was lost are not sent again: only the caller knows whether a repetition is safe.
 */
export interface ConnectionTimes {
  /** REDIS_COMMAND_TIMEOUT_MS. */
  readonly commandTimeoutMs: number;
}

/** Replies keep the shapes that ioredis always gave (`replyMapping` stays unset), whatever protocol is spoken. */
type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>;
type ClusterOptions = Omit<AnyClusterOptions, 'redisOptions'> & { readonly redisOptions?: RedisOptions };

/** Where Redis is, with the embedded one already resolved to its socket. */
export type RedisTarget =
  Exclude<RedisConfig, { mode: 'embedded' }> | { readonly mode: 'socket'; readonly path: string };

/** The name under which the connections of Holdfast show up in CLIENT LIST. */
export const CONNECTION_NAME = 'holdfast';
/** The connection for queries has a name of its own there. */
export const QUERY_CONNECTION_NAME = 'holdfast-queries';

const CONNECT_TIMEOUT_MS = 2000;
const DROPPED_FIRST_MS = 100;
const LONGEST_RETRY_DELAY_MS = 500;
const SENTINEL_RECONNECT_MS = 30_000;
const SLOTS_REFRESH_MS = 5000;

/** Quick first, then at most two tries a second, with jitter so that many instances do not come back in step. */
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
    // A Sentinel's +switch-master makes us leave an old master that still answers, for example behind a partition.
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

/** A demoted master, or a proxy that still points at one: the next connection finds the new master. */
function isDemoted(error: Error): boolean {
  return error.message.startsWith('READONLY');
}

const COMMON: RedisOptions = {
  lazyConnect: true,
  connectionName: CONNECTION_NAME,
  connectTimeout: CONNECT_TIMEOUT_MS,
  keepAlive: 5000,
  // After `disconnect` ioredis waits this long for the other side, and keeps the process alive meanwhile.
  disconnectTimeout: 500,
  autoResendUnfulfilledCommands: false,
  maxLoadingRetryTime: 250,
};

function commandOptions(times: ConnectionTimes, connectionName: string): RedisOptions {
  return {
    ...COMMON,
    connectionName,
    commandTimeout: times.commandTimeoutMs + DROPPED_FIRST_MS,
    socketTimeout: times.commandTimeoutMs,
    maxRetriesPerRequest: 0,
  };
}

/**
 * Subscriptions wait for their connection; a quiet channel is no sign of a dead server. Whoever subscribes does it again when the
 * connection is `ready` again: where the library did it, nobody would hear of a failure, and a connection that is closed at that
 * moment would end the process by a rejection that nobody handles.
 */
const SUBSCRIBER: RedisOptions = { ...COMMON, maxRetriesPerRequest: null, autoResubscribe: false };

function clusterOptions(config: ClusterRedisConfig, redisOptions: RedisOptions): ClusterOptions {
  return {
    lazyConnect: true,
    redisOptions: { ...redisOptions, ...accessOptions(config) },
    scaleReads: 'master',
    enableOfflineQueue: false,
    // Off, because a batch that meets several moved slots hands its MOVED errors to the callers instead of following them.
    enableAutoPipelining: false,
    // 0 means: a command whose connection broke is not sent again, since it may have been carried out.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 100,
    retryDelayOnTryAgain: 100,
    // Bounds the hops and, with the delays above, the time they take.
    maxRedirections: 6,
    slotsRefreshTimeout: 1000,
    slotsRefreshInterval: SLOTS_REFRESH_MS,
    clusterRetryStrategy: retryDelayMs,
  };
}

/**
 * Cluster nodes connect on their first command, and refuse all others meanwhile. So they are connected ahead: when the
 * cluster becomes ready, and whenever it learns of another node.
 */
function connectNodesAhead(cluster: Cluster): void {
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
    connectNodesAhead(cluster);
    return cluster;
  }
  return new Redis({
    ...commandOptions(times, connectionName),
    ...addressOptions(target, times),
    // Off, because ioredis has one such pipeline under way at a time and answers all of it together: requests would wait for the
    // slowest script that anybody sent, and Redis for this process.
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
 * ioredis gives a client up for good in corners that a server must survive: with Sentinels, when +switch-master arrives
 * while the client is already asking for the new master. Unless it was closed on purpose, it is connected once more.
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

/** The address as it may be shown: without user and password. */
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
