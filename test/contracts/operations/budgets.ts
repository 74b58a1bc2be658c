import type { TestTenant } from '../../support/holdfast.js';
import { ADMIN_ONLY, refused, succeeds, type OperationRow, type Provocation } from './table.js';
import { newKey, tokens, type Sample, type World } from './world.js';

const BUDGETS = '/v1/admin/budgets';
const ledger = (tenant: TestTenant): string => `scope=tenant:${tenant.id}&unit=TOKENS`;

function create(tenant: TestTenant, below = '/app:one'): Sample {
  return {
    method: 'POST',
    path: BUDGETS,
    tenant,
    body: { scope: `tenant:${tenant.id}${below}`, unit: 'TOKENS', allocated: tokens(1) },
  };
}

function fund(tenant: TestTenant, more: Record<string, unknown> = {}): Sample {
  return {
    method: 'POST',
    path: `${BUDGETS}/fund?${ledger(tenant)}`,
    tenant,
    body: { operation: 'CREDIT', amount: tokens(1), ...more },
  };
}

/** A change that operators make to a ledger; sent with the admin key. */
function change(method: string, verb: string, tenant: TestTenant, body?: Record<string, unknown>): Sample {
  return { method, path: `${BUDGETS}${verb}?${ledger(tenant)}`, ...(body === undefined ? {} : { body }) };
}

/** The refusals that these changes have in common. */
function changes(method: string, verb: string): Provocation[] {
  const on = (tenant: TestTenant): Sample => change(method, verb, tenant, {});
  return [
    refused(404, 'BUDGET_NOT_FOUND', 'a scope without a ledger', async (world) =>
      on(await world.holdfast.createTenant()),
    ),
    refused(409, 'BUDGET_CLOSED', 'a closed ledger', async (world) =>
      on(await world.setBudget(await world.tenant(), { status: 'CLOSED' })),
    ),
    refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) =>
      on(await world.setTenant(await world.tenant(), { status: 'CLOSED' })),
    ),
  ];
}

async function bulk(world: World, more: Record<string, unknown> = {}): Promise<Sample> {
  return world.adminExample('bulkActionBudgets', await world.tenant(), { more });
}

export const BUDGET_ROWS: readonly OperationRow[] = [
  {
    id: 'createBudget',
    success: 201,
    sample: async (world) => create(await world.tenant()),
    others: [
      refused(409, 'DUPLICATE_RESOURCE', 'a ledger that already exists', async (world) =>
        create(await world.tenant(), ''),
      ),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) =>
        create(await world.setTenant(await world.tenant(), { status: 'CLOSED' })),
      ),
    ],
  },
  {
    id: 'listBudgets',
    success: 200,
    withoutDamaged: { status: 200 },
    sample: async (world) => ({ method: 'GET', path: BUDGETS, tenant: await world.tenant() }),
    others: [
      refused(400, 'INVALID_REQUEST', 'an unknown order', async (world) => ({
        method: 'GET',
        path: `${BUDGETS}?sort_dir=up`,
        tenant: await world.tenant(),
      })),
    ],
  },
  {
    id: 'lookupBudget',
    success: 200,
    sample: async (world) => {
      const tenant = await world.tenant();
      return { method: 'GET', path: `${BUDGETS}/lookup?${ledger(tenant)}`, tenant };
    },
    others: [
      refused(400, 'INVALID_REQUEST', 'no unit', async (world) => {
        const tenant = await world.tenant();
        return { method: 'GET', path: `${BUDGETS}/lookup?scope=tenant:${tenant.id}`, tenant };
      }),
      refused(404, 'BUDGET_NOT_FOUND', 'a scope without a ledger', async (world) => {
        const tenant = await world.holdfast.createTenant();
        return { method: 'GET', path: `${BUDGETS}/lookup?${ledger(tenant)}`, tenant };
      }),
    ],
  },
  {
    id: 'fundBudget',
    success: 200,
    sample: async (world) => fund(await world.tenant()),
    others: [
      refused(400, 'UNIT_MISMATCH', "a unit other than the ledger's", async (world) =>
        fund(await world.tenant(), { amount: { unit: 'CREDITS', amount: 1 } }),
      ),
      refused(404, 'BUDGET_NOT_FOUND', 'a scope without a ledger', async (world) =>
        fund(await world.holdfast.createTenant()),
      ),
      refused(409, 'IDEMPOTENCY_MISMATCH', 'a key that was used with a different body', async (world) => {
        const tenant = await world.tenant();
        const idempotency_key = newKey();
        await world.send(fund(tenant, { idempotency_key }));
        return fund(tenant, { idempotency_key, amount: tokens(2) });
      }),
      refused(409, 'BUDGET_FROZEN', 'a frozen ledger', async (world) =>
        fund(await world.setBudget(await world.tenant(), { status: 'FROZEN' })),
      ),
    ],
  },
  {
    id: 'updateBudget',
    success: 200,
    sample: async (world) => world.adminExample('updateBudget', await world.tenant()),
    others: changes('PATCH', ''),
    impossible: ADMIN_ONLY,
  },
  {
    id: 'freezeBudget',
    success: 200,
    sample: async (world) => world.adminExample('freezeBudget', await world.tenant()),
    others: [
      ...changes('POST', '/freeze'),
      succeeds(200, 'no body', async (world) => change('POST', '/freeze', await world.tenant())),
      refused(409, 'BUDGET_FROZEN', 'a frozen ledger', async (world) =>
        change('POST', '/freeze', await world.setBudget(await world.tenant(), { status: 'FROZEN' })),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'unfreezeBudget',
    success: 200,
    sample: async (world) =>
      world.adminExample('unfreezeBudget', await world.setBudget(await world.tenant(), { status: 'FROZEN' })),
    others: [
      ...changes('POST', '/unfreeze'),
      refused(409, 'DUPLICATE_RESOURCE', 'a ledger that is active', async (world) =>
        change('POST', '/unfreeze', await world.tenant()),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'bulkActionBudgets',
    success: 200,
    sample: (world) => bulk(world),
    others: [
      refused(400, 'INVALID_REQUEST', 'no amount', (world) => bulk(world, { amount: undefined })),
      refused(404, 'TENANT_NOT_FOUND', 'a tenant that does not exist', (world) =>
        bulk(world, { filter: { tenant_id: 'nobody' } }),
      ),
      refused(409, 'COUNT_MISMATCH', 'a number other than expected', (world) =>
        bulk(world, { expected_count: 2 }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
];
