import { eventIdOf, eventJson, toEvent, traceOf } from '../../events/index.js';
import { eventLogKey, type RedisService, tagOf } from '../../redis/index.js';
import type { SignedEvent } from '../signing/signing.js';

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

/** Undefined when the text is no ref. */
export function refOf(text: string): DeliveryRef | undefined {
  const [, entryId, subscriptionId, replay] = REF.exec(text) ?? [];
  return entryId === undefined || subscriptionId === undefined
    ? undefined
    : { entryId, subscriptionId, ...(replay === undefined ? {} : { replayId: `rpl_${replay}` }) };
}

/** @throws Error when it is none. */
export function partsOfRef(text: string): DeliveryRef {
  const ref = refOf(text);
  if (ref === undefined) {
    throw new Error(`not a delivery: ${text}`);
  }
  return ref;
}

/**
 * The public id of a delivery: `dlv_` and what its event's id, its subscription's id and its replay's id have after their prefixes.
 * So nothing has to be stored to name a delivery or to find it again, and a repetition of the same delivery has the same id.
 * @throws Error when the ref is none.
 */
export function deliveryIdOf({ partition, ref }: DeliveryPlace): string {
  const { entryId, subscriptionId, replayId } = partsOfRef(ref);
  const ids = [eventIdOf({ partition, entryId }), subscriptionId, replayId];
  return `dlv_${ids.flatMap((id) => id?.slice(id.indexOf('_') + 1) ?? []).join('_')}`;
}

/** A delivery whose turn it is. */
export interface Delivery extends DeliveryPlace {
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

/** The event that a delivery carries. */
export interface OutgoingEvent {
  readonly signed: SignedEvent;
  /** As the log holds it: trace id and flags, or empty. */
  readonly trace: string;
  /** The exact bytes that are sent and signed. */
  readonly body: Buffer;
}

function outgoing(partition: string, entryId: string, fields: ReadonlyMap<string, string>): OutgoingEvent {
  const event = toEvent(partition, entryId, fields);
  const trace = traceOf(fields);
  return {
    signed: {
      eventId: event.event_id,
      eventType: event.event_type,
      traceId: trace?.traceId,
      traceFlags: trace?.flags,
      requestId: event.request_id,
    },
    trace: fields.get('tr') ?? '',
    body: Buffer.from(eventJson(event), 'utf8'),
  };
}

/** Deliveries that one script reads with their events: about a millisecond. */
const READ_AT_ONCE = 25;

/** Deliveries with their events, in the order of the refs. What is no ref is told like a delivery that is gone. @throws StoreUnavailable */
export async function readDeliveries(
  { scripts }: RedisService,
  partition: string,
  refs: readonly string[],
): Promise<Delivery[]> {
  const deliveries: Delivery[] = [];
  while (deliveries.length < refs.length) {
    const { nowMs, deliveries: stored } = await scripts.call(
      'read_deliveries',
      { eventLog: eventLogKey(tagOf(partition)) },
      { rest: refs.slice(deliveries.length, deliveries.length + READ_AT_ONCE) },
    );
    for (const { ref, status = '', attempts = 0, createdMs = 0, nextRetryMs = 0, event } of stored) {
      const parts = refOf(ref);
      const isGone = parts === undefined || event.size === 0;
      deliveries.push({
        partition,
        ref,
        subscriptionId: parts?.subscriptionId ?? '',
        tenant: event.get('tn') ?? '',
        status: parts === undefined ? '' : status,
        attempts,
        createdMs,
        dueInMs: Math.max(0, nextRetryMs - nowMs),
        event: isGone ? undefined : outgoing(partition, parts.entryId, event),
      });
    }
  }
  return deliveries;
}
