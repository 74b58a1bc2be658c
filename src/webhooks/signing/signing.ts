import { createHash, createHmac, randomBytes } from 'node:crypto';
import { HOLDFAST_VERSION } from '../../config/index.js';
import type { SecretBox } from './secret-box.js';

/** What a subscription keeps sealed. */
export interface SealedMaterial {
  readonly subscriptionId: string;
  /** JSON; undefined when the subscription has no headers of its own. */
  readonly headers: string | undefined;
  /** The secret in force, then the one before it while that is valid. */
  readonly secrets: readonly string[];
}

/** What a delivery is signed and sent with. */
export interface SigningMaterial {
  readonly headers: Readonly<Record<string, string>>;
  readonly secrets: readonly [string, ...string[]];
}

/** Reads stored headers; none when nothing is stored. @throws SealBroken */
export function openHeaders(
  box: SecretBox,
  subscriptionId: string,
  sealed: string | undefined,
): Record<string, string> {
  return sealed === undefined || sealed === ''
    ? {}
    : (JSON.parse(box.open(sealed, { subscriptionId, kind: 'headers' })) as Record<string, string>);
}

/** Opens what a delivery needs. @throws SealBroken, also when there is no secret at all: nothing is ever sent unsigned. */
export function openMaterial(
  box: SecretBox,
  { subscriptionId, headers, secrets }: SealedMaterial,
): SigningMaterial {
  const [current, ...former] = secrets;
  const open = (secret: string): string => box.open(secret, { subscriptionId, kind: 'signing_secret' });
  return {
    headers: openHeaders(box, subscriptionId, headers),
    secrets: [open(current ?? ''), ...former.map(open)],
  };
}

/** What Holdfast itself says in a delivery, and what belongs to the connection: no subscription may set these. */
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

/** Whether a custom header has a name that only Holdfast may use; upper or lower case. */
export function isReservedHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return RESERVED.has(lower) || RESERVED_PREFIXES.some((prefix) => lower.startsWith(prefix));
}

const PREFIX = 'whsec_';
/** Standard Webhooks secrets are padded base64 behind their prefix. */
const BASE64 =
  /^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$|^(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)$/;

/**
 * The key bytes of a secret as Standard Webhooks sees it: what stands in base64 behind `whsec_`. A secret of any other form, which
 * that specification does not know, is taken by its UTF-8 bytes; verifiers call that a raw secret.
 */
function standardKey(secret: string): Buffer {
  const encoded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : '';
  return BASE64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.from(secret, 'utf8');
}

/** X-Cycles-Signature of cycles-protocol-v0: over the exact bytes of the body, with the whole secret's UTF-8 bytes as the key. */
export function protocolSignature(secret: string, body: string | Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** The `webhook-signature` of Standard Webhooks: one signature for each secret, so that a verifier may know any of them. */
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
