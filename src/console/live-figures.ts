import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, HOLDFAST_VERSION, type HoldfastConfig } from '../config/index.js';
import { LATENESS_BUCKETS, SweeperState, type SweeperStateReport } from '../expiry/index.js';
import { ReadinessCheck, UnexpectedErrors } from '../http/index.js';
import { RedisService, StoreUnavailable } from '../redis/index.js';
import type { Activity } from '../telemetry/index.js';
import { ActivityRecorder, SLOT_MS, type SlotCounts } from './activity-recorder.js';
import type { ActivityFigures, LiveSnapshot, MemorySample, Rates } from './page-answers.js';

const HOUR_SLOTS = 3_600_000 / SLOT_MS;
/** Reading the state of all partitions takes a few milliseconds of Redis' time. */
const SWEEPER_EVERY_MS = 5000;
const MEMORY_EVERY_MS = 60_000;

interface Kept<T> {
  readonly value: T;
  readonly at: number;
}

/** Computes the snapshots of the live feed. What is expensive to read is read less often. */
@Injectable()
export class LiveFigures {
  /** The complete slots of the last hour. */
  private readonly slots = new Map<number, SlotCounts>();
  private newestSlot = 0;
  private sweeper: Kept<SweeperStateReport> | undefined;
  private memory: Kept<readonly MemorySample[]> | undefined;
  private total: { readonly value: Rates; readonly at: number } | undefined;
  /** Whether the last snapshot failed for a reason that is not the store's: it is reported once, not every second. */
  private isFailing = false;

  constructor(
    private readonly readiness: ReadinessCheck,
    private readonly recorder: ActivityRecorder,
    private readonly state: SweeperState,
    private readonly unexpected: UnexpectedErrors,
    private readonly redis: RedisService,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /** What cannot be read is absent. Readiness says whether the store is away; every other reason is reported. */
  async compute(): Promise<LiveSnapshot> {
    const [readiness, stored] = await Promise.all([this.readiness.check(), this.readUnlessFailing()]);
    return {
      version: HOLDFAST_VERSION,
      at_ms: this.redis.clock.ledgerMs(),
      readiness,
      records_activity: this.config.recordActivity,
      memory: [],
      ...stored,
    };
  }

  /** Forgets what only the next snapshot would need, because there are no viewers any more. */
  reset(): void {
    this.slots.clear();
    this.newestSlot = 0;
    this.total = undefined;
  }

  private async readUnlessFailing(): Promise<Partial<LiveSnapshot>> {
    try {
      const stored = await this.readStored();
      this.isFailing = false;
      return stored;
    } catch (error) {
      if (!(error instanceof StoreUnavailable) && !this.isFailing) {
        this.isFailing = true;
        this.unexpected.report(error, "the console's live figures cannot be read");
      }
      return {};
    }
  }

  private async readStored(): Promise<Partial<LiveSnapshot>> {
    const nowMs = this.redis.clock.nowMs();
    const sweeper = sweeperOf(await this.sweeperState());
    if (!this.config.recordActivity) {
      return { at_ms: this.redis.clock.ledgerMs(), sweeper };
    }
    return {
      at_ms: this.redis.clock.ledgerMs(),
      activity: await this.activity(nowMs),
      sweeper,
      memory: await this.memorySamples(nowMs),
    };
  }

  private async activity(nowMs: number): Promise<ActivityFigures> {
    const slot = Math.floor(nowMs / SLOT_MS);
    const first = slot - HOUR_SLOTS;
    const fresh = await this.recorder.read(Math.max(first, this.newestSlot - 1), slot);
    for (const [number, counts] of fresh) {
      this.slots.set(number, counts);
    }
    for (const number of this.slots.keys()) {
      if (number < first) {
        this.slots.delete(number);
      }
    }
    this.newestSlot = slot;
    return {
      per_second: this.rates(),
      last_hour: ratesFrom((activity) => this.sum(activity, first + 1)),
      slots: this.series(first, slot - 1),
      lateness: this.lateness(),
    };
  }

  private async sweeperState(): Promise<SweeperStateReport> {
    if (this.sweeper === undefined || performance.now() - this.sweeper.at > SWEEPER_EVERY_MS) {
      this.sweeper = { value: await this.state.read(), at: performance.now() };
    }
    return this.sweeper.value;
  }

  private async memorySamples(nowMs: number): Promise<readonly MemorySample[]> {
    if (this.memory === undefined || performance.now() - this.memory.at > MEMORY_EVERY_MS) {
      this.memory = { value: await this.recorder.memory(nowMs), at: performance.now() };
    }
    return this.memory.value;
  }

  private sum(activity: Activity, firstSlot = 0): number {
    let sum = 0;
    for (const [slot, counts] of this.slots) {
      sum += slot < firstSlot ? 0 : (counts.get(activity) ?? 0);
    }
    return sum;
  }

  /** By how much the sums have grown since the snapshot before. A slot that leaves the hour makes no rate negative. */
  private rates(): Rates {
    const value = ratesFrom((activity) => this.sum(activity));
    const at = performance.now();
    const before = this.total;
    this.total = { value, at };
    return before === undefined
      ? ratesFrom((activity) => (this.slots.get(this.newestSlot - 1)?.get(activity) ?? 0) / (SLOT_MS / 1000))
      : ratesFrom((activity) =>
          Math.max(0, ((value[activity] - before.value[activity]) * 1000) / Math.max(1, at - before.at)),
        );
  }

  private series(first: number, last: number): ActivityFigures['slots'] {
    const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index);
    const of = (activity: Activity): number[] =>
      numbers.map((number) => (this.slots.get(number)?.get(activity) ?? 0) / (SLOT_MS / 1000));
    return {
      first_at_ms: first * SLOT_MS,
      slot_ms: SLOT_MS,
      reserves: of('reserves'),
      commits: of('commits'),
      denials: of('denials'),
      expirations: of('expirations'),
    };
  }

  private lateness(): { bounds_ms: number[]; counts: number[] } {
    const counts = Array.from({ length: LATENESS_BUCKETS.length + 1 }, (_, bucket) =>
      this.sum(`late_${bucket}`),
    );
    return { bounds_ms: LATENESS_BUCKETS.map((bound) => bound * 1000), counts };
  }
}

function ratesFrom(read: (activity: keyof Rates) => number): Rates {
  return {
    reserves: read('reserves'),
    commits: read('commits'),
    denials: read('denials'),
    expirations: read('expirations'),
  };
}

function sweeperOf(report: SweeperStateReport): NonNullable<LiveSnapshot['sweeper']> {
  const next = report.partitions.flatMap(({ next_deadline_at_ms: atMs }) =>
    atMs === undefined ? [] : [atMs],
  );
  return {
    holds: report.partitions.reduce((sum, { indexed }) => sum + indexed, 0),
    backlog: report.backlog,
    lateness_ms: report.lateness_ms,
    quarantined: report.quarantined,
    awaiting_cleanup: report.awaiting_cleanup,
    instances: report.instances.length,
    unheld: report.unheld.length,
    unreadable: report.unreadable.length,
    partitions: report.partitions.length + report.unreadable.length,
    ...(next.length === 0 ? {} : { next_deadline_at_ms: Math.min(...next) }),
  };
}
