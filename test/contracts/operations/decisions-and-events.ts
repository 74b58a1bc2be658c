import type { TestTenant } from '../../support/holdfast.js';
import { refused, type OperationRow, type Provocation } from './table.js';
import { newKey, tokens, type Sample, type World } from './world.js';

const ACTION = { kind: 'llm.completion', name: 'test-model' };

function decide(tenant: TestTenant, more: Record<string, unknown> = {}): Sample {
  const body = {
    idempotency_key: newKey(),
    subject: { tenant: tenant.id },
    action: ACTION,
    estimate: tokens(10),
    ...more,
  };
  return { method: 'POST', path: '/v1/decide', tenant, body };
}

function debit(tenant: TestTenant, more: Record<string, unknown> = {}): Sample {
  const body = {
    idempotency_key: newKey(),
    subject: { tenant: tenant.id },
    action: ACTION,
    actual: tokens(10),
    ...more,
  };
  return { method: 'POST', path: '/v1/events', tenant, body };
}

const CREDITS = { unit: 'CREDITS', amount: 1 };

/** The second use of an idempotency key with another body. */
function mismatch(request: (tenant: TestTenant, more?: Record<string, unknown>) => Sample): Provocation {
  return refused(409, 'IDEMPOTENCY_MISMATCH', 'a key that was used with another body', async (world) => {
    const tenant = await world.tenant();
    const first = request(tenant);
    await world.send(first);
    return { ...first, body: { ...first.body, action: { ...ACTION, name: 'another' } } };
  });
}

const foreign = (request: (tenant: TestTenant, more?: Record<string, unknown>) => Sample): Provocation =>
  refused(403, 'FORBIDDEN', "another tenant's subject", async (world) =>
    request(await world.tenant(), { subject: { tenant: 'another' } }),
  );

const closed = async (world: World): Promise<TestTenant> =>
  world.setTenant(await world.tenant(), { status: 'CLOSED' });

export const DECISION_AND_EVENT_ROWS: readonly OperationRow[] = [
  {
    id: 'decide',
    success: 200,
    sample: async (world) => decide(await world.tenant()),
    others: [
      ...[
        {
          how: 'more than remains',
          prepare: async (world: World) => decide(await world.tenant(), { estimate: tokens(1001) }),
        },
        { how: 'a closed tenant', prepare: async (world: World) => decide(await closed(world)) },
      ].map(({ how, prepare }): Provocation => ({
        status: 200,
        how,
        run: async (world) => world.send(await prepare(world)),
      })),
      refused(400, 'UNIT_MISMATCH', 'a unit that the budget has not', async (world) =>
        decide(await world.tenant(), { estimate: CREDITS }),
      ),
      foreign(decide),
      mismatch(decide),
    ],
  },
  {
    id: 'createEvent',
    success: 201,
    sample: async (world) => debit(await world.tenant()),
    others: [
      refused(400, 'UNIT_MISMATCH', 'a unit that the budget has not', async (world) =>
        debit(await world.tenant(), { actual: CREDITS }),
      ),
      foreign(debit),
      refused(404, 'NOT_FOUND', 'a tenant without budgets', async (world) =>
        debit(await world.holdfast.createTenant()),
      ),
      refused(409, 'BUDGET_EXCEEDED', 'more than remains, under REJECT', async (world) =>
        debit(await world.tenant(), { actual: tokens(1001), overage_policy: 'REJECT' }),
      ),
      refused(409, 'OVERDRAFT_LIMIT_EXCEEDED', 'more debt than is allowed', async (world) =>
        debit(await world.tenant({ overdraft_limit: tokens(5) }), {
          actual: tokens(1006),
          overage_policy: 'ALLOW_WITH_OVERDRAFT',
        }),
      ),
      refused(409, 'TENANT_CLOSED', 'a closed tenant', async (world) => debit(await closed(world))),
      mismatch(debit),
    ],
  },
];
