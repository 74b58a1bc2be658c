import { expectStatus } from '../../support/holdfast.js';
import { ADMIN_ONLY, refused, succeeds, type OperationRow } from './table.js';
import { newKey, type Sample, type World } from './world.js';

const COUNTERS = '/v1/admin/action-quota-counters';

/** A tenant with one reserve that was counted in a daily quota and in a run's quota. */
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

async function reset(world: World, more: Record<string, unknown> = {}): Promise<Sample> {
  const { tenant } = await counted(world);
  const key = { scope: `tenant:${tenant.id}`, window_key: 'run-1' };
  return world.adminExample('resetActionQuotaCounter', tenant, { more: { ...key, ...more } });
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
  {
    id: 'resetActionQuotaCounter',
    success: 200,
    impossible: ADMIN_ONLY,
    sample: (world) => reset(world),
    others: [
      refused(400, 'INVALID_REQUEST', 'no tenant', async (world) => {
        const { body: { tenant_id: _, ...body } = {}, ...sample } = await reset(world);
        return { ...sample, body };
      }),
      refused(404, 'NOT_FOUND', 'a run without a counter', (world) => reset(world, { window_key: 'run-2' })),
    ],
  },
];
