/** The filters of the request log, by their names in the address of the page. */
export const REQUEST_FILTERS = [
  'request_id',
  'tenant_id',
  'status',
  'error_code',
  'operation',
  'scope',
  'key_id',
  'resource_id',
  'trace_id',
  'from',
  'to',
] as const;
