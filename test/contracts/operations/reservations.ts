import type { TestTenant } from '../../support/holdfast.js';
import { LONG_PART, refused, succeeds, type OperationRow, type Provocation } from './table.js';
import { ALLOCATED, tokens, type Sample, type World } from './world.js';

type Verb = 'commit' | 'release' | 'extend';

const create = (tenant: TestTenant, world: World, more: Record<string, unknown> = {}): Sample =>
  world.example('createReservation', tenant, { more });

const settle = (
  world: World,
  verb: Verb,
  { tenant, id }: { tenant: TestTenant; id: string },
  more: Record<string, unknown> = {},
): Sample => world.example(`${verb}Reservation`, tenant, { of: id, more });

/** The refusals that commit, release and extend have in common. */
function settlements(verb: Verb): Provocation[] {
  return [
    refused(404, 'NOT_FOUND', 'an id that was never issued', async (world) =>
      settle(world, verb, { tenant: await world.tenant(), id: 'rsv_00aaaaaaaaaaaaaaaa' }),
    ),
    refused(403, 'FORBIDDEN', "another tenant's reservation", async (world) =>
      settle(world, verb, { ...(await world.held()), tenant: await world.tenant() }),
    ),
    refused(409, 'RESERVATION_FINALIZED', 'a reservation that was released', async (world) =>
      settle(world, verb, await world.released()),
    ),
    refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => {
      const held = await world.held();
      await world.setTenant(held.tenant, { status: 'CLOSED' });
      return settle(world, verb, held);
    }),
    refused(410, 'RESERVATION_EXPIRED', 'a reservation whose time has passed', async (world) =>
      settle(world, verb, await world.expired()),
    ),
  ];
}

/** The idempotency key of an earlier request, with a different body. */
const mismatch = (world: World, tenant: TestTenant): Promise<Sample> => {
  const first = create(tenant, world);
  return world.send(first).then(() => ({ ...first, body: { ...first.body, estimate: tokens(11) } }));
};

const onBudget = (code: string, fields: Record<string, string>): Provocation =>
  refused(409, code, `a budget with ${Object.keys(fields).join(', ')} set`, async (world) =>
    create(await world.setBudget(await world.tenant(), fields), world),
  );

export const RESERVATION_ROWS: readonly OperationRow[] = [
  {
    id: 'createReservation',
    success: 200,
    sample: async (world) => create(await world.tenant(), world),
    others: [
      refused(400, 'UNIT_MISMATCH', "a unit other than the budget's", async (world) =>
        create(await world.tenant(), world, { estimate: { unit: 'CREDITS', amount: 1 } }),
      ),
      refused(403, 'FORBIDDEN', "another tenant's subject", async (world) =>
        create(await world.tenant(), world, { subject: { tenant: 'another' } }),
      ),
      refused(404, 'NOT_FOUND', 'a tenant without budgets', async (world) =>
        create(await world.holdfast.createTenant(), world),
      ),
      refused(409, 'BUDGET_EXCEEDED', 'more than remains', async (world) =>
        create(await world.tenant(), world, { estimate: tokens(ALLOCATED + 1) }),
      ),
      onBudget('BUDGET_FROZEN', { status: 'FROZEN' }),
      onBudget('BUDGET_CLOSED', { status: 'CLOSED' }),
      onBudget('OVERDRAFT_LIMIT_EXCEEDED', { is_over_limit: '1' }),
      onBudget('DEBT_OUTSTANDING', { debt: '10', remaining: String(ALLOCATED - 10) }),
      refused(409, 'IDEMPOTENCY_MISMATCH', 'a key that was used with a different body', async (world) =>
        mismatch(world, await world.tenant()),
      ),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) =>
        create(await world.setTenant(await world.tenant(), { status: 'CLOSED' }), world),
      ),
    ],
  },
  {
    id: 'getReservation',
    success: 200,
    sample: async (world) => {
      const { tenant, id } = await world.held();
      return { method: 'GET', path: `/v1/reservations/${id}`, tenant };
    },
    others: [
      succeeds(200, 'the admin key', async (world) => ({
        method: 'GET',
        path: `/v1/reservations/${(await world.held()).id}`,
      })),
      refused(400, 'INVALID_REQUEST', 'an id longer than any', async (world) => ({
        method: 'GET',
        path: `/v1/reservations/${LONG_PART}`,
        tenant: await world.tenant(),
      })),
      refused(403, 'FORBIDDEN', "another tenant's reservation", async (world) => {
        const { id } = await world.held();
        return { method: 'GET', path: `/v1/reservations/${id}`, tenant: await world.tenant() };
      }),
      refused(404, 'NOT_FOUND', 'an id that was never issued', async (world) => ({
        method: 'GET',
        path: '/v1/reservations/rsv_00aaaaaaaaaaaaaaaa',
        tenant: await world.tenant(),
      })),
      refused(410, 'RESERVATION_EXPIRED', 'a reservation whose time has passed', async (world) => {
        const { tenant, id } = await world.expired();
        return { method: 'GET', path: `/v1/reservations/${id}`, tenant };
      }),
    ],
  },
  {
    id: 'commitReservation',
    success: 200,
    sample: async (world) => settle(world, 'commit', await world.held()),
    others: [
      ...settlements('commit'),
      refused(400, 'UNIT_MISMATCH', 'a unit other than the reserved one', async (world) =>
        settle(world, 'commit', await world.held(), { actual: { unit: 'CREDITS', amount: 1 } }),
      ),
      refused(409, 'BUDGET_EXCEEDED', 'more than was reserved, under REJECT', async (world) =>
        settle(world, 'commit', await world.held({ overage_policy: 'REJECT' }), { actual: tokens(11) }),
      ),
    ],
  },
  {
    id: 'releaseReservation',
    success: 200,
    sample: async (world) => settle(world, 'release', await world.held()),
    others: settlements('release'),
  },
  {
    id: 'extendReservation',
    success: 200,
    sample: async (world) => settle(world, 'extend', await world.held()),
    others: [
      ...settlements('extend'),
      refused(409, 'MAX_EXTENSIONS_EXCEEDED', 'a tenant that allows none', async (world) =>
        settle(world, 'extend', await world.held({}, { max_reservation_extensions: 0 })),
      ),
      {
        status: 429,
        code: 'LIMIT_EXCEEDED',
        how: "more requests than the operator's limit",
        run: async (world) => {
          const held = await world.held();
          return world.whileThrottled(() => settle(world, 'extend', held));
        },
      },
    ],
  },
  {
    id: 'listReservations',
    success: 200,
    sample: async (world) => ({
      method: 'GET',
      path: '/v1/reservations?include=metadata',
      tenant: (await world.held()).tenant,
    }),
    others: [
      succeeds(200, 'the admin key, of one tenant', async (world) => ({
        method: 'GET',
        path: `/v1/reservations?tenant=${(await world.held()).tenant.id}`,
      })),
      refused(400, 'INVALID_REQUEST', 'an unknown order', async (world) => ({
        method: 'GET',
        path: '/v1/reservations?sort_dir=up',
        tenant: await world.tenant(),
      })),
      refused(403, 'FORBIDDEN', 'another tenant', async (world) => ({
        method: 'GET',
        path: '/v1/reservations?tenant=another',
        tenant: await world.tenant(),
      })),
    ],
  },
];
