import { type ArchiveColumn, CHARGE_COLUMNS, EPOCH } from './charge-columns.js';
import type { Archived } from './entry-chain.js';
import type { Column } from './parquet-tasks.js';

const text = (name: string, describes: string): ArchiveColumn => ({ name, type: 'VARCHAR', describes });

/** What the rows of all archived streams begin with. */
const PLACE: readonly ArchiveColumn[] = [
  { name: 'partition', type: 'INTEGER', describes: 'The partition, from 0.' },
  text('entry', "The entry's id in the partition's log: `ms-sequence`, unique in the partition."),
  {
    name: 'recorded_at',
    type: 'TIMESTAMP',
    describes: "When it was appended. A row belongs to this instant's UTC day.",
  },
];

/** The columns of `events.parquet`: every event, as `GET /v1/admin/events` shows it. */
export const EVENT_COLUMNS: readonly ArchiveColumn[] = [
  ...PLACE,
  text('event_id', 'The id of the event.'),
  text('event_type', 'The type, such as `budget.funded`.'),
  text('tenant', 'The tenant that it is about; `__system__` for none.'),
  text('scope', 'The scope that it is about.'),
  text('actor_type', 'Who caused it: api_key, admin, system and so on.'),
  text('key_id', 'The API key that caused it.'),
  text('request_id', 'The request that caused it.'),
  text('trace_id', 'The trace of that request.'),
  text('correlation_id', 'What it belongs to.'),
  text('data', "The event's data, a JSON object."),
  EPOCH,
];

/** The columns of `audit.parquet`: every change that was asked for, and who did. Rows of successful reads are not archived. */
export const AUDIT_COLUMNS: readonly ArchiveColumn[] = [
  ...PLACE,
  text('operation', 'The operation id.'),
  { name: 'status', type: 'INTEGER', describes: 'The HTTP status.' },
  text('tenant', 'The tenant that made the request, or `__admin__`.'),
  text('owner', 'The tenant whose resource it is.'),
  text('actor_type', 'Who made the request: api_key, admin and so on.'),
  text('key_id', 'The API key of the request.'),
  text('request_id', 'The id of the request.'),
  text('trace_id', 'The trace of the request.'),
  text('correlation_id', 'What it belongs to.'),
  text('resource_type', 'What was changed.'),
  text('resource_id', 'Its id.'),
  text('source_ip', 'Where the request came from.'),
  text('user_agent', 'What made it.'),
  text('details', 'What else the row has, a JSON object.'),
  EPOCH,
];

const UNIQUE = new Set(['entry', 'record_id', 'event_id', 'idempotency_key', 'request_id', 'trace_id']);

const columnsOf = (columns: readonly ArchiveColumn[]): Column[] =>
  columns.map(({ name, type }) => ({ name, type, ...(UNIQUE.has(name) ? { isUnique: true } : {}) }));

export const STREAM_COLUMNS: Readonly<Record<Archived, readonly Column[]>> = {
  charges: columnsOf(CHARGE_COLUMNS),
  events: columnsOf(EVENT_COLUMNS),
  audit: columnsOf(AUDIT_COLUMNS),
};
