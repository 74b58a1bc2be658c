import { partsOfRef } from './delivery-id.js';
import type { DeliveryLabels } from './dispatch.metrics.js';
import type { OutgoingEvent } from './outgoing-event.js';

/** Where a delivery belongs. */
export interface DeliveryAddress {
  /** The partition, two hex digits. */
  readonly partition: string;
  readonly tag: string;
  readonly ref: string;
  readonly subscriptionId: string;
  /** Whose event it is; with the subscription it names the lane. */
  readonly tenant: string;
}

/** A delivery whose turn it is. */
export interface Delivery extends DeliveryAddress {
  readonly createdMs: number;
  /** Those that were made and recorded. */
  readonly attempts: number;
  /** Undefined when the event is gone. */
  readonly event: OutgoingEvent | undefined;
  /** It was settled before, or there is no such delivery: it only takes room in its lane. */
  readonly ended: boolean;
}

/** The lane that it waits in before its first attempt. */
export function laneOf({ subscriptionId, tenant }: DeliveryAddress): string {
  return `${subscriptionId}:${tenant}`;
}

/** When its event happened, or when the replay that repeats it was asked for; Redis' time. */
export function bornMs({ ref, createdMs }: Delivery): number {
  const { entryId, replayId } = partsOfRef(ref);
  return replayId === undefined ? Number.parseInt(entryId, 10) : createdMs;
}

export function labelsOf({ tenant, event }: Delivery): DeliveryLabels {
  return { tenant, event_type: event?.signed.eventType ?? '' };
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
