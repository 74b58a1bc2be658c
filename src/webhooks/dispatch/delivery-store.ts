import { Injectable } from '@nestjs/common';
import { toEvent } from '../../events/index.js';
import { eventLogKey, laneKey, lanesKey, RedisService, toStoreError } from '../../redis/index.js';
import { isRef } from './delivery-id.js';
import type { Delivery, DeliveryAddress } from './delivery.js';
import { OutgoingEvent } from './outgoing-event.js';
import { type LogEntry, storedDeliveriesOf, type StoredDelivery } from './page.js';
import { RedisClock } from './redis-clock.js';

/** Lanes that are read from Redis at a time. */
const LANES_A_READ = 500;

export interface StoredRetry {
  readonly delivery: Delivery;
  readonly status: string;
  /** How long until its next attempt is due; 0 when it is. */
  readonly dueInMs: number;
}

/** What Redis knows of deliveries and lanes. */
@Injectable()
export class DeliveryStore {
  readonly clock = new RedisClock();

  constructor(private readonly redis: RedisService) {}

  /** The lanes of a partition that are not empty. @throws StoreUnavailable */
  async lanesOf(tag: string): Promise<string[]> {
    const lanes = new Set<string>();
    let place = '0';
    do {
      const [next, found] = await this.asked(
        this.redis.client.sscan(lanesKey(tag), place, 'COUNT', LANES_A_READ),
      );
      for (const lane of found) {
        lanes.add(lane);
      }
      place = next;
    } while (place !== '0');
    return [...lanes];
  }

  /** The first deliveries of a lane. @throws StoreUnavailable */
  async refsOf(tag: string, lane: string, limit: number): Promise<string[]> {
    return this.asked(this.redis.client.lrange(laneKey(tag, lane), 0, limit - 1));
  }

  /** Deliveries with their events. @throws StoreUnavailable */
  async read(of: Omit<DeliveryAddress, 'ref'>, refs: readonly string[]): Promise<Delivery[]> {
    return refs.length === 0 ? [] : (await this.readStored(of, refs)).map(({ delivery }) => delivery);
  }

  /** One delivery that is to be tried again. @throws StoreUnavailable */
  async readRetry(of: DeliveryAddress): Promise<StoredRetry> {
    const [stored] = await this.readStored(of, [of.ref]);
    return stored as StoredRetry;
  }

  /** A delivery in whatever state; the status is empty when there is none. @throws StoreUnavailable */
  async find({ tag, ref }: Omit<DeliveryAddress, 'tenant'>): Promise<{
    status: string;
    dueInMs: number;
    tenant: string;
    trace: string;
  }> {
    const { nowMs, deliveries } = storedDeliveriesOf(
      await this.redis.scripts.run('read_deliveries', [eventLogKey(tag)], [ref]),
    );
    const [{ status, nextRetryMs = 0, fields }] = deliveries as [StoredDelivery];
    return {
      status,
      dueInMs: Math.max(0, nextRetryMs - nowMs),
      tenant: fields.get('tn') ?? '',
      trace: fields.get('tr') ?? '',
    };
  }

  private async readStored(
    of: Omit<DeliveryAddress, 'ref'>,
    refs: readonly string[],
  ): Promise<StoredRetry[]> {
    const deliveries: StoredDelivery[] = [];
    let nowMs = 0;
    while (deliveries.length < refs.length) {
      const reply = await this.redis.scripts.run(
        'read_deliveries',
        [eventLogKey(of.tag)],
        refs.slice(deliveries.length),
      );
      const portion = storedDeliveriesOf(reply);
      nowMs = portion.nowMs;
      deliveries.push(...portion.deliveries);
    }
    this.clock.tell(nowMs);
    // Deliveries of one event to several subscriptions are in lanes of their own, so there is nothing to share here.
    return deliveries.map(({ ref, status, attempts, createdMs, nextRetryMs = 0, fields }) => {
      const ended = !isRef(ref) || (status !== 'PENDING' && status !== 'RETRYING');
      const event =
        ended || fields.size === 0
          ? undefined
          : outgoingOf(of.partition, { entryId: ref.slice(0, ref.indexOf(':')), fields });
      return {
        delivery: { ...of, ref, createdMs, attempts, event, ended },
        status,
        dueInMs: Math.max(0, nextRetryMs - nowMs),
      };
    });
  }

  private async asked<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      throw toStoreError(error);
    }
  }
}

function outgoingOf(partition: string, entry: LogEntry): OutgoingEvent {
  return new OutgoingEvent(toEvent(partition, entry.entryId, entry.fields), entry);
}
