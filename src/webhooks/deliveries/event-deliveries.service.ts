import { Inject, Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { EventsService, eventPlaceOf } from '../../events/index.js';
import {
  eventLogKey,
  Records,
  RedisService,
  SkippedRecords,
  SYSTEM_OWNER,
  tagOf,
} from '../../redis/index.js';
import { fieldOf, type Fields } from '../../wire/index.js';
import { deliveryIdOf, type DeliveryPlace } from '../dispatch/delivery.js';
import { type Delivery, deliveryOf } from './deliveries.service.js';

export type EventDeliveries = Answer<'EventDeliveryList'>;

/** Records that one script reads: less than a millisecond of Redis' time. */
const READ_AT_ONCE = 100;

/**
 * Who was told of an event. The ref of a delivery names its event and its subscription, so each subscription costs one read, however many
 * deliveries it has. Replays have refs of their own, and are not looked for.
 */
@Injectable()
export class EventDeliveriesService {
  constructor(
    private readonly events: EventsService,
    private readonly records: Records,
    private readonly skipped: SkippedRecords,
    private readonly redis: RedisService,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /** @throws Refusal EVENT_NOT_FOUND; StoreUnavailable */
  async list(eventId: string): Promise<EventDeliveries> {
    const { tenant_id: tenant, timestamp } = await this.events.get(eventId);
    const { partition, entryId } = eventPlaceOf(eventId) as { partition: string; entryId: string };
    const urls = new Map<string, string>();
    for (const owner of new Set([tenant, SYSTEM_OWNER])) {
      await this.records.eachOwned('list_webhooks', owner, (fields) =>
        urls.set(fieldOf(fields, 'id'), fields.get('ur') ?? ''),
      );
    }
    const refs = [...urls.keys()].map((id) => `${entryId}:${id}`);
    const deliveries: (Delivery & { readonly url: string })[] = [];
    for (let from = 0; from < refs.length; from += READ_AT_ONCE) {
      const { records } = await this.redis.queries.call(
        'read_delivery_records',
        { eventLog: eventLogKey(tagOf(partition)) },
        { rest: refs.slice(from, from + READ_AT_ONCE) },
      );
      for (const { ref, record } of records) {
        const delivery = record.size === 0 ? undefined : this.deliveryOf({ partition, ref }, record);
        if (delivery !== undefined) {
          deliveries.push({ ...delivery, url: urls.get(delivery.subscription_id) ?? '' });
        }
      }
    }
    const ageMs = this.redis.clock.nowMs() - Date.parse(timestamp);
    const stillKept = ageMs < this.config.webhookDeliveryRetentionMs;
    return { deliveries, subscriptions_looked_at: urls.size, still_kept: stillKept };
  }

  private deliveryOf(place: DeliveryPlace, fields: Fields): Delivery | undefined {
    const stored = { ref: place.ref, partition: Number.parseInt(place.partition, 16) };
    return this.skipped.whole('delivery', deliveryIdOf(place), () =>
      deliveryOf({ ...stored, createdMs: Number(fieldOf(fields, 'ca')), fields }),
    );
  }
}
