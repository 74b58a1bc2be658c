import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, type Redis } from 'ioredis';
import type { Logger } from '../telemetry/index.js';
import type { ConnectionWatch } from './connection-watch.js';
import { describeTarget, type RedisTarget } from './connection.js';
import type { EmbeddedRedis } from './embedded/embedded-redis.js';
import { StoreBootError } from './errors.js';
import { metaKey } from './keyspace.js';
import { parseInfo } from './memory-guard.js';

const BOOT_TIMEOUT_MS = 10_000;
const POLL_MS = 20;
const OLDEST_MAJOR = 7;

/** What no waiting heals: a wrong password, and a certificate that is not trusted. */
const HOPELESS = /\b(?:WRONGPASS|NOAUTH|NOPERM)\b|certificate/i;

interface Starting {
  readonly target: RedisTarget;
  readonly watch: ConnectionWatch;
  readonly embedded: EmbeddedRedis | undefined;
  readonly logger: Logger;
}

/**
 * Waits until commands can be sent. A Redis that is loading its data is waited for as long as it takes, since a large
 * log takes minutes; a wrong password or certificate not at all; everything else has 10 s.
 * @throws StoreBootError of one line that names the address and the last error.
 */
export async function waitUntilReady(
  client: Redis | Cluster,
  { target, watch, embedded, logger }: Starting,
): Promise<void> {
  // The first attempt may fail: the client itself goes on trying, and the watch keeps the reason.
  client.connect().catch(() => undefined);
  let deadline = performance.now() + BOOT_TIMEOUT_MS;
  while (!isConnected(client)) {
    if (embedded?.failure !== undefined) {
      // Its last words may still be under way through the pipe.
      await delay(POLL_MS);
      throw new StoreBootError(
        `the embedded Redis does not run (${oneLine(embedded.failure ?? 'it died once')})`,
      );
    }
    if (watch.lastError !== undefined && HOPELESS.test(watch.lastError)) {
      throw new StoreBootError(
        `${describeTarget(target)} refuses the connection (${oneLine(watch.lastError)})`,
      );
    }
    if (performance.now() > deadline) {
      if (!(await isLoading(client))) {
        const reason = watch.lastError ?? 'no answer';
        throw new StoreBootError(`${describeTarget(target)} cannot be reached (${oneLine(reason)})`);
      }
      logger.info({ store: describeTarget(target) }, 'still waiting for the store to load its data');
      deadline = performance.now() + BOOT_TIMEOUT_MS;
    }
    await delay(POLL_MS);
  }
}

function isConnected(client: Redis | Cluster): boolean {
  if (client instanceof Cluster) {
    const masters = client.nodes('master');
    return (
      client.status === 'ready' && masters.length > 0 && masters.every(({ status }) => status === 'ready')
    );
  }
  return client.status === 'ready';
}

/** INFO is answered while Redis loads, and the client sends it before it counts as ready. */
async function isLoading(client: Redis | Cluster): Promise<boolean> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client];
  const answers = nodes.map(
    async (node) => node.status === 'connect' && (await node.info('persistence')).includes('loading:1'),
  );
  return (await Promise.allSettled(answers)).some((answer) => answer.status === 'fulfilled' && answer.value);
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

/** @throws StoreBootError when a master is older than Redis 7.0, whose scripts know no flags. */
export async function checkVersion(masters: readonly Redis[], where: string): Promise<void> {
  for (const master of masters) {
    const version = parseInfo(await master.info('server')).get('redis_version') ?? 'unknown';
    if (!(Number.parseInt(version, 10) >= OLDEST_MAJOR)) {
      throw new StoreBootError(
        `${where} has version ${version}; Holdfast needs Redis 7.0 or newer, or Valkey`,
      );
    }
  }
}

/**
 * Records the number of partitions at the first start ever, and refuses another number later: tenants would be looked
 * for in partitions they are not in.
 */
export async function agreeOnPartitions(client: Redis | Cluster, partitions: number): Promise<void> {
  let recorded = await client.hget(metaKey(), 'partitions');
  if (recorded === null) {
    // Only then a write: an instance must be able to start on a Redis that is full.
    await client.hsetnx(metaKey(), 'partitions', String(partitions));
    recorded = await client.hget(metaKey(), 'partitions');
  }
  if (recorded !== String(partitions)) {
    throw new StoreBootError(
      `PARTITIONS is ${partitions}, but this store was made with ${recorded}; set PARTITIONS=${recorded}, or use an empty store`,
    );
  }
}
