import { beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

/**
 * Each list with its path, the member that holds its rows, the id of a row, and a sort key with distinct
 * values.
 */
const LISTS: readonly [name: string, path: string, rows: string, id: string, sortBy: string][] = [
  ['listTenants', '/v1/admin/tenants?', 'tenants', 'tenant_id', 'tenant_id'],
  ['listBudgets', '/v1/admin/budgets?', 'ledgers', 'scope', 'scope'],
  ['listApiKeys', '/v1/admin/api-keys?', 'keys', 'key_id', 'key_id'],
  // Only the changes: each request for a list leaves a row in the log, too.
  ['listAuditLogs', '/v1/admin/audit/logs?status=201&', 'logs', 'log_id', 'timestamp'],
];

/** Each sortable list, with an order that is not its default, and another one. */
const SORTED: readonly [
  name: string,
  path: string,
  rows: string,
  id: string,
  order: string,
  other: string,
][] = [
  ['listTenants', '/v1/admin/tenants?', 'tenants', 'tenant_id', 'sort_by=name', 'sort_by=status'],
  ['listBudgets', '/v1/admin/budgets?', 'ledgers', 'scope', 'sort_by=scope', 'sort_by=debt'],
  ['listApiKeys', '/v1/admin/api-keys?', 'keys', 'key_id', 'sort_by=tenant_id', 'sort_by=created_at'],
  [
    'listAuditLogs',
    '/v1/admin/audit/logs?to=NOW&',
    'logs',
    'log_id',
    'sort_by=operation',
    'sort_by=timestamp',
  ],
  ['listEvents', '/v1/admin/events?', 'events', 'event_id', 'sort_by=event_type', 'sort_by=timestamp'],
  [
    'listWebhookSubscriptions',
    '/v1/admin/webhooks?',
    'subscriptions',
    'subscription_id',
    'sort_by=tenant_id',
    'sort_by=url',
  ],
];

describe('the lists of operators', () => {
  const tenants: TestTenant[] = [];
  beforeAll(async () => {
    for (let count = 0; count < 3; count += 1) {
      const tenant = await on.holdfast.fundedTenant(1);
      const hook = { url: 'https://93.184.216.34/hook', event_types: ['budget.created'] };
      expectStatus(await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, hook), 201);
      tenants.push(tenant);
    }
  });

  async function rowsOf(path: string, rows: string): Promise<Json[]> {
    return expectStatus(await on.holdfast.admin('GET', path), 200)[rows] as Json[];
  }

  test.each(LISTS)(
    '%s: without a direction a sort key is descending',
    async (_name, path, rows, id, sortBy) => {
      shows('governance sort default', 'listTenants', 'listBudgets', 'listApiKeys', 'listAuditLogs');
      const idsOf = async (query: string): Promise<unknown[]> =>
        (await rowsOf(path + query, rows)).map((row) => row[id] as unknown);
      const found = await idsOf(`sort_by=${sortBy}&limit=100`);
      expect(found.length).toBeGreaterThanOrEqual(3);
      expect(found).toEqual(await idsOf(`sort_by=${sortBy}&sort_dir=desc&limit=100`));
      expect(found).not.toEqual(await idsOf(`sort_by=${sortBy}&sort_dir=asc&limit=100`));
    },
  );

  test.each(SORTED)(
    '%s: a cursor continues in its order even if the order is not repeated, and refuses another',
    async (_name, template, rows, id, order, other) => {
      shows('cursor order');
      // Requests may leave their own rows in the audit log, even within this millisecond.
      const path = template.replace('NOW', new Date(Date.now() - 1).toISOString());
      const all = (await rowsOf(`${path}${order}&limit=100`, rows)).map((row) => row[id] as unknown);
      const page = expectStatus(await on.holdfast.admin('GET', `${path}${order}&limit=2`), 200);
      const cursor = page.next_cursor as string;
      for (const again of ['', order, `${order}&sort_dir=desc`]) {
        const rest = await rowsOf(`${path}${again}&limit=100&cursor=${cursor}`, rows);
        expect([again, rest.map((row) => row[id] as unknown)]).toEqual([again, all.slice(2)]);
      }
      for (const contradiction of [other, `${order}&sort_dir=asc`, 'sort_dir=asc']) {
        const refusal = expectRefusal(
          await on.holdfast.admin('GET', `${path}${contradiction}&cursor=${cursor}`),
          400,
          'INVALID_REQUEST',
        );
        expect(refusal.details).toMatchObject({ field: 'cursor' });
      }
    },
  );

  test.each(LISTS)(
    '%s: an empty search and an unknown parameter have no effect',
    async (_name, path, rows) => {
      shows('governance list parameters');
      const all = await rowsOf(path, rows);
      expect(await rowsOf(`${path}search=&colour=red&page=2`, rows)).toEqual(all);
    },
  );

  test.each(LISTS)(
    '%s: a search of 128 characters is accepted, one of 129 refused',
    async (_name, path, rows) => {
      shows('governance list parameters');
      expect(await rowsOf(`${path}search=${'s'.repeat(128)}`, rows)).toEqual([]);
      expectRefusal(
        await on.holdfast.admin('GET', `${path}search=${'s'.repeat(129)}`),
        400,
        'INVALID_REQUEST',
      );
    },
  );

  test('every ledger names its tenant, also across tenants', async () => {
    shows('ledger tenant');
    const ledgers = await rowsOf('/v1/admin/budgets?', 'ledgers');
    expect(ledgers.map(({ tenant_id: id }) => id as string).sort()).toEqual(
      tenants.map(({ id }) => id).sort(),
    );
    expect(ledgers.every(({ scope, tenant_id: id }) => scope === `tenant:${id}`)).toBe(true);
  });

  test('a ledger with nothing allocated has a utilization of 0', async () => {
    shows('utilization filter');
    const tenant = await on.holdfast.fundedTenant(0);
    const below = async (bounds: string): Promise<Json[]> =>
      rowsOf(`/v1/admin/budgets?tenant_id=${tenant.id}&${bounds}`, 'ledgers');
    expect(await below('utilization_min=0&utilization_max=0')).toMatchObject([
      { scope: `tenant:${tenant.id}` },
    ]);
    expect(await below('utilization_min=0.01')).toEqual([]);
  });
});
