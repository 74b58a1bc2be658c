import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, type Redis } from 'ioredis';
import type { Logger } from '../telemetry/index.js';
import type { ConnectionWatch } from './connection-watch.js';
import { describeTarget, type RedisTarget } from './connection.js';
import type { EmbeddedRedis } from './embedded/embedded-redis.js';
import { StoreBootError, StoreUnavailable, toStoreError } from './errors.js';
import { testClockKey } from './keyspace.js';
import { metaKey } from './meta-key.js';
import { parseInfo } from './memory-guard.js';
import type { ScriptRegistry } from './scripts.js';

const BOOT_TIMEOUT_MS = 10_000;
const POLL_MS = 20;
const OLDEST_MAJOR = 7;

/** Errors that waiting does not resolve, and what does. */
const REMEDIES: readonly (readonly [error: RegExp, remedy: string])[] = [
  [
    /\b(?:WRONGPASS|NOAUTH|NOPERM)\b/,
    'check the user and the password in REDIS_URL, or REDIS_USERNAME and REDIS_PASSWORD',
  ],
  [/certificate/i, 'check REDIS_TLS_CA_FILE'],
];

interface BootParts {
  readonly target: RedisTarget;
  readonly watch: ConnectionWatch;
  readonly embedded: EmbeddedRedis | undefined;
  readonly logger: Logger;
}

/**
 * Waits until commands can be sent. While Redis loads its data, which may take minutes, the wait has no limit. A wrong password or
 * certificate fails at once. Everything else gets 10 s.
 * @throws StoreBootError with the address and the last error.
 */
export async function waitUntilReady(
  client: Redis | Cluster,
  { target, watch, embedded, logger }: BootParts,
): Promise<void> {
  // The client retries by itself, and the watch records why an attempt failed.
  client.connect().catch(() => undefined);
  let deadline = performance.now() + BOOT_TIMEOUT_MS;
  while (!isConnected(client)) {
    await embedded?.mustRun();
    const failure = watch.lastError ?? '';
    const remedy = REMEDIES.find(([error]) => error.test(failure))?.[1];
    if (remedy !== undefined) {
      throw new StoreBootError(
        `${describeTarget(target)} refuses the connection (${oneLine(failure)}); ${remedy}`,
      );
    }
    if (performance.now() > deadline) {
      if (!(await isLoading(client))) {
        const reason = watch.lastError ?? 'no answer';
        throw new StoreBootError(
          `${describeTarget(target)} cannot be reached (${oneLine(reason)})${tlsHint(target, reason)}`,
        );
      }
      logger.info({ store: describeTarget(target) }, 'still waiting for the store to load its data');
      deadline = performance.now() + BOOT_TIMEOUT_MS;
    }
    await delay(POLL_MS);
  }
}

/**
 * Prepares the store. If it goes away meanwhile, as in a failover, the preparation begins again, for as long as a start may wait.
 * @param prepare waits until commands can be sent, and may be repeated
 * @throws what `prepare` throws, but StoreUnavailable only at the end of that time.
 */
export async function prepareInTime(prepare: () => Promise<void>, logger: Logger): Promise<void> {
  const deadline = performance.now() + BOOT_TIMEOUT_MS;
  for (;;) {
    try {
      return await prepare();
    } catch (error) {
      const failure = toStoreError(error);
      const mayPass = failure instanceof StoreUnavailable && failure.reason !== 'permission';
      if (!mayPass || performance.now() > deadline) {
        throw error;
      }
      logger.info({ err: failure }, 'the store went away during the start; the start waits for it');
      await delay(POLL_MS);
    }
  }
}

/** A server without TLS takes the first bytes of TLS for the beginning of a command and waits for the rest. */
function tlsHint(target: RedisTarget, reason: string): string {
  const isTls = target.mode === 'single' && target.url.startsWith('rediss:');
  return isTls && reason.includes('ETIMEDOUT') ? '; if it does not use TLS, write redis:// in REDIS_URL' : '';
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

/** Redis answers INFO while it loads, and the client can send it before it is `ready`. */
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

/**
 * @throws StoreBootError if a master is older than Redis 7.0, which has no flags for scripts, or REDIS_URL names a replica;
 * StoreUnavailable if a failover has just made a master of Sentinels or of a cluster one.
 */
export async function checkServers(masters: readonly Redis[], target: RedisTarget): Promise<void> {
  const where = describeTarget(target);
  for (const master of masters) {
    const info = parseInfo(await master.info('server', 'replication'));
    const version = info.get('redis_version') ?? 'unknown';
    if (!(Number.parseInt(version, 10) >= OLDEST_MAJOR)) {
      throw new StoreBootError(
        `${where} has version ${version}; Holdfast needs Redis 7.0 or newer, or Valkey`,
      );
    }
    if (info.get('role') === 'slave') {
      const found = `${where} is a replica of ${info.get('master_host')}:${info.get('master_port')}`;
      throw target.mode === 'single'
        ? new StoreBootError(`${found} and takes no writes; name the master in REDIS_URL`)
        : new StoreUnavailable('readonly', new Error(found));
    }
  }
}

/**
 * A Redis that refuses scripts for another reason may soon run them; until then, readiness is red.
 * @throws StoreBootError if this user may not run all scripts; StoreUnavailable if Redis does not answer
 */
export async function checkRights(scripts: Pick<ScriptRegistry, 'probe'>, where: string): Promise<void> {
  const denied = await scripts.probe().catch((error: unknown) => {
    if (error instanceof StoreUnavailable && error.refusal !== undefined && error.reason !== 'permission') {
      return [];
    }
    throw error;
  });
  if (denied.length > 0) {
    throw new StoreBootError(
      `${where} does not let this user run ${denied.join(', ')} in scripts; docs/redis.md has the rights that it needs`,
    );
  }
}

/**
 * If a server refuses the database of REDIS_URL, ioredis uses database 0 and says nothing: that may be the ledger of another deployment.
 * @throws StoreBootError if the server has no such database, or the user may not select it.
 */
export async function checkDatabase(client: Redis | Cluster, target: RedisTarget): Promise<void> {
  if (target.mode !== 'single' || target.db === 0) {
    return;
  }
  try {
    await client.select(target.db);
  } catch (error) {
    const failure = toStoreError(error) as Error;
    if (failure instanceof StoreUnavailable) {
      throw failure;
    }
    throw new StoreBootError(
      `${describeTarget(target)} refuses database ${target.db} (${oneLine(failure.message)}); name another in REDIS_URL`,
    );
  }
}

/**
 * Records the number of partitions at the very first start. Refuses a different number later, with which tenants would be looked up
 * in the wrong partitions.
 */
export async function agreeOnPartitions(client: Redis | Cluster, partitions: number): Promise<void> {
  let recorded = await client.hget(metaKey(), 'partitions');
  if (recorded === null) {
    // Writes only the first time, because an instance must be able to start on a full Redis.
    await client.hsetnx(metaKey(), 'partitions', String(partitions));
    recorded = await client.hget(metaKey(), 'partitions');
  }
  if (recorded !== String(partitions)) {
    throw new StoreBootError(
      `PARTITIONS is ${partitions}, but this store was created with ${recorded}; set PARTITIONS=${recorded}, or use an empty store`,
    );
  }
}

/**
 * @throws StoreBootError if a test clock has advanced the time of this ledger, and there is none now: by Redis' own clock, all of it would lie in the future.
 */
export async function checkTime(client: Redis | Cluster, testClock: boolean): Promise<void> {
  if (!testClock && (await client.exists(testClockKey())) === 1) {
    throw new StoreBootError(
      'the time of this store was advanced by a test clock; set HOLDFAST_TEST_CLOCK=true, or use an empty store',
    );
  }
}
