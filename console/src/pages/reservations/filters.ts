/** The filters of reservations, by their names in the address of the page. */
export const RESERVATION_FILTERS = [
  'tenant',
  'overdue',
  'status',
  'workspace',
  'app',
  'workflow',
  'agent',
  'toolset',
  'idempotency_key',
  'from',
  'to',
] as const;
