/** What charges are told apart by, and filtered by. */
export const KEYS: Readonly<Record<string, string>> = {
  action_kind: 'Kind of action',
  tenant: 'Tenant',
  scope: 'Scope',
  workspace: 'Workspace',
  app: 'App',
  workflow: 'Workflow',
  agent: 'Agent',
  toolset: 'Toolset',
  'dimension:user_id': 'User (user_id)',
  action_name: 'Action or model',
  model_version: 'Version of the model',
  key_id: 'API key',
  source: 'Reservation or direct debit',
  credit: 'Credit that paid',
};

/** The filters of a report that a row of it can set, by their names in the API. */
export const KEY_FILTERS = [
  'tenant_id',
  'scope',
  'workspace',
  'app',
  'workflow',
  'agent',
  'toolset',
  'action_kind',
  'action_name',
  'model_version',
  'key_id',
  'source',
  'dimension',
] as const;

/**
 * The filters of usage, by their names in the address of the page. `from` and `to` are days, both included; `by` and `and` are keys; `zone`
 * is where days begin, if not in the reader's zone.
 */
export const USAGE_FILTERS = ['from', 'to', 'zone', 'by', 'and', 'unit', ...KEY_FILTERS] as const;

const DIMENSION = 'dimension:';

/** The filter that leaves only the charges with this value of a key. */
export function filterOf(key: string, value: string): Readonly<Record<string, string>> {
  if (key.startsWith(DIMENSION)) {
    return { dimension: `${key.slice(DIMENSION.length)}=${value}` };
  }
  return key === 'tenant' ? { tenant_id: value } : { [key]: value };
}
