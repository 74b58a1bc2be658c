import {
  type CyclesEvent,
  eventIdOf,
  eventJson,
  eventPlaceOf,
  toEvent,
  traceOf,
} from '../../events/index.js';
import { eventLogKey, type RedisService, tagOf } from '../../redis/index.js';
import type { Span } from '../../telemetry/index.js';
import type { SignedEvent } from '../signing/signing.js';

/** Where a delivery's record is: its partition and its ref (see lua/webhooks/lib/delivery_record.lua). */
export interface DeliveryPlace {
  /** Two hex digits, as in the partition's hash tag. */
  readonly partition: string;
  readonly ref: string;
}

/** The parts of a ref. */
export interface DeliveryRef {
  readonly entryId: string;
  readonly subscriptionId: string;
  /** The replay that repeats the delivery. */
  readonly replayId?: string;
}

const REF = /^(\d+-\d+):(whsub_[0-9a-f]{2}[0-9A-Za-z]{16})(?::(?:rpl_)?([0-9A-Za-z]+))?$/;

/** Undefined if the text is not a ref. */
export function refOf(text: string): DeliveryRef | undefined {
  const [, entryId, subscriptionId, replay] = REF.exec(text) ?? [];
  return entryId === undefined || subscriptionId === undefined
    ? undefined
    : { entryId, subscriptionId, ...(replay === undefined ? {} : { replayId: `rpl_${replay}` }) };
}

/** @throws Error if the text is not a ref. */
export function partsOfRef(text: string): DeliveryRef {
  const ref = refOf(text);
  if (ref === undefined) {
    throw new Error(`not a delivery: ${text}`);
  }
  return ref;
}

/**
 * The public id of a delivery: `dlv_`, then the ids of its event, subscription and replay without their prefixes. So a delivery can be
 * named and found without storing its id, and a repeated delivery keeps its id.
 * @throws Error if the ref is not valid.
 */
export function deliveryIdOf({ partition, ref }: DeliveryPlace): string {
  const { entryId, subscriptionId, replayId } = partsOfRef(ref);
  const ids = [eventIdOf({ partition, entryId }), subscriptionId, replayId];
  return `dlv_${ids.flatMap((id) => id?.slice(id.indexOf('_') + 1) ?? []).join('_')}`;
}

const DELIVERY_ID = /^dlv_([0-9a-f]{16,29})_([0-9a-f]{2}[0-9A-Za-z]{16})(?:_([0-9A-Za-z]+))?$/;

/** Where the delivery with this public id is; undefined if the text is no such id. */
export function deliveryPlaceOf(deliveryId: string): DeliveryPlace | undefined {
  const [, event, subscription, replay] = DELIVERY_ID.exec(deliveryId) ?? [];
  const place = event === undefined ? undefined : eventPlaceOf(`evt_${event}`);
  if (place === undefined) {
    return undefined;
  }
  const parts = [place.entryId, `whsub_${subscription}`, ...(replay === undefined ? [] : [`rpl_${replay}`])];
  return { partition: place.partition, ref: parts.join(':') };
}

/** A delivery whose turn it is. */
export interface Delivery extends DeliveryPlace {
  readonly subscriptionId: string;
  /** The tenant of the event; empty if the event is gone. With the subscription, it names the ordered queue. */
  readonly tenant: string;
  /** Empty if the record no longer exists. */
  readonly status: string;
  readonly createdMs: number;
  /** Attempts made and recorded. */
  readonly attempts: number;
  /** The answer to the last of them. */
  readonly responseStatus?: number | undefined;
  /** Time until its next attempt is due, by Redis' clock. 0 if it is due or has not failed yet. */
  readonly dueInMs: number;
  /** Undefined if the event is gone. */
  readonly event: OutgoingEvent | undefined;
}

/** Whether the delivery is settled or does not exist. */
export function hasEnded({ status }: Delivery): boolean {
  return status !== 'PENDING' && status !== 'RETRYING';
}

/** The outcome of a delivery's turn. */
export interface Verdict {
  /** FAILED: there are no attempts left, or nothing will be sent. */
  readonly outcome: 'SUCCESS' | 'RETRYING' | 'FAILED';
  /** Duration of the attempt. Undefined if the delivery was given up without one. */
  readonly durationMs?: number;
  readonly status?: number | undefined;
  /** Why it failed, from a closed set. */
  readonly reason?: string;
  readonly message?: string;
  /** How the endpoint's answer begins, if it refused. */
  readonly text?: string | undefined;
  /** Only with RETRYING. */
  readonly retryInMs?: number;
  /** The span of the attempt, to which the recording of the verdict belongs. */
  readonly span?: Span | undefined;
}

/** A delivery and what became of its turn. */
export interface Attempted {
  readonly delivery: Delivery;
  readonly verdict: Verdict;
}

/** What a request carries: the event of a delivery, or the events of several. */
export interface OutgoingEvent {
  readonly signed: SignedEvent;
  /** As stored in the event log: trace id and flags, or empty. */
  readonly trace: string;
  /** The exact bytes to sign and send. */
  readonly body: Buffer;
}

/** @param fields of the event, as stored in the log */
export function outgoing(event: CyclesEvent, fields: ReadonlyMap<string, string>): OutgoingEvent {
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
    body: ownBytes(eventJson(event)),
  };
}

/** UTF-8 in memory of its own. `Buffer.from` takes short texts from slabs of 8 KiB, which a delivery would keep while it waits. */
function ownBytes(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

/** How many deliveries one script reads with their events. Takes about a millisecond. */
const READ_AT_ONCE = 25;

/** Deliveries with their events, in the order of the refs. An invalid ref counts as a delivery that is gone. @throws StoreUnavailable */
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
    for (const {
      ref,
      status = '',
      attempts = 0,
      createdMs = 0,
      nextRetryMs = 0,
      responseStatus,
      event,
    } of stored) {
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
        responseStatus,
        dueInMs: Math.max(0, nextRetryMs - nowMs),
        event: isGone ? undefined : outgoing(toEvent(partition, parts.entryId, event), event),
      });
    }
  }
  return deliveries;
}
