import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Cluster, type Redis } from 'ioredis';
import type { HoldfastConfig } from '../config/index.js';
import { type Logger, type MetricsRegistry, Tracing } from '../telemetry/index.js';
import {
  agreeOnPartitions,
  checkDatabase,
  checkRights,
  checkServers,
  checkTime,
  prepareInTime,
  waitUntilReady,
} from './boot.js';
import { ConnectionWatch, type OutageListener } from './connection-watch.js';
import {
  type ConnectionTimes,
  createCommandClient,
  createSubscriberClient,
  describeTarget,
  QUERY_CONNECTION_NAME,
  type RedisTarget,
  reviveWhenEnded,
} from './connection.js';
import { type Deployment, identifyDeployment, warnOfCopy } from './deployment.js';
import { EmbeddedRedis } from './embedded/embedded-redis.js';
import { StoreBootError, StoreUnavailable, toStoreError } from './errors.js';
import {
  type GuardProblem,
  type GuardState,
  MemoryGuard,
  type MemoryReport,
  readNodeMemory,
  sumMemory,
} from './memory-guard.js';
import { Queries, QUERIES_AWAY } from './queries.js';
import { RedisClock } from './redis-clock.js';
import { QUERY_METRICS, REDIS_METRICS, type RedisCounts, showServers } from './redis.metrics.js';
import { Refusals } from './refusals.js';
import { type Library, libraryWithTestClock } from './script-library.js';
import { ScriptRegistry } from './scripts.js';
import { persistenceOf, type StoreStatus } from './store-status.js';

interface ServiceParts {
  readonly target: RedisTarget;
  readonly times: ConnectionTimes;
  /** Aborted at shutdown, when connections are closed on purpose. */
  readonly closing: AbortController;
  readonly embedded: EmbeddedRedis | undefined;
  readonly watch: ConnectionWatch;
  readonly queryClient: Redis | Cluster;
  readonly queryWatch: ConnectionWatch;
  readonly guard: MemoryGuard;
  readonly logger: Logger;
  readonly counts: RedisCounts;
  readonly tracing: Tracing;
  /** With a test clock; undefined for that of production. */
  readonly library: Library | undefined;
}

const QUIT_TIMEOUT_MS = 1000;

/**
 * The connections to Redis. They are checked and ready before dependents are created, and closed after everything else. The ledger,
 * authentication and health use `client` and `scripts`; operations that read many records use `queries`. While Redis is unreachable,
 * commands fail within 2 s (see `ConnectionTimes`).
 */
@Injectable()
export class RedisService implements OnApplicationShutdown {
  readonly scripts: ScriptRegistry;
  /** Which ledger this is. */
  deployment!: Deployment;
  /** Every instant that leaves the process is read here. */
  readonly clock: RedisClock;
  private readonly tracked: (Redis | Cluster)[] = [];
  private lastGuardState: GuardState = { ok: true, problems: [], allowed: [], warnings: [] };
  readonly refusals: Refusals;
  private checking: Promise<StoreStatus> | undefined;
  private closing: Promise<void> | undefined;

  private constructor(
    readonly client: Redis | Cluster,
    readonly queries: Queries,
    readonly partitions: number,
    private readonly parts: ServiceParts,
  ) {
    this.scripts = new ScriptRegistry(
      client,
      parts.library,
      () => parts.counts.scriptTextsRun.inc(),
      (script, calls) => parts.counts.groupSizes.observe(calls, { script }),
      parts.times.commandTimeoutMs,
    );
    this.scripts.traceCalls(parts.tracing);
    this.clock = new RedisClock(client, parts.logger, parts.library && this.scripts);
    this.refusals = new Refusals(client, this.scripts, parts.counts, parts.logger);
  }

  /**
   * Starts the embedded Redis if configured, connects, and checks what the ledger requires: the version, no eviction, the number of
   * partitions, and that every script compiles.
   * @throws StoreBootError after stopping everything that was started
   */
  static async start(
    config: HoldfastConfig,
    logger: Logger,
    metrics: MetricsRegistry,
    tracing = new Tracing(),
  ): Promise<RedisService> {
    const counts = metrics.of(REDIS_METRICS);
    const embedded =
      config.redis.mode === 'embedded' ? await EmbeddedRedis.start(config, logger, counts) : undefined;
    const target: RedisTarget =
      config.redis.mode === 'embedded' ? { mode: 'socket', path: embedded?.socket ?? '' } : config.redis;
    const times = { commandTimeoutMs: config.redisCommandTimeoutMs };
    const closing = new AbortController();
    const client = createCommandClient(target, times);
    const queryClient = createCommandClient(target, times, QUERY_CONNECTION_NAME);
    reviveWhenEnded(client, closing.signal);
    reviveWhenEnded(queryClient, closing.signal);
    const queryCounts = metrics.of(QUERY_METRICS);
    const watch = new ConnectionWatch(client, logger, counts);
    const queryWatch = new ConnectionWatch(queryClient, logger, queryCounts, 'the connection for queries');
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
        counts,
        tracing,
        library: config.testClock ? libraryWithTestClock() : undefined,
      };
      const scripts = new ScriptRegistry(queryClient, parts.library, () => counts.scriptTextsRun.inc());
      scripts.traceCalls(tracing);
      const queries = new Queries(
        { client: queryClient, scripts, watch: queryWatch, counts: queryCounts },
        config,
      );
      const service = new RedisService(client, queries, config.partitions, parts);
      await prepareInTime(async () => {
        await waitUntilReady(client, parts);
        await waitUntilReady(queryClient, { ...parts, watch: queryWatch });
        await service.prepare(config);
      }, logger);
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

  /** Whether commands have a connection now. Only `ping` finds out whether Redis answers. */
  isReady(): boolean {
    return this.client.status === 'ready' && this.parts.watch.disconnected.length === 0;
  }

  /** Calls the listener each time the store is back for this instance. */
  onOutage(listener: OutageListener): void {
    this.parts.watch.onOutage(listener);
  }

  /** @throws StoreUnavailable if a master does not answer in time. */
  async ping(): Promise<void> {
    try {
      await Promise.all(this.masters().map((master) => master.ping()));
    } catch (error) {
      throw toStoreError(error);
    }
    const [disconnected] = this.parts.watch.disconnected;
    if (disconnected !== undefined || this.client.status !== 'ready') {
      throw new StoreUnavailable('connection', new Error(`no connection to ${disconnected ?? 'redis'}`));
    }
  }

  /** @throws StoreUnavailable if a master does not answer in time. */
  async memory(): Promise<MemoryReport> {
    return sumMemory(await Promise.all(this.masters().map(readNodeMemory)));
  }

  /**
   * Sends the commands that `sendCommands` issues synchronously in one write to the socket, except on a cluster. For many small
   * commands, most of the cost is the writes.
   */
  inOneWrite<T>(sendCommands: () => T): T {
    const stream =
      this.client.isCluster || this.client.status !== 'ready' ? undefined : (this.client as Redis).stream;
    stream?.cork();
    try {
      return sendCommands();
    } finally {
      stream?.uncork();
    }
  }

  /** The findings of the memory guard at the last `status`. */
  guardState(): GuardState {
    return this.lastGuardState;
  }

  /**
   * Checks the connection, the memory and whether scripts may run, for readiness. Never rejects. Concurrent calls share one check.
   */
  status(): Promise<StoreStatus> {
    this.checking ??= this.check().finally(() => {
      this.checking = undefined;
    });
    return this.checking;
  }

  /** A separate connection for pub/sub, closed with the service. The caller must subscribe each time it becomes `ready`. */
  subscriber(): Redis | Cluster {
    return this.track(createSubscriberClient(this.parts.target, this.parts.times));
  }

  /** Called after the HTTP server has closed. The embedded Redis stops last, after its clients. */
  async onApplicationShutdown(): Promise<void> {
    this.closing ??= this.close();
    await this.closing;
  }

  private async close(): Promise<void> {
    this.parts.closing.abort();
    this.parts.watch.stop();
    this.parts.queryWatch.stop();
    for (const client of this.tracked) {
      client.disconnect();
    }
    // QUIT lets outstanding replies arrive. An unreachable Redis must not delay the shutdown.
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

  /** Revives the client when it ends, and closes it with the service. */
  private track(client: Redis | Cluster): Redis | Cluster {
    reviveWhenEnded(client, this.parts.closing.signal);
    client.on('error', (error: Error) =>
      this.parts.logger.debug({ err: error }, 'a secondary connection to Redis failed; reconnecting'),
    );
    this.tracked.push(client);
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

  private async prepare({ dataDir, roles, testClock }: HoldfastConfig): Promise<void> {
    const { target, logger } = this.parts;
    await checkServers(this.masters(), target);
    await checkDatabase(this.client, target);
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
    await Promise.all([agreeOnPartitions(this.client, this.partitions), checkTime(this.client, testClock)]);
    this.deployment = await identifyDeployment(this.client, target.mode === 'socket' ? dataDir : undefined);
    warnOfCopy(this.deployment, roles, logger);
    await this.scripts.load();
    await checkRights(this.scripts, describeTarget(target));
    await this.clock.sync();
    this.clock.follow(this.parts.closing.signal);
  }

  private judge(report: MemoryReport): GuardState {
    const { guard, counts, logger } = this.parts;
    const state = guard.judge(report);
    showServers(counts, report.nodes, guard.evictedKeysSinceBoot);
    const { problems, warnings } = this.lastGuardState;
    const known = new Set([...problems, ...warnings].map(({ code }) => code));
    const isNew = ({ code }: GuardProblem): boolean => !known.has(code);
    state.problems.filter(isNew).forEach(({ code, message }) => logger.error({ code }, message));
    state.warnings.filter(isNew).forEach(({ code, message }) => logger.warn({ code }, message));
    this.lastGuardState = state;
    return state;
  }

  private async check(): Promise<StoreStatus> {
    const messages = (found: GuardState['problems']): string[] => found.map(({ message }) => message);
    const embedded = this.parts.target.mode === 'socket';
    try {
      const [report, refusals] = await Promise.all([this.memory(), this.refusals.find(), this.ping()]);
      const state = this.judge(report);
      const { policy, maxmemoryBytes, usedBytes } = report;
      const problems = [...messages(state.problems), ...refusals];
      if (problems.length === 0) {
        this.refusals.served();
      }
      return {
        ready: problems.length === 0,
        problems,
        warnings: [
          ...state.allowed,
          ...state.warnings,
          ...(this.queries.isConnected() ? [] : [QUERIES_AWAY]),
          ...this.clock.warnings(),
        ],
        memory: { policy, maxmemoryBytes, usedBytes },
        embedded,
        persistence: persistenceOf(report.nodes),
      };
    } catch (error) {
      const failure = toStoreError(error);
      const problem =
        failure instanceof StoreUnavailable ? failure.message : 'the store gave an unexpected answer';
      const known = this.lastGuardState.problems.filter(({ code }) => code !== 'memory_full');
      return { ready: false, problems: [problem, ...messages(known)], warnings: [], embedded };
    }
  }
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : 'no details';
}
