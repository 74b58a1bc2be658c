import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, type Redis } from 'ioredis';
import type { HoldfastConfig } from '../config/index.js';
import type { HealthWarning } from '../telemetry/index.js';
import { ConcurrencyLimiter } from './concurrency-limiter.js';
import type { ConnectionWatch } from './connection-watch.js';
import { StoreUnavailable, toStoreError } from './errors.js';
import type { QueryCounts } from './redis.metrics.js';
import { CURRENT_QUERY, OPERATORS, type QueryContext } from './current-query.js';
import type { NamedArgs, NamedKeys, ScriptName, ScriptReply } from './script-call.js';
import type { ScriptRegistry } from './scripts.js';
import type { SkippedNames } from './skipped-names.js';

/** What readiness says while there is none. */
export const QUERIES_AWAY: HealthWarning = {
  code: 'queries_away',
  message:
    'the connection for queries is lost: lists, searches and exports are answered with 503 until it is back. If it stays away, look at maxclients and the log of Redis',
};

/** Debt up to this amount causes no pause, so short queries never pause. */
const FREE_DEBT_MS = 50;

/** Limits work at Redis to a share of the time. Time used beyond the share is a debt, paid by a pause before the next run. */
export class TimeShare {
  private debtMs = 0;
  private running = 0;
  private countedAt = performance.now();

  /** @param share above 0; with 1, there are no pauses. */
  constructor(private readonly share: number) {}

  begin(): void {
    this.count();
    this.running += 1;
  }

  end(): void {
    this.count();
    this.running -= 1;
  }

  /** How long the next run must wait if nothing else runs until then. */
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
 * Runs of all queries that may be at Redis at the same time, and thus ahead of a reserve. With four, lists of budgets raised the p99
 * of reserves to 3.5 times its value without them; with one, to 2.3 times (`npm run bench -- isolation`).
 */
const RUNS_AT_ONCE = 1;
/** Higher, because one silent master must not stop queries of the others. */
const RUNS_AT_ONCE_ON_CLUSTER = 4;
/** Queries of one tenant that may wait, for each slot that it may have. */
const WAITING_PER_SLOT = 16;

/** Operators are few, and a page of theirs asks for many lists at once; so their queries wait this many times as long. */
const OPERATORS_PATIENCE = 10;

/**
 * Refusals are spread over this share of the wait, always later. Otherwise all queries of a client that came at once would be refused at
 * once, and their repetitions would keep the process busy together.
 */
const WAIT_SPREAD = 0.25;

export type QueryLimits = Pick<
  HoldfastConfig,
  'queryConcurrency' | 'queryConcurrencyPerTenant' | 'queryQueueMs' | 'queryTimeShare'
>;

export interface QueryParts {
  readonly client: Redis | Cluster;
  readonly scripts: ScriptRegistry;
  readonly watch: ConnectionWatch;
  readonly counts: QueryCounts;
}

/** No slot was free in time. The query was not started. */
export class QueryRefused extends Error {
  override readonly name = 'QueryRefused';
  /** For the `Retry-After` header, in seconds. */
  readonly retryAfterS: number;

  constructor(message: string, queueMs: number) {
    super(message);
    this.retryAfterS = Math.max(1, Math.ceil(queueMs / 1000));
  }
}

/** The client disconnected, so the query was stopped. */
export class QueryAbandoned extends Error {
  override readonly name = 'QueryAbandoned';
}

/** A query that has a slot. */
export interface Query {
  /** Calls `work`. All runs that it starts, even asynchronously, belong to this query. */
  run<T>(work: () => T): T;
  /** Gives the slot back, and counts the query as abandoned if its client has disconnected. */
  end(): void;
}

/**
 * Runs lists, searches, exports and checks of the ledger. They have a separate connection, so a silent one does not drop that of the
 * ledger. Few run at a time, per tenant and in total. Their runs take turns by tenant and leave Redis a share of the time, however many
 * runs a query needs.
 */
export class Queries {
  private readonly slots: ConcurrencyLimiter;
  private readonly runs: ConcurrencyLimiter;
  private readonly share: TimeShare;
  /**
   * Counts runs that failed because Redis was unreachable or silent, and keeps the latest error. Runs that were waiting at that time
   * fail with it, instead of timing out one after the other.
   */
  private storeFailures = 0;
  private storeFailure: StoreUnavailable | undefined;

  constructor(
    private readonly parts: QueryParts,
    private readonly limits: QueryLimits,
  ) {
    const { queryConcurrency: total, queryConcurrencyPerTenant: perOwner, queryTimeShare } = limits;
    this.slots = new ConcurrencyLimiter({ total, perOwner, waitingPerOwner: perOwner * WAITING_PER_SLOT });
    const runsAtOnce = parts.client instanceof Cluster ? RUNS_AT_ONCE_ON_CLUSTER : RUNS_AT_ONCE;
    this.runs = new ConcurrencyLimiter({ total: runsAtOnce, perOwner: runsAtOnce });
    this.share = new TimeShare(queryTimeShare / 100);
    parts.counts.running.readFrom(() => this.slots.inUse);
    parts.counts.waiting.readFrom(() => this.slots.waiting);
    parts.counts.connected.readFrom(() => (this.isConnected() ? 1 : 0));
  }

  isConnected(): boolean {
    return this.parts.client.status === 'ready' && this.parts.watch.disconnected.length === 0;
  }

  /**
   * Waits for a slot. Waiting tenants take turns.
   * @param owner the tenant, or an empty string for operators
   * @param signal aborted when the client has disconnected
   * @param skipped gets what the query leaves out
   * @throws QueryRefused, QueryAbandoned, StoreUnavailable
   */
  async admit(owner: string, signal: AbortSignal, skipped?: SkippedNames): Promise<Query> {
    const { counts } = this.parts;
    const {
      queryQueueMs: queueMs,
      queryConcurrency: total,
      queryConcurrencyPerTenant: perTenant,
    } = this.limits;
    const claim = { owner };
    const context: QueryContext = { owner, signal, skipped, isCounted: false };
    const failures = this.storeFailures;
    const patience = owner === OPERATORS ? OPERATORS_PATIENCE : 1;
    const waitMs = patience * queueMs * (1 + WAIT_SPREAD * Math.random());
    const result = await this.slots.acquire(claim, { waitMs, signal });
    if (result === 'gone') {
      throw this.abandoned(context);
    }
    if (this.storeFailures > failures) {
      if (result === 'acquired') {
        this.slots.release(claim);
      }
      throw this.storeFailure as StoreUnavailable;
    }
    if (result !== 'acquired') {
      counts.refusals.inc({ reason: result === 'late' ? 'queue_timeout' : 'queue_full' });
      if (result === 'full') {
        // Without the delay, clients that ignore Retry-After could keep the process busy with refusals alone.
        await delay(waitMs, undefined, { ref: false, signal }).catch(() => undefined);
      }
      throw new QueryRefused(
        `too many queries at the same time: at most ${perTenant} per tenant and ${total} in total run at once`,
        queueMs,
      );
    }
    counts.started.inc();
    CURRENT_QUERY.begin();
    return {
      run: (work) => CURRENT_QUERY.run(context, work),
      end: () => {
        if (signal.aborted) {
          // No run of it was waiting when the client left, so nothing else has counted it.
          this.abandoned(context);
        }
        CURRENT_QUERY.end();
        this.slots.release(claim);
      },
    };
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
  command<T>(command: (client: Redis | Cluster) => Promise<T>): Promise<T> {
    return this.inTurn(async () => {
      try {
        return await command(this.parts.client);
      } catch (error) {
        throw toStoreError(error);
      }
    });
  }

  /** Aborted when the client of the current query has disconnected. */
  get signal(): AbortSignal | undefined {
    return CURRENT_QUERY.getStore()?.signal;
  }

  /** Calls `work`, whose runs belong to no single query, but to several that wait for it. */
  onBehalf<T>(signal: AbortSignal, work: () => T): T {
    // Each of them counts itself when it is abandoned.
    return CURRENT_QUERY.run({ owner: OPERATORS, signal, isCounted: true }, work);
  }

  /** Waits for work for as long as the client of the current query does. @throws QueryAbandoned, and what the work throws */
  async whileWanted<T>(work: Promise<T>): Promise<T> {
    const context = CURRENT_QUERY.getStore();
    if (context?.signal.aborted === true) {
      throw this.abandoned(context);
    }
    const settled = new AbortController();
    const gone =
      context === undefined
        ? []
        : [
            new Promise<never>((_, reject) => {
              const leave = (): void => reject(this.abandoned(context));
              context.signal.addEventListener('abort', leave, { signal: settled.signal });
            }),
          ];
    try {
      return await Promise.race([work, ...gone]);
    } finally {
      settled.abort();
    }
  }

  private async inTurn<T>(work: () => Promise<T>): Promise<T> {
    const context = CURRENT_QUERY.getStore();
    const claim = { owner: context?.owner ?? OPERATORS };
    const failures = this.storeFailures;
    if ((await this.runs.acquire(claim, { signal: context?.signal })) !== 'acquired') {
      throw this.abandoned(context);
    }
    try {
      if (this.storeFailures > failures) {
        throw this.storeFailure as StoreUnavailable;
      }
      await this.pause(context);
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
      this.runs.release(claim);
    }
  }

  private async pause(context: QueryContext | undefined): Promise<void> {
    for (let pauseMs = this.share.pauseMs(); pauseMs > 0; pauseMs = this.share.pauseMs()) {
      this.parts.counts.pauses.inc();
      // Timers have a resolution of 1 ms.
      await delay(Math.ceil(pauseMs), undefined, {
        ref: false,
        ...(context === undefined ? {} : { signal: context.signal }),
      }).catch(() => undefined);
      if (context?.signal.aborted === true) {
        throw this.abandoned(context);
      }
    }
  }

  /** Counts each query once, even if several of its runs are abandoned. */
  private abandoned(context: QueryContext | undefined): QueryAbandoned {
    if (context?.isCounted === false) {
      context.isCounted = true;
      this.parts.counts.abandoned.inc();
    }
    return new QueryAbandoned('the client closed the connection before the answer was ready');
  }
}
