import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import {
  dispatchInstancesKey,
  dispatchLeaseKey,
  dispatchReportsKey,
  RedisService,
  StoreUnavailable,
} from '../../redis/index.js';
import {
  HealthContributors,
  type HealthReport,
  LOGGER,
  type Logger,
  MetricsRegistry,
  ShutdownState,
} from '../../telemetry/index.js';
import {
  countLeases,
  type Job,
  type LeaseReply,
  MAINTENANCE_METRICS,
  PartitionLeases,
  type Turn,
  type TurnReport,
  Worker,
} from '../../worker/index.js';
import { DispatchPartition, LeaseLost } from './dispatch-partition.js';
import { EventReader } from './event-reader.js';
import { OrderedQueues } from './ordered-queues.js';
import { Retries } from './retries.js';
import { SubscriptionTally } from './subscription-tally.js';
import { WEBHOOK_METRICS, type WebhookCounts } from '../webhooks.metrics.js';

/** Random variation of the interval, in both directions, so that instances do not poll in step. */
const JITTER_SHARE = 0.25;
/** Least pause before a poll, so that a slow Redis is not asked without pause. */
const LEAST_PAUSE_MS = 10;
const LONGEST_BEAT_MS = 1000;
/** How long attempts in flight may take from the start of a shutdown, whatever else the shutdown waits for. */
const DRAIN_MS = 6000;
/** They get at least this long. */
const LAST_CALL_MS = 700;

/**
 * The dispatcher delivers events from the log to their subscribers. A turn reads the logs of the partitions that this instance holds, and
 * starts the retries that are due in them. About once a second it also renews its leases and counts failures that others left uncounted.
 * The attempts run concurrently: first attempts in OrderedQueues, others in Retries.
 *
 * The scripts that read and queue check the lease themselves, so two instances that both believe to hold it cannot reorder events. A
 * delivery in flight while its partition changes hands may be repeated.
 */
@Injectable()
export class Dispatcher implements OnModuleInit, Job {
  readonly name = 'webhook_dispatch';
  readonly role = 'dispatcher';
  readonly afterErrorMs: number;
  private readonly partitions: readonly DispatchPartition[];
  private readonly counts: WebhookCounts;
  private readonly leases: PartitionLeases<DispatchPartition>;
  private lastGoodBeatAt = performance.now();
  private endingSince: number | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly reader: EventReader,
    private readonly queues: OrderedQueues,
    private readonly retries: Retries,
    private readonly tally: SubscriptionTally,
    metrics: MetricsRegistry,
    private readonly worker: Worker,
    private readonly contributors: HealthContributors,
    private readonly shutdown: ShutdownState,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.afterErrorMs = config.webhookPollMs;
    this.counts = metrics.of(WEBHOOK_METRICS);
    const counted = countLeases(metrics.of(MAINTENANCE_METRICS), this.name, this.counts.leaseChanges);
    this.leases = new PartitionLeases(redis, logger, {
      work: 'dispatched',
      leaseMs: config.webhookLeaseMs,
      beatMs: Math.min(LONGEST_BEAT_MS, Math.floor(config.webhookLeaseMs / 3)),
      instancesKey: dispatchInstancesKey(),
      reportsKey: dispatchReportsKey(),
      leaseKey: dispatchLeaseKey,
      partition: (number) => this.partitions[number] as DispatchPartition,
      ask: (partition) => this.takeOrRenew(partition),
      mayLeave: (partition) => {
        partition.active = false;
        return !partition.isBusy;
      },
      changed: (change, partition) => {
        if (change !== 'taken') {
          partition.active = false;
          partition.reset();
        }
        counted.changed(change);
      },
      announcementFailed: counted.announcementFailed,
    });
    this.partitions = Array.from(
      { length: redis.partitions },
      (_, number) => new DispatchPartition(number, this.leases.instance),
    );
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
    const beganAt = performance.now();
    const outcome = await this.beat(turn);
    const active = this.held.filter((partition) => partition.active);
    const readable = await this.reader.withEvents(active);
    const now = performance.now();
    const [read] = await Promise.all([
      this.each(readable, (partition) => this.reader.readPartition(partition, turn)),
      this.each(
        active.filter(({ retriesAt }) => retriesAt <= now),
        (partition) => this.retries.startDue(partition),
      ),
    ]);
    return { sleepMs: read.includes(true) ? 0 : this.sleepMs(active, beganAt), ...outcome };
  }

  restarted(): void {
    this.counts.restarts.inc();
    this.held.forEach((partition) => partition.beginAnew());
  }

  /** Starts nothing any more. Attempts in flight continue. */
  stopping(): void {
    this.endingSince ??= performance.now();
    this.queues.close();
    this.retries.close();
  }

  async drain(): Promise<void> {
    const leftMs = Math.max(LAST_CALL_MS, DRAIN_MS - (performance.now() - (this.endingSince ?? 0)));
    await within(leftMs, Promise.all(this.partitions.map((partition) => partition.idle())));
    await within(LAST_CALL_MS, this.tally.flush());
    await within(LAST_CALL_MS, this.leases.leave());
  }

  private get held(): DispatchPartition[] {
    return [...this.leases.held.values()];
  }

  private async takeOrRenew(partition: DispatchPartition): Promise<LeaseReply> {
    const leaseMs = this.config.webhookLeaseMs;
    const args = { token: partition.token, leaseMs, take: 1, after: '>', limit: 0 };
    const reply = await this.redis.scripts.call('dispatch_page', partition.keys, args);
    if (reply.status === 'HELD') {
      if (reply.lease === 'taken') {
        partition.reset();
      }
      partition.see(reply);
      // It may have been due to be given up; this beat decides again.
      partition.active = true;
    }
    return reply;
  }

  /** @returns undefined if no beat was due */
  private async beat(turn: Turn): Promise<Pick<TurnReport, 'outcome' | 'durationMs'> | undefined> {
    const began = performance.now();
    const report = JSON.stringify({ partitions: this.leases.held.size });
    const beat = await this.leases.beatWhenDue(() => report, turn);
    if (beat === undefined) {
      return undefined;
    }
    const recoveries = this.held
      .filter(({ active, toRecover }) => active && toRecover > 0)
      .map((partition) => this.tally.recover(partition));
    const settled = await Promise.allSettled([...recoveries, this.tally.flush()]);
    const now = performance.now();
    const isGood = beat.failed === 0 && settled.every(({ status }) => status === 'fulfilled');
    this.lastGoodBeatAt = isGood ? now : this.lastGoodBeatAt;
    const { counts } = this;
    counts.partitions.set(this.leases.held.size);
    counts.lag.set(this.sum('lag'));
    counts.oldest.set(this.oldestForMs(now) / 1000);
    counts.inFlight.set(this.queues.limiter.inUse);
    counts.waiting.set(this.sum('waiting'), { for: 'first_attempt' });
    counts.waiting.set(this.sum('retrying'), { for: 'retry' });
    return { outcome: isGood ? 'success' : 'failed', durationMs: now - began };
  }

  /** Works on each partition. A failure of one does not affect the others. */
  private each<T>(
    partitions: readonly DispatchPartition[],
    work: (partition: DispatchPartition) => Promise<T>,
  ): Promise<(T | undefined)[]> {
    return Promise.all(
      partitions.map((partition) =>
        work(partition).catch((error: unknown) => {
          if (error instanceof LeaseLost) {
            this.leases.lose(partition);
          } else if (!(error instanceof StoreUnavailable)) {
            // The connection logs an outage once.
            this.logger.error(
              { err: error, partition: partition.code },
              'the events of a partition could not be dispatched; it will be retried',
            );
          }
          return undefined;
        }),
      ),
    );
  }

  /** Time until the next poll, which counts from the beginning of this one, or the next due retry. */
  private sleepMs(active: readonly DispatchPartition[], beganAt: number): number {
    const pollMs = this.config.webhookPollMs * (1 - JITTER_SHARE + Math.random() * 2 * JITTER_SHARE);
    const now = performance.now();
    const pollAt = Math.max(beganAt + pollMs, now + LEAST_PAUSE_MS);
    const retriesAt = Math.min(...active.map((partition) => partition.retriesAt));
    return Math.max(0, Math.min(pollAt, retriesAt) - now);
  }

  /**
   * Readiness is red while events wait for this dispatcher. A slow or failing endpoint does not turn it red: its deliveries wait in its own
   * queue.
   */
  private health(): HealthReport {
    const now = performance.now();
    const limitMs = this.config.webhookAlertMs;
    const lateForMs = this.held.map((partition) => partition.lateForMs(now));
    const lateMs = Math.round(Math.max(0, ...lateForMs, this.queues.limiter.longestWaitMs(now)));
    const ageMs = Math.round(now - this.lastGoodBeatAt);
    return {
      up: lateMs <= limitMs && ageMs <= limitMs,
      details: {
        last_success_age_ms: ageMs,
        lateness_ms: lateMs,
        limit_ms: limitMs,
        partitions: this.held.length,
        event_lag: this.sum('lag'),
        oldest_undelivered_ms: Math.round(this.oldestForMs(now)),
        waiting_deliveries: this.sum('waiting'),
        waiting_retries: this.sum('retrying'),
      },
    };
  }

  private sum(figure: 'lag' | 'retrying' | 'waiting'): number {
    return this.held.reduce((total, partition) => total + partition[figure], 0);
  }

  /** Age of the oldest event that waits to be read or for its first attempt. */
  private oldestForMs(now: number): number {
    return Math.max(0, ...this.held.map((partition) => partition.oldestForMs(now)));
  }
}

/** Waits for the work, but at most for `ms`. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  await Promise.race([work.catch(() => undefined), delay(ms, undefined, { ref: false })]);
}
