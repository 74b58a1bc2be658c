import { auditEntryOf } from '../audit/index.js';
import { toEvent } from '../events/index.js';
import { partitionCode } from '../redis/index.js';
import { type Fields, stringifyJson } from '../wire/index.js';
import { chargeRow, type RowsPlace } from './charge-row.js';
import { type Archived, type EntryId, msOf } from './entry-chain.js';
import type { Cell } from './parquet-tasks.js';
import { STREAM_COLUMNS } from './stream-columns.js';

function eventRow({ number: partition, epoch }: RowsPlace, entry: EntryId, fields: Fields): Cell[] {
  const event = toEvent(partitionCode(partition), entry, fields);
  return inOrder('events', {
    partition,
    entry,
    recorded_at: msOf(entry),
    event_id: event.event_id,
    event_type: event.event_type,
    tenant: event.tenant_id,
    scope: event.scope,
    actor_type: event.actor?.type,
    key_id: event.actor?.key_id,
    request_id: event.request_id,
    trace_id: event.trace_id,
    correlation_id: event.correlation_id,
    data: stringifyJson(event.data),
    epoch,
  });
}

function auditRow({ number: partition, epoch }: RowsPlace, entry: EntryId, fields: Fields): Cell[] {
  const row = auditEntryOf(partitionCode(partition), 'audit', entry, fields);
  const { actor_type: _, tenant_id: _owner, correlation_id: _correlation, ...details } = row.metadata;
  return inOrder('audit', {
    partition,
    entry,
    recorded_at: msOf(entry),
    operation: row.operation,
    status: row.status,
    tenant: fields.get('tn'),
    owner: fields.get('ow'),
    actor_type: fields.get('ac'),
    key_id: row.key_id,
    request_id: row.request_id,
    trace_id: row.trace_id,
    correlation_id: fields.get('co'),
    resource_type: row.resource_type,
    resource_id: row.resource_id,
    source_ip: row.source_ip,
    user_agent: row.user_agent,
    details: stringifyJson({
      ...details,
      ...(row.error_code === undefined ? {} : { error_code: row.error_code }),
    }),
    epoch,
  });
}

function inOrder(kind: Archived, cells: Readonly<Record<string, Cell | undefined>>): Cell[] {
  return STREAM_COLUMNS[kind].map(({ name }) => cells[name] ?? null);
}

/** What a page of a stream has: of charges, only the fields that differ from those of the entry before; an empty one is gone. */
export interface PageEntry {
  readonly entryId: EntryId;
  readonly fields: Fields;
}

/**
 * The rows of a page's entries, in the order of the stream's columns. A damaged entry still has a row, with its place alone.
 * @param damaged is called for each of these
 */
export function rowsOf(
  kind: Archived,
  place: RowsPlace,
  entries: readonly PageEntry[],
  damaged: () => void,
): Cell[][] {
  const make = { charges: chargeRow, events: eventRow, audit: auditRow }[kind];
  const told = new Map<string, string>();
  return entries.map(({ entryId, fields }) => {
    try {
      return make(place, entryId, kind === 'charges' ? change(told, fields) : fields);
    } catch {
      damaged();
      return inOrder(kind, {
        partition: place.number,
        entry: entryId,
        recorded_at: msOf(entryId),
        epoch: place.epoch,
      });
    }
  });
}

function change(told: Map<string, string>, fields: Fields): Fields {
  for (const [name, value] of fields) {
    if (value === '') {
      told.delete(name);
    } else {
      told.set(name, value);
    }
  }
  return told;
}
