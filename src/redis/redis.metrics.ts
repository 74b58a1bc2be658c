import type { Instruments, MetricsTable } from '../telemetry/index.js';
import type { NodeMemory } from './memory-guard.js';

/** The connection to the store, and what each master says of itself in INFO. */
export const REDIS_METRICS = {
  connectionLost: {
    name: 'holdfast_redis_connection_lost_total',
    help: 'Times that the connection to Redis (or to a node of the cluster) was lost.',
  },
  connectionRestored: {
    name: 'holdfast_redis_connection_restored_total',
    help: 'Times that a lost connection to Redis came back.',
  },
  embeddedRestarts: {
    name: 'holdfast_embedded_redis_restarts_total',
    help: 'Times that the embedded Redis exited and was restarted.',
  },
  unavailable: {
    name: 'holdfast_store_unavailable_total',
    help: 'Requests answered with 503, by why the store could not serve them.',
    labels: ['reason'],
  },
  scriptTextsRun: {
    name: 'holdfast_script_texts_run_total',
    help: 'Scripts sent to Redis as text, because a master had lost the functions.',
  },
  groupSizes: {
    name: 'holdfast_script_group_size',
    help: 'Calls that went together in one run of a script.',
    labels: ['script'],
    buckets: [1, 2, 4, 8, 16],
  },
  memoryUsed: {
    name: 'holdfast_redis_memory_used_bytes',
    help: 'Memory that counts against maxmemory, summed over the masters, at the last health check.',
    acrossWorkers: 'max',
  },
  memoryMax: {
    name: 'holdfast_redis_memory_max_bytes',
    help: 'maxmemory summed over the masters; 0 means unlimited, at the last health check.',
    acrossWorkers: 'max',
  },
  memorySystem: {
    name: 'holdfast_redis_memory_system_bytes',
    help: "Memory of the masters' machines, added up, at the last health check.",
    acrossWorkers: 'max',
  },
  fragmentation: {
    name: 'holdfast_redis_memory_fragmentation_ratio',
    help: 'Resident memory of Redis divided by what it uses, of the worst master, at the last health check.',
    acrossWorkers: 'max',
  },
  lazyfreePending: {
    name: 'holdfast_redis_lazyfree_pending_objects',
    help: 'Objects that wait to be freed in the background, summed over the masters, at the last health check.',
    acrossWorkers: 'max',
  },
  expiredKeys: {
    name: 'holdfast_redis_expired_keys',
    help: 'Keys that lapsed since the masters started, added up, at the last health check.',
    acrossWorkers: 'max',
  },
  expiredStale: {
    name: 'holdfast_redis_expired_stale_percent',
    help: 'Estimated percentage of keys that have lapsed and still take memory, of the worst master, at the last health check.',
    acrossWorkers: 'max',
  },
  evictedKeys: {
    name: 'holdfast_redis_evicted_keys',
    help: 'Keys that Redis evicted since this process started. Any value above 0 means a damaged ledger.',
    acrossWorkers: 'max',
  },
} as const satisfies MetricsTable;

/** Queries and their connection. */
export const QUERY_METRICS = {
  started: {
    name: 'holdfast_queries_started_total',
    help: 'Lists, searches, exports and checks of the ledger that were started.',
  },
  abandoned: {
    name: 'holdfast_queries_abandoned_total',
    help: 'Queries whose client disconnected before the response was ready.',
  },
  pauses: {
    name: 'holdfast_query_pauses_total',
    help: 'Pauses of queries because they had used up their share of Redis time.',
  },
  connectionLost: {
    name: 'holdfast_queries_connection_lost_total',
    help: 'Times that the connection to Redis for queries (or to a node of the cluster) was lost.',
  },
  connectionRestored: {
    name: 'holdfast_queries_connection_restored_total',
    help: 'Times that a lost connection for queries came back.',
  },
  refusals: {
    name: 'holdfast_queries_refused_total',
    help: 'Queries refused with 429, because the queue of their tenant was full or the wait too long.',
    labels: ['reason'],
  },
  running: {
    name: 'holdfast_queries_running',
    help: 'Queries that are running.',
  },
  waiting: {
    name: 'holdfast_queries_waiting',
    help: 'Queries that are waiting for a slot.',
  },
  connected: {
    name: 'holdfast_queries_connected',
    help: '1 while queries have a connection to Redis. Without one, they are answered with 503.',
    acrossWorkers: 'min',
  },
} as const satisfies MetricsTable;

/** Changes and lists of records. */
export const RECORD_METRICS = {
  changeWaits: {
    name: 'holdfast_change_waits_total',
    help: "Changes that waited for other changes of the same tenant to end, or operators' changes for other operators'.",
  },
  changesRefused: {
    name: 'holdfast_changes_refused_total',
    help: 'Changes refused with 429, because they had waited too long for other changes of the same tenant.',
  },
  changesWaiting: {
    name: 'holdfast_changes_waiting',
    help: 'Changes that are waiting for other changes of the same tenant.',
  },
  recordsSkipped: {
    name: 'holdfast_records_skipped_total',
    help: 'Damaged records that lists, counts and bulk actions left out, by kind. The log names each of them once.',
    labels: ['kind'],
  },
} as const satisfies MetricsTable;

export type RedisCounts = Instruments<typeof REDIS_METRICS>;
export type QueryCounts = Instruments<typeof QUERY_METRICS>;

/** Shows what the masters say of themselves. */
export function showServers(
  counts: RedisCounts,
  nodes: readonly NodeMemory[],
  evictedKeysSinceBoot: number,
): void {
  const sum = (of: (node: NodeMemory) => number): number =>
    nodes.reduce((total, node) => total + of(node), 0);
  const highest = (of: (node: NodeMemory) => number): number => Math.max(0, ...nodes.map(of));
  counts.memoryUsed.set(sum(({ usedBytes }) => usedBytes));
  counts.memoryMax.set(sum(({ maxmemoryBytes }) => maxmemoryBytes));
  counts.memorySystem.set(sum(({ systemBytes }) => systemBytes));
  counts.fragmentation.set(highest(({ fragmentation }) => fragmentation));
  counts.lazyfreePending.set(sum(({ lazyfreePending }) => lazyfreePending));
  counts.expiredKeys.set(sum(({ expiredKeys }) => expiredKeys));
  counts.expiredStale.set(highest(({ expiredStalePercent }) => expiredStalePercent));
  counts.evictedKeys.set(evictedKeysSinceBoot);
}
