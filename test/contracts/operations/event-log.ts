import { expectStatus, type TestTenant } from '../../support/holdfast.js';
import { ADMIN_ONLY, LONG_PART, refused, type OperationRow } from './table.js';
import type { World } from './world.js';

const EVENTS = '/v1/admin/events';

/** A tenant with a key that may read events, which needs to be granted explicitly. */
async function reading(world: World): Promise<TestTenant> {
  const tenant = await world.tenant();
  return {
    ...tenant,
    key: await world.holdfast.createKey(tenant.id, { permissions: ['events:read', 'balances:read'] }),
  };
}

export const EVENT_LOG_ROWS: readonly OperationRow[] = [
  {
    id: 'listEvents',
    success: 200,
    sample: async (world) => ({ method: 'GET', path: `${EVENTS}?tenant_id=${(await world.tenant()).id}` }),
    others: [
      refused(400, 'INVALID_REQUEST', 'an unknown type', () =>
        Promise.resolve({ method: 'GET', path: `${EVENTS}?event_type=budget.lost` }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'getEvent',
    success: 200,
    sample: async (world) => {
      const { events } = expectStatus(
        await world.holdfast.admin('GET', `${EVENTS}?tenant_id=${(await world.tenant()).id}`),
        200,
      );
      return { method: 'GET', path: `${EVENTS}/${events[0].event_id}` };
    },
    others: [
      refused(404, 'EVENT_NOT_FOUND', 'an id that was never issued', () =>
        Promise.resolve({ method: 'GET', path: `${EVENTS}/evt_0000000000000000` }),
      ),
      refused(400, 'INVALID_REQUEST', 'an id that is too long', () =>
        Promise.resolve({ method: 'GET', path: `${EVENTS}/${LONG_PART}` }),
      ),
    ],
    impossible: ADMIN_ONLY,
  },
  {
    id: 'listTenantEvents',
    success: 200,
    plane: 'governance',
    sample: async (world) => ({ method: 'GET', path: '/v1/events', tenant: await reading(world) }),
    others: [
      refused(400, 'INVALID_REQUEST', 'a category for operators only', async (world) => ({
        method: 'GET',
        path: '/v1/events?category=api_key',
        tenant: await reading(world),
      })),
    ],
  },
];
