import { Injectable } from '@nestjs/common';
import { EventsService, eventPlaceOf } from '../../events/index.js';
import { deliveryKey, Records, SkippedRecords, SYSTEM_OWNER, tagOf } from '../../redis/index.js';
import { fieldOf } from '../../wire/index.js';
import { deliveryIdOf, type DeliveryPlace } from '../dispatch/delivery.js';
import { type Delivery, deliveryOf } from './deliveries.service.js';

export interface EventDeliveries {
  readonly deliveries: readonly (Delivery & { readonly url: string })[];
  readonly subscriptions_looked_at: number;
}

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
  ) {}

  /** @throws Refusal EVENT_NOT_FOUND; StoreUnavailable */
  async list(eventId: string): Promise<EventDeliveries> {
    const { tenant_id: tenant } = await this.events.get(eventId);
    const { partition, entryId } = eventPlaceOf(eventId) as { partition: string; entryId: string };
    const urls = new Map<string, string>();
    for (const owner of new Set([tenant, SYSTEM_OWNER])) {
      await this.records.eachOwned('list_webhooks', owner, (fields) =>
        urls.set(fieldOf(fields, 'id'), fields.get('ur') ?? ''),
      );
    }
    const read = async ([id, url]: readonly [string, string]) => {
      const place = { partition, ref: `${entryId}:${id}` };
      const delivery = await this.read(place);
      return delivery === undefined ? [] : [{ ...delivery, url }];
    };
    const deliveries = (await Promise.all([...urls].map(read))).flat();
    return { deliveries, subscriptions_looked_at: urls.size };
  }

  private async read(place: DeliveryPlace): Promise<Delivery | undefined> {
    const fields = await this.records.read(deliveryKey(tagOf(place.partition), place.ref));
    const stored = { ref: place.ref, partition: Number.parseInt(place.partition, 16) };
    return (
      fields &&
      this.skipped.whole('delivery', deliveryIdOf(place), () =>
        deliveryOf({ ...stored, createdMs: Number(fieldOf(fields, 'ca')), fields }),
      )
    );
  }
}
