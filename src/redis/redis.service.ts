import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Cluster, type Redis } from 'ioredis';
import type { Registry } from 'prom-client';
import type { HoldfastConfig } from '../config/index.js';
import type { Logger } from '../telemetry/index.js';
import { agreeOnPartitions, checkVersion, waitUntilReady } from './boot.js';
import { ConnectionWatch } from './connection-watch.js';
import {
  type ConnectionTimes,
  createCommandClient,
  createSubscriberClient,
  describeTarget,
  QUERY_CONNECTION_NAME,
  type RedisTarget,
  reviveWhenEnded,
} from './connection.js';
import { EmbeddedRedis } from './embedded/embedded-redis.js';
import { StoreBootError, StoreUnavailable, toStoreError } from './errors.js';
import {
  type GuardState,
  MemoryGuard,
  type MemoryReport,
  readNodeMemory,
  sumMemory,
} from './memory-guard.js';
import { Queries } from './queries.js';
import { QueryMetrics, RedisMetrics } from './redis.metrics.js';
import { ScriptRegistry } from './scripts.js';

/** What health shows about the store: what is red, and why. */
export interface StoreStatus {
  readonly ready: boolean;
  /** Each names what is wrong in a few words an operator understands; empty when all is well. */
  readonly problems: readonly string[];
  /** What does not make the store red: what an operator allowed, such as an eviction policy, and queries without a connection. */
  readonly warnings: readonly string[];
  readonly memory?: Pick<MemoryReport, 'policy' | 'maxmemoryBytes' | 'usedBytes'>;
}

interface ServiceParts {
  readonly target: RedisTarget;
  readonly times: ConnectionTimes;
  /** Aborted as soon as closed connections are intended. */
  readonly closing: AbortController;
  readonly embedded: EmbeddedRedis | undefined;
  readonly watch: ConnectionWatch;
  readonly queryClient: Redis | Cluster;
  readonly queryWatch: ConnectionWatch;
  readonly guard: MemoryGuard;
  readonly logger: Logger;
  readonly metrics: RedisMetrics;
}

const QUIT_TIMEOUT_MS = 1000;
const QUERIES_AWAY = 'the connection for queries is away: lists, searches and exports are answered with 503';

/**
 * The connections to Redis, checked and ready before anything that depends on them is made, and closed after everything
 * else. The ledger, authentication and health use `client` and `scripts`; whatever reads many records uses `queries`. Commands fail within 2 s while Redis is away (see `ConnectionTimes`), and work again when it is back.
 */
@Injectable()
export class RedisService implements OnApplicationShutdown {
  readonly scripts: ScriptRegistry;
  private readonly further: (Redis | Cluster)[] = [];
  private lastGuardState: GuardState = { ok: true, problems: [], allowed: [] };
  private checking: Promise<StoreStatus> | undefined;
  private closing: Promise<void> | undefined;

  private constructor(
    readonly client: Redis | Cluster,
    readonly queries: Queries,
    readonly partitions: number,
    private readonly parts: ServiceParts,
  ) {
    this.scripts = new ScriptRegistry(client, () => parts.metrics.scriptTextsRun.inc());
  }

  /**
   * Starts the embedded Redis if there is to be one, connects, and checks what the ledger needs: the version, no
   * eviction, the number of partitions, and that every script compiles.
   * @throws StoreBootError of one line; everything that was started is stopped again.
   */
  static async start(config: HoldfastConfig, logger: Logger, registry: Registry): Promise<RedisService> {
    const metrics = new RedisMetrics(registry);
    const embedded =
      config.redis.mode === 'embedded'
        ? await EmbeddedRedis.start(
            { dataDir: config.dataDir, appendFsync: config.embeddedAppendFsync },
            logger,
            metrics,
          )
        : undefined;
    const target: RedisTarget =
      config.redis.mode === 'embedded' ? { mode: 'socket', path: embedded?.socket ?? '' } : config.redis;
    const times = { commandTimeoutMs: config.redisCommandTimeoutMs };
    const closing = new AbortController();
    const client = createCommandClient(target, times);
    const queryClient = createCommandClient(target, times, QUERY_CONNECTION_NAME);
    reviveWhenEnded(client, closing.signal);
    reviveWhenEnded(queryClient, closing.signal);
    const queryMetrics = new QueryMetrics(registry);
    const watch = new ConnectionWatch(client, logger, metrics);
    const queryWatch = new ConnectionWatch(queryClient, logger, queryMetrics, 'the connection for queries');
    const guard = new MemoryGuard(config.allowEviction);
    try {
      const parts = {
        target,
        times,
        closing,
        embedded,
        watch,
        queryClient,
        queryWatch,
        guard,
        logger,
        metrics,
      };
      await waitUntilReady(client, parts);
      await waitUntilReady(queryClient, { ...parts, watch: queryWatch });
      const scripts = new ScriptRegistry(queryClient, () => metrics.scriptTextsRun.inc());
      const queries = new Queries(
        { client: queryClient, scripts, watch: queryWatch, metrics: queryMetrics },
        config,
      );
      const service = new RedisService(client, queries, config.partitions, parts);
      await service.prepare();
      logger.info({ store: describeTarget(target), partitions: config.partitions }, 'the store is ready');
      return service;
    } catch (error) {
      closing.abort();
      watch.stop();
      queryWatch.stop();
      client.disconnect();
      queryClient.disconnect();
      await embedded?.stop();
      const failure = toStoreError(error);
      throw failure instanceof StoreUnavailable
        ? new StoreBootError(`${describeTarget(target)}: ${failure.message} (${messageOf(failure.cause)})`, {
            cause: error,
          })
        : failure;
    }
  }

  /** Whether commands have a connection now. Says nothing about whether Redis will answer: `ping` does. */
  isReady(): boolean {
    return this.client.status === 'ready' && this.parts.watch.away.length === 0;
  }

  /** Calls the listener each time that the store is back, with how long this instance had no connection. */
  onOutage(listener: (outageMs: number) => void): void {
    this.parts.watch.onOutage(listener);
  }

  /** @throws StoreUnavailable when any master does not answer in time. */
  async ping(): Promise<void> {
    try {
      await Promise.all(this.masters().map((master) => master.ping()));
    } catch (error) {
      throw toStoreError(error);
    }
    const [away] = this.parts.watch.away;
    if (away !== undefined || this.client.status !== 'ready') {
      throw new StoreUnavailable('connection', new Error(`${away ?? 'redis'} is away`));
    }
  }

  /** @throws StoreUnavailable when any master does not answer in time. */
  async memory(): Promise<MemoryReport> {
    return sumMemory(await Promise.all(this.masters().map(readNodeMemory)));
  }

  /**
   * Sends all that `ask` asks of Redis before it first waits in one write, where there is one server. Of many small things that are
   * asked at once by an idle process, most of the cost is the sending.
   */
  inOneWrite<T>(ask: () => T): T {
    const stream =
      this.client.isCluster || this.client.status !== 'ready' ? undefined : (this.client as Redis).stream;
    stream?.cork();
    try {
      return ask();
    } finally {
      stream?.uncork();
    }
  }

  /** What the memory guard found at its last look, which `status` takes. */
  guardState(): GuardState {
    return this.lastGuardState;
  }

  /** A fresh look at connection and memory, for readiness. Never throws; calls at the same time share one look. */
  status(): Promise<StoreStatus> {
    this.checking ??= this.check().finally(() => {
      this.checking = undefined;
    });
    return this.checking;
  }

  /** A connection of its own for pub/sub, closed with the service. Whoever listens subscribes again each time that it is `ready`. */
  subscriber(): Redis | Cluster {
    return this.lasting(createSubscriberClient(this.parts.target, this.parts.times));
  }

  /** Nest calls this after the HTTP server has closed. The embedded Redis goes last, after its clients. */
  async onApplicationShutdown(): Promise<void> {
    this.closing ??= this.close();
    await this.closing;
  }

  private async close(): Promise<void> {
    this.parts.closing.abort();
    this.parts.watch.stop();
    this.parts.queryWatch.stop();
    for (const client of this.further) {
      client.disconnect();
    }
    // QUIT lets replies that are still under way arrive; a Redis that is away cannot hold up the shutdown.
    let timer: NodeJS.Timeout | undefined;
    const waited = new Promise<void>((done) => {
      timer = setTimeout(done, QUIT_TIMEOUT_MS);
    });
    const clients = [this.client, this.parts.queryClient];
    await Promise.race([Promise.allSettled(clients.map((client) => client.quit())), waited]);
    clearTimeout(timer);
    clients.forEach((client) => client.disconnect());
    await this.parts.embedded?.stop();
  }

  private lasting(client: Redis | Cluster): Redis | Cluster {
    reviveWhenEnded(client, this.parts.closing.signal);
    client.on('error', (error: Error) =>
      this.parts.logger.debug({ err: error }, 'a connection beside the main one lost Redis; trying again'),
    );
    this.further.push(client);
    return client;
  }

  private masters(): Redis[] {
    if (!(this.client instanceof Cluster)) {
      return [this.client];
    }
    const masters = this.client.nodes('master');
    if (masters.length === 0) {
      throw new StoreUnavailable('connection', new Error('no node of the cluster is reachable'));
    }
    return masters;
  }

  private async prepare(): Promise<void> {
    const { target, logger } = this.parts;
    await checkVersion(this.masters(), describeTarget(target));
    const state = this.judge(await this.memory());
    const refused = state.problems.find(({ code }) => code === 'eviction_policy');
    if (refused !== undefined) {
      throw new StoreBootError(
        `${refused.message}, or accept the loss of holds with HOLDFAST_ALLOW_EVICTION=true`,
      );
    }
    for (const { message } of state.allowed) {
      logger.error(`HOLDFAST_ALLOW_EVICTION IS SET. ${message}. BUDGETS AND HOLDS CAN VANISH`);
    }
    await agreeOnPartitions(this.client, this.partitions);
    await this.scripts.load();
  }

  private judge(report: MemoryReport): GuardState {
    const { guard, metrics, logger } = this.parts;
    const state = guard.judge(report);
    metrics.memoryUsedBytes.set(report.usedBytes);
    metrics.memoryMaxBytes.set(report.maxmemoryBytes);
    metrics.evictedKeys.set(guard.evictedKeysSinceBoot);
    const known = new Set(this.lastGuardState.problems.map(({ code }) => code));
    for (const problem of state.problems) {
      if (!known.has(problem.code)) {
        logger.error({ code: problem.code }, problem.message);
      }
    }
    this.lastGuardState = state;
    return state;
  }

  private async check(): Promise<StoreStatus> {
    const messages = (found: GuardState['problems']): string[] => found.map(({ message }) => message);
    try {
      const [report] = await Promise.all([this.memory(), this.ping()]);
      const state = this.judge(report);
      const { policy, maxmemoryBytes, usedBytes } = report;
      return {
        ready: state.ok,
        problems: messages(state.problems),
        warnings: [...messages(state.allowed), ...(this.queries.isConnected() ? [] : [QUERIES_AWAY])],
        memory: { policy, maxmemoryBytes, usedBytes },
      };
    } catch (error) {
      const failure = toStoreError(error);
      const problem =
        failure instanceof StoreUnavailable ? failure.message : 'the store gave an unexpected answer';
      const known = this.lastGuardState.problems.filter(({ code }) => code !== 'memory_full');
      return { ready: false, problems: [problem, ...messages(known)], warnings: [] };
    }
  }
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : 'no details';
}
