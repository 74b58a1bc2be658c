import type { TestTenant } from '../../support/holdfast.js';
import { expectStatus } from '../../support/holdfast.js';
import { LONG_PART, refused, succeeds, type OperationRow } from './table.js';
import { newKey, type Sample, type World } from './world.js';

const POLICIES = '/v1/admin/policies';

function create(tenant: TestTenant, more: Record<string, unknown> = {}): Sample {
  const body = { name: newKey(), scope_pattern: `tenant:${tenant.id}/*`, caps: { max_tokens: 100 }, ...more };
  return { method: 'POST', path: POLICIES, tenant, body };
}

async function made(world: World): Promise<{ tenant: TestTenant; path: string; name: string }> {
  const tenant = await world.tenant();
  const { policy_id: id, name } = expectStatus(await world.send(create(tenant)), 201);
  return { tenant, path: `${POLICIES}/${id}`, name: name as string };
}

async function update(world: World): Promise<Sample> {
  const { tenant, path } = await made(world);
  return world.example('updatePolicy', tenant, { of: path.slice(POLICIES.length + 1) });
}

export const POLICY_ROWS: readonly OperationRow[] = [
  {
    id: 'createPolicy',
    success: 201,
    sample: async (world) => create(await world.tenant()),
    others: [
      refused(403, 'FORBIDDEN', "another tenant's scopes", async (world) =>
        create(await world.tenant(), { scope_pattern: 'tenant:another/*' }),
      ),
      refused(409, 'DUPLICATE_RESOURCE', 'a name that is taken', async (world) => {
        const { tenant, name } = await made(world);
        return create(tenant, { name });
      }),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) =>
        create(await world.setTenant(await world.tenant(), { status: 'CLOSED' })),
      ),
    ],
  },
  {
    id: 'listPolicies',
    success: 200,
    withoutDamaged: { status: 200 },
    sample: async (world) => ({ method: 'GET', path: POLICIES, tenant: (await made(world)).tenant }),
    others: [
      succeeds(200, 'the admin key, of one tenant', async (world) => ({
        method: 'GET',
        path: `${POLICIES}?tenant_id=${(await made(world)).tenant.id}`,
      })),
      refused(400, 'INVALID_REQUEST', 'an unknown status', async (world) => ({
        method: 'GET',
        path: `${POLICIES}?status=OFF`,
        tenant: await world.tenant(),
      })),
    ],
  },
  {
    id: 'updatePolicy',
    success: 200,
    sample: (world) => update(world),
    others: [
      refused(400, 'INVALID_REQUEST', 'an id longer than any', async (world) => ({
        ...(await update(world)),
        path: `${POLICIES}/${LONG_PART}`,
      })),
      refused(404, 'NOT_FOUND', 'an id that was never issued', async (world) => ({
        ...(await update(world)),
        path: `${POLICIES}/pol_00aaaaaaaaaaaaaaaa`,
      })),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => {
        const sample = await update(world);
        await world.setTenant(sample.tenant as TestTenant, { status: 'CLOSED' });
        return sample;
      }),
    ],
  },
];
