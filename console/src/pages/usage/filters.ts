/** The filters of usage, by their names in the address of the page. `from` and `to` are days of the reader's zone, both included. */
export const USAGE_FILTERS = ['from', 'to', 'by', 'tenant_id', 'scope', 'unit'] as const;
