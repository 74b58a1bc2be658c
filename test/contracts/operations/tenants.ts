import { randomBytes } from 'node:crypto';
import { ADMIN_ONLY, LONG_PART, refused, succeeds, type OperationRow } from './table.js';
import type { Sample, World } from './world.js';

function create(world: World): Sample {
  return world.adminExample('createTenant', { id: `t-${randomBytes(6).toString('hex')}`, key: '' });
}

const update = (world: World, id: string): Sample => world.adminExample('updateTenant', { id, key: '' });

async function bulk(world: World, more: Record<string, unknown> = {}): Promise<Sample> {
  return world.adminExample('bulkActionTenants', await world.tenant(), { more });
}

export const TENANT_ROWS: readonly OperationRow[] = [
  {
    id: 'createTenant',
    success: 201,
    sample: async (world) => {
      // The damage for the 500 row affects only existing records, such as the index of this tenant's
      // partition.
      await world.holdfast.createTenant();
      return create(world);
    },
    others: [
      succeeds(200, 'the same again', async (world) => {
        const first = create(world);
        await world.send(first);
        return first;
      }),
      refused(409, 'DUPLICATE_RESOURCE', 'the same id with another name', async (world) => {
        const first = create(world);
        await world.send(first);
        return { ...first, body: { ...first.body, name: 'another' } };
      }),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'listTenants',
    success: 200,
    withoutDamaged: { status: 200 },
    sample: async (world) => {
      await world.holdfast.createTenant();
      return { method: 'GET', path: '/v1/admin/tenants' };
    },
    others: [
      refused(400, 'INVALID_REQUEST', 'an unknown order', () =>
        Promise.resolve({ method: 'GET', path: '/v1/admin/tenants?sort_dir=up' }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'getTenant',
    success: 200,
    sample: async (world) => ({
      method: 'GET',
      path: `/v1/admin/tenants/${(await world.holdfast.createTenant()).id}`,
    }),
    others: [
      refused(400, 'INVALID_REQUEST', 'an id longer than any', () =>
        Promise.resolve({ method: 'GET', path: `/v1/admin/tenants/${LONG_PART}` }),
      ),
      refused(404, 'TENANT_NOT_FOUND', 'an unknown id', () =>
        Promise.resolve({ method: 'GET', path: '/v1/admin/tenants/nobody' }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'updateTenant',
    success: 200,
    sample: async (world) => update(world, (await world.tenant()).id),
    others: [
      succeeds(200, 'its close', async (world) => ({
        ...update(world, (await world.held()).tenant.id),
        body: { status: 'CLOSED' },
      })),
      refused(404, 'TENANT_NOT_FOUND', 'an unknown id', (world) => Promise.resolve(update(world, 'nobody'))),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) =>
        update(world, (await world.setTenant(await world.tenant(), { status: 'CLOSED' })).id),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'bulkActionTenants',
    success: 200,
    withoutDamaged: { status: 409, code: 'COUNT_MISMATCH' },
    sample: (world) => bulk(world),
    others: [
      refused(400, 'INVALID_REQUEST', 'an empty filter', (world) => bulk(world, { filter: {} })),
      refused(409, 'COUNT_MISMATCH', 'a number other than expected', (world) =>
        bulk(world, { expected_count: 2 }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
];
