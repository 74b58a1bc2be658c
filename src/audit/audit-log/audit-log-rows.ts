import { hash } from 'node:crypto';
import type { Answer } from '../../answers/index.js';
import { percentDecoded } from '../../ledger/index.js';
import {
  auditIndexKey,
  auditLogKey,
  briefAuditLogKey,
  isStreamId,
  requestLogKey,
  RedisService,
  streamRange,
  SYSTEM_OWNER,
  tagOf,
} from '../../redis/index.js';
import { type Batch, fieldOf, type Fields, optional, readJson, timeOf } from '../../wire/index.js';

/** AuditLogEntry of cycles-governance-admin-v0.1.25: one row of the audit log. */
export type AuditLogEntry = Answer<'AuditLogEntry'> & {
  /** actor_type, the tenant_id whose resource was changed, correlation_id if several rows belong together, and the operation's details. */
  readonly metadata: Readonly<Record<string, unknown>>;
};

/** Details that are stored as JSON. */
const JSON_DETAILS = new Set([
  'metadata',
  'succeeded_ids',
  'failed_rows',
  'skipped_rows',
  'filter',
  'duration_ms',
  'not_listed',
  'window_ms',
]);

/** The logs of a partition, see src/redis/keyspace.ts. */
export type AuditLog = 'audit' | 'audit-brief' | 'refused';

/** Where each log is, and what the ids of its rows have before the id of the entry. */
export const LOGS = {
  audit: { keyOf: auditLogKey, mark: '' },
  'audit-brief': { keyOf: briefAuditLogKey, mark: 'b' },
  refused: { keyOf: requestLogKey, mark: 'r' },
} as const satisfies Readonly<Record<AuditLog, { keyOf: (tag: string) => string; mark: string }>>;

/** The log_id of a row, or of a place without one at which a page ended early. */
export function logIdOf(partition: string, log: AuditLog, entryId: string): string {
  return `log_${partition}${LOGS[log].mark}${entryId}`;
}

/** The fields of lua/lib/audit_log.lua that are not metadata. */
const OWN = new Set(['op', 'tn', 'ow', 'ac', 'rt', 'ri', 'st', 'ki', 'rq', 'tr', 'co', 'ec', 'ip', 'ua']);

/**
 * Reads one entry of a partition's audit log. Its id contains the time at which it was written.
 * @throws Error if the entry is corrupt.
 */
export function auditEntryOf(
  partition: string,
  log: AuditLog,
  entryId: string,
  fields: Fields,
): AuditLogEntry {
  const [ms = ''] = entryId.split('-');
  const details = [...fields].filter(([name]) => !OWN.has(name));
  return {
    log_id: logIdOf(partition, log, entryId),
    timestamp: timeOf(ms),
    tenant_id: tenantOf(fieldOf(fields, 'tn'), fields.get('ow')),
    operation: fieldOf(fields, 'op'),
    status: Number(fieldOf(fields, 'st')),
    ...optional('resource_type', fields.get('rt')),
    ...optional('resource_id', fields.get('ri')),
    ...optional('key_id', fields.get('ki')),
    ...optional('request_id', fields.get('rq')),
    ...optional('trace_id', fields.get('tr')?.slice(0, 32)),
    ...optional('error_code', fields.get('ec')),
    ...optional('source_ip', fields.get('ip')),
    ...optional('user_agent', fields.get('ua')),
    metadata: {
      actor_type: fieldOf(fields, 'ac'),
      ...optional('tenant_id', fields.get('ow')),
      ...optional('correlation_id', fields.get('co')),
      ...Object.fromEntries(details.map(([name, text]) => [name, detailOf(name, text)])),
    },
  };
}

function detailOf(name: string, text: string): unknown {
  if (name === 'window_key') {
    return percentDecoded(text);
  }
  return JSON_DETAILS.has(name) ? readJson(text) : text;
}

/**
 * The tenant whose resource a row is about, regardless of who changed it; otherwise the caller's tenant, or `__admin__`. lua/lib/audit_index.lua
 * implements the same rule.
 */
function tenantOf(caller: string, owner: string | undefined): string {
  if (owner !== undefined && owner !== SYSTEM_OWNER) {
    return owner;
  }
  return caller === SYSTEM_OWNER ? '__admin__' : caller;
}

/** Entries that one script examines: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 250;
/** The total size of the rows that one script reads. A single row of a bulk action may have a hundred kilobytes. */
const BYTES_A_RUN = 262_144;

/** A part of an index of lua/lib/audit_index.lua, and the digest of the value to find in it. */
export interface AuditIndex {
  readonly name: string;
  readonly digest: string;
}

const INDEX_PARTS = 64;

/** @param kind t for tenants, q for request ids, x for trace ids, r for resource ids */
export function indexOfValue(kind: 't' | 'q' | 'x' | 'r', value: string): AuditIndex {
  const digest = hash('sha1', value, 'hex').slice(0, 8);
  const part = (Number.parseInt(digest.slice(0, 2), 16) % INDEX_PARTS).toString(16).padStart(2, '0');
  return { name: `${kind}${part}`, digest };
}

/** The search that all partitions have in common. */
export interface AuditSearch {
  readonly direction: 'asc' | 'desc';
  /** Inclusive bounds in ms. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** Without an index, all rows are examined. */
  readonly index: AuditIndex | undefined;
  /** Condition and value pairs for lua/audit/list_audit_log.lua. */
  readonly conditions: readonly string[];
  readonly matches: (entry: AuditLogEntry) => boolean;
}

/** The position of a row among those of all logs: by time, then sequence, partition and log. */
export interface AuditPlace {
  readonly partition: string;
  readonly log: AuditLog;
  readonly entryId: string;
  readonly order: string;
}

const ENTRY_ID = /^(\d{1,15})-(\d{1,20})$/;
const LOG_ID = /^log_([0-9a-f]{2})([br]?)(\d{1,15}-\d{1,20})$/;

/** @throws Error if the entry id is malformed. */
export function placeOf(partition: string, log: AuditLog, entryId: string): AuditPlace {
  const parts = ENTRY_ID.exec(entryId);
  if (parts === null) {
    throw new Error(`not an entry of the audit log: ${entryId}`);
  }
  const [, ms = '', sequence = ''] = parts;
  return {
    partition,
    log,
    entryId,
    order: `${ms.padStart(15, '0')}${sequence.padStart(20, '0')}${partition}${log}`,
  };
}

/** The position of a row by its log_id, or undefined if Holdfast never issued such an id. */
export function placeOfLogId(logId: string): AuditPlace | undefined {
  const parts = LOG_ID.exec(logId);
  if (parts === null || !isStreamId(parts[3] as string)) {
    return undefined;
  }
  const [log] = Object.entries(LOGS).find(([, { mark }]) => mark === parts[2]) as [AuditLog, unknown];
  return placeOf(parts[1] as string, log, parts[3] as string);
}

/** Whether the first position precedes the second one in this direction. */
export function comesFirst(direction: 'asc' | 'desc', one: AuditPlace, other: AuditPlace): boolean {
  return direction === 'asc' ? one.order < other.order : one.order > other.order;
}

/** The matching rows of one log of one partition, read in batches. */
export class PartitionAuditLog {
  private readonly walk: { start: string; readonly stop: string };

  constructor(
    private readonly redis: RedisService,
    private readonly partition: string,
    private readonly log: AuditLog,
    private readonly search: AuditSearch,
    private readonly rowsARun: number,
    after: AuditPlace | undefined,
  ) {
    this.walk = boundsOf(partition, log, search, after);
  }

  /** Reads the next batch. @throws StoreUnavailable */
  async readNext(): Promise<Batch<AuditLogEntry, AuditPlace>> {
    const { direction, conditions, matches, index } = this.search;
    const tag = tagOf(this.partition);
    const key = LOGS[this.log].keyOf(tag);
    const { nextStart, examined, rows } = await this.redis.queries.call(
      'list_audit_log',
      { auditLog: key, walked: index !== undefined ? auditIndexKey(tag, this.log, index.name) : key },
      {
        direction,
        start: this.walk.start,
        stop: this.walk.stop,
        examine: EXAMINED_A_RUN,
        limit: this.rowsARun,
        bytes: BYTES_A_RUN,
        digest: index?.digest ?? '',
        rest: conditions,
      },
    );
    this.walk.start = nextStart ?? '';
    const entries = rows
      .map(({ entryId, row }) => auditEntryOf(this.partition, this.log, entryId, row))
      .filter((entry) => matches(entry));
    const reached =
      nextStart === undefined ? undefined : placeOf(this.partition, this.log, nextStart.slice(1));
    return { rows: entries, reached, examined };
  }
}

/** Where reading one log starts and ends. */
function boundsOf(
  partition: string,
  log: AuditLog,
  search: AuditSearch,
  after: AuditPlace | undefined,
): { start: string; stop: string } {
  if (after === undefined) {
    return streamRange(search);
  }
  // Logs of other partitions may have an entry with the same id. It is still to come if its log follows in the order of logs.
  const isLeft = comesFirst(search.direction, after, placeOf(partition, log, after.entryId));
  return streamRange(search, {
    atMs: Number(after.entryId.split('-', 1)[0]),
    start: isLeft ? after.entryId : `(${after.entryId}`,
  });
}
