import { createHash, randomBytes } from 'node:crypto';
import { HOLDFAST_VERSION } from '../../config/index.js';
import { isReservedHeader } from './reserved-headers.js';
import { protocolSignature, standardSignature } from './signatures.js';

/** The event that is delivered, as far as its headers tell of it. */
export interface SignedEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** 32 hex digits; absent when the event has none. */
  readonly traceId?: string | undefined;
  /** Of a valid inbound `traceparent`. */
  readonly traceFlags?: string | undefined;
  /** Of the request that caused the event; absent when none did. */
  readonly requestId?: string | undefined;
}

export interface SigningOrder {
  /** The secret in force first; during a rotation the one before it follows. */
  readonly secrets: readonly [string, ...string[]];
  /** The subscription's own headers. */
  readonly headers: Readonly<Record<string, string>>;
  readonly event: SignedEvent;
  /** The very bytes that are sent. */
  readonly body: string | Buffer;
}

const USER_AGENT = `holdfast/${HOLDFAST_VERSION}`;
/** Sampled, as the protocol says when no inbound flags are known. */
const DEFAULT_FLAGS = '01';

/**
 * All headers of one attempt, with lower-case names: those that the protocol requires of a delivery (WEBHOOK EVENT GUIDANCE of
 * cycles-protocol-v0), those of Standard Webhooks beside them, and the subscription's own, which replace none of them.
 * `webhook-id` is the event's id and stays the same over all attempts; the time is that of the attempt.
 */
export function signedHeaders({ secrets, headers, event, body }: SigningOrder): Record<string, string> {
  const { eventId, eventType, traceFlags = DEFAULT_FLAGS, requestId } = event;
  const traceId = event.traceId ?? traceIdOf(eventId);
  const timestampS = Math.floor(new Date().getTime() / 1000);
  const custom = Object.entries(headers).flatMap(([name, value]) =>
    isReservedHeader(name) ? [] : [[name.toLowerCase(), value] as const],
  );
  return {
    ...Object.fromEntries(custom),
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    'x-cycles-event-id': eventId,
    'x-cycles-event-type': eventType,
    'x-cycles-signature': protocolSignature(secrets[0], body),
    'x-cycles-trace-id': traceId,
    traceparent: `00-${traceId}-${randomBytes(8).toString('hex')}-${traceFlags}`,
    ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
    'webhook-id': eventId,
    'webhook-timestamp': `${timestampS}`,
    'webhook-signature': standardSignature(secrets, eventId, timestampS, body),
  };
}

/** A delivery always has a trace; that of an event without one follows from its id, so that all its attempts share it. */
function traceIdOf(eventId: string): string {
  return createHash('sha256').update(eventId).digest('hex').slice(0, 32);
}
