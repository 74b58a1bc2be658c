import { Inject, Injectable } from '@nestjs/common';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import {
  outcomesKey,
  RedisService,
  type ScriptReply,
  StoreUnavailable,
  tagOfWebhookId,
  webhookKey,
} from '../../redis/index.js';
import { deliveryIdOf, isRef, type Delivery } from './delivery.js';
import { DeliveryStore, orStoreError } from './delivery-store.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';

/** A subscription's bookkeeping is written at most so often while all goes well. */
const QUIET_MS = 1000;
/** Failures that stand in the index for so long were left uncounted by a process that died. */
const LEFT_OVER_AFTER_MS = 30_000;
/** So many of an index are counted in one go; the next beat goes on. */
const RECOVERED_AT_ONCE = 100;

interface Tally {
  /** What is still to be written; a success outweighs a mere trigger. */
  pending: 'success' | 'triggered' | undefined;
  writtenAt: number;
  /** Failures in a row, as far as this process wrote them. */
  failures: number;
  /** Writes of one subscription go one after the other, in the order of what happened. */
  writing: Promise<void>;
}

/**
 * Tells subscriptions what became of their deliveries. Successes are put together, so that a busy endpoint costs one write a second;
 * a failure is written at once, and stays in the partition's index of outcomes until it is, so that none is forgotten by a crash.
 */
@Injectable()
export class SubscriptionTally {
  private readonly tallies = new Map<string, Tally>();
  /** By index, how many of its entries cannot be counted and stayed. They are passed over, or they would hide all behind them. */
  private readonly passedOver = new Map<string, number>();

  constructor(
    private readonly redis: RedisService,
    private readonly store: DeliveryStore,
    private readonly metrics: DispatchMetrics,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  succeeded(delivery: Delivery): void {
    this.note(delivery.subscriptionId, 'success');
  }

  triggered(delivery: Delivery): void {
    this.note(delivery.subscriptionId, 'triggered');
  }

  /** Counts a delivery that was given up after its last attempt. Never rejects: what cannot be written is left for `recover`. */
  async failed(delivery: Delivery, trace: string): Promise<void> {
    const { subscriptionId } = delivery;
    const tally = this.tallyOf(subscriptionId);
    const earlier = tally.pending;
    tally.pending = undefined;
    if (earlier !== undefined) {
      this.write(subscriptionId, tally, earlier);
    }
    await this.inOrder(tally, async () => {
      const reply = await this.record(subscriptionId, 'failure', deliveryIdOf(delivery), trace);
      await this.redis.client.zrem(outcomesKey(delivery.tag), delivery.ref);
      tally.failures = reply.status === 'RECORDED' ? reply.failures : tally.failures;
      if (reply.status === 'DISABLED') {
        this.metrics.disabled.inc({ tenant: reply.owner, reason: 'consecutive_failures' });
        this.logger.warn(
          { subscription_id: subscriptionId, tenant_id: reply.owner },
          'a webhook subscription failed too often in a row and is disabled',
        );
      }
    });
  }

  /**
   * Counts failures that a process left uncounted which died in between, the oldest first. An entry that cannot be counted stays, and
   * stops none behind it.
   * @throws StoreUnavailable at once; the first other error when all had their turn
   */
  async recover(partition: DispatchPartition): Promise<void> {
    const index = outcomesKey(partition.tag);
    const first = this.passedOver.get(index) ?? 0;
    const overdueMs = Math.floor(this.store.clock.nowMs()) - LEFT_OVER_AFTER_MS;
    const { client } = this.redis;
    const refs = await orStoreError(
      client.zrangebyscore(index, '-inf', overdueMs, 'LIMIT', first, RECOVERED_AT_ONCE),
    );
    const errors: unknown[] = [];
    for (const ref of refs) {
      await this.recoverOne(partition, index, ref).catch((error: unknown) => {
        if (error instanceof StoreUnavailable) {
          throw error;
        }
        errors.push(error);
      });
    }
    const isLast = refs.length < RECOVERED_AT_ONCE;
    const scores = isLast ? [] : await orStoreError(client.zmscore(index, ...refs));
    this.passedOver.set(index, isLast ? 0 : first + scores.filter((score) => score !== null).length);
    if (errors.length > 0) {
      throw errors[0];
    }
  }

  private async recoverOne(partition: DispatchPartition, index: string, ref: string): Promise<void> {
    const [delivery] = isRef(ref) ? await this.store.read(partition, [ref]) : [];
    if (delivery === undefined || delivery.status === '') {
      this.metrics.trimmedEntries(await this.store.forget(index, ref));
      return;
    }
    this.metrics.recoveries.inc({ kind: 'outcome' });
    await this.failed(delivery, delivery.event?.trace ?? '');
  }

  /** Writes what was put together. Called about once a second, and before the process ends. */
  async flush(): Promise<void> {
    const now = performance.now();
    for (const [subscriptionId, tally] of this.tallies) {
      if (tally.pending !== undefined) {
        this.write(subscriptionId, tally, tally.pending);
      } else if (tally.failures === 0 && now - tally.writtenAt > 60 * QUIET_MS) {
        this.tallies.delete(subscriptionId);
      }
    }
    await Promise.all([...this.tallies.values()].map(({ writing }) => writing));
  }

  private note(subscriptionId: string, what: 'success' | 'triggered'): void {
    const tally = this.tallyOf(subscriptionId);
    tally.pending = what === 'success' ? 'success' : (tally.pending ?? 'triggered');
    if (
      tally.pending === 'success' &&
      (tally.failures > 0 || performance.now() - tally.writtenAt >= QUIET_MS)
    ) {
      this.write(subscriptionId, tally, 'success');
    }
  }

  private write(subscriptionId: string, tally: Tally, what: 'success' | 'triggered'): void {
    tally.pending = undefined;
    tally.writtenAt = performance.now();
    void this.inOrder(tally, async () => {
      try {
        const reply = await this.record(subscriptionId, what);
        tally.failures = reply.status === 'RECORDED' ? reply.failures : 0;
      } catch (error) {
        tally.pending ??= what;
        throw error;
      }
    });
  }

  private inOrder(tally: Tally, work: () => Promise<void>): Promise<void> {
    tally.writing = tally.writing.then(work).catch((error: unknown) => {
      this.logger.debug(
        { err: error },
        'an outcome could not be written to its subscription; it is tried again',
      );
    });
    return tally.writing;
  }

  private async record(
    subscriptionId: string,
    outcome: 'success' | 'failure' | 'triggered',
    deliveryId = '',
    trace = '',
  ): Promise<ScriptReply<'record_delivery_outcome'>> {
    const tag = tagOfWebhookId(subscriptionId, this.redis.partitions);
    return tag === undefined
      ? { status: 'GONE' }
      : this.redis.scripts.call(
          'record_delivery_outcome',
          { subscription: webhookKey(tag, subscriptionId) },
          { subscriptionId, outcome, deliveryId, trace },
        );
  }

  private tallyOf(subscriptionId: string): Tally {
    let tally = this.tallies.get(subscriptionId);
    if (tally === undefined) {
      tally = {
        pending: undefined,
        writtenAt: Number.NEGATIVE_INFINITY,
        failures: 0,
        writing: Promise.resolve(),
      };
      this.tallies.set(subscriptionId, tally);
    }
    return tally;
  }
}
