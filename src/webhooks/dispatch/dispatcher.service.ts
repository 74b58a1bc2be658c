import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { HealthContributors, ShutdownState, type HealthReport } from '../../telemetry/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { StoreUnavailable } from '../../redis/index.js';
import { Worker, type Job, type Turn, type TurnReport } from '../../worker/index.js';
import { DeliveryStore } from './delivery-store.js';
import { DispatchLeases } from './dispatch-leases.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { EventReader } from './event-reader.js';
import { OrderedQueues } from './ordered-queues.js';
import { Retries } from './retries.js';
import { SubscriptionTally } from './subscription-tally.js';

/** Pollers of many instances are spread over this share of the pause, to both sides. */
const JITTER_SHARE = 0.25;
/** From the moment the process knows that it is to end, what is under way has so long, whatever else takes its time meanwhile. */
const DRAIN_MS = 6000;
/** And so long in any case. */
const LAST_CALL_MS = 700;

/**
 * The dispatcher: carries events from the log to their subscribers. A turn reads the logs of the partitions that this instance holds, and
 * begins the retries that are due in them; about once a second it also renews its leases and counts what others left uncounted. The
 * attempts go on beside it: first ones in OrderedQueues, others in Retries.
 */
@Injectable()
export class Dispatcher implements OnModuleInit, Job {
  readonly name = 'webhook_dispatch';
  readonly role = 'dispatcher';
  readonly afterErrorMs: number;
  private lastGoodBeatAt = performance.now();
  private endingSince: number | undefined;

  constructor(
    private readonly leases: DispatchLeases,
    private readonly reader: EventReader,
    private readonly queues: OrderedQueues,
    private readonly retries: Retries,
    private readonly tally: SubscriptionTally,
    private readonly store: DeliveryStore,
    private readonly metrics: DispatchMetrics,
    private readonly worker: Worker,
    private readonly contributors: HealthContributors,
    private readonly shutdown: ShutdownState,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.afterErrorMs = config.webhookPollMs;
  }

  onModuleInit(): void {
    this.worker.add(this);
    if (this.config.roles.has('dispatcher')) {
      this.contributors.register({ name: 'dispatcher', check: () => this.health() });
    }
  }

  async runTurn(turn: Turn): Promise<TurnReport> {
    if (this.shutdown.stopping) {
      this.stopping();
      return { sleepMs: this.config.webhookPollMs };
    }
    const outcome = await this.beat(turn);
    const active = this.held.filter((partition) => partition.active);
    const readable = await this.reader.withEvents(active);
    const now = performance.now();
    const [read] = await Promise.all([
      Promise.all(readable.map((partition) => this.read(partition, turn))),
      Promise.all(
        active
          .filter(({ retriesAt }) => retriesAt <= now)
          .map((partition) =>
            this.guarded(partition, () => this.retries.startDue(partition, this.leases.instance)),
          ),
      ),
    ]);
    return {
      sleepMs: read.includes('more') ? 0 : this.sleepMs(),
      ...(outcome === undefined ? {} : outcome),
    };
  }

  restarted(): void {
    this.metrics.restarts.inc();
    this.held.forEach((partition) => partition.beginAnew());
  }

  /** Begins nothing any more; what is under way goes on. */
  stopping(): void {
    this.endingSince ??= performance.now();
    this.queues.close();
    this.retries.close();
  }

  async drain(): Promise<void> {
    const leftMs = Math.max(LAST_CALL_MS, DRAIN_MS - (performance.now() - (this.endingSince ?? 0)));
    await within(leftMs, Promise.all([this.queues.idle(), this.retries.idle()]));
    await within(LAST_CALL_MS, this.tally.flush());
    await within(LAST_CALL_MS, this.leases.leave());
  }

  /**
   * Readiness: whether events wait for this dispatcher. An endpoint that is slow, or refuses, is no reason: its deliveries wait in its own
   * queue, and that is as it should be.
   */
  private health(): HealthReport {
    const now = performance.now();
    const limitMs = this.config.webhookAlertMs;
    const { held } = this;
    const lateMs = Math.round(
      Math.max(
        0,
        ...held.map((partition) => partition.lateForMs(now)),
        this.queues.limiter.longestWaitMs(now),
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
        waiting_deliveries: this.queues.waiting,
        waiting_retries: sum(held, ({ retrying }) => retrying),
      },
    };
  }

  private get held(): DispatchPartition[] {
    return [...this.leases.held.values()];
  }

  /** @returns undefined when no beat was due */
  private async beat(turn: Turn): Promise<Pick<TurnReport, 'outcome' | 'durationMs'> | undefined> {
    const began = performance.now();
    const report = JSON.stringify({ partitions: this.leases.held.size });
    const beat = await this.leases.beatWhenDue(() => report, turn);
    if (beat === undefined) {
      return undefined;
    }
    const recoveries = this.held
      .filter(({ active, leftOver }) => active && leftOver > 0)
      .map((partition) => this.tally.recover(partition));
    const settled = await Promise.allSettled([...recoveries, this.tally.flush()]);
    const now = performance.now();
    const isGood = beat.failed === 0 && settled.every(({ status }) => status === 'fulfilled');
    this.lastGoodBeatAt = isGood ? now : this.lastGoodBeatAt;
    const { held } = this;
    this.metrics.show({
      partitions: held.length,
      lagEvents: sum(held, ({ lag }) => lag),
      oldestMs: this.oldestMs(now),
      waitingForFirst: this.queues.waiting,
      waitingForRetry: sum(held, ({ retrying }) => retrying),
      inFlight: this.queues.limiter.inUse,
    });
    return { outcome: isGood ? 'success' : 'failed', durationMs: now - began };
  }

  private async read(partition: DispatchPartition, turn: Turn): Promise<'all' | 'more'> {
    let outcome: 'all' | 'more' = 'all';
    await this.guarded(partition, async () => {
      const found = await this.reader.readPartition(partition, this.leases.instance, turn);
      outcome = found === 'more' ? 'more' : 'all';
      return found !== 'lost';
    });
    return outcome;
  }

  /** Work on one partition, whose failure leaves the others alone. @param work returns false when the lease is another's */
  private async guarded(partition: DispatchPartition, work: () => Promise<boolean>): Promise<void> {
    try {
      if (!(await work())) {
        this.leases.lose(partition);
      }
    } catch (error) {
      // The connection logs an outage once.
      if (!(error instanceof StoreUnavailable)) {
        this.logger.error(
          { err: error, partition: partition.code },
          'the events of a partition could not be dispatched; it is tried again',
        );
      }
    }
  }

  /** Until the next look at the logs, or the next retry that is due. */
  private sleepMs(): number {
    const pollMs = this.config.webhookPollMs * (1 - JITTER_SHARE + Math.random() * 2 * JITTER_SHARE);
    const retriesAt = Math.min(...this.held.map((partition) => partition.retriesAt));
    return Math.max(0, Math.min(pollMs, retriesAt - performance.now()));
  }

  /** Age of the oldest event that waits to be read, or for its first attempt. */
  private oldestMs(now: number): number {
    const unread = this.held.map((partition) => partition.oldestForMs(now));
    return Math.max(0, ...unread, this.store.clock.nowMs() - this.queues.oldestMs);
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
