import { eventPlaceOf } from '../../src/events/index.js';
import type { DeliveryPlace } from '../../src/webhooks/dispatch/delivery.js';

const DELIVERY_ID = /^dlv_([0-9a-f]{16,29})_([0-9a-f]{2}[0-9A-Za-z]{16})(?:_([0-9A-Za-z]+))?$/;

/** Where the delivery is stored, or undefined if the id is not one that Holdfast issues. */
export function deliveryPlaceOf(deliveryId: string): DeliveryPlace | undefined {
  const [, event, subscription, replay] = DELIVERY_ID.exec(deliveryId) ?? [];
  const place = event === undefined ? undefined : eventPlaceOf(`evt_${event}`);
  if (place === undefined || subscription === undefined) {
    return undefined;
  }
  const ref = [
    place.entryId,
    `whsub_${subscription}`,
    ...(replay === undefined ? [] : [`rpl_${replay}`]),
  ].join(':');
  return { partition: place.partition, ref };
}
