import { beforeAll, describe, expect, test } from '@jest/globals';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

/** Each list with its path, the member that holds its rows, what names a row, and a sort key of distinct values. */
const LISTS: readonly [name: string, path: string, rows: string, id: string, sortBy: string][] = [
  ['listTenants', '/v1/admin/tenants?', 'tenants', 'tenant_id', 'tenant_id'],
  ['listBudgets', '/v1/admin/budgets?', 'ledgers', 'scope', 'scope'],
  ['listApiKeys', '/v1/admin/api-keys?', 'keys', 'key_id', 'key_id'],
  ['listAuditLogs', '/v1/admin/audit/logs?', 'logs', 'log_id', 'timestamp'],
];

describe('the lists of operators', () => {
  const tenants: TestTenant[] = [];
  beforeAll(async () => {
    for (let count = 0; count < 3; count += 1) {
      const tenant = await on.holdfast.createTenant();
      await on.holdfast.createBudget(tenant, '', 1);
      tenants.push(tenant);
    }
  });

  async function rowsOf(path: string, rows: string): Promise<Json[]> {
    return expectStatus(await on.holdfast.admin('GET', path), 200)[rows] as Json[];
  }

  test.each(LISTS)('%s: without a direction a sort key is descending', async (_name, path, rows, id, sortBy) => {
    const idsOf = async (query: string): Promise<unknown[]> => (await rowsOf(path + query, rows)).map((row) => row[id] as unknown);
    const found = await idsOf(`sort_by=${sortBy}&limit=100`);
    expect(found.length).toBeGreaterThanOrEqual(3);
    expect(found).toEqual(await idsOf(`sort_by=${sortBy}&sort_dir=desc&limit=100`));
    expect(found).not.toEqual(await idsOf(`sort_by=${sortBy}&sort_dir=asc&limit=100`));
  });

  test.each(LISTS)('%s: an empty search and a parameter that nobody knows leave nothing out', async (_name, path, rows) => {
    const all = await rowsOf(path, rows);
    expect(await rowsOf(`${path}search=&colour=red&page=2`, rows)).toEqual(all);
  });

  test.each(LISTS)('%s: a search of 128 characters is taken, of 129 refused', async (_name, path, rows) => {
    expect(await rowsOf(`${path}search=${'s'.repeat(128)}`, rows)).toEqual([]);
    expectRefusal(await on.holdfast.admin('GET', `${path}search=${'s'.repeat(129)}`), 400, 'INVALID_REQUEST');
  });

  test('every ledger names its tenant, also across tenants', async () => {
    const ledgers = await rowsOf('/v1/admin/budgets?', 'ledgers');
    expect(ledgers.map(({ tenant_id: id }) => id as string).sort()).toEqual(tenants.map(({ id }) => id).sort());
    expect(ledgers.every(({ scope, tenant_id: id }) => scope === `tenant:${id}`)).toBe(true);
  });

  test('a ledger with nothing allocated counts as not utilized at all', async () => {
    const tenant = await on.holdfast.createTenant();
    await on.holdfast.createBudget(tenant, '', 0);
    const below = async (bounds: string): Promise<Json[]> => rowsOf(`/v1/admin/budgets?tenant_id=${tenant.id}&${bounds}`, 'ledgers');
    expect(await below('utilization_min=0&utilization_max=0')).toMatchObject([{ scope: `tenant:${tenant.id}` }]);
    expect(await below('utilization_min=0.01')).toEqual([]);
  });
});
