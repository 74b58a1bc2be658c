import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { type CyclesEvent, eventPlaceOf } from '../../events/index.js';
import {
  deliveryKey,
  eventLogKey,
  RedisService,
  StoreUnavailable,
  tagOf,
  toStoreError,
} from '../../redis/index.js';
import { MaintenanceMetrics } from '../../telemetry/index.js';

/** Events that one script queues: about a millisecond of Redis' time. */
const EVENTS_A_RUN = 100;
const DAY_MS = 86_400_000;

/** A delivery by its place: the partition's two hex digits, and its ref. */
export type QueuedDelivery = readonly [partition: string, ref: string];

export interface Queued {
  readonly count: number;
  /** The deliveries that stand last in their lanes: when none of them waits any more, none of the replay does. */
  readonly last: readonly QueuedDelivery[];
}

/** Puts events into a subscription's lanes once more, behind whatever waits there, and tells when they are through. */
@Injectable()
export class ReplayQueue {
  private readonly retentionMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly maintenance: MaintenanceMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.retentionMs = config.webhookDeliveryRetentionDays * DAY_MS;
  }

  /**
   * Queues the events, each partition's in their order. When the store fails on the way, what was queued until then stays so and is told.
   * @throws StoreUnavailable when nothing was queued
   */
  async queue(subscriptionId: string, replayId: string, events: readonly CyclesEvent[]): Promise<Queued> {
    const last = new Map<string, QueuedDelivery>();
    let count = 0;
    try {
      for (const { partition, entryIds } of runsOf(events)) {
        for (let done = 0; done < entryIds.length;) {
          const [, forgotten, taken, ...made] = await this.redis.scripts.run(
            'replay_events',
            [eventLogKey(tagOf(partition))],
            [subscriptionId, replayId, this.retentionMs, ...entryIds.slice(done)],
          );
          done += Number(taken);
          this.maintenance.trimmedEntries(Number(forgotten));
          count += made.length / 2;
          for (let index = 0; index < made.length; index += 2) {
            last.set(`${partition} ${made[index + 1]}`, [partition, made[index] as string]);
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
    try {
      const found = await Promise.all(
        deliveries.map(([partition, ref]) =>
          this.redis.client.hget(deliveryKey(tagOf(partition), ref), 'st'),
        ),
      );
      return found.includes('PENDING');
    } catch (error) {
      throw toStoreError(error);
    }
  }
}

interface Run {
  readonly partition: string;
  readonly entryIds: string[];
}

/** Events of one partition stand together, in their order and in portions. */
function runsOf(events: readonly CyclesEvent[]): Run[] {
  const runs: Run[] = [];
  const open = new Map<string, Run>();
  for (const { event_id: eventId } of events) {
    const place = eventPlaceOf(eventId);
    if (place === undefined) {
      throw new Error(`not the id of an event: ${eventId}`);
    }
    let run = open.get(place.partition);
    if (run === undefined || run.entryIds.length === EVENTS_A_RUN) {
      run = { partition: place.partition, entryIds: [] };
      open.set(place.partition, run);
      runs.push(run);
    }
    run.entryIds.push(place.entryId);
  }
  return runs;
}
