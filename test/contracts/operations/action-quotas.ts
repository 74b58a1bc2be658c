import { expectStatus } from '../../support/holdfast.js';
import { refused, succeeds, type OperationRow } from './table.js';
import { newKey, type Sample, type World } from './world.js';

const COUNTERS = '/v1/admin/action-quota-counters';

/** A tenant whose reserve was counted once in a day and once in a run. */
async function counted(world: World): Promise<Required<Pick<Sample, 'tenant'>>> {
  const tenant = await world.tenant();
  const quota = { action_kind: 'llm.completion', max_calls: 5 };
  const quotas = [
    { ...quota, window: 'per_day_tumbling' },
    { ...quota, window: 'per_run' },
  ];
  const body = { name: newKey(), scope_pattern: `tenant:${tenant.id}`, action_quotas: quotas };
  expectStatus(await world.send({ method: 'POST', path: '/v1/admin/policies', tenant, body }), 201);
  const subject = { tenant: tenant.id, dimensions: { run_id: 'run-1' } };
  expectStatus(await world.holdfast.reserve(tenant, 1, { subject }), 200);
  return { tenant };
}

export const ACTION_QUOTA_ROWS: readonly OperationRow[] = [
  {
    id: 'listActionQuotaCounters',
    success: 200,
    sample: async (world) => ({ method: 'GET', path: COUNTERS, ...(await counted(world)) }),
    others: [
      succeeds(200, 'the admin key, of one tenant', async (world) => ({
        method: 'GET',
        path: `${COUNTERS}?tenant_id=${(await counted(world)).tenant.id}`,
      })),
      refused(400, 'INVALID_REQUEST', 'the admin key, of no tenant', () =>
        Promise.resolve({ method: 'GET', path: COUNTERS }),
      ),
    ],
  },
];
