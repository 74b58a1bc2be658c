import { Injectable } from '@nestjs/common';
import {
  partitionCode,
  RedisService,
  StoreUnavailable,
  sweepInstancesKey,
  sweepLeaseKey,
  sweepReportsKey,
  tagOf,
  ttlIndexKey,
} from '../redis/index.js';
import { scoreOf } from './partition.js';
import type { SweepReport } from './sweep-history.js';

interface PartitionState {
  readonly partition: string;
  readonly held_by?: string;
  readonly lapses_in_ms?: number;
  readonly indexed: number;
  readonly due: number;
  readonly oldest_due_at_ms?: number;
  readonly next_deadline_at_ms?: number;
  readonly quarantined: number;
  readonly awaiting_cleanup: number;
  readonly oldest_awaiting_at_ms?: number;
}

interface InstanceState extends Partial<SweepReport> {
  readonly instance: string;
  readonly lapses_in_ms: number;
  readonly holds: readonly string[];
}

export interface SweeperStateReport {
  readonly now_ms: number;
  readonly instances: readonly InstanceState[];
  readonly unheld: readonly string[];
  readonly backlog: number;
  readonly lateness_ms: number;
  readonly quarantined: number;
  readonly awaiting_cleanup: number;
  readonly oldest_awaiting_for_ms: number;
  readonly partitions: readonly PartitionState[];
  readonly unreadable: readonly string[];
}

/** The sweep of all instances, for operators: leases and indexes as they stand in Redis, and what each instance last told. */
@Injectable()
export class SweeperState {
  constructor(private readonly redis: RedisService) {}

  /** @throws StoreUnavailable */
  async read(): Promise<SweeperStateReport> {
    const { queries, partitions: count } = this.redis;
    const codes = Array.from({ length: count }, (_, number) => partitionCode(number));
    const [[, nowMs, ...told], ...states] = await Promise.all([
      queries.run('lease_instances', [sweepInstancesKey(), sweepReportsKey()], []),
      ...codes.map((code) => this.stateOf(code)),
    ]);
    const partitions = states.filter((state) => typeof state !== 'string');
    const now = Number(nowMs);
    return {
      now_ms: now,
      instances: instancesOf(told, partitions),
      unheld: partitions
        .filter(({ held_by: holder }) => holder === undefined)
        .map(({ partition }) => partition),
      backlog: partitions.reduce((sum, { due }) => sum + due, 0),
      lateness_ms: Math.max(
        0,
        ...partitions.map(({ oldest_due_at_ms: oldest }) => (oldest === undefined ? 0 : now - oldest)),
      ),
      quarantined: partitions.reduce((sum, { quarantined }) => sum + quarantined, 0),
      awaiting_cleanup: partitions.reduce((sum, { awaiting_cleanup: awaiting }) => sum + awaiting, 0),
      oldest_awaiting_for_ms: Math.max(
        0,
        ...partitions.map(({ oldest_awaiting_at_ms: oldest }) => (oldest === undefined ? 0 : now - oldest)),
      ),
      partitions,
      unreadable: states.filter((state) => typeof state === 'string'),
    };
  }

  /** The partition's code alone when its keys are damaged; the others are told all the same. */
  private async stateOf(code: string): Promise<PartitionState | string> {
    const tag = tagOf(code);
    try {
      const [, , holder = '', lapses, indexed, due, oldest, next, quarantined, awaiting, oldestAwaiting] =
        await this.redis.queries.run('sweep_state', [sweepLeaseKey(tag), ttlIndexKey(tag)], []);
      const [oldestMs, nextMs, oldestAwaitingMs] = [scoreOf(oldest), scoreOf(next), scoreOf(oldestAwaiting)];
      return {
        partition: code,
        ...(holder === '' ? {} : { held_by: holder, lapses_in_ms: Math.max(0, Number(lapses)) }),
        indexed: Number(indexed),
        due: Number(due),
        ...(oldestMs === undefined ? {} : { oldest_due_at_ms: oldestMs }),
        ...(nextMs === undefined ? {} : { next_deadline_at_ms: nextMs }),
        quarantined: Number(quarantined),
        awaiting_cleanup: Number(awaiting),
        ...(oldestAwaitingMs === undefined ? {} : { oldest_awaiting_at_ms: oldestAwaitingMs }),
      };
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      return code;
    }
  }
}

function instancesOf(told: readonly string[], partitions: readonly PartitionState[]): InstanceState[] {
  const instances: InstanceState[] = [];
  for (let index = 0; index < told.length; index += 3) {
    const [instance, lapses, text] = told.slice(index, index + 3) as [string, string, string];
    const { partitions: _, ...report } = JSON.parse(text) as Partial<SweepReport>;
    const holds = partitions
      .filter(({ held_by: holder }) => holder === instance)
      .map(({ partition }) => partition);
    instances.push({ instance, lapses_in_ms: Number(lapses), holds, ...report });
  }
  return instances;
}
