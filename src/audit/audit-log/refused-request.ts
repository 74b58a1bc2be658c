import type { Answer } from '../../answers/index.js';
import type { AuditLogEntry } from './audit-log-rows.js';

/** One row of the request log: a request that was refused, or how many were not listed. */
export type RefusedRequest = Answer<'RefusedRequest'>;

/** @throws Error if the entry is corrupt. */
export function refusedRequestOf({ resource_type: _, metadata, ...row }: AuditLogEntry): RefusedRequest {
  const { actor_type: __, ...details } = metadata;
  return { ...row, error_code: row.error_code ?? 'INTERNAL_ERROR', ...details };
}
