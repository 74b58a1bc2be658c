import { budgetTemplateIndexKey, budgetTemplateKey, tenantKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { type LedgerClient, randomText, TRACE } from './ledger-client.js';

export interface TemplateOptions {
  readonly tenant?: string;
  readonly id?: string;
  /** Below the tenant's scope. */
  readonly pattern?: string;
  readonly unit?: string;
  readonly allocated?: bigint | number;
  readonly boundaries?: readonly number[];
  readonly windowPlans?: readonly (readonly number[])[];
  readonly fields?: Readonly<Record<string, string>>;
}

const ADMIN = ['admin', '', 'req_1', TRACE] as const;

/** Sets a template as the service does. */
export function setTemplate(ledger: LedgerClient, options: TemplateOptions = {}): Promise<Reply> {
  const { tenant = ledger.tenant, id = 'per-agent', pattern = '/agent:*', unit = 'TOKENS' } = options;
  const { boundaries = [], windowPlans = [], allocated = 50 } = options;
  const { tag } = ledger;
  return ledger.scripts.run(
    'set_budget_template',
    [budgetTemplateKey(tag, tenant, id), budgetTemplateIndexKey(tag, tenant), tenantKey(tag, tenant)],
    [
      tenant,
      id,
      `tenant:${tenant}${pattern}`,
      unit,
      randomText(16),
      ...ADMIN,
      boundaries.join(),
      windowPlans.map((plan) => plan.join()).join('|'),
      'allocated',
      String(allocated),
      ...Object.entries({ overdraft_limit: '0', ...options.fields }).flat(),
    ],
  );
}

export function deleteTemplate(
  ledger: LedgerClient,
  id = 'per-agent',
  tenant = ledger.tenant,
): Promise<Reply> {
  const { tag } = ledger;
  return ledger.scripts.run(
    'delete_budget_template',
    [budgetTemplateKey(tag, tenant, id), budgetTemplateIndexKey(tag, tenant)],
    [tenant, id, randomText(16), ...ADMIN],
  );
}
