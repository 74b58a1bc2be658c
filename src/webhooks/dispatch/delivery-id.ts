import { eventIdOf, eventPlaceOf } from '../../events/index.js';

/** Where a delivery's record is: its partition, and the ref that lua/lib/delivery.lua names it by. */
export interface DeliveryPlace {
  /** Two hex digits, as in the partition's hash tag. */
  readonly partition: string;
  readonly ref: string;
}

/** The parts of a ref. */
export interface DeliveryRef {
  readonly entryId: string;
  readonly subscriptionId: string;
  /** Of the replay that repeats the delivery. */
  readonly replayId?: string;
}

const REF = /^(\d+-\d+):(whsub_[0-9a-f]{2}[0-9A-Za-z]{16})(?::(?:rpl_)?([0-9A-Za-z]+))?$/;
const DELIVERY_ID = /^dlv_([0-9a-f]{16,29})_([0-9a-f]{2}[0-9A-Za-z]{16})(?:_([0-9A-Za-z]+))?$/;

export function isRef(text: string): boolean {
  return REF.test(text);
}

/** @throws Error when it is none. */
export function partsOfRef(ref: string): DeliveryRef {
  const [, entryId, subscriptionId, replay] = REF.exec(ref) ?? [];
  if (entryId === undefined || subscriptionId === undefined) {
    throw new Error(`not a delivery: ${ref}`);
  }
  return { entryId, subscriptionId, ...(replay === undefined ? {} : { replayId: `rpl_${replay}` }) };
}

/**
 * The public id of a delivery: `dlv_` and what its event's id, its subscription's id and its replay's id have after their prefixes.
 * So nothing has to be stored to name a delivery or to find it again, and a repetition of the same delivery has the same id.
 * @throws Error when the ref is none.
 */
export function deliveryIdOf({ partition, ref }: DeliveryPlace): string {
  const { entryId, subscriptionId, replayId } = partsOfRef(ref);
  const parts = [
    eventIdOf({ partition, entryId }),
    subscriptionId,
    ...(replayId === undefined ? [] : [replayId]),
  ];
  return `dlv_${parts.map((id) => id.slice(id.indexOf('_') + 1)).join('_')}`;
}

/** Where the delivery is, or undefined when Holdfast never issued such an id. */
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
