import { setTimeout as delay } from 'node:timers/promises';
import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { StoreUnavailable } from '../../redis/index.js';
import { type HealthReport, LOGGER, type Logger, ShutdownState } from '../../telemetry/index.js';
import { DispatchLeases } from './dispatch-leases.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchWork } from './dispatch-work.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { PollLoop } from './poll-loop.js';

const LONGEST_BEAT_MS = 1000;
/** Pollers of many instances are spread over this share of the pause, to both sides. */
const JITTER_SHARE = 0.25;
/** From the moment the process knows that it is to end, what is under way has so long, whatever else takes its time meanwhile. */
const DRAIN_MS = 6000;
/** And so long in any case. */
const LAST_CALL_MS = 700;

/**
 * The dispatcher: carries events from the log to their subscribers. A tick reads the logs of the partitions that this instance holds;
 * once a second it also renews its leases, takes up what others left behind, and looks at how it is doing. The deliveries go on by
 * themselves beside it: first attempts in Lanes, others in Retries.
 */
@Injectable()
export class Dispatcher implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loop: PollLoop;
  private readonly isOn: boolean;
  private readonly beatMs: number;
  private nextBeatAt = 0;
  private lastGoodBeatAt = performance.now();
  private endingSince: number | undefined;

  constructor(
    private readonly leases: DispatchLeases,
    private readonly work: DispatchWork,
    private readonly metrics: DispatchMetrics,
    private readonly shutdown: ShutdownState,
    scheduler: SchedulerRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.isOn = config.roles.has('dispatcher');
    this.beatMs = Math.min(LONGEST_BEAT_MS, Math.floor(config.webhookLeaseMs / 3));
    this.loop = new PollLoop({
      tick: (isCurrent) => this.tick(isCurrent),
      afterErrorMs: config.webhookPollMs,
      scheduler,
      logger,
      restarted: () => {
        metrics.restarted();
        for (const partition of this.leases.held.values()) {
          partition.beginAnew();
        }
      },
    });
  }

  onApplicationBootstrap(): void {
    if (this.isOn) {
      this.work.retries.start();
      this.loop.start();
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (!this.isOn) {
      return;
    }
    this.end();
    await this.loop.stop();
    const { lanes, queue, outcomes } = this.work;
    const leftMs = Math.max(LAST_CALL_MS, DRAIN_MS - (performance.now() - (this.endingSince ?? 0)));
    await within(leftMs, Promise.all([lanes.idle(), queue.idle()]));
    await within(LAST_CALL_MS, outcomes.flush());
    await Promise.all([within(LAST_CALL_MS, queue.close()), within(LAST_CALL_MS, this.leases.leave())]);
  }

  /**
   * Readiness: whether events wait for this dispatcher. An endpoint that is slow, or refuses, is no reason: its deliveries wait in its own
   * lane, and that is as it should be.
   */
  health(): HealthReport {
    const now = performance.now();
    const limitMs = this.config.webhookAlertMs;
    const held = [...this.leases.held.values()];
    const lateMs = Math.round(
      Math.max(
        0,
        ...held.map((partition) => partition.lateForMs(now)),
        this.work.lanes.slots.longestWaitMs(now),
      ),
    );
    const ageMs = Math.round(now - this.lastGoodBeatAt);
    return {
      up: lateMs <= limitMs && ageMs <= limitMs,
      details: {
        last_success_age_ms: ageMs,
        lateness_ms: lateMs,
        limit_ms: limitMs,
        partitions: held.length,
        event_lag: sum(held, ({ lag }) => lag),
        oldest_undelivered_ms: Math.round(this.oldestMs(now)),
        waiting_deliveries: this.work.lanes.waiting,
        waiting_retries: sum(held, ({ retrying }) => retrying),
      },
    };
  }

  private async tick(isCurrent: () => boolean): Promise<number> {
    if (this.shutdown.stopping) {
      this.end();
      return this.config.webhookPollMs;
    }
    const began = performance.now();
    if (began >= this.nextBeatAt) {
      this.nextBeatAt = began + this.beatMs * (0.9 + Math.random() * 0.1);
      await this.beat(isCurrent);
    }
    const held = await this.work.reader.withEvents(
      [...this.leases.held.values()].filter(({ active }) => active),
    );
    const found = await Promise.all(held.map((partition) => this.read(partition, isCurrent)));
    return found.includes('more')
      ? 0
      : this.config.webhookPollMs * (1 - JITTER_SHARE + Math.random() * 2 * JITTER_SHARE);
  }

  private async beat(isCurrent: () => boolean): Promise<void> {
    const began = performance.now();
    const { failed } = await this.leases.beat(
      JSON.stringify({ partitions: this.leases.held.size }),
      isCurrent,
    );
    const tasks = [...this.leases.held.values()]
      .filter(({ active, leftOver }) => active && leftOver > 0)
      .map((partition) => this.work.leftOvers.takeUp(partition));
    const settled = await Promise.allSettled([...tasks, this.work.outcomes.flush()]);
    const now = performance.now();
    const isGood = failed === 0 && settled.every(({ status }) => status === 'fulfilled');
    this.lastGoodBeatAt = isGood ? now : this.lastGoodBeatAt;
    this.metrics.beatEnded(isGood ? 'success' : 'failed', now - began);
    const held = [...this.leases.held.values()];
    this.metrics.show({
      partitions: held.length,
      lagEvents: sum(held, ({ lag }) => lag),
      oldestMs: this.oldestMs(now),
      waitingForFirst: this.work.lanes.waiting,
      waitingForRetry: sum(held, ({ retrying }) => retrying),
      inFlight: this.work.lanes.slots.inUse,
    });
  }

  private async read(
    partition: DispatchPartition,
    isCurrent: () => boolean,
  ): Promise<'all' | 'more' | 'failed'> {
    try {
      const found = await this.work.reader.read(partition, { token: this.leases.instance, isCurrent });
      if (found === 'lost') {
        this.leases.lose(partition);
        return 'all';
      }
      return found;
    } catch (error) {
      // An outage is told once by the connection.
      if (!(error instanceof StoreUnavailable)) {
        this.logger.error(
          { err: error, partition: partition.code },
          'the events of a partition could not be read; they are read again',
        );
      }
      return 'failed';
    }
  }

  /** Begins nothing any more; what is under way goes on. */
  private end(): void {
    if (this.endingSince === undefined) {
      this.endingSince = performance.now();
      this.work.lanes.close();
      void this.work.queue.pause();
    }
  }

  /** Age of the oldest event that waits to be read, or for its first attempt. */
  private oldestMs(now: number): number {
    const unread = [...this.leases.held.values()].map((partition) => partition.oldestForMs(now));
    const { lanes, store } = this.work;
    return Math.max(0, ...unread, store.clock.nowMs() - lanes.oldestMs);
  }
}

function sum(
  partitions: readonly DispatchPartition[],
  figure: (partition: DispatchPartition) => number,
): number {
  return partitions.reduce((total, partition) => total + figure(partition), 0);
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const waiting = new AbortController();
  await Promise.race([
    work.catch(() => undefined),
    delay(ms, undefined, { signal: waiting.signal }).catch(() => undefined),
  ]);
  waiting.abort();
}
