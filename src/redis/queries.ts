import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, type Redis } from 'ioredis';
import type { HoldfastConfig } from '../config/index.js';
import { ConcurrencyLimiter } from './concurrency-limiter.js';
import type { ConnectionWatch } from './connection-watch.js';
import { StoreUnavailable, toStoreError } from './errors.js';
import type { QueryMetrics } from './redis.metrics.js';
import type { NamedArgs, NamedKeys, ScriptArgs, ScriptKeys, ScriptName, ScriptReply } from './script-call.js';
import type { Reply, ScriptRegistry } from './scripts.js';

/** Debt up to here is not paid back, so that short queries never pause. */
const FREE_DEBT_MS = 50;

/** Keeps work on Redis to a share of the time: what was used beyond the share is paid back by a pause before the next run. */
export class TimeShare {
  private debtMs = 0;
  private running = 0;
  private countedAt = performance.now();

  /** @param share more than 0; at 1 nothing ever pauses. */
  constructor(private readonly share: number) {}

  begin(): void {
    this.count();
    this.running += 1;
  }

  end(): void {
    this.count();
    this.running -= 1;
  }

  /** How long the next run has to wait, if nothing else runs meanwhile. */
  pauseMs(): number {
    this.count();
    return Math.max(0, this.debtMs - FREE_DEBT_MS) / this.share;
  }

  private count(): void {
    const now = performance.now();
    const elapsedMs = now - this.countedAt;
    this.countedAt = now;
    this.debtMs = Math.max(0, this.debtMs + elapsedMs * (this.running > 0 ? 1 - this.share : -this.share));
  }
}

/**
 * Runs of all queries that are at Redis at the same time: so many may stand between a reserve and its turn. With four, the p99 of
 * reserves beside lists of budgets was 3.5 times that without; with one it was 2.3 times (`npm run bench -- isolation`).
 */
const RUNS_AT_ONCE = 1;
/** One master that is silent must not stop the queries of the others. */
const RUNS_AT_ONCE_ON_CLUSTER = 4;
/** Queries of one tenant that may wait for each place that it can have. */
const WAITING_PER_PLACE = 16;

export type QueryLimits = Pick<
  HoldfastConfig,
  'queryConcurrency' | 'queryConcurrencyPerTenant' | 'queryQueueMs' | 'queryTimeShare'
>;

export interface QueryParts {
  readonly client: Redis | Cluster;
  readonly scripts: ScriptRegistry;
  readonly watch: ConnectionWatch;
  readonly metrics: QueryMetrics;
}

/** There is no place for the query; it was not begun. */
export class QueryRefused extends Error {
  override readonly name = 'QueryRefused';
  /** For the `Retry-After` header, in seconds. */
  readonly retryAfterS: number;

  constructor(message: string, queueMs: number) {
    super(message);
    this.retryAfterS = Math.max(1, Math.ceil(queueMs / 1000));
  }
}

/** Whoever asked is gone, so the query was not carried on. */
export class QueryAbandoned extends Error {
  override readonly name = 'QueryAbandoned';
}

/** A query that has a place. */
export interface Query {
  /** Calls `work` so that all runs it makes belong to this query, also later ones. */
  run<T>(work: () => T): T;
  /** Gives the place back. */
  end(): void;
}

interface Asker {
  readonly owner: string;
  readonly signal: AbortSignal;
  isCounted: boolean;
}

/**
 * Lists, searches, exports and checks of the ledger. They have a connection of their own, so that one that is silent does not drop the
 * ledger's; few are under way at a time, of each tenant and in all; and their runs take turns by tenant and leave Redis a share of
 * the time, however many runs a query needs.
 */
export class Queries {
  private readonly places: ConcurrencyLimiter;
  private readonly runs: ConcurrencyLimiter;
  private readonly share: TimeShare;
  private readonly asker = new AsyncLocalStorage<Asker>();
  /**
   * Runs that found Redis away or silent, and the latest of them. Whoever waited behind such a run gets its error, instead of waiting for
   * a time-out of its own after all those before it.
   */
  private storeFailures = 0;
  private storeFailure: StoreUnavailable | undefined;

  constructor(
    private readonly parts: QueryParts,
    private readonly limits: QueryLimits,
  ) {
    const { queryConcurrency: total, queryConcurrencyPerTenant: perOwner, queryTimeShare } = limits;
    this.places = new ConcurrencyLimiter({ total, perOwner, waitingPerOwner: perOwner * WAITING_PER_PLACE });
    const runsAtOnce = parts.client instanceof Cluster ? RUNS_AT_ONCE_ON_CLUSTER : RUNS_AT_ONCE;
    this.runs = new ConcurrencyLimiter({ total: runsAtOnce, perOwner: runsAtOnce });
    this.share = new TimeShare(queryTimeShare / 100);
    parts.metrics.show({
      running: () => this.places.inUse,
      waiting: () => this.places.waiting,
      connected: () => this.isConnected(),
    });
  }

  isConnected(): boolean {
    return this.parts.client.status === 'ready' && this.parts.watch.away.length === 0;
  }

  /**
   * Waits for a place; the tenants that wait take turns.
   * @param owner the tenant; the empty text for operators, who count as one tenant
   * @param signal aborted when the asker is gone
   * @throws QueryRefused, QueryAbandoned, StoreUnavailable
   */
  async begin(owner: string, signal: AbortSignal): Promise<Query> {
    const { metrics } = this.parts;
    const {
      queryQueueMs: queueMs,
      queryConcurrency: total,
      queryConcurrencyPerTenant: perTenant,
    } = this.limits;
    const claim = { owner };
    const asker = { owner, signal, isCounted: false };
    const failures = this.storeFailures;
    const result = await this.places.take(claim, { waitMs: queueMs, signal });
    if (result === 'gone') {
      throw this.abandoned(asker);
    }
    if (this.storeFailures > failures) {
      if (result === 'taken') {
        this.places.giveBack(claim);
      }
      throw this.storeFailure as StoreUnavailable;
    }
    if (result !== 'taken') {
      metrics.refused(result);
      if (result === 'full') {
        // Otherwise a client that ignores Retry-After asks again at once, and refusals alone keep the process busy.
        await delay(queueMs, undefined, { ref: false, signal }).catch(() => undefined);
      }
      throw new QueryRefused(
        `too many queries at the same time: at most ${perTenant} of a tenant and ${total} in all are answered at once`,
        queueMs,
      );
    }
    metrics.started.inc();
    return { run: (work) => this.asker.run(asker, work), end: () => this.places.giveBack(claim) };
  }

  /** Runs one script, as `ScriptRegistry.run` does. @throws StoreUnavailable, QueryAbandoned */
  run<Name extends ScriptName>(name: Name, keys: ScriptKeys<Name>, args: ScriptArgs<Name>): Promise<Reply> {
    return this.inTurn(() => this.parts.scripts.run(name, keys, args));
  }

  /** Runs one script, as `ScriptRegistry.call` does. @throws StoreUnavailable, QueryAbandoned */
  call<Name extends ScriptName>(
    name: Name,
    keys: NamedKeys<Name>,
    args: NamedArgs<Name>,
  ): Promise<ScriptReply<Name>> {
    return this.inTurn(() => this.parts.scripts.call(name, keys, args));
  }

  /** Sends a plain command. @throws StoreUnavailable, QueryAbandoned */
  ask<T>(command: (client: Redis | Cluster) => Promise<T>): Promise<T> {
    return this.inTurn(async () => {
      try {
        return await command(this.parts.client);
      } catch (error) {
        throw toStoreError(error);
      }
    });
  }

  private async inTurn<T>(work: () => Promise<T>): Promise<T> {
    const asker = this.asker.getStore();
    const claim = { owner: asker?.owner ?? '' };
    const failures = this.storeFailures;
    if ((await this.runs.take(claim, { signal: asker?.signal })) !== 'taken') {
      throw this.abandoned(asker);
    }
    try {
      if (this.storeFailures > failures) {
        throw this.storeFailure as StoreUnavailable;
      }
      await this.pause(asker);
      this.share.begin();
      try {
        return await work();
      } finally {
        this.share.end();
      }
    } catch (error) {
      if (error instanceof StoreUnavailable && error !== this.storeFailure) {
        this.storeFailure = error;
        this.storeFailures += 1;
      }
      throw error;
    } finally {
      this.runs.giveBack(claim);
    }
  }

  private async pause(asker: Asker | undefined): Promise<void> {
    for (let pauseMs = this.share.pauseMs(); pauseMs > 0; pauseMs = this.share.pauseMs()) {
      this.parts.metrics.pauses.inc();
      // A timer of less than a millisecond is one of a millisecond.
      await delay(Math.ceil(pauseMs), undefined, {
        ref: false,
        ...(asker === undefined ? {} : { signal: asker.signal }),
      }).catch(() => undefined);
      if (asker?.signal.aborted === true) {
        throw this.abandoned(asker);
      }
    }
  }

  /** A query that makes several runs side by side is abandoned once. */
  private abandoned(asker: Asker | undefined): QueryAbandoned {
    if (asker?.isCounted === false) {
      asker.isCounted = true;
      this.parts.metrics.abandoned.inc();
    }
    return new QueryAbandoned('the client closed the connection before the answer was ready');
  }
}
