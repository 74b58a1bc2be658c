/** The filters of events, by their names in the address of the page. */
export const EVENT_FILTERS = [
  'event_type',
  'category',
  'tenant_id',
  'scope',
  'search',
  'from',
  'to',
  'correlation_id',
  'trace_id',
  'request_id',
] as const;
