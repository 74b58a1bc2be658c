import { timeOf, type Fields } from '../governance/listing/index.js';
import { stringifyJson } from '../http/index.js';
import { dataOf, jsonOf, type EventData } from './event-data.js';
import { eventIdOf } from './event-id.js';
import { categoryOf, type EventCategory } from './event-type.js';

/** Event of cycles-governance-admin-v0.1.25. Members that do not apply are absent. Integers of `data` are bigints. */
export interface CyclesEvent {
  readonly event_id: string;
  readonly event_type: string;
  readonly category: EventCategory;
  /** RFC 3339: when the event was written, by Redis' clock. */
  readonly timestamp: string;
  /** `__system__` when no tenant is concerned. */
  readonly tenant_id: string;
  readonly scope?: string;
  readonly actor?: { readonly type: string; readonly key_id?: string };
  readonly source: string;
  readonly data: EventData;
  readonly correlation_id?: string;
  readonly request_id?: string;
  readonly trace_id?: string;
  readonly metadata?: object;
}

/** Who made the request that an event follows from, as outbound requests carry it on. */
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
 * The event that an entry of the log tells. Nothing in an entry's fields can make this fail, for an event that could not be read would
 * stand in the way of all behind it.
 * @param partition two hex digits, as in the partition's hash tag
 * @param entryId the stream entry, `ms-sequence`
 * @param fields its fields by the short names of lua/lib/append_event.lua
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

/** The trace that an event belongs to, or undefined when it follows from no request and no sweep. */
export function traceOf(fields: Fields): EventTrace | undefined {
  const [, traceId, flags = '01'] = TRACE.exec(fields.get('tr') ?? '') ?? [];
  return traceId === undefined ? undefined : { traceId, flags };
}

/** The JSON of an event as it is sent and signed. The same event always gives the same bytes. */
export function eventJson(event: CyclesEvent): string {
  return stringifyJson(event);
}

/** Operators' own key and value pairs. */
function metadataOf(text: string | undefined): { metadata?: object } {
  const metadata = text === undefined ? undefined : jsonOf(text);
  return typeof metadata === 'object' && metadata !== null ? { metadata } : {};
}

function optional<Name extends string>(name: Name, text: string | undefined): Partial<Record<Name, string>> {
  return text === undefined ? {} : ({ [name]: text } as Partial<Record<Name, string>>);
}
