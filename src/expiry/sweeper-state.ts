import { Controller, Get, Injectable } from '@nestjs/common';
import type { Answer } from '../answers/index.js';
import { Access, Answers, LimitedQuery, Operation } from '../http/index.js';
import {
  partitionCode,
  RedisService,
  type ScriptReply,
  StoreUnavailable,
  sweepInstancesKey,
  sweepLeaseKey,
  sweepReportsKey,
  tagOf,
  ttlIndexKey,
} from '../redis/index.js';
import { readStored } from '../wire/index.js';
import type { DrainReport } from './drain-run.js';
import { instantMs, type SweepPartition } from './sweep-partition.js';

/** How many of the last ticks that did something are reported. */
const TICKS_KEPT = 10;

export interface Tick extends DrainReport {
  /** Redis' time of the last beat before the tick. */
  readonly at_ms: number;
  readonly duration_ms: number;
}

/** What an instance reports about its sweep, with its announcement. */
export interface SweepReport {
  readonly partitions: readonly string[];
  readonly backlog: number;
  readonly oldest_due_for_ms: number;
  readonly quarantined: number;
  readonly awaiting_cleanup: number;
  readonly oldest_awaiting_for_ms: number;
  readonly last_success_age_ms: number;
  readonly ticks: number;
  readonly last_ticks: readonly Tick[];
}

/** Remembers the results of the last ticks, for readiness, metrics, and GET /ops/sweeper. */
export class SweepHistory {
  private readonly last: Tick[] = [];
  private ticks = 0;
  private successAt = performance.now();

  /** Ticks without work and without a failure are only counted. */
  add(tick: Tick, succeeded: boolean): void {
    this.ticks += 1;
    if (succeeded) {
      this.successAt = performance.now();
    }
    if (tick.judged > 0 || tick.failed > 0) {
      this.last.unshift({ ...tick, duration_ms: Math.round(tick.duration_ms) });
      this.last.splice(TICKS_KEPT);
    }
  }

  ageMs(): number {
    return Math.round(performance.now() - this.successAt);
  }

  report(held: readonly SweepPartition[]): SweepReport {
    return {
      partitions: held.map(({ code }) => code).sort(),
      ...totals(held),
      last_success_age_ms: this.ageMs(),
      ticks: this.ticks,
      last_ticks: this.last,
    };
  }
}

type Totals = Pick<
  SweepReport,
  'backlog' | 'oldest_due_for_ms' | 'quarantined' | 'awaiting_cleanup' | 'oldest_awaiting_for_ms'
>;

/** Totals over the partitions, as of when each was last read. */
export function totals(held: readonly SweepPartition[]): Totals {
  const now = performance.now();
  return {
    backlog: held.reduce((sum, { due }) => sum + due, 0),
    oldest_due_for_ms: Math.round(Math.max(0, ...held.map((partition) => partition.oldestDueForMs(now)))),
    quarantined: held.reduce((sum, { quarantined }) => sum + quarantined, 0),
    awaiting_cleanup: held.reduce((sum, { awaitingCleanup }) => sum + awaitingCleanup, 0),
    oldest_awaiting_for_ms: Math.round(
      Math.max(0, ...held.map((partition) => partition.oldestAwaitingForMs(now))),
    ),
  };
}

type PartitionState = Answer<'SweepPartition'>;

interface InstanceState extends Partial<SweepReport> {
  readonly instance: string;
  readonly lapses_in_ms: number;
  readonly holds: readonly string[];
}

export type SweeperStateReport = Answer<'SweeperState'>;

type AnnouncedInstance = ScriptReply<'lease_instances'>['instances'][number];

/** The sweep of all instances, for operators: leases and indexes as stored in Redis, and the last report of each instance. */
@Injectable()
export class SweeperState {
  constructor(private readonly redis: RedisService) {}

  /** @throws StoreUnavailable */
  async read(): Promise<SweeperStateReport> {
    const { queries, partitions: count } = this.redis;
    const codes = Array.from({ length: count }, (_, number) => partitionCode(number));
    const [{ nowMs: now, instances }, ...states] = await Promise.all([
      queries.call('lease_instances', { instances: sweepInstancesKey(), reports: sweepReportsKey() }, {}),
      ...codes.map((code) => this.stateOf(code)),
    ]);
    const partitions = states.filter((state) => typeof state !== 'string');
    return {
      now_ms: now,
      instances: instances.map((instance) => instanceOf(instance, partitions)),
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

  /** Returns only the partition's code if its keys are damaged, so that the others are still reported. */
  private async stateOf(code: string): Promise<PartitionState | string> {
    const tag = tagOf(code);
    try {
      const found = await this.redis.queries.call(
        'sweep_state',
        { lease: sweepLeaseKey(tag), ttlIndex: ttlIndexKey(tag) },
        {},
      );
      const { holder, indexed, due, quarantined } = found;
      const [oldestMs, nextMs] = [instantMs(found.oldestDueMs), instantMs(found.nextDeadlineMs)];
      const oldestAwaitingMs = instantMs(found.oldestAwaitingMs);
      return {
        partition: code,
        ...(holder === undefined ? {} : { held_by: holder, lapses_in_ms: Math.max(0, found.lapsesInMs) }),
        indexed,
        due,
        ...(oldestMs === undefined ? {} : { oldest_due_at_ms: oldestMs }),
        ...(nextMs === undefined ? {} : { next_deadline_at_ms: nextMs }),
        quarantined,
        awaiting_cleanup: found.awaiting,
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

/** What an older or a newer instance reports may lack members, and have others. */
const isReport = (value: unknown): value is Partial<SweepReport> =>
  typeof value === 'object' && value !== null;

function instanceOf(
  { instance, lapsesInMs, report: text }: AnnouncedInstance,
  partitions: readonly PartitionState[],
): InstanceState {
  const { partitions: _, ...report } = readStored(text, isReport, `the report of instance ${instance}`);
  const holds = partitions
    .filter(({ held_by: holder }) => holder === instance)
    .map(({ partition }) => partition);
  return { instance, lapses_in_ms: lapsesInMs, holds, ...report };
}

@Controller('ops/sweeper')
export class SweeperController {
  constructor(private readonly state: SweeperState) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @Operation('getSweeper', 'Who sweeps what, how late, and how the last ticks went')
  @Answers(200, 'SweeperState')
  get(): Promise<Answer<'SweeperState'>> {
    return this.state.read();
  }
}
