import { Injectable } from '@nestjs/common';
import { toEvent } from '../../events/index.js';
import {
  deliveryKey,
  dispatchLeaseKey,
  eventLogKey,
  orderedQueueKey,
  orderedQueuesKey,
  RedisService,
  retryingKey,
  toStoreError,
  type ScriptAnswer,
  type ScriptReply,
} from '../../redis/index.js';
import { isRef, OutgoingEvent, partsOfRef, type Delivery } from './delivery.js';

/** Deliveries that one script reads with their events: about a millisecond. */
const READ_AT_ONCE = 25;
/** Names of ordered queues that are read from Redis at a time. */
const NAMES_A_READ = 500;

/** What a look at a partition found, as lua/webhooks/dispatch_page.lua describes it. */
export type DispatchLook = ScriptAnswer<'dispatch_page', 'HELD'>;
/** One event of the log as it was read; `event` is empty when the entry was deleted. */
export type LogEntry = DispatchLook['events'][number];

type StoredDelivery = ScriptReply<'read_deliveries'>['deliveries'][number];

interface PartitionName {
  readonly code: string;
  readonly tag: string;
}

export interface DueRetry {
  readonly ref: string;
  readonly dueForMs: number;
}

export interface DueRetries {
  /** Oldest first. */
  readonly due: readonly DueRetry[];
  /** How long until the next one is due; infinite when there is none. */
  readonly nextInMs: number;
}

/**
 * Redis' time between two of its answers: the last one it told, and what has passed since by the monotonic clock. Good for ages of
 * minutes and hours; what must be exact asks Redis.
 */
class RedisClock {
  private redisMs = 0;
  private at = 0;

  set(redisMs: number): void {
    this.redisMs = redisMs;
    this.at = performance.now();
  }

  nowMs(): number {
    return this.redisMs + performance.now() - this.at;
  }
}

/** What Redis knows of deliveries, ordered queues and retries. */
@Injectable()
export class DeliveryStore {
  readonly clock = new RedisClock();

  constructor(private readonly redis: RedisService) {}

  /** The ordered queues of a partition that are not empty. @throws StoreUnavailable */
  async queueNames(tag: string): Promise<string[]> {
    const names = new Set<string>();
    let place = '0';
    do {
      const [next, found] = await orStoreError(
        this.redis.client.sscan(orderedQueuesKey(tag), place, 'COUNT', NAMES_A_READ),
      );
      found.forEach((name) => names.add(name));
      place = next;
    } while (place !== '0');
    return [...names];
  }

  /** The first deliveries of an ordered queue. @throws StoreUnavailable */
  firstOf(tag: string, queueName: string, limit: number): Promise<string[]> {
    return orStoreError(this.redis.client.lrange(orderedQueueKey(tag, queueName), 0, limit - 1));
  }

  /** Deliveries with their events, in the order of the refs. @throws StoreUnavailable */
  async read(partition: PartitionName, refs: readonly string[]): Promise<Delivery[]> {
    const deliveries: Delivery[] = [];
    while (deliveries.length < refs.length) {
      const reply = await this.redis.scripts.call(
        'read_deliveries',
        { eventLog: eventLogKey(partition.tag) },
        { rest: refs.slice(deliveries.length, deliveries.length + READ_AT_ONCE) },
      );
      this.clock.set(reply.nowMs);
      deliveries.push(...reply.deliveries.map((stored) => deliveryOf(stored, partition, reply.nowMs)));
    }
    return deliveries;
  }

  /** @param first a rank @returns undefined when the lease is another's @throws StoreUnavailable */
  async dueRetries(
    tag: string,
    token: string,
    first: number,
    limit: number,
  ): Promise<DueRetries | undefined> {
    const reply = await this.redis.scripts.call(
      'due_retries',
      { lease: dispatchLeaseKey(tag), retrying: retryingKey(tag) },
      { token, first, limit },
    );
    if (reply.status === 'NOT_HELD') {
      return undefined;
    }
    const { nowMs, nextDueMs = Number.POSITIVE_INFINITY } = reply;
    this.clock.set(nowMs);
    const due = reply.due.map(({ ref, dueMs }) => ({ ref, dueForMs: nowMs - dueMs }));
    return { due, nextInMs: nextDueMs - nowMs };
  }

  /** @throws StoreUnavailable, also when Redis is full. */
  async planRetry(tag: string, ref: string, retryInMs: number): Promise<void> {
    await this.redis.scripts.call('plan_retry', { delivery: deliveryKey(tag, ref) }, { ref, retryInMs });
  }

  /** Removes an entry that stands for nothing from an index. Returns how many there were. @throws StoreUnavailable */
  forget(index: string, ref: string): Promise<number> {
    return orStoreError(this.redis.client.zrem(index, ref));
  }
}

export async function orStoreError<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw toStoreError(error);
  }
}

/** Deliveries of one event are in queues of their own, so they share nothing of it here. */
function deliveryOf(
  { ref, status = '', attempts = 0, createdMs = 0, nextRetryMs = 0, event }: StoredDelivery,
  { code, tag }: PartitionName,
  nowMs: number,
): Delivery {
  const { entryId, subscriptionId } = isRef(ref) ? partsOfRef(ref) : { entryId: '', subscriptionId: '' };
  const isGone = entryId === '' || event.size === 0;
  return {
    partition: code,
    tag,
    ref,
    subscriptionId,
    tenant: event.get('tn') ?? '',
    status: isRef(ref) ? status : '',
    attempts,
    createdMs,
    dueInMs: Math.max(0, nextRetryMs - nowMs),
    event: isGone ? undefined : new OutgoingEvent(toEvent(code, entryId, event), event),
  };
}
