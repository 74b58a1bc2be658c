import { Inject, Injectable } from '@nestjs/common';
import {
  orStoreError,
  outcomesKey,
  RedisService,
  type ScriptReply,
  StoreUnavailable,
  tagOf,
  tagOfWebhookId,
  webhookKey,
} from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { type Delivery, deliveryIdOf, readDeliveries } from './delivery.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';
import { MAINTENANCE_METRICS } from '../../worker/index.js';

/** Failures that have been in the index for this long were left uncounted by a process that died. */
const RECOVER_AFTER_MS = 30_000;
/** How many entries of an index are counted at a time. The next beat continues. */
const RECOVERED_AT_ONCE = 100;

/** What the script is told of one. */
interface FailedDelivery {
  readonly deliveryId: string;
  readonly trace: string;
  readonly requestId: string;
  readonly responseStatus: number | '';
}

/** Subscriptions whose counts are written at the same time. */
const WRITTEN_AT_ONCE = 100;

/**
 * Counts the outcomes of deliveries in their subscriptions. Successes are combined, so a busy endpoint costs one write a second. A failure
 * is written at once, and stays in the partition's outcomes index until then, so a crash loses none.
 */
@Injectable()
export class SubscriptionTally {
  /** What to write since the last failure, by subscription. A success overrides a trigger. */
  private readonly pending = new Map<string, 'success' | 'triggered'>();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /** Notes an attempt that succeeded, or one that will be retried. */
  note(subscriptionId: string, what: 'success' | 'triggered'): void {
    if (what === 'success' || !this.pending.has(subscriptionId)) {
      this.pending.set(subscriptionId, what);
    }
  }

  /** Writes what was noted. Called about once a second, and before the process ends. Never rejects. */
  async flush(): Promise<void> {
    const subscriptions = [...this.pending.keys()];
    for (let start = 0; start < subscriptions.length; start += WRITTEN_AT_ONCE) {
      await Promise.all(subscriptions.slice(start, start + WRITTEN_AT_ONCE).map((id) => this.write(id)));
    }
  }

  /**
   * Counts a delivery that has no attempts left, after writing what was noted before it.
   * @param responseStatus the endpoint's answer to the last attempt
   * @returns false if that could not be written. It is then left to `recover`.
   * @throws StoreUnavailable if it was counted but could not be removed from the outcomes index.
   */
  async failed(delivery: Delivery, responseStatus: number | undefined): Promise<boolean> {
    const { subscriptionId, partition, ref, event } = delivery;
    await this.write(subscriptionId);
    const reply = await this.record(subscriptionId, 'failure', {
      deliveryId: deliveryIdOf(delivery),
      trace: event?.trace ?? '',
      requestId: event?.signed.requestId ?? '',
      responseStatus: responseStatus ?? '',
    });
    if (reply === undefined) {
      return false;
    }
    if (reply.status === 'DISABLED') {
      this.metrics.of(WEBHOOK_METRICS).disabled.inc({ tenant: reply.owner, reason: reply.reason });
      this.logger.warn(
        { subscription_id: subscriptionId, tenant_id: reply.owner, reason: reply.reason },
        'a webhook subscription is disabled: it failed too often in a row, or its endpoint is gone',
      );
    }
    await orStoreError(this.redis.client.zrem(outcomesKey(tagOf(partition)), ref));
    return true;
  }

  /**
   * Counts failures that a dead process left uncounted, the oldest first. One that cannot be counted moves back in the index, so that it
   * does not stand before others.
   * @throws StoreUnavailable immediately; the first other error after all entries were tried
   */
  async recover(partition: DispatchPartition): Promise<void> {
    const index = outcomesKey(partition.tag);
    const nowMs = Math.floor(partition.nowMs());
    const overdueMs = nowMs - RECOVER_AFTER_MS;
    const refs = await orStoreError(
      this.redis.client.zrangebyscore(index, '-inf', overdueMs, 'LIMIT', 0, RECOVERED_AT_ONCE),
    );
    const errors: unknown[] = [];
    for (const ref of refs) {
      const isCounted = await this.recoverOne(partition, ref).catch((error: unknown) => {
        if (error instanceof StoreUnavailable) {
          throw error;
        }
        errors.push(error);
        return false;
      });
      if (!isCounted) {
        // Without memory for that, it is tried again at the next beat.
        await this.redis.client.zadd(index, 'XX', nowMs, ref).catch(() => undefined);
      }
    }
    if (errors.length > 0) {
      throw errors[0];
    }
  }

  /** @returns whether the entry has left the index */
  private async recoverOne({ tag, code }: DispatchPartition, ref: string): Promise<boolean> {
    const [delivery] = await readDeliveries(this.redis, code, [ref]);
    if (delivery === undefined || delivery.status === '') {
      const forgotten = await orStoreError(this.redis.client.zrem(outcomesKey(tag), ref));
      this.metrics.of(MAINTENANCE_METRICS).trimmed.inc(forgotten);
      return true;
    }
    this.metrics.of(WEBHOOK_METRICS).recoveries.inc({ kind: 'outcome' });
    return this.failed(delivery, delivery.responseStatus);
  }

  private async write(subscriptionId: string): Promise<void> {
    const what = this.pending.get(subscriptionId);
    this.pending.delete(subscriptionId);
    if (what !== undefined && (await this.record(subscriptionId, what)) === undefined) {
      this.note(subscriptionId, what);
    }
  }

  /** @returns undefined if it could not be written */
  private async record(
    subscriptionId: string,
    outcome: 'success' | 'failure' | 'triggered',
    failure: FailedDelivery = { deliveryId: '', trace: '', requestId: '', responseStatus: '' },
  ): Promise<ScriptReply<'record_delivery_outcome'> | undefined> {
    const tag = tagOfWebhookId(subscriptionId, this.redis.partitions);
    if (tag === undefined) {
      return { status: 'GONE' };
    }
    try {
      return await this.redis.scripts.call(
        'record_delivery_outcome',
        { subscription: webhookKey(tag, subscriptionId) },
        { subscriptionId, outcome, ...failure },
      );
    } catch (error) {
      this.logger.debug(
        { err: error },
        'an outcome could not be written to its subscription; it will be retried',
      );
      return undefined;
    }
  }
}
