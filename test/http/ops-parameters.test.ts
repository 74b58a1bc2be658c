import { beforeAll, describe, expect, test } from '@jest/globals';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { StoredHolds } from '../support/stored-holds.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCK: 'true' });

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly string[];
}

/** Every operation under /ops that the OpenAPI document has, with its query parameters. */
async function operations(): Promise<Operation[]> {
  const { paths } = (await on.holdfast.call('GET', '/openapi.json')).body;
  return Object.entries<Json>(paths)
    .filter(([path]) => path.startsWith('/ops/'))
    .flatMap(([path, methods]) =>
      Object.entries<Json>(methods).map(([method, { parameters = [] }]) => ({
        method: method.toUpperCase(),
        path: path.replace(/\{[^}]+\}/g, 'none'),
        parameters: (parameters as Json[]).flatMap(({ in: place, name }) =>
          place === 'query' ? [name] : [],
        ),
      })),
    );
}

describe('an operation under /ops', () => {
  test('refuses a query parameter that it does not declare, and names it', async () => {
    const all = await operations();
    expect(all.length).toBeGreaterThan(20);
    for (const { method, path, parameters } of all) {
      const answer = await on.holdfast.admin(
        method,
        `${path}?Tenant_Id=acme`,
        method === 'GET' ? undefined : {},
      );
      const { message, details } = expectRefusal(answer, 400, 'INVALID_REQUEST');
      expect([method, path, details.field]).toEqual([method, path, 'Tenant_Id']);
      expect(message).toContain(parameters.length === 0 ? 'there are none here' : parameters.join(', '));
    }
  });

  test('accepts each query parameter that it declares', async () => {
    for (const { method, path, parameters } of await operations()) {
      const query = parameters.map((name) => `${name}=0`).join('&');
      const { text } = await on.holdfast.admin(method, `${path}?${query}`, method === 'GET' ? undefined : {});
      expect([method, path, text]).not.toEqual([
        method,
        path,
        expect.stringContaining('is not a parameter of this operation'),
      ]);
    }
  });

  test('tells nobody but operators which parameters there are', async () => {
    expectRefusal(await on.holdfast.call('GET', '/ops/sweeper?x=1'), 401, 'UNAUTHORIZED');
  });
});

test('an operation under /v1 ignores what it does not know, as the protocol has it', async () => {
  expectStatus(await on.holdfast.admin('GET', '/v1/admin/tenants?no_such_parameter=1'), 200);
});

describe('the filter by tenant', () => {
  let tenants: readonly TestTenant[];
  beforeAll(async () => {
    const holds = new StoredHolds(on.redis.url);
    tenants = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
    for (const tenant of tenants) {
      await on.holdfast.createBudget(tenant, '', 100);
      const id = await on.holdfast.hold(tenant, 1, { grace_period_ms: 0 });
      await holds.expireIn(id, -1);
      await on.holdfast.admin('GET', `/ops/reservations/${id}`);
    }
    holds.close();
  });

  const ask = async (path: string): Promise<Json> => expectStatus(await on.holdfast.admin('GET', path), 200);
  const slots = ({ slots: found }: Json): number =>
    (found as Json[]).reduce((sum: number, { expirations }) => sum + Number(expirations), 0);

  test.each(['tenant_id', 'tenant'])('is %s', async (name) => {
    const filter = `${name}=${tenants[0]?.id}`;
    const { expirations } = await ask(`/ops/expirations?${filter}`);
    expect(expirations).toMatchObject([{ tenant_id: tenants[0]?.id }]);
    const { text } = await on.holdfast.admin('GET', `/ops/expirations?${filter}&format=csv`);
    expect(text).toContain(tenants[0]?.id);
    expect(text).not.toContain(tenants[1]?.id);
    const window = 'from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&slot_ms=10000000000';
    expect(slots(await ask(`/ops/expirations/counts?${window}&${filter}`))).toBe(1);
    expect(await ask(`/ops/verify?${filter}`)).toMatchObject({ tenants: 1, ok: true });
  });

  test.each(['/ops/expirations', '/ops/expirations/counts', '/ops/verify'])(
    'of %s does not take two tenants',
    async (path) => {
      const window = path.endsWith('counts') ? '&from=0&to=1' : '';
      const answer = await on.holdfast.admin('GET', `${path}?tenant_id=a&tenant=b${window}`);
      expectRefusal(answer, 400, 'INVALID_REQUEST');
    },
  );
});
