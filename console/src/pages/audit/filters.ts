/** The filters of the audit log, by their names in the address of the page. */
export const AUDIT_FILTERS = [
  'tenant_id',
  'operation',
  'status',
  'changes_only',
  'error_code',
  'key_id',
  'resource_type',
  'resource_id',
  'request_id',
  'trace_id',
  'from',
  'to',
] as const;
