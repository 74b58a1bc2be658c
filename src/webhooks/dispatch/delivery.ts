import { eventIdOf, eventJson, eventPlaceOf, toEvent, traceOf } from '../../events/index.js';
import type { SignedEvent } from '../signing/signing.js';
import type { DispatchTarget } from '../subscriptions/dispatch-target.js';

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

/** A delivery whose turn it is. */
export interface Delivery extends DeliveryPlace {
  readonly tag: string;
  readonly subscriptionId: string;
  /** Whose event it is; empty when the event is gone. With the subscription it names the ordered queue. */
  readonly tenant: string;
  /** Empty when there is no such record any more. */
  readonly status: string;
  readonly createdMs: number;
  /** Those that were made and recorded. */
  readonly attempts: number;
  /** How long until its next attempt is due, by Redis' clock; 0 when it is, or when it has not failed yet. */
  readonly dueInMs: number;
  /** Undefined when the event is gone. */
  readonly event: OutgoingEvent | undefined;
}

/** Whether it was settled before, or there is no such delivery. */
export function hasEnded({ status }: Delivery): boolean {
  return status !== 'PENDING' && status !== 'RETRYING';
}

/** The ordered queue that it waits in before its first attempt. */
export function queueNameOf({ subscriptionId, tenant }: Delivery): string {
  return `${subscriptionId}:${tenant}`;
}

/** When its event happened, or when the replay that repeats it was asked for; Redis' time. */
export function bornMs({ ref, createdMs }: Delivery): number {
  const { entryId, replayId } = partsOfRef(ref);
  return replayId === undefined ? Number.parseInt(entryId, 10) : createdMs;
}

/** One event on its way to its subscribers: what is sent to each of them is made once, and nothing else of the event is kept. */
export class OutgoingEvent {
  readonly signed: SignedEvent;
  /** As the log holds it: trace id and flags, or empty. */
  readonly trace: string;
  /** The exact bytes that are sent and signed. */
  readonly body: Buffer;

  constructor(event: ReturnType<typeof toEvent>, fields: ReadonlyMap<string, string>) {
    const trace = traceOf(fields);
    this.signed = {
      eventId: event.event_id,
      eventType: event.event_type,
      traceId: trace?.traceId,
      traceFlags: trace?.flags,
      requestId: event.request_id,
    };
    this.trace = fields.get('tr') ?? '';
    this.body = Buffer.from(eventJson(event), 'utf8');
  }
}

/** A delivery that is still to be queued. */
export interface WantedDelivery {
  readonly entryId: string;
  readonly tenant: string;
  readonly event: OutgoingEvent;
  readonly target: DispatchTarget;
}

export type GivenUpReason = 'event_not_found' | 'subscription_not_found' | 'subscription_inactive' | 'stale';

/** What came of a delivery's turn. */
export type Verdict =
  | { readonly outcome: 'SUCCESS'; readonly durationMs: number; readonly status: number }
  | { readonly outcome: 'RETRYING'; readonly failure: AttemptFailure; readonly retryInMs: number }
  /** The last attempt that its policy allows has failed. */
  | { readonly outcome: 'FAILED'; readonly failure: AttemptFailure }
  /** Nothing was sent, and nothing will be. */
  | { readonly outcome: 'GIVEN_UP'; readonly reason: GivenUpReason; readonly message: string };

export interface AttemptFailure {
  readonly reason: string;
  readonly message: string;
  readonly durationMs: number;
  readonly status?: number | undefined;
}
