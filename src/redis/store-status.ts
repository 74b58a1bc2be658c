import type { HealthWarning } from '../telemetry/index.js';
import type { MemoryReport, NodeMemory } from './memory-guard.js';

/** The store as readiness shows it. */
export interface StoreStatus {
  readonly ready: boolean;
  /** Why the store is not ready, for operators. Empty if it is. */
  readonly problems: readonly string[];
  /** What does not affect readiness, for example settings that risk the ledger. */
  readonly warnings: readonly HealthWarning[];
  readonly memory?: Pick<MemoryReport, 'policy' | 'maxmemoryBytes' | 'usedBytes'>;
  /** Whether Holdfast runs Redis. */
  readonly embedded: boolean;
  /** What a copy can be made from. */
  readonly persistence?: Persistence;
}

/** What a copy of the ledger can be made from. */
export interface Persistence {
  /** Whether every master keeps one. */
  readonly appendLog: boolean;
  /** Of the master whose dump is the oldest; absent if one has made none since it started. */
  readonly lastDumpAtMs?: number;
}

export function persistenceOf(nodes: readonly NodeMemory[]): Persistence {
  const dumps = nodes.flatMap(({ lastDumpAtMs }) => lastDumpAtMs ?? []);
  return {
    appendLog: nodes.every(({ keepsAppendLog }) => keepsAppendLog),
    ...(dumps.length === nodes.length && { lastDumpAtMs: Math.min(...dumps) }),
  };
}
