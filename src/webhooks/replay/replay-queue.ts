import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { type CyclesEvent, eventPlaceOf } from '../../events/index.js';
import {
  deliveryKey,
  eventLogKey,
  orStoreError,
  RedisService,
  StoreUnavailable,
  tagOf,
} from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { MAINTENANCE_METRICS } from '../../worker/index.js';

/** Events that one script queues: about a millisecond of Redis' time. */
const EVENTS_A_RUN = 100;

/** A delivery by its place: the partition's two hex digits, and its ref. */
export interface QueuedDelivery {
  readonly partition: string;
  readonly ref: string;
}

export interface Queued {
  readonly count: number;
  /** The last delivery in each ordered queue. Once none of them is waiting, no delivery of the replay is. */
  readonly last: readonly QueuedDelivery[];
}

/** Queues events again in a subscription's ordered queues, and checks whether any of them is still waiting. */
@Injectable()
export class ReplayQueue {
  private readonly retentionMs: number = this.config.webhookDeliveryRetentionMs;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Queues the events, keeping each partition's order. If the store fails partway, what is already queued stays queued and is counted.
   * @throws StoreUnavailable if nothing was queued
   */
  async queue(
    subscriptionId: string,
    replayId: string,
    events: readonly Pick<CyclesEvent, 'event_id'>[],
  ): Promise<Queued> {
    const last = new Map<string, QueuedDelivery>();
    let count = 0;
    try {
      for (const { partition, entryIds } of batchesOf(events)) {
        for (let done = 0; done < entryIds.length;) {
          const { forgotten, taken, deliveries } = await this.redis.scripts.call(
            'replay_events',
            { eventLog: eventLogKey(tagOf(partition)) },
            { subscriptionId, replayId, retentionMs: this.retentionMs, rest: entryIds.slice(done) },
          );
          done += taken;
          this.metrics.of(MAINTENANCE_METRICS).trimmed.inc(forgotten);
          count += deliveries.length;
          for (const { ref, tenant } of deliveries) {
            last.set(`${partition} ${tenant}`, { partition, ref });
          }
        }
      }
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || count === 0) {
        throw error;
      }
    }
    return { count, last: [...last.values()] };
  }

  /** Whether one of these deliveries still waits for its first attempt. @throws StoreUnavailable */
  async isWaiting(deliveries: readonly QueuedDelivery[]): Promise<boolean> {
    const found = deliveries.map(({ partition, ref }) =>
      this.redis.client.hget(deliveryKey(tagOf(partition), ref), 'st'),
    );
    return (await orStoreError(Promise.all(found))).includes('PENDING');
  }
}

interface Batch {
  readonly partition: string;
  readonly entryIds: string[];
}

/** Groups the events by partition, in order, into batches that one script takes. */
function batchesOf(events: readonly Pick<CyclesEvent, 'event_id'>[]): Batch[] {
  const batches: Batch[] = [];
  const open = new Map<string, Batch>();
  for (const { event_id: eventId } of events) {
    const place = eventPlaceOf(eventId);
    if (place === undefined) {
      throw new Error(`not an event id: ${eventId}`);
    }
    let batch = open.get(place.partition);
    if (batch === undefined || batch.entryIds.length === EVENTS_A_RUN) {
      batch = { partition: place.partition, entryIds: [] };
      open.set(place.partition, batch);
      batches.push(batch);
    }
    batch.entryIds.push(place.entryId);
  }
  return batches;
}
