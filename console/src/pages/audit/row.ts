import type { Parameters, Schema } from '../../api/operations';

export type AuditRow = Schema<'AuditLogEntry'>;

type Query = Parameters<'get', '/v1/admin/audit/logs'>;

export const STATUSES: Readonly<Record<string, string>> = {
  '2xx': 'Done (200 to 299)',
  '4xx': 'Refused (400 to 499)',
  '5xx': 'Failed (500 to 599)',
};

/** The range of a choice of STATUSES, as the API takes it. */
export function statusRange(choice: string | undefined): Query {
  const hundreds = /^([1-5])xx$/.exec(choice ?? '')?.[1];
  return hundreds === undefined ? {} : { status_min: `${hundreds}00`, status_max: `${hundreds}99` };
}

/** Finds one row: its id has the instant at which it was written. Undefined for what is not the id of a row. */
export function queryOfRow(logId: string): Query | undefined {
  const ms = /^log_[0-9a-f]{2}b?(\d{1,15})-\d+$/.exec(logId)?.[1];
  const at = new Date(Number(ms));
  if (ms === undefined || Number.isNaN(at.getTime())) {
    return undefined;
  }
  return { search: logId, from: at.toISOString(), to: at.toISOString(), limit: 1 };
}

const SENTINELS: Readonly<Record<string, string>> = {
  __admin__: 'operators',
  __unauth__: 'no valid key',
};

/** A tenant's id, or in words whose row it is if it is no tenant's. */
export const ownerOf = ({ tenant_id: id }: Pick<AuditRow, 'tenant_id'>): string => SENTINELS[id] ?? id;

export const hasTenant = ({ tenant_id: id }: Pick<AuditRow, 'tenant_id'>): boolean => !(id in SENTINELS);
