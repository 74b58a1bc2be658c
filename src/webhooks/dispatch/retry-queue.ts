import { Inject, Injectable } from '@nestjs/common';
import { type Job, Queue, Worker } from 'bullmq';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { queuePrefix, RedisService, toStoreError } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { deliveryIdOf } from './delivery-id.js';
import type { DeliveryAddress } from './delivery.js';
import { DispatchMetrics } from './dispatch.metrics.js';

const QUEUE_NAME = 'webhook-retries';
const JOB_NAME = 'retry';
/** Retries that one instance makes at the same time. */
const CONCURRENCY = 100;
/** After a Redis that was away, or an error that nobody expected. */
const AFTER_ERROR_MS = 1000;
/** Nobody listens to the queue's own events. */
const EVENTS_KEPT = 100;
/** Jobs end when the delivery does; the queue itself is never to give one up. */
const NEVER = 1_000_000_000;

/** Thrown out of a retry to have it run again later. */
export class RetryLater extends Error {
  override readonly name = 'RetryLater';

  constructor(readonly delayMs: number) {
    super('this delivery is tried again later');
  }
}

/**
 * The retries of deliveries: BullMQ jobs that are delayed until the next attempt is due, in a queue that all instances share. A job
 * carries only where the delivery is; everything else is read when it runs. Its id is the delivery's, so that one is never queued twice.
 */
@Injectable()
export class RetryQueue {
  private queue: Queue<DeliveryAddress> | undefined;
  private worker: Worker<DeliveryAddress> | undefined;
  private readonly running = new Set<Promise<void>>();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /** @param run one retry; it ends normally when the delivery is settled for good, and throws otherwise */
  start(run: (delivery: DeliveryAddress) => Promise<void>): void {
    const connection = this.redis.queueClient();
    const shared = { connection, prefix: queuePrefix() };
    this.queue = new Queue(QUEUE_NAME, { ...shared, streams: { events: { maxLen: EVENTS_KEPT } } });
    this.worker = new Worker(QUEUE_NAME, (job: Job<DeliveryAddress>) => this.track(run(job.data)), {
      ...shared,
      concurrency: CONCURRENCY,
      // A job whose process died is found by the others after this and the next check; a living one renews its lock at half of it.
      lockDuration: 2 * this.config.webhookLeaseMs,
      stalledInterval: this.config.webhookLeaseMs,
      maxStalledCount: NEVER,
      runRetryDelay: AFTER_ERROR_MS,
      settings: {
        backoffStrategy: (_attempts, _type, error) =>
          error instanceof RetryLater ? error.delayMs : AFTER_ERROR_MS * (1 + Math.random()),
      },
    });
    this.queue.on('error', (error) =>
      this.logger.debug({ err: error }, 'the queue of retries lost Redis; trying again'),
    );
    this.worker.on('error', (error) =>
      this.logger.debug({ err: error }, 'the worker of retries lost Redis; trying again'),
    );
  }

  /** Has a delivery tried again. Harmless when that is planned already. @throws StoreUnavailable when the job cannot be stored. */
  async plan(
    { partition, tag, ref, subscriptionId, tenant }: DeliveryAddress,
    delayMs: number,
  ): Promise<void> {
    if (this.queue === undefined) {
      throw new Error('retries are planned by instances with the role dispatcher only');
    }
    try {
      await this.queue.add(
        JOB_NAME,
        { partition, tag, ref, subscriptionId, tenant },
        {
          jobId: deliveryIdOf({ partition, ref }),
          delay: Math.max(1, Math.round(delayMs)),
          attempts: NEVER,
          backoff: { type: 'custom' },
          removeOnComplete: true,
          stackTraceLimit: 1,
        },
      );
    } catch (error) {
      this.metrics.retryNotStored();
      throw toStoreError(error);
    }
  }

  /** Begins no further retry. */
  async pause(): Promise<void> {
    await this.worker?.pause(true);
  }

  /** Resolves when no retry is under way any more. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.running);
  }

  /** What is still under way then is found again by another instance, or by this one after its restart. */
  async close(): Promise<void> {
    await Promise.all([this.worker?.close(this.running.size > 0), this.queue?.close()]);
  }

  private track(work: Promise<void>): Promise<void> {
    const tracked = work.finally(() => this.running.delete(tracked));
    this.running.add(tracked);
    return tracked;
  }
}
