import { beforeAll, describe, expect, test } from '@jest/globals';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Json,
  newTenantId,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { topologyOfRun } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

/** A test clock needs a single Redis. */
const CLOCK = topologyOfRun() === 'single' ? { HOLDFAST_TEST_CLOCK: 'true' } : {};
const on = useGovernance({}, CLOCK);
const OPERATORS = '/ops/operators';

const as = (key: string, method: string, path: string, body?: unknown): Promise<Answer> =>
  on.holdfast.call(method, path, { body, headers: { 'x-admin-api-key': key } });

let made = 0;
async function confined(...tenants: readonly string[]): Promise<{ name: string; key: string }> {
  const name = `confined-${(made += 1)}`;
  const answer = await on.holdfast.admin('POST', OPERATORS, { name, role: 'admin', tenants });
  return { name, key: expectStatus(answer, 201).key_secret as string };
}

/** What a tenant owns, by the parameter that names it in paths. */
type Owned = Readonly<Record<string, string>>;

async function ownedBy(owner: TestTenant): Promise<Owned> {
  const { id } = owner;
  const tenant = `tenant_id=${id}`;
  const make = async (path: string, body: Json): Promise<Json> =>
    expectStatus(await on.holdfast.admin('POST', path, body), 201);
  const policy = await make('/v1/admin/policies', {
    tenant_id: id,
    name: 'p',
    scope_pattern: `tenant:${id}`,
  });
  const key = await make('/v1/admin/api-keys', { tenant_id: id, name: 'k' });
  const credit = await make('/ops/budgets/credits', {
    idempotency_key: 'c',
    tenant_id: id,
    scope: `tenant:${id}`,
    unit: 'TOKENS',
    amount: { unit: 'TOKENS', amount: 1 },
    name: 'c',
  });
  const { subscription } = await make(`/v1/admin/webhooks?${tenant}`, {
    url: PUBLIC_URL,
    event_types: ['budget.frozen'],
  });
  const { body: debit } = await on.holdfast.call('POST', '/v1/events', {
    key: owner.key,
    body: { ...reserveBody(owner, 1), estimate: undefined, actual: { unit: 'TOKENS', amount: 1 } },
  });
  const subscriptionId = subscription.subscription_id as string;
  const { events } = expectStatus(await on.holdfast.admin('GET', `/v1/admin/events?${tenant}&limit=1`), 200);
  const eventId = events[0].event_id as string;
  return {
    tenant_id: id,
    policy_id: policy['policy_id'],
    key_id: key['key_id'],
    credit_id: credit['credit_id'],
    subscription_id: subscriptionId,
    event_id: eventId,
    debit_id: debit['event_id'],
    // Whose it is is known by its name alone.
    delivery_id: `dlv_${eventId.replace(/^evt_/, '')}_${subscriptionId.replace(/^whsub_/, '')}`,
  };
}

/** The tenants that a request names where it could name its own. */
type Named = Partial<Record<'inQuery' | 'inBody' | 'inScope', string>>;

interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
}

/** Every operation that takes an operator's key. */
async function operations(): Promise<Operation[]> {
  const { paths } = JSON.parse((await on.holdfast.call('GET', '/openapi.json')).text);
  return Object.entries(paths as Record<string, Record<string, Json>>).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { operationId: id, security = [] }]) =>
      (security as Json[]).some((scheme) => 'AdminKeyAuth' in scheme)
        ? [{ id: id as string, method: method.toUpperCase(), path }]
        : [],
    ),
  );
}

/** What is of the whole deployment. Whatever is added is, too, until it says how it is confined. */
const OF_ALL = [
  'advanceTestClock',
  'bulkActionTenants',
  'createOperator',
  'getActuatorMetrics',
  'getAdminOverview',
  'getMetrics',
  'getOperator',
  'getSweeper',
  'getTestClock',
  'getWebhookSecurityConfig',
  'listOperators',
  'revokeOperator',
  'rotateOperator',
  'updateOperator',
  'updateWebhookSecurityConfig',
  'validateApiKey',
];
/** What shows nothing of any tenant, or of its own tenants only, which a test below looks at. */
const OPEN = ['introspectAuth', 'listDeclaredActionKinds', 'listQuarantine', 'listTenantSums', 'listTenants'];

describe('an operator of some tenants', () => {
  let mine: Owned;
  let theirs: Owned;
  let key: string;
  beforeAll(async () => {
    [mine, theirs] = (await Promise.all(
      [0, 1].map(async () => {
        const tenant = await on.holdfast.fundedTenant();
        const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, 1), 200);
        return { ...(await ownedBy(tenant)), reservation_id: id as string };
      }),
    )) as unknown as [Owned, Owned];
    ({ key } = await confined(mine['tenant_id'] as string, 'team-*'));
  });

  /** Calls an operation and names what a tenant owns, wherever something can be named; or other tenants at some of the places. */
  function call({ method, path }: Operation, owned: Owned, others: Named = {}): Promise<Answer> {
    const id = owned['tenant_id'] as string;
    const { inQuery = id, inBody = id, inScope = id } = others;
    const scope = `tenant:${inScope}`;
    const query = new URLSearchParams({ tenant_id: inQuery, tenant: inQuery, scope, unit: 'TOKENS' });
    const named = path.startsWith('/v1/events/') ? { ...owned, event_id: owned['debit_id'] } : owned;
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => named[name as 'event_id'] ?? 'x');
    const body = { tenant_id: inBody, scope, filter: { tenant_id: inBody } };
    return as(
      key,
      method,
      `${filled}?${query.toString()}`,
      method === 'GET' || method === 'DELETE' ? undefined : body,
    );
  }

  const judgement = ({ status, body }: Answer): string =>
    !String(body?.message).startsWith('this operator is confined')
      ? 'admitted'
      : status === 404 && /NOT_FOUND$/.test(body.error as string)
        ? 'not found'
        : status === 403
          ? 'refused'
          : `${status}`;

  test('acts for no other tenant, whatever the operation', async () => {
    const refusals = (): Promise<number> =>
      on.holdfast.metric('holdfast_auth_failures_total', { reason: 'other_tenant' });
    const before = await refusals();
    const all = await operations();
    for (const operation of all) {
      const isOwned = /\{(?!tenant_id|template_id|name)\w+\}/.test(operation.path);
      const refusal = isOwned && !OF_ALL.includes(operation.id) ? 'not found' : 'refused';
      expect([operation.id, judgement(await call(operation, theirs))]).toEqual([
        operation.id,
        OPEN.includes(operation.id) ? 'admitted' : refusal,
      ]);
    }
    const open = all.filter(({ id }) => OPEN.includes(id));
    expect(await refusals()).toBe(before + all.length - open.length);
  });

  test('may do for its own what is not of the whole deployment', async () => {
    const all = await operations();
    // What ends something comes last. The second operation that ends the same finds it gone.
    const isEnd = ({ method }: Operation): boolean => method === 'DELETE';
    const ordered = [...all.filter((one) => !isEnd(one)), ...all.filter(isEnd)];
    const refused: string[] = [];
    for (const operation of ordered) {
      const answer = await call(operation, mine);
      const judged = judgement(answer);
      if (judged === 'refused') {
        expect(answer.body.message).toContain('this is of the whole deployment');
        refused.push(operation.id);
      } else if (!isEnd(operation)) {
        expect([operation.id, judged]).toEqual([operation.id, 'admitted']);
      }
    }
    expect(refused.sort()).toEqual(OF_ALL.filter((id) => all.some((one) => one.id === id)));
  });

  test('gets and changes nothing of another tenant by naming it beside its own', async () => {
    const other = theirs['tenant_id'] as string;
    const stateOf = async (): Promise<string[]> => {
      const paths = ['/v1/admin/budgets', '/v1/admin/policies', '/v1/admin/api-keys', '/v1/admin/events'];
      const answers = paths.map((path) => on.holdfast.admin('GET', `${path}?tenant_id=${other}&limit=100`));
      return (await Promise.all(answers)).map((answer) => JSON.stringify(expectStatus(answer, 200)));
    };
    const before = await stateOf();
    const places: readonly (keyof Named)[] = ['inQuery', 'inBody', 'inScope'];
    for (const operation of await operations()) {
      for (const named of [...places.map((place) => [place]), ['inQuery', 'inBody'] as const]) {
        const answer = await call(operation, mine, Object.fromEntries(named.map((place) => [place, other])));
        if (answer.status < 300) {
          expect([operation.id, named, answer.text]).not.toContainEqual(expect.stringContaining(other));
        }
      }
    }
    expect(await stateOf()).toEqual(before);
  });

  test('names none but its own, and one of them for what is of one tenant', async () => {
    for (const path of [
      '/v1/admin/events?tenant_id=__system__',
      '/v1/admin/audit/logs?tenant_id=__admin__',
      '/ops/requests?tenant_id=__unauth__',
      '/v1/admin/policies',
      '/v1/admin/action-quota-counters',
    ]) {
      const { message } = expectRefusal(await as(key, 'GET', path), 403, 'INSUFFICIENT_PERMISSIONS');
      expect(message).toContain('tenant_id must name one of them');
    }
    for (const [path, body] of [
      ['/ops/reservations/cleanup', {}],
      ['/v1/admin/webhooks/bulk-action', { filter: {}, action: 'PAUSE' }],
      ['/v1/admin/tenants', { tenant_id: newTenantId(), name: 'Acme' }],
      ['/v1/admin/webhooks', { url: 'https://hooks.example.com/x', event_types: ['tenant.updated'] }],
    ] as const) {
      expectRefusal(await as(key, 'POST', path, body), 403, 'INSUFFICIENT_PERMISSIONS');
    }
  });

  test('sees its tenants in the list of tenants, and no other, page by page', async () => {
    for (const id of ['team-red', 'team-blue', 'teams']) {
      expectStatus(
        await on.holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: id, name: 'Team' }),
        201,
      );
    }
    const seen: string[] = [];
    let cursor = '';
    do {
      const page = expectStatus(await as(key, 'GET', `/v1/admin/tenants?limit=1&cursor=${cursor}`), 200);
      seen.push(...(page.tenants as Json[]).map(({ tenant_id: id }) => id as string));
      cursor = (page.next_cursor as string | undefined) ?? '';
    } while (cursor !== '');
    expect(seen.sort()).toEqual([mine['tenant_id'], 'team-blue', 'team-red'].sort());
    expectStatus(await as(key, 'GET', '/v1/admin/tenants/team-red'), 200);
    expectRefusal(await as(key, 'GET', '/v1/admin/tenants/teams'), 403, 'INSUFFICIENT_PERMISSIONS');
    expectStatus(await as(key, 'POST', '/v1/admin/tenants', { tenant_id: 'team-green', name: 'Green' }), 201);
  });

  test('is told so by what the dashboard asks', async () => {
    expect(expectStatus(await as(key, 'GET', '/v1/auth/introspect'), 200)).toMatchObject({
      capabilities: { view_overview: false, view_tenants: true },
    });
  });
});

test('an operator of one tenant need not name it in a query', async () => {
  const tenant = await on.holdfast.fundedTenant();
  await on.holdfast.fundedTenant();
  const { key } = await confined(tenant.id);
  const { ledgers } = expectStatus(await as(key, 'GET', '/v1/admin/budgets'), 200);
  expect((ledgers as Json[]).map(({ tenant_id: id }) => id)).toEqual([tenant.id]);
  const { events } = expectStatus(await as(key, 'GET', '/v1/admin/events'), 200);
  expect(new Set((events as Json[]).map(({ tenant_id: id }) => id))).toEqual(new Set([tenant.id]));
});

test('an operator is confined, and set free, from then on, and the audit log says so', async () => {
  const [{ id }, other] = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
  const { name, key } = await confined(id);
  const change = (tenants: readonly string[]): Promise<Answer> =>
    on.holdfast.admin('PATCH', `${OPERATORS}/${name}`, { tenants });
  expectStatus(await as(key, 'GET', `/v1/admin/tenants/${id}`), 200);
  expect(expectStatus(await change([other.id]), 200)).toMatchObject({ role: 'admin', tenants: [other.id] });
  expectRefusal(await as(key, 'GET', `/v1/admin/tenants/${id}`), 403, 'INSUFFICIENT_PERMISSIONS');
  expectStatus(await as(key, 'GET', `/v1/admin/tenants/${other.id}`), 200);
  const path = '/v1/admin/audit/logs?operation=updateOperator&limit=1';
  expect(expectStatus(await on.holdfast.admin('GET', path), 200).logs[0]).toMatchObject({
    resource_id: name,
    metadata: { previous_tenants: id, tenants: other.id },
  });
  expectStatus(await change(['*']), 200);
  expectStatus(await as(key, 'GET', '/v1/admin/overview'), 200);
  expectRefusal(await on.holdfast.admin('PATCH', `${OPERATORS}/${name}`, {}), 400, 'INVALID_REQUEST');
});
