import { SYSTEM_OWNER } from '../../redis/index.js';
import { fieldOf, fieldsOf, timeOf } from '../listing/index.js';

/** AuditLogEntry of cycles-governance-admin-v0.1.25. */
export interface AuditLogEntry {
  readonly log_id: string;
  readonly timestamp: string;
  readonly tenant_id: string;
  readonly operation: string;
  readonly status: number;
  readonly resource_type?: string;
  readonly resource_id?: string;
  readonly key_id?: string;
  readonly request_id?: string;
  readonly trace_id?: string;
  readonly error_code?: string;
  readonly source_ip?: string;
  readonly user_agent?: string;
  /** actor_type, the tenant_id that it was done to, correlation_id where several rows belong together, and the operation's own. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** Details that are JSON, not text. */
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

/** The short names of lua/lib/append_audit.lua that are not metadata. */
const OWN = new Set(['op', 'tn', 'ow', 'ac', 'rt', 'ri', 'st', 'ki', 'rq', 'tr', 'co', 'ec', 'ip', 'ua']);

/**
 * Reads one entry of a partition's audit log. Its id holds the time of Redis at which it was written.
 * @throws Error when Holdfast did not write the entry so.
 */
export function auditEntryOf(
  partition: string,
  log: 'audit' | 'audit-brief',
  entryId: string,
  flat: readonly string[],
): AuditLogEntry {
  const fields = fieldsOf(flat);
  const [ms = ''] = entryId.split('-');
  const optional = (name: string, value: string | undefined): object =>
    value === undefined ? {} : { [name]: value };
  const details = [...fields].filter(([name]) => !OWN.has(name));
  return {
    log_id: `log_${partition}${log === 'audit' ? '' : 'b'}${entryId}`,
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
      ...Object.fromEntries(
        details.map(([name, text]) => [name, JSON_DETAILS.has(name) ? (JSON.parse(text) as unknown) : text]),
      ),
    },
  };
}

/** The tenant whose thing a row is about, whoever changed it; else the tenant that asked, else a sentinel. The twin of lua/lib/audit_index.lua. */
function tenantOf(askedBy: string, owner: string | undefined): string {
  if (owner !== undefined && owner !== SYSTEM_OWNER) {
    return owner;
  }
  return askedBy === SYSTEM_OWNER ? '__admin__' : askedBy;
}
