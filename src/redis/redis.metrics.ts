import { Counter, Gauge, type Registry } from 'prom-client';

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
