import { Counter, Gauge, type Registry } from 'prom-client';
import type { Denial } from './concurrency-limiter.js';

/** The counters of the store connection, all without labels: one process has one store. */
export class RedisMetrics {
  readonly connectionLost: Counter;
  readonly connectionRestored: Counter;
  readonly embeddedRestarts: Counter;
  readonly scriptTextsRun: Counter;
  readonly memoryUsedBytes: Gauge;
  readonly memoryMaxBytes: Gauge;
  readonly evictedKeys: Gauge;

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
      help: 'Times that the embedded Redis died and was started again.',
      registers,
    });
    this.scriptTextsRun = new Counter({
      name: 'holdfast_script_texts_run_total',
      help: 'Scripts that were run from their text, because a master of Redis had lost their functions.',
      registers,
    });
    this.memoryUsedBytes = new Gauge({
      name: 'holdfast_redis_memory_used_bytes',
      help: 'Memory that counts against maxmemory, summed over the masters, at the last health check.',
      registers,
    });
    this.memoryMaxBytes = new Gauge({
      name: 'holdfast_redis_memory_max_bytes',
      help: 'maxmemory summed over the masters at the last health check; 0 means unlimited.',
      registers,
    });
    this.evictedKeys = new Gauge({
      name: 'holdfast_redis_evicted_keys',
      help: 'Keys that Redis evicted since this process started. Anything but 0 means a damaged ledger.',
      registers,
    });
  }
}

export interface QueryFigures {
  readonly running: () => number;
  readonly waiting: () => number;
  readonly connected: () => boolean;
}

/** What becomes of queries, and how their connection is. */
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
      'Lists, searches, exports and checks of the ledger that got a place.',
    );
    this.abandoned = this.counter(
      'holdfast_queries_abandoned_total',
      'Queries whose client went away before the answer was ready.',
    );
    this.pauses = this.counter(
      'holdfast_query_pauses_total',
      'Pauses of queries that had used their share of the time of Redis.',
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
      'Queries answered with 429: the queue of their tenant was full, or the wait too long.',
      ['reason'],
    );
  }

  refused(reason: Denial): void {
    this.refusals.inc({ reason: reason === 'late' ? 'queue_timeout' : 'queue_full' });
  }

  show({ running, waiting, connected }: QueryFigures): void {
    this.gauge('holdfast_queries_running', 'Queries that are under way.', running);
    this.gauge('holdfast_queries_waiting', 'Queries that wait for a place.', waiting);
    this.gauge(
      'holdfast_queries_connected',
      '1 while the connection to Redis for queries is there; without it they are answered with 503.',
      () => (connected() ? 1 : 0),
    );
  }

  private counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  private gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      collect() {
        this.set(read());
      },
    });
  }
}
