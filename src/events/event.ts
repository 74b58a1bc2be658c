import type { Answer } from '../answers/index.js';
import { categoryOf } from '../ledger/index.js';
import { type Fields, optional, stringifyJson, timeOf } from '../wire/index.js';
import { dataOf, jsonOf } from './event-data.js';

/**
 * The place of an event in the event log. Its public id encodes this place: `evt_`, the milliseconds of the stream entry in 11 hex
 * digits, the partition in 2, and the entry's sequence in 3 or more. So an event can be found by its id without an index, and ids of
 * the same length sort by time.
 */
export interface EventPlace {
  /** Two hex digits, as in the partition's hash tag. */
  readonly partition: string;
  /** The stream entry, `ms-sequence`. */
  readonly entryId: string;
}

const ENTRY_ID = /^(\d{1,14})-(\d{1,20})$/;
const EVENT_ID = /^evt_([0-9a-f]{11})([0-9a-f]{2})([0-9a-f]{3}|[1-9a-f][0-9a-f]{3,15})$/;

/** @throws Error when the entry id is malformed. */
export function eventIdOf({ partition, entryId }: EventPlace): string {
  const parts = ENTRY_ID.exec(entryId);
  if (parts === null) {
    throw new Error(`not an entry of the event log: ${entryId}`);
  }
  const [ms, sequence] = [BigInt(parts[1] as string), BigInt(parts[2] as string)];
  return `evt_${ms.toString(16).padStart(11, '0')}${partition}${sequence.toString(16).padStart(3, '0')}`;
}

/** The place of an event by its id, or undefined when Holdfast never issued such an id. */
export function eventPlaceOf(eventId: string): EventPlace | undefined {
  const parts = EVENT_ID.exec(eventId);
  if (parts === null) {
    return undefined;
  }
  const [, ms, partition, sequence] = parts as unknown as [string, string, string, string];
  return { partition, entryId: `${Number.parseInt(ms, 16)}-${BigInt(`0x${sequence}`)}` };
}

/** A sort key: by time, then by partition, then in the order in which they were written. */
export function eventOrder(eventId: string): string {
  return eventId.slice(4, 17) + eventId.slice(17).padStart(16, '0');
}

/**
 * Event of cycles-governance-admin-v0.1.25. Members that do not apply are absent. Integers in `data` are numbers, or bigints where a number
 * would be rounded.
 */
export type CyclesEvent = Answer<'Event'>;

/** The trace of the request that caused an event. Outbound requests continue it. */
export interface EventTrace {
  /** 32 lower-case hex digits. */
  readonly traceId: string;
  /** The flags of the inbound `traceparent`, two hex digits, or `01`. */
  readonly flags: string;
}

const SOURCE = 'holdfast';
const SYSTEM_TENANT = '__system__';
const UNKNOWN_TYPE = 'custom.unknown';
const TRACE = /^([0-9a-f]{32})(?:-([0-9a-f]{2}))?$/;

/**
 * Reads an entry of the event log. Never fails because of an entry's fields: an unreadable event would block all events after it.
 * @param partition two hex digits, as in the partition's hash tag
 * @param entryId the stream entry, `ms-sequence`
 * @param fields the fields, named by lua/lib/event_writer.lua
 */
export function toEvent(partition: string, entryId: string, fields: Fields): CyclesEvent {
  const eventType = fields.get('ty') ?? UNKNOWN_TYPE;
  const actor = fields.get('ac');
  const [ms = ''] = entryId.split('-', 1);
  return {
    event_id: eventIdOf({ partition, entryId }),
    event_type: eventType,
    category: categoryOf(eventType),
    timestamp: timeOf(ms),
    tenant_id: fields.get('tn') ?? SYSTEM_TENANT,
    ...optional('scope', fields.get('sc')),
    ...(actor === undefined ? {} : { actor: { type: actor, ...optional('key_id', fields.get('ki')) } }),
    source: SOURCE,
    data: dataOf(eventType, fields),
    ...optional('correlation_id', fields.get('co')),
    ...optional('request_id', fields.get('rq')),
    ...optional('trace_id', traceOf(fields)?.traceId),
    ...metadataOf(fields.get('metadata')),
  };
}

/** The trace that an event belongs to, or undefined when neither a request nor a sweep caused it. */
export function traceOf(fields: Fields): EventTrace | undefined {
  const [, traceId, flags = '01'] = TRACE.exec(fields.get('tr') ?? '') ?? [];
  return traceId === undefined ? undefined : { traceId, flags };
}

/** The JSON of an event as it is sent and signed. Deterministic: the same event always gives the same bytes. */
export function eventJson(event: CyclesEvent): string {
  return stringifyJson(event);
}

/** Operators' own key and value pairs. */
function metadataOf(text: string | undefined): Pick<CyclesEvent, 'metadata'> {
  const metadata = text === undefined ? undefined : jsonOf(text);
  return typeof metadata === 'object' && metadata !== null
    ? { metadata: metadata as Readonly<Record<string, unknown>> }
    : {};
}
