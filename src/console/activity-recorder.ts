import {
  Inject,
  Injectable,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  activityKey,
  orStoreError,
  partitionOfTenant,
  RedisService,
  SYSTEM_OWNER,
  tagOfPartition,
} from '../redis/index.js';
import { type Activity, LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { CONSOLE_METRICS } from './console.metrics.js';
import type { MemorySample } from './page-answers.js';

const FLUSH_MS = 1000;
const HOUR_MS = 3_600_000;
/** Counts are added up over slots of this length. */
export const SLOT_MS = 10_000;
const SLOTS_AN_HOUR = HOUR_MS / SLOT_MS;
/** A slot older than an hour is not read, but the memory of each hour is kept for a day. */
const KEPT_MS = 26 * HOUR_MS;
const SAMPLE_EVERY_MS = 60_000;
/** A loss is logged at most this often. */
const LOG_INTERVAL_MS = 60_000;
const MEMORY_HOURS = 24;
const MEMORY_FIELD = 'memory';

export type SlotCounts = ReadonlyMap<Activity, number>;

/**
 * Adds what all instances do up in Redis: one hash an hour, whose fields are `<slot>:<activity>`, and the memory in use at the end of
 * the hour. A busy instance sends one short pipeline a second, an idle one a command a minute. These figures are for graphs: a flush that fails
 * is lost and counted, and nothing of the ledger depends on them.
 */
@Injectable()
export class ActivityRecorder implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly counts = this.metrics.of(CONSOLE_METRICS);
  private timer: NodeJS.Timeout | undefined;
  private flushing: Promise<void> | undefined;
  private sampledAt = 0;
  private loggedAt = -Infinity;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onApplicationBootstrap(): void {
    if (this.config.recordActivity) {
      this.timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (this.timer !== undefined) {
      clearInterval(this.timer);
      await this.flush();
    }
  }

  /** Sends what was counted since the last time. Never rejects. */
  flush(): Promise<void> {
    this.flushing ??= this.send().finally(() => {
      this.flushing = undefined;
    });
    return this.flushing;
  }

  /** The counts of the slots from one to another, both included. @throws StoreUnavailable */
  async read(firstSlot: number, lastSlot: number): Promise<ReadonlyMap<number, SlotCounts>> {
    const slots = new Map<number, Map<Activity, number>>();
    const hours = new Set([firstSlot, lastSlot].map((slot) => Math.floor(slot / SLOTS_AN_HOUR)));
    for (const hour of hours) {
      const fields = await orStoreError(this.redis.client.hgetall(this.keyOf(hour)));
      for (const [field, count] of Object.entries(fields)) {
        const [slotText = '', activity] = field.split(':', 2);
        const slot = Number(slotText);
        if (activity !== undefined && slot >= firstSlot && slot <= lastSlot) {
          const counts = slots.get(slot) ?? new Map<Activity, number>();
          counts.set(activity as Activity, Number(count));
          slots.set(slot, counts);
        }
      }
    }
    return slots;
  }

  /** The memory in use at the end of each of the last hours of a day, oldest first. @throws StoreUnavailable */
  async memory(nowMs: number): Promise<MemorySample[]> {
    const thisHour = Math.floor(nowMs / HOUR_MS);
    const hours = Array.from({ length: MEMORY_HOURS }, (_, index) => thisHour - MEMORY_HOURS + 1 + index);
    const texts = await orStoreError(
      Promise.all(hours.map((hour) => this.redis.client.hget(this.keyOf(hour), MEMORY_FIELD))),
    );
    return texts.flatMap((text) => {
      const [atMs, usedBytes] = (text ?? '').split(' ').map(Number);
      return atMs === undefined || usedBytes === undefined ? [] : [{ atMs, usedBytes }];
    });
  }

  private keyOf(hour: number): string {
    const partition = partitionOfTenant(SYSTEM_OWNER, this.redis.partitions);
    return activityKey(tagOfPartition(partition), hour);
  }

  private async send(): Promise<void> {
    const counts = this.metrics.activity.take();
    const isMinute = performance.now() - this.sampledAt > SAMPLE_EVERY_MS;
    if (counts.size === 0 && !isMinute) {
      return;
    }
    try {
      const nowMs = this.redis.clock.nowMs();
      const key = this.keyOf(Math.floor(nowMs / HOUR_MS));
      const slot = Math.floor(nowMs / SLOT_MS);
      const pipeline = this.redis.client.pipeline();
      for (const [activity, count] of counts) {
        pipeline.hincrby(key, `${slot}:${activity}`, count);
      }
      if (isMinute) {
        this.sampledAt = performance.now();
        const { usedBytes } = await this.redis.memory();
        pipeline.hset(key, MEMORY_FIELD, `${nowMs} ${usedBytes}`);
      }
      pipeline.pexpire(key, KEPT_MS);
      const failed = (await pipeline.exec())?.find(([error]) => error !== null);
      if (failed !== undefined) {
        throw failed[0] as Error;
      }
    } catch (error) {
      this.lose(error);
    }
  }

  private lose(error: unknown): void {
    this.counts.flushesLost.inc();
    if (performance.now() - this.loggedAt >= LOG_INTERVAL_MS) {
      this.loggedAt = performance.now();
      this.logger.warn({ err: error }, "seconds are missing in the console's graphs");
    }
  }
}
