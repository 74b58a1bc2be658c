import type { AuditLogEntry } from './audit-log-rows.js';

/** One row of the request log: a request that was refused, or how many were not listed. */
export interface RefusedRequest {
  readonly log_id: string;
  readonly timestamp: string;
  readonly tenant_id: string;
  readonly operation: string;
  readonly status: number;
  readonly error_code: string;
  readonly message?: string;
  /** The budget that refused. */
  readonly scope?: string;
  readonly key_id?: string;
  readonly resource_id?: string;
  readonly request_id?: string;
  readonly trace_id?: string;
  readonly source_ip?: string;
  readonly user_agent?: string;
  /** So many refusals of the tenant in `window_ms` before this row have no row of their own. */
  readonly not_listed?: number;
  readonly window_ms?: number;
}

/** @throws Error if the entry is corrupt. */
export function refusedRequestOf({ resource_type: _, metadata, ...row }: AuditLogEntry): RefusedRequest {
  const { actor_type: __, ...details } = metadata;
  return { error_code: 'INTERNAL_ERROR', ...row, ...details };
}
