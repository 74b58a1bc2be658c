import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { Redis } from 'ioredis';

import { eventually } from './eventually.ts';
import {
  findFreePort,
  isPortTaken,
  startRedis,
  startSentinelProcess,
  type RedisServer,
} from './redis-server.ts';

const ATTEMPTS = 10;
const SLOTS = 16_384;

/** Connects to one server while `use` runs. */
export async function withServer<T>(server: RedisServer, use: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis({ host: server.host, port: server.port, disconnectTimeout: 100 });
  try {
    return await use(client);
  } finally {
    client.disconnect();
  }
}

export interface SentinelSetup {
  readonly master: RedisServer;
  readonly replica: RedisServer;
  readonly sentinels: readonly RedisServer[];
  readonly masterName: string;
  /** For REDIS_SENTINELS. */
  readonly addresses: string;
}

/** On a busy machine, a server may not answer for seconds. Replicas take over only in tests that mean it, from `letReplicasTakeOver` on. */
const PATIENCE_MS = 60_000;
/** How long a master has been silent when its replica takes over. */
const SENTINEL_LIMIT_MS = 500;
const CLUSTER_LIMIT_MS = 1000;

/** A master, a replica that is in sync, and Sentinels. */
export async function startSentinel(sentinelCount = 1): Promise<SentinelSetup> {
  const masterName = 'ledger';
  const master = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
  const replica = await startRedis({ args: ['--replicaof', master.host, String(master.port)] });
  await eventually('the replica is in sync', () =>
    withServer(replica, async (client) =>
      (await client.info('replication')).includes('master_link_status:up'),
    ),
  );
  const quorum = Math.floor(sentinelCount / 2) + 1;
  const configure = (port: number, dir: string): string => {
    const file = join(dir, 'sentinel.conf');
    const lines = [
      `port ${port}`,
      `dir ${dir}`,
      'bind 127.0.0.1',
      `sentinel monitor ${masterName} ${master.host} ${master.port} ${quorum}`,
      `sentinel down-after-milliseconds ${masterName} ${PATIENCE_MS}`,
      `sentinel failover-timeout ${masterName} 3000`,
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    return file;
  };
  const sentinels: RedisServer[] = [];
  for (let i = 0; i < sentinelCount; i += 1) {
    sentinels.push(await startSentinelProcess(configure));
  }
  await Promise.all(sentinels.map((sentinel) => waitForReplica(sentinel, masterName)));
  return {
    master,
    replica,
    sentinels,
    masterName,
    addresses: sentinels.map(({ host, port }) => `${host}:${port}`).join(','),
  };
}

async function waitForReplica(sentinel: RedisServer, masterName: string): Promise<void> {
  await withServer(sentinel, (client) =>
    // Before it has inspected the replica, a Sentinel considers it unfit to take over.
    eventually('the Sentinel has inspected the replica', async () => {
      const [replica] = (await client.call('SENTINEL', 'REPLICAS', masterName)) as string[][];
      return replica !== undefined && replica[replica.indexOf('master-link-status') + 1] === 'ok';
    }),
  );
}

export interface ClusterSetup {
  readonly masters: readonly RedisServer[];
  /** One per master, in the same order. */
  readonly replicas: readonly RedisServer[];
  /** For REDIS_CLUSTER_NODES. */
  readonly addresses: string;
}

const MASTERS = 3;

/** Three masters that share all slots, each with a replica. */
export async function startCluster(): Promise<ClusterSetup> {
  const nodes = await Promise.all(Array.from({ length: 2 * MASTERS }, startClusterNode));
  const [masters, replicas] = [nodes.slice(0, MASTERS), nodes.slice(MASTERS)];
  const [first, ...others] = nodes as [ClusterNode, ...ClusterNode[]];
  const masterIds = await Promise.all(
    masters.map(({ server }, index) => withServer(server, (client) => takeSlots(client, index))),
  );
  await withServer(first.server, (client) =>
    Promise.all(
      others.map(({ server, busPort }) => client.call('CLUSTER', 'MEET', server.host, server.port, busPort)),
    ),
  );
  await Promise.all(nodes.map(({ server }) => waitForNodes(server, nodes.length)));
  await Promise.all(
    replicas.map(({ server }, index) =>
      withServer(server, (client) => follow(client, masterIds[index] as string)),
    ),
  );
  await Promise.all(nodes.map(({ server }) => waitForState(server)));
  const addresses = masters.map(({ server }) => `${server.host}:${server.port}`).join(',');
  const setup = {
    masters: masters.map(({ server }) => server),
    replicas: replicas.map(({ server }) => server),
    addresses,
  };
  // Only now: nodes come to know each other the sooner the shorter it is.
  await limitSilence(setup, PATIENCE_MS);
  return setup;
}

/** From now on, replicas take over from silent masters. */
export async function letReplicasTakeOver(setup: ClusterSetup | SentinelSetup): Promise<void> {
  if ('masters' in setup) {
    return limitSilence(setup, CLUSTER_LIMIT_MS);
  }
  const limit = ['down-after-milliseconds', String(SENTINEL_LIMIT_MS)] as const;
  await Promise.all(
    setup.sentinels.map((server) =>
      withServer(server, (sentinel) => sentinel.call('SENTINEL', 'SET', setup.masterName, ...limit)),
    ),
  );
}

/** From now on, no replica takes over any more. */
export function keepMasters(setup: ClusterSetup): Promise<void> {
  return limitSilence(setup, PATIENCE_MS);
}

async function limitSilence({ masters, replicas }: ClusterSetup, limitMs: number): Promise<void> {
  await Promise.all(
    [...masters, ...replicas].map((server) =>
      withServer(server, (node) => node.config('SET', 'cluster-node-timeout', limitMs)),
    ),
  );
}

/** A cluster of one master. */
export async function startLoneMaster(): Promise<RedisServer> {
  const { server } = await startClusterNode();
  await withServer(server, async (client) => {
    await client.call('CLUSTER', 'ADDSLOTSRANGE', 0, SLOTS - 1);
    await eventually('it serves', async () =>
      String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
    );
  });
  return server;
}

/** Returns the node's id. */
async function takeSlots(client: Redis, index: number): Promise<string> {
  const from = Math.floor((index * SLOTS) / MASTERS);
  const to = Math.floor(((index + 1) * SLOTS) / MASTERS) - 1;
  await client.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1);
  await client.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
  return String(await client.call('CLUSTER', 'MYID'));
}

async function follow(client: Redis, masterId: string): Promise<void> {
  await client.call('CLUSTER', 'REPLICATE', masterId);
  await eventually('the replica is in sync', async () =>
    (await client.info('replication')).includes('master_link_status:up'),
  );
}

/** Adds an empty master without slots. */
export async function addMaster({ masters, replicas }: ClusterSetup): Promise<RedisServer> {
  const { server, busPort } = await startClusterNode();
  const nodes = [...masters, ...replicas, server];
  await withServer(masters[0] as RedisServer, (client) =>
    client.call('CLUSTER', 'MEET', server.host, server.port, busPort),
  );
  await Promise.all(nodes.map((node) => waitForNodes(node, nodes.length)));
  await waitForState(server);
  return server;
}

/** Moves a slot with all its keys to another master. */
export async function moveSlot(from: RedisServer, to: RedisServer, slot: number): Promise<void> {
  const idOf = (server: RedisServer): Promise<string> =>
    withServer(server, async (client) => String(await client.call('CLUSTER', 'MYID')));
  const [sourceId, targetId] = await Promise.all([idOf(from), idOf(to)]);
  const assign = (client: Redis): Promise<unknown> =>
    client.call('CLUSTER', 'SETSLOT', slot, 'NODE', targetId);
  await withServer(from, (source) =>
    withServer(to, async (target) => {
      await target.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', sourceId);
      await source.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', targetId);
      const keys = (await source.call('CLUSTER', 'GETKEYSINSLOT', slot, 100_000)) as string[];
      await source.call('MIGRATE', to.host, to.port, '', 0, 5000, 'KEYS', ...keys);
      await assign(target);
      await assign(source);
    }),
  );
}

/** The slot of a key or of a hash tag. */
export function slotOf(server: RedisServer, key: string): Promise<number> {
  return withServer(server, async (client) => Number(await client.call('CLUSTER', 'KEYSLOT', key)));
}

/** The master that owns this slot, and its replica, as `startCluster` assigns them. */
export function placeOf(
  { masters, replicas }: ClusterSetup,
  slot: number,
): { master: RedisServer; replica: RedisServer } {
  const index = Math.floor((slot * MASTERS) / SLOTS);
  return { master: masters[index] as RedisServer, replica: replicas[index] as RedisServer };
}

interface ClusterNode {
  readonly server: RedisServer;
  readonly busPort: number;
}

/** The bus port must be chosen too: the default, 10000 above the other one, may not exist or may be taken. */
async function startClusterNode(): Promise<ClusterNode> {
  for (let attempt = 1; ; attempt += 1) {
    const busPort = await findFreePort();
    const cluster = [
      '--cluster-enabled',
      'yes',
      '--cluster-config-file',
      'nodes.conf',
      '--cluster-node-timeout',
      String(CLUSTER_LIMIT_MS),
      // Otherwise, a node learns its own address only from others.
      '--cluster-announce-ip',
      '127.0.0.1',
    ];
    // A replica counts as available only once it has received something; a ping is enough.
    const replication = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1'];
    try {
      const server = await startRedis({
        args: [...cluster, '--cluster-port', String(busPort), ...replication],
      });
      return { server, busPort };
    } catch (error) {
      if (attempt === ATTEMPTS || !isPortTaken(error)) {
        throw error;
      }
    }
  }
}

async function waitForNodes(server: RedisServer, count: number): Promise<void> {
  await withServer(server, (client) =>
    eventually('all nodes know each other', async () => {
      const lines = String(await client.call('CLUSTER', 'NODES'))
        .trim()
        .split('\n');
      return lines.length === count && !lines.some((line) => line.includes('handshake'));
    }),
  );
}

async function waitForState(server: RedisServer): Promise<void> {
  await withServer(server, (client) =>
    eventually('the cluster is whole', async () => {
      const slots = (await client.call('CLUSTER', 'SLOTS')) as unknown[][];
      const state = String(await client.call('CLUSTER', 'INFO'));
      return (
        state.includes('cluster_state:ok') &&
        slots.length === MASTERS &&
        slots.every((range) => range.length > 3)
      );
    }),
  );
}
