/** The two logs of a partition; see src/redis/keyspace.ts. */
export type AuditLogName = 'audit' | 'audit-brief';

/** One row, under the short names of lua/lib/append_audit.lua. */
export interface AuditRow {
  /** The tenant whose partition keeps it. */
  readonly partitionOf: string;
  readonly log: AuditLogName;
  readonly fields: readonly (readonly [name: string, value: string | undefined])[];
}

/** Name and value pairs; what is empty is left out. */
export function textsOf({ fields }: AuditRow): string[] {
  return fields.flatMap(([name, value]) => (value === undefined || value === '' ? [] : [name, value]));
}
