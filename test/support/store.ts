import { Cluster, Redis } from 'ioredis';
import { startRedis } from './redis-server.ts';
import { startCluster, startSentinel, type ClusterSetup, type SentinelSetup } from './redis-topologies.ts';

/** The kind of Redis that a test run uses: `TEST_TOPOLOGY`. */
export type Topology = 'single' | 'cluster' | 'sentinel';

/** A Redis of any topology. Tests pass its address as `REDIS_URL` and to `connectTo`. */
export interface Store {
  readonly url: string;
  stop(): Promise<void>;
}

export type StoreClient = Redis | Cluster;

const CLUSTER = 'redis-cluster://';
const SENTINEL = 'redis-sentinel://';
const LENDABLE = '{test}stores';

export function topologyOfRun(): Topology {
  const topology = process.env['TEST_TOPOLOGY'] ?? 'single';
  if (topology !== 'single' && topology !== 'cluster' && topology !== 'sentinel') {
    throw new Error(`TEST_TOPOLOGY is ${topology}, but it must be single, cluster or sentinel`);
  }
  return topology;
}

/** Starts a new store of the run's topology and returns its address. */
export async function launchStore(): Promise<string> {
  switch (topologyOfRun()) {
    case 'single':
      return (await startRedis()).url;
    case 'cluster':
      return clusterUrl(await startCluster());
    case 'sentinel':
      return sentinelUrl(await startSentinel());
  }
}

export function clusterUrl({ addresses }: ClusterSetup): string {
  return CLUSTER + addresses;
}

export function sentinelUrl({ addresses, masterName }: SentinelSetup): string {
  return `${SENTINEL}${addresses}/${masterName}`;
}

/** The store that global-setup started for the whole run. All test files share it. */
export function sharedStoreUrl(): string {
  const url = process.env['TEST_REDIS_URL'];
  if (url === undefined) {
    throw new Error('TEST_REDIS_URL is not set: run the tests with jest, whose global setup starts a Redis');
  }
  return url;
}

/**
 * An empty store of the run's topology for one test file or one test. A single Redis starts immediately. A
 * cluster takes seconds, so those that global-setup started are lent, emptied and lent again. For tests that
 * are about one server, use `startRedis`.
 */
export async function startStore(): Promise<Store> {
  if (topologyOfRun() === 'single') {
    return startRedis();
  }
  const url =
    (await withClient(sharedStoreUrl(), (shared) => shared.rpop(LENDABLE))) ?? (await launchStore());
  let returned: Promise<void> | undefined;
  return { url, stop: () => (returned ??= giveBack(url)) };
}

async function giveBack(url: string): Promise<void> {
  await withClient(url, async (client) => {
    // Before the first reply, a cluster client does not know any nodes.
    await client.ping();
    await Promise.all(mastersOf(client).map((master) => master.flushall()));
  });
  await lend(sharedStoreUrl(), url);
}

export async function lend(sharedUrl: string, url: string): Promise<void> {
  await withClient(sharedUrl, (shared) => shared.lpush(LENDABLE, url));
}

async function withClient<T>(url: string, use: (client: StoreClient) => Promise<T>): Promise<T> {
  const client = connectTo(url);
  try {
    return await use(client);
  } finally {
    client.disconnect();
  }
}

/** A client for the address of a `Store`, or for the path of a socket. */
export function connectTo(url: string): StoreClient {
  const {
    REDIS_CLUSTER_NODES: nodes,
    REDIS_SENTINELS: sentinels,
    REDIS_MASTER_NAME: name,
  } = storeSettings({ REDIS_URL: url });
  if (nodes !== undefined) {
    return new Cluster(endpointsOf(nodes));
  }
  return sentinels !== undefined && name !== undefined
    ? new Redis({ sentinels: endpointsOf(sentinels), name })
    : new Redis(url);
}

function endpointsOf(addresses: string): { host: string; port: number }[] {
  return addresses
    .split(',')
    .map((address) => ({ host: address.split(':')[0] as string, port: Number(address.split(':')[1]) }));
}

/**
 * Holdfast's settings, where the address of a `Store` in `REDIS_URL` is moved to the variables for its
 * topology.
 */
export function storeSettings(env: Readonly<Record<string, string>>): Record<string, string> {
  const { REDIS_URL: url = '', ...others } = env;
  if (url.startsWith(CLUSTER)) {
    return { ...others, REDIS_CLUSTER_NODES: url.slice(CLUSTER.length) };
  }
  if (url.startsWith(SENTINEL)) {
    const [addresses, name] = url.slice(SENTINEL.length).split('/') as [string, string];
    return { ...others, REDIS_SENTINELS: addresses, REDIS_MASTER_NAME: name };
  }
  return { ...env };
}

/** All servers that accept writes. Commands about servers instead of keys have to go to each of them. */
export function mastersOf(client: StoreClient): Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}

/** How often each command has run since the start, summed over all masters. */
export async function commandCounts(client: StoreClient): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const info of await Promise.all(mastersOf(client).map((master) => master.info('commandstats')))) {
    for (const [, name, calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm) as Iterable<
      [string, string, string]
    >) {
      counts[name] = (counts[name] ?? 0) + Number(calls);
    }
  }
  return counts;
}
