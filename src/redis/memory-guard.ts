import type { Redis } from 'ioredis';
import type { HealthWarning } from '../telemetry/index.js';
import { toStoreError } from './errors.js';

/** The memory of one master, from INFO. */
export interface NodeMemory {
  readonly node: string;
  /** Changes at each start of the server, which also resets evictedKeys. */
  readonly runId: string;
  readonly uptimeMs: number;
  readonly policy: string;
  /** 0 means unlimited. */
  readonly maxmemoryBytes: number;
  /** The memory that counts against maxmemory: without replication and AOF buffers. */
  readonly usedBytes: number;
  readonly evictedKeys: number;
  readonly keepsAppendLog: boolean;
  /** On Redis' own clock; undefined if it has made none since it started. */
  readonly lastDumpAtMs: number | undefined;
  /** The memory of the machine, whatever a container may have of it. */
  readonly systemBytes: number;
  /** Resident memory divided by what is in use. */
  readonly fragmentation: number;
  /** Objects that wait to be freed in the background. */
  readonly lazyfreePending: number;
  /** Keys that lapsed since the server started. */
  readonly expiredKeys: number;
  /** The estimated percentage of keys that have lapsed and still take memory. */
  readonly expiredStalePercent: number;
}

export interface MemoryReport {
  /** The policy, or the different policies of the masters, separated by commas. */
  readonly policy: string;
  readonly maxmemoryBytes: number;
  readonly usedBytes: number;
  readonly evictedKeys: number;
  readonly nodes: readonly NodeMemory[];
}

export type GuardProblemCode =
  | 'eviction_policy'
  | 'evicted_keys'
  | 'memory_full'
  | 'memory_near_limit'
  | 'no_memory_limit'
  | 'no_append_log';

export interface GuardProblem extends HealthWarning {
  readonly code: GuardProblemCode;
}

/** From this share of its limit on, a Redis is nearly full. The alert HoldfastRedisMemoryHigh has the same. */
const NEAR_LIMIT = 0.8;

export interface GuardState {
  /** False turns readiness red. */
  readonly ok: boolean;
  readonly problems: readonly GuardProblem[];
  /** Problems that HOLDFAST_ALLOW_EVICTION allows. */
  readonly allowed: readonly GuardProblem[];
  /** Settings with which the ledger works, and that an operator should know of. */
  readonly warnings: readonly GuardProblem[];
}

/** The fields of an INFO reply. */
export function parseInfo(text: string): ReadonlyMap<string, string> {
  return new Map(
    text
      .split(/\r?\n/)
      .filter((line) => line.includes(':') && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
}

/** Uses INFO, because managed services often forbid CONFIG GET. */
export async function readNodeMemory(master: Redis): Promise<NodeMemory> {
  let info: ReadonlyMap<string, string>;
  try {
    info = parseInfo(await master.info('server', 'memory', 'stats', 'persistence'));
  } catch (error) {
    throw toStoreError(error);
  }
  const number = (field: string): number => Number(info.get(field) ?? 0);
  return {
    node: master.options.path ?? `${master.options.host ?? ''}:${master.options.port ?? ''}`,
    runId: info.get('run_id') ?? '',
    uptimeMs: number('uptime_in_seconds') * 1000,
    policy: info.get('maxmemory_policy') ?? 'unknown',
    maxmemoryBytes: number('maxmemory'),
    usedBytes: Math.max(0, number('used_memory') - number('mem_not_counted_for_evict')),
    evictedKeys: number('evicted_keys'),
    keepsAppendLog: info.get('aof_enabled') === '1',
    // Without a dump, Redis gives the time of its start.
    lastDumpAtMs: number('rdb_saves') > 0 ? number('rdb_last_save_time') * 1000 : undefined,
    systemBytes: number('total_system_memory'),
    fragmentation: number('mem_fragmentation_ratio'),
    lazyfreePending: number('lazyfree_pending_objects'),
    expiredKeys: number('expired_keys'),
    expiredStalePercent: number('expired_stale_perc'),
  };
}

export function sumMemory(nodes: readonly NodeMemory[]): MemoryReport {
  const sum = (pick: (node: NodeMemory) => number): number =>
    nodes.reduce((total, node) => total + pick(node), 0);
  return {
    policy: [...new Set(nodes.map(({ policy }) => policy))].join(','),
    maxmemoryBytes: sum(({ maxmemoryBytes }) => maxmemoryBytes),
    usedBytes: sum(({ usedBytes }) => usedBytes),
    evictedKeys: sum(({ evictedKeys }) => evictedKeys),
    nodes,
  };
}

function evicts({ policy, maxmemoryBytes }: NodeMemory): boolean {
  return maxmemoryBytes > 0 && policy !== 'noeviction';
}

function risks({ node, maxmemoryBytes, usedBytes, keepsAppendLog }: NodeMemory): GuardProblem[] {
  const unlimited: GuardProblem = {
    code: 'no_memory_limit',
    message: `Redis at ${node} has no memory limit: it grows until the kernel kills it. Set maxmemory`,
  };
  const unlogged: GuardProblem = {
    code: 'no_append_log',
    message: `Redis at ${node} keeps no append-only log: a crash loses what changed since its last dump. Set appendonly yes`,
  };
  const near: GuardProblem = {
    code: 'memory_near_limit',
    message: `Redis at ${node} uses ${Math.floor((100 * usedBytes) / maxmemoryBytes)} % of its memory; when it is full, reserves are refused. Raise maxmemory, or shorten AUDIT_RETENTION_DAYS`,
  };
  return [
    ...(maxmemoryBytes === 0 ? [unlimited] : []),
    ...(usedBytes >= NEAR_LIMIT * maxmemoryBytes && usedBytes < maxmemoryBytes ? [near] : []),
    ...(keepsAppendLog ? [] : [unlogged]),
  ];
}

/**
 * Detects that Redis may evict, or has evicted, keys of the ledger. The budget of an evicted hold would never be returned. Operators
 * can allow an eviction policy, but not evicted keys: from then on the ledger may be wrong, until an operator has checked it and
 * restarted the service.
 */
export class MemoryGuard {
  /** By the server's run id. */
  private readonly evictedBefore = new Map<string, number>();
  private evictedSinceBoot = 0;
  private readonly createdAtMs = performance.now();

  constructor(private readonly allowEviction: boolean) {}

  get evictedKeysSinceBoot(): number {
    return this.evictedSinceBoot;
  }

  /** Judges a fresh report. */
  judge(report: MemoryReport): GuardState {
    this.countEvictions(report.nodes);
    const policy = report.nodes.filter(evicts).map<GuardProblem>(({ node, policy: found }) => ({
      code: 'eviction_policy',
      message: `Redis at ${node} may evict the ledger: maxmemory-policy is ${found}, set it to noeviction`,
    }));
    const problems: GuardProblem[] = this.allowEviction ? [] : [...policy];
    if (this.evictedSinceBoot > 0) {
      problems.push({
        code: 'evicted_keys',
        message: `Redis evicted ${this.evictedSinceBoot} keys since this process started; the ledger has lost records`,
      });
    }
    for (const { node, maxmemoryBytes, usedBytes } of report.nodes) {
      if (maxmemoryBytes > 0 && usedBytes >= maxmemoryBytes) {
        const message = `memory: Redis at ${node} is full, ${usedBytes} of ${maxmemoryBytes} bytes`;
        problems.push({ code: 'memory_full', message });
      }
    }
    return {
      ok: problems.length === 0,
      problems,
      allowed: this.allowEviction ? policy : [],
      warnings: report.nodes.flatMap(risks),
    };
  }

  /**
   * All evictions of a server that started after this process count. For an older server that is new here, at boot or after a
   * failover, only those from now on count, because earlier ones may not concern this ledger.
   */
  private countEvictions(nodes: readonly NodeMemory[]): void {
    for (const { runId, uptimeMs, evictedKeys } of nodes) {
      const startedAfterThis = uptimeMs + 1000 < performance.now() - this.createdAtMs;
      const before = this.evictedBefore.get(runId) ?? (startedAfterThis ? 0 : evictedKeys);
      this.evictedSinceBoot += Math.max(0, evictedKeys - before);
      this.evictedBefore.set(runId, evictedKeys);
    }
  }
}
