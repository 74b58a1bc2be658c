import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Denial } from './concurrency-limiter.js';
import type { NodeMemory } from './memory-guard.js';

interface ServerGauge {
  readonly help: string;
  /** Whether the masters' values are added up, or the highest counts. */
  readonly of: 'sum' | 'max';
  readonly read: (node: NodeMemory) => number;
}

/** What each master says of itself in INFO. */
const SERVER_GAUGES: Readonly<Record<string, ServerGauge>> = {
  holdfast_redis_memory_used_bytes: {
    help: 'Memory that counts against maxmemory, summed over the masters',
    of: 'sum',
    read: ({ usedBytes }) => usedBytes,
  },
  holdfast_redis_memory_max_bytes: {
    help: 'maxmemory summed over the masters; 0 means unlimited',
    of: 'sum',
    read: ({ maxmemoryBytes }) => maxmemoryBytes,
  },
  holdfast_redis_memory_system_bytes: {
    help: "Memory of the masters' machines, added up",
    of: 'sum',
    read: ({ systemBytes }) => systemBytes,
  },
  holdfast_redis_memory_fragmentation_ratio: {
    help: 'Resident memory of Redis divided by what it uses, of the worst master',
    of: 'max',
    read: ({ fragmentation }) => fragmentation,
  },
  holdfast_redis_lazyfree_pending_objects: {
    help: 'Objects that wait to be freed in the background, summed over the masters',
    of: 'sum',
    read: ({ lazyfreePending }) => lazyfreePending,
  },
  holdfast_redis_expired_keys: {
    help: 'Keys that lapsed since the masters started, added up',
    of: 'sum',
    read: ({ expiredKeys }) => expiredKeys,
  },
  holdfast_redis_expired_stale_percent: {
    help: 'Estimated percentage of keys that have lapsed and still take memory, of the worst master',
    of: 'max',
    read: ({ expiredStalePercent }) => expiredStalePercent,
  },
};

/** Metrics of the connection to the store. */
export class RedisMetrics {
  readonly connectionLost: Counter;
  readonly connectionRestored: Counter;
  readonly embeddedRestarts: Counter;
  readonly unavailable: Counter;
  readonly scriptTextsRun: Counter;
  private readonly groupSizes: Histogram;
  private readonly servers: Readonly<Record<string, Gauge>>;
  private readonly evictedKeys: Gauge;

  constructor(registry: Registry) {
    const registers = [registry];
    this.connectionLost = new Counter({
      name: 'holdfast_redis_connection_lost_total',
      help: 'Times that the connection to Redis (or to a node of the cluster) was lost.',
      registers,
    });
    this.connectionRestored = new Counter({
      name: 'holdfast_redis_connection_restored_total',
      help: 'Times that a lost connection to Redis came back.',
      registers,
    });
    this.embeddedRestarts = new Counter({
      name: 'holdfast_embedded_redis_restarts_total',
      help: 'Times that the embedded Redis exited and was restarted.',
      registers,
    });
    this.unavailable = new Counter({
      name: 'holdfast_store_unavailable_total',
      help: 'Requests answered with 503, by why the store could not serve them.',
      labelNames: ['reason'],
      registers,
    });
    this.scriptTextsRun = new Counter({
      name: 'holdfast_script_texts_run_total',
      help: 'Scripts sent to Redis as text, because a master had lost the functions.',
      registers,
    });
    this.groupSizes = new Histogram({
      name: 'holdfast_script_group_size',
      help: 'Calls that went together in one run of a script.',
      labelNames: ['script'],
      buckets: [1, 2, 4, 8, 16],
      registers,
    });
    this.servers = Object.fromEntries(
      Object.entries(SERVER_GAUGES).map(([name, { help }]) => [
        name,
        new Gauge({ name, help: `${help}, at the last health check.`, registers, aggregator: 'max' }),
      ]),
    );
    this.evictedKeys = new Gauge({
      name: 'holdfast_redis_evicted_keys',
      help: 'Keys that Redis evicted since this process started. Any value above 0 means a damaged ledger.',
      registers,
      aggregator: 'max',
    });
  }

  /** What the masters say of themselves. */
  serversReported(nodes: readonly NodeMemory[], evictedKeys: number): void {
    for (const [name, { of, read }] of Object.entries(SERVER_GAUGES)) {
      const values = nodes.map(read);
      const value = of === 'sum' ? values.reduce((sum, one) => sum + one, 0) : Math.max(0, ...values);
      this.servers[name]?.set(value);
    }
    this.evictedKeys.set(evictedKeys);
  }

  groupRan(script: string, calls: number): void {
    this.groupSizes.observe({ script }, calls);
  }
}

export interface QueryFigures {
  readonly running: () => number;
  readonly waiting: () => number;
  readonly connected: () => boolean;
}

/** Metrics of queries and of their connection. */
export class QueryMetrics {
  readonly started: Counter;
  readonly abandoned: Counter;
  readonly pauses: Counter;
  readonly connectionLost: Counter;
  readonly connectionRestored: Counter;
  private readonly refusals: Counter;

  constructor(private readonly registry: Registry) {
    this.started = this.counter(
      'holdfast_queries_started_total',
      'Lists, searches, exports and checks of the ledger that were started.',
    );
    this.abandoned = this.counter(
      'holdfast_queries_abandoned_total',
      'Queries whose client disconnected before the response was ready.',
    );
    this.pauses = this.counter(
      'holdfast_query_pauses_total',
      'Pauses of queries because they had used up their share of Redis time.',
    );
    this.connectionLost = this.counter(
      'holdfast_queries_connection_lost_total',
      'Times that the connection to Redis for queries (or to a node of the cluster) was lost.',
    );
    this.connectionRestored = this.counter(
      'holdfast_queries_connection_restored_total',
      'Times that a lost connection for queries came back.',
    );
    this.refusals = this.counter(
      'holdfast_queries_refused_total',
      'Queries refused with 429, because the queue of their tenant was full or the wait too long.',
      ['reason'],
    );
  }

  refused(reason: Denial): void {
    this.refusals.inc({ reason: reason === 'late' ? 'queue_timeout' : 'queue_full' });
  }

  show({ running, waiting, connected }: QueryFigures): void {
    this.gauge('holdfast_queries_running', 'Queries that are running.', 'sum', running);
    this.gauge('holdfast_queries_waiting', 'Queries that are waiting for a slot.', 'sum', waiting);
    this.gauge(
      'holdfast_queries_connected',
      '1 while queries have a connection to Redis. Without one, they are answered with 503.',
      'min',
      () => (connected() ? 1 : 0),
    );
  }

  private counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  private gauge(name: string, help: string, aggregator: 'sum' | 'min', read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      aggregator,
      collect() {
        this.set(read());
      },
    });
  }
}
