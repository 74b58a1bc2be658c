import { Injectable } from '@nestjs/common';
import { toEvent } from '../../events/index.js';
import {
  deliveryKey,
  dispatchLeaseKey,
  eventLogKey,
  laneKey,
  lanesKey,
  RedisService,
  retryingKey,
  toStoreError,
  type Reply,
} from '../../redis/index.js';
import { isRef, OutgoingEvent, partsOfRef, type Delivery, type DeliveryPlace } from './delivery.js';

/** Deliveries that one script reads with their events: about a millisecond. */
const READ_AT_ONCE = 25;
/** Names of ordered queues that are read from Redis at a time. */
const NAMES_A_READ = 500;
const LOOK_FIELDS = 10;

/** One event of the log as it was read. */
export interface LogEntry {
  readonly entryId: string;
  /** By the short names of lua/lib/append_event.lua; empty when the entry was deleted. */
  readonly fields: ReadonlyMap<string, string>;
}

/** What one look at a partition found, as lua/webhooks/dispatch_page.lua tells it. */
export interface DispatchLook {
  /** Redis' time. */
  readonly nowMs: number;
  readonly lease: 'renewed' | 'taken' | 'none';
  readonly lag: number;
  /** When the oldest event was written that is not acknowledged; undefined when all are. */
  readonly oldestMs: number | undefined;
  /** Ordered queues that are not empty. */
  readonly queues: number;
  readonly retrying: number;
  readonly leftOver: number;
  /** The last event that was read for the group. */
  readonly lastRead: string;
  /** Whether there may be more events behind these. */
  readonly more: boolean;
  readonly entries: readonly LogEntry[];
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
        this.redis.client.sscan(lanesKey(tag), place, 'COUNT', NAMES_A_READ),
      );
      found.forEach((name) => names.add(name));
      place = next;
    } while (place !== '0');
    return [...names];
  }

  /** The first deliveries of an ordered queue. @throws StoreUnavailable */
  firstOf(tag: string, queueName: string, limit: number): Promise<string[]> {
    return orStoreError(this.redis.client.lrange(laneKey(tag, queueName), 0, limit - 1));
  }

  /** Deliveries with their events, in the order of the refs. @throws StoreUnavailable */
  async read(partition: { code: string; tag: string }, refs: readonly string[]): Promise<Delivery[]> {
    const deliveries: Delivery[] = [];
    while (deliveries.length < refs.length) {
      const reply = await this.redis.scripts.run(
        'read_deliveries',
        [eventLogKey(partition.tag)],
        refs.slice(deliveries.length, deliveries.length + READ_AT_ONCE),
      );
      this.clock.set(Number(reply[1]));
      deliveries.push(...deliveriesOf(reply, partition));
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
    const [word, now, next, ...entries] = await this.redis.scripts.run(
      'due_retries',
      [dispatchLeaseKey(tag), retryingKey(tag)],
      [token, first, limit],
    );
    if (word !== 'DUE') {
      return undefined;
    }
    const nowMs = Number(now);
    this.clock.set(nowMs);
    const due: DueRetry[] = [];
    for (let index = 0; index < entries.length; index += 2) {
      due.push({ ref: entries[index] as string, dueForMs: nowMs - Number(entries[index + 1]) });
    }
    return { due, nextInMs: next === '' ? Number.POSITIVE_INFINITY : Number(next) - nowMs };
  }

  /** @throws StoreUnavailable, also when Redis is full. */
  async planRetry(tag: string, ref: string, retryInMs: number): Promise<void> {
    await this.redis.scripts.run('plan_retry', [deliveryKey(tag, ref)], [ref, retryInMs]);
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

/** @returns undefined when the reply says that the lease is not ours. */
export function dispatchLookOf(reply: Reply): DispatchLook | undefined {
  const [word, nowMs, lease, lag, oldestMs, queues, retrying, leftOver, lastRead = '', more] = reply;
  if (word !== 'HELD') {
    return undefined;
  }
  const entries: LogEntry[] = [];
  for (let index = LOOK_FIELDS; index < reply.length;) {
    const entryId = reply[index] as string;
    const [fields, next] = readFields(reply, index + 1);
    entries.push({ entryId, fields });
    index = next;
  }
  return {
    nowMs: Number(nowMs),
    lease: lease as DispatchLook['lease'],
    lag: Number(lag),
    oldestMs: oldestMs === '' ? undefined : Number(oldestMs),
    queues: Number(queues),
    retrying: Number(retrying),
    leftOver: Number(leftOver),
    lastRead,
    more: more === '1',
    entries,
  };
}

/** The reply of lua/webhooks/read_deliveries.lua. Deliveries of one event are in queues of their own, so they share nothing here. */
function deliveriesOf(reply: Reply, { code, tag }: { code: string; tag: string }): Delivery[] {
  const nowMs = Number(reply[1]);
  const deliveries: Delivery[] = [];
  for (let index = 2; index < reply.length;) {
    const [ref = '', status = '', attempts, createdMs, nextRetryMs = ''] = reply.slice(index, index + 5);
    const [fields, next] = readFields(reply, index + 5);
    const place: DeliveryPlace = { partition: code, ref };
    const { entryId, subscriptionId } = isRef(ref) ? partsOfRef(ref) : { entryId: '', subscriptionId: '' };
    deliveries.push({
      ...place,
      tag,
      subscriptionId,
      tenant: fields.get('tn') ?? '',
      status: isRef(ref) ? status : '',
      attempts: Number(attempts),
      createdMs: Number(createdMs),
      dueInMs: nextRetryMs === '' ? 0 : Math.max(0, Number(nextRetryMs) - nowMs),
      event:
        entryId === '' || fields.size === 0
          ? undefined
          : new OutgoingEvent(toEvent(code, entryId, fields), fields),
    });
    index = next;
  }
  return deliveries;
}

/** A count at `index` and so many pairs behind it; and where the next thing starts. */
function readFields(reply: Reply, index: number): [fields: ReadonlyMap<string, string>, next: number] {
  const fields = new Map<string, string>();
  const end = index + 1 + 2 * Number(reply[index]);
  for (let at = index + 1; at < end; at += 2) {
    fields.set(reply[at] as string, reply[at + 1] as string);
  }
  return [fields, end];
}
