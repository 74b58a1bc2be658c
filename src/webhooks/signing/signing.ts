import { createHash, createHmac, randomUUID } from 'node:crypto';
import { HOLDFAST_VERSION } from '../../config/index.js';
import type { SecretBox } from './secret-box.js';

/** The sealed secrets and headers of a subscription. */
export interface SealedMaterial {
  readonly subscriptionId: string;
  /** JSON; undefined if the subscription has no custom headers. */
  readonly headers: string | undefined;
  /** The current secret, then the previous one while it is valid. */
  readonly secrets: readonly string[];
}

/** The opened secrets and headers of a delivery. */
export interface SigningMaterial {
  readonly headers: Readonly<Record<string, string>>;
  readonly secrets: readonly [string, ...string[]];
}

/** Opens stored headers. Empty when nothing is stored. @throws SealBroken */
export function openHeaders(
  box: SecretBox,
  subscriptionId: string,
  sealed: string | undefined,
): Record<string, string> {
  return sealed === undefined || sealed === ''
    ? {}
    : (JSON.parse(box.open(sealed, { subscriptionId, kind: 'headers' })) as Record<string, string>);
}

/** Opens the secrets and headers of a delivery. @throws SealBroken, also without any secret: nothing is ever sent unsigned. */
export function openMaterial(
  box: SecretBox,
  { subscriptionId, headers, secrets }: SealedMaterial,
): SigningMaterial {
  const [current, ...previous] = secrets;
  const open = (secret: string): string => box.open(secret, { subscriptionId, kind: 'signing_secret' });
  return {
    headers: openHeaders(box, subscriptionId, headers),
    secrets: [open(current ?? ''), ...previous.map(open)],
  };
}

/** Headers that Holdfast sets itself or that belong to the connection. A subscription cannot set them. */
const RESERVED = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'traceparent',
  'tracestate',
  'transfer-encoding',
  'upgrade',
  'user-agent',
  'x-request-id',
]);
const RESERVED_PREFIXES = ['proxy-', 'webhook-', 'x-cycles-'];

/** Whether only Holdfast may set a header of this name. Case-insensitive. */
export function isReservedHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return RESERVED.has(lower) || RESERVED_PREFIXES.some((prefix) => lower.startsWith(prefix));
}

const PREFIX = 'whsec_';
/** Standard Webhooks secrets are padded base64 after their prefix. */
const BASE64 =
  /^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$|^(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)$/;

/**
 * The key bytes of a secret in Standard Webhooks: the base64 after `whsec_`. The specification defines no other form, so the key of
 * any other secret is its UTF-8 bytes; verifiers call that a raw secret.
 */
function standardKey(secret: string): Buffer {
  const encoded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : '';
  return BASE64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.from(secret, 'utf8');
}

/** X-Cycles-Signature of cycles-protocol-v0: over the exact bytes of the body. The key is the UTF-8 bytes of the whole secret. */
export function protocolSignature(secret: string, body: string | Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** The `webhook-signature` of Standard Webhooks: one signature for each secret, so that a verifier needs only one of them. */
export function standardSignature(
  secrets: readonly string[],
  id: string,
  timestampS: number,
  body: string | Buffer,
): string {
  return secrets
    .map(
      (secret) =>
        `v1,${createHmac('sha256', standardKey(secret)).update(`${id}.${timestampS}.`).update(body).digest('base64')}`,
    )
    .join(' ');
}

/** The parts of an event that go into a delivery's headers. */
export interface SignedEvent {
  readonly eventId: string;
  readonly eventType: string;
  /** 32 hex digits; absent if the event has no trace. */
  readonly traceId?: string | undefined;
  /** From a valid inbound `traceparent`. */
  readonly traceFlags?: string | undefined;
  /** The request that caused the event; absent if none did. */
  readonly requestId?: string | undefined;
}

export interface UnsignedDelivery {
  /** The current secret first, then the previous one during a rotation. */
  readonly secrets: readonly [string, ...string[]];
  /** The subscription's custom headers. */
  readonly headers: Readonly<Record<string, string>>;
  readonly event: SignedEvent;
  /** Redis' time of the attempt. */
  readonly nowMs: number;
  /** The exact bytes that are sent. */
  readonly body: string | Buffer;
  /** The span of the attempt, which those of the endpoint continue. Random if there is none. */
  readonly spanId?: string | undefined;
}

const USER_AGENT = `holdfast/${HOLDFAST_VERSION}`;
/** Sampled, as the protocol requires without inbound flags. */
const DEFAULT_FLAGS = '01';

/**
 * All headers of one attempt, with lower-case names: those that the protocol requires (WEBHOOK EVENT GUIDANCE of cycles-protocol-v0),
 * those of Standard Webhooks, and the subscription's custom ones, which override none of the former. `webhook-id` is the event's id
 * and stays the same for all attempts; the timestamp is that of the attempt.
 */
export function signedHeaders({
  secrets,
  headers,
  event,
  nowMs,
  body,
  spanId = newSpanId(),
}: UnsignedDelivery): Record<string, string> {
  const { eventId, eventType, requestId } = event;
  const { traceId, traceFlags } = traceOfDelivery(event);
  const timestampS = Math.floor(nowMs / 1000);
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
    traceparent: `00-${traceId}-${spanId}-${traceFlags}`,
    ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
    'webhook-id': eventId,
    'webhook-timestamp': `${timestampS}`,
    'webhook-signature': standardSignature(secrets, eventId, timestampS, body),
  };
}

/** What each attempt computes anew. */
const OF_THE_ATTEMPT = new Set([
  'traceparent',
  'webhook-signature',
  'webhook-timestamp',
  'x-cycles-signature',
]);

/** The headers that all attempts of a delivery have in common, without those of the subscription. */
export function constantHeaders(event: SignedEvent): Record<string, string> {
  const all = signedHeaders({ secrets: [''], headers: {}, event, nowMs: 0, body: '' });
  return Object.fromEntries(Object.entries(all).filter(([name]) => !OF_THE_ATTEMPT.has(name)));
}

/** 16 random hex digits, from those of a UUID that are not fixed: Node draws UUIDs many at a time, and bytes one system call each. */
function newSpanId(): string {
  const uuid = randomUUID();
  return uuid.slice(0, 8) + uuid.slice(-8);
}

/** The trace id and flags of a delivery. */
export function traceOfDelivery({ eventId, traceId, traceFlags }: SignedEvent): {
  readonly traceId: string;
  readonly traceFlags: string;
} {
  return { traceId: traceId ?? traceIdOf(eventId), traceFlags: traceFlags ?? DEFAULT_FLAGS };
}

/** Every delivery has a trace. For an event without one, it is derived from the event's id, so that all attempts share it. */
function traceIdOf(eventId: string): string {
  return createHash('sha256').update(eventId).digest('hex').slice(0, 32);
}
