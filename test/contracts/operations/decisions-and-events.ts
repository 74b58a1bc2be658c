import type { TestTenant } from '../../support/holdfast.js';
import { refused, type OperationRow, type Provocation } from './table.js';
import { ALLOCATED, tokens, type Sample, type World } from './world.js';

const ACTION = { kind: 'llm.completion', name: 'test-model' };

type Build = (world: World, tenant: TestTenant, more?: Record<string, unknown>) => Sample;

const decide: Build = (world, tenant, more = {}) => world.example('decide', tenant, { more });
const debit: Build = (world, tenant, more = {}) => world.example('createEvent', tenant, { more });

const CREDITS = { unit: 'CREDITS', amount: 1 };

/** The idempotency key of an earlier request, with a different body. */
function mismatch(request: Build): Provocation {
  return refused(409, 'IDEMPOTENCY_MISMATCH', 'a key that was used with a different body', async (world) => {
    const tenant = await world.tenant();
    const first = request(world, tenant);
    await world.send(first);
    return { ...first, body: { ...first.body, action: { ...ACTION, name: 'another' } } };
  });
}

const foreign = (request: Build): Provocation =>
  refused(403, 'FORBIDDEN', "another tenant's subject", async (world) =>
    request(world, await world.tenant(), { subject: { tenant: 'another' } }),
  );

const closed = async (world: World): Promise<TestTenant> =>
  world.setTenant(await world.tenant(), { status: 'CLOSED' });

export const DECISION_AND_EVENT_ROWS: readonly OperationRow[] = [
  {
    id: 'decide',
    success: 200,
    sample: async (world) => decide(world, await world.tenant()),
    others: [
      ...[
        {
          how: 'more than remains',
          prepare: async (world: World) =>
            decide(world, await world.tenant(), { estimate: tokens(ALLOCATED + 1) }),
        },
        { how: 'a closed tenant', prepare: async (world: World) => decide(world, await closed(world)) },
      ].map(({ how, prepare }): Provocation => ({
        status: 200,
        how,
        run: async (world) => world.send(await prepare(world)),
      })),
      refused(400, 'UNIT_MISMATCH', "a unit other than the budget's", async (world) =>
        decide(world, await world.tenant(), { estimate: CREDITS }),
      ),
      foreign(decide),
      mismatch(decide),
    ],
  },
  {
    id: 'createEvent',
    success: 201,
    sample: async (world) => debit(world, await world.tenant()),
    others: [
      refused(400, 'UNIT_MISMATCH', "a unit other than the budget's", async (world) =>
        debit(world, await world.tenant(), { actual: CREDITS }),
      ),
      foreign(debit),
      refused(404, 'NOT_FOUND', 'a tenant without budgets', async (world) =>
        debit(world, await world.holdfast.createTenant()),
      ),
      refused(409, 'BUDGET_EXCEEDED', 'more than remains, under REJECT', async (world) =>
        debit(world, await world.tenant(), { actual: tokens(ALLOCATED + 1), overage_policy: 'REJECT' }),
      ),
      refused(409, 'OVERDRAFT_LIMIT_EXCEEDED', 'more debt than is allowed', async (world) =>
        debit(world, await world.tenant({ overdraft_limit: tokens(5) }), {
          actual: tokens(ALLOCATED + 6),
          overage_policy: 'ALLOW_WITH_OVERDRAFT',
        }),
      ),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => debit(world, await closed(world))),
      mismatch(debit),
    ],
  },
];
