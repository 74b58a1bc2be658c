import { beforeAll, describe, expect, test } from '@jest/globals';
import { auditLogKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

describe('the audit log', () => {
  const on = useGovernance();

  const logs = async (query: string): Promise<Json[]> =>
    expectStatus(await on.holdfast.admin('GET', `/v1/admin/audit/logs?${query}`), 200).logs;
  const operations = async (query: string): Promise<string[]> =>
    (await logs(query)).map(({ operation }: Json) => operation as string);

  describe('of all changes of a tenant', () => {
    let tenant: TestTenant;
    let keyId: string;
    let own: Answer;
    let trace: string;
    beforeAll(async () => {
      tenant = await on.holdfast.createTenant();
      await on.holdfast.createBudget(tenant, '', 100);
      const at = `?scope=tenant:${tenant.id}&unit=TOKENS`;
      const credit = {
        operation: 'CREDIT',
        amount: { unit: 'TOKENS', amount: 5 },
        idempotency_key: newKey(),
        reason: 'gift',
      };
      own = await on.holdfast.call('POST', `/v1/admin/budgets/fund${at}`, { key: tenant.key, body: credit });
      expectStatus(own, 200);
      trace = own.headers.get('x-cycles-trace-id') as string;
      expectStatus(
        await on.holdfast.call('POST', `/v1/admin/budgets/fund${at}`, { key: tenant.key, body: credit }),
        200,
      );
      expectStatus(
        await on.holdfast.admin('PATCH', `/v1/admin/budgets${at}`, {
          overdraft_limit: { unit: 'TOKENS', amount: 1 },
        }),
        200,
      );
      expectStatus(
        await on.holdfast.admin('POST', `/v1/admin/budgets/freeze${at}`, {
          reason: 'why',
          metadata: { ticket: 1 },
        }),
        200,
      );
      expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/unfreeze${at}`), 200);
      const made = expectStatus(
        await on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenant.id, name: 'n' }),
        201,
      );
      keyId = made.key_id as string;
      expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/api-keys/${keyId}`, { name: 'm' }), 200);
      expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${keyId}?reason=leaked`), 200);
      expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { name: 'New' }), 200);
    });

    test('has one row a request under the tenant, newest first, for every caller', async () => {
      const rows = await logs(`tenant_id=${tenant.id}&limit=100`);
      expect(
        rows.map(({ operation, metadata, status }: Json) => [operation, metadata.actor_type, status]),
      ).toEqual([
        ['updateTenant', 'admin', 200],
        ['revokeApiKey', 'admin', 200],
        ['updateApiKey', 'admin', 200],
        ['createApiKey', 'admin', 201],
        ['unfreezeBudget', 'admin', 200],
        ['freezeBudget', 'admin', 200],
        ['updateBudget', 'admin', 200],
        ['fundBudget', 'api_key', 200],
        ['fundBudget', 'api_key', 200],
        ['createBudget', 'admin_on_behalf_of', 201],
        ['createApiKey', 'admin', 201],
        ['createTenant', 'admin', 201],
      ]);
      expect(new Set(rows.map(({ log_id: id }: Json) => id)).size).toBe(rows.length);
      expect(new Set(rows.map(({ tenant_id: shown }: Json) => shown))).toEqual(new Set([tenant.id]));
    });

    test('shows who acted for whom: the tenant itself, an operator for it, or an operator as such', async () => {
      shows('acting for tenant');
      const [, , created, funded] = await logs(`tenant_id=${tenant.id}&sort_dir=asc`);
      expect(created).toMatchObject({
        operation: 'createBudget',
        tenant_id: tenant.id,
        metadata: { actor_type: 'admin_on_behalf_of' },
      });
      expect(funded).toMatchObject({
        tenant_id: tenant.id,
        key_id: expect.stringMatching(/^key_/),
        metadata: { actor_type: 'api_key', reason: 'gift', funding: 'CREDIT' },
      });
      const [frozen] = await logs(`operation=freezeBudget&tenant_id=${tenant.id}`);
      expect(frozen).toMatchObject({
        tenant_id: tenant.id,
        source_ip: '127.0.0.1',
        user_agent: 'node',
        metadata: { actor_type: 'admin', tenant_id: tenant.id, reason: 'why', metadata: { ticket: 1 } },
      });
    });

    test('is found by each of its filters', async () => {
      shows('unknown error code', 'listAuditLogs');
      expect(await operations(`trace_id=${trace}`)).toEqual(['fundBudget']);
      expect(await operations(`request_id=${own.headers.get('x-request-id')}`)).toEqual(['fundBudget']);
      expect(await operations(`resource_id=${keyId}`)).toEqual([
        'revokeApiKey',
        'updateApiKey',
        'createApiKey',
      ]);
      expect(await operations(`resource_id=${keyId}&operation=createApiKey,updateApiKey`)).toEqual([
        'updateApiKey',
        'createApiKey',
      ]);
      expect(await operations(`resource_id=${keyId}&resource_type=budget,tenant`)).toEqual([]);
      expect(await operations(`resource_id=${keyId}&status=201`)).toEqual(['createApiKey']);
      expect(await operations(`resource_id=${keyId}&status_min=200&status_max=200`)).toEqual([
        'revokeApiKey',
        'updateApiKey',
      ]);
      expect(await operations(`search=${keyId.toUpperCase()}&limit=1`)).toEqual(['revokeApiKey']);
      expect(await operations(`resource_id=${keyId}&error_code=X`)).toEqual([]);
      expect(await operations(`resource_id=${keyId}&error_code_exclude=X`)).toHaveLength(3);
      const [funded] = await logs(`trace_id=${trace}`);
      // The repeated request has its own row, which records no change.
      const ofKey = await logs(`key_id=${funded.key_id}`);
      expect(ofKey.map(({ operation, metadata }: Json) => [operation, metadata.funding])).toEqual([
        ['fundBudget', undefined],
        ['fundBudget', 'CREDIT'],
      ]);
      expect(await operations(`trace_id=${trace}&from=${funded.timestamp}&to=${funded.timestamp}`)).toEqual([
        'fundBudget',
      ]);
      expect(await operations(`trace_id=${trace}&from=2099-01-01T00:00:00Z`)).toEqual([]);
      expect(await operations(`trace_id=${trace}&to=2001-01-01T00:00:00Z`)).toEqual([]);
    });
  });

  test('shows only what changed something, without reads and refusals, on request', async () => {
    const tenant = await on.holdfast.fundedTenant();
    const budgets = `/v1/admin/budgets?tenant_id=${tenant.id}`;
    expectStatus(await on.holdfast.call('GET', budgets, { key: tenant.key }), 200);
    const twice = { scope: `tenant:${tenant.id}`, unit: 'TOKENS', allocated: { unit: 'TOKENS', amount: 1 } };
    expectStatus(await on.holdfast.call('POST', '/v1/admin/budgets', { key: tenant.key, body: twice }), 409);
    const changes = await operations(`tenant_id=${tenant.id}&changes_only=true`);
    expect(changes).toEqual(['createBudget', 'createApiKey', 'createTenant']);
    const all = await operations(`tenant_id=${tenant.id}&changes_only=false`);
    expect(all.slice(0, 2)).toEqual(['POST:/v1/admin/budgets', 'listBudgets']);
    expect(all).toHaveLength(changes.length + 2);
  });

  test('of a closing has a row for each thing that closes, under one correlation id', async () => {
    shows('close audit');
    const tenant = await on.holdfast.fundedTenant(100);
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    const answer = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' });
    const rows = await logs(`request_id=${answer.headers.get('x-request-id')}&sort_dir=asc`);
    expect(rows.map(({ operation }: Json) => operation)).toEqual([
      'updateTenant',
      'reservation.released_via_tenant_cascade',
      'budget.closed_via_tenant_cascade',
      'api_key.revoked_via_tenant_cascade',
    ]);
    expect(new Set(rows.slice(1).map(({ metadata }: Json) => metadata.correlation_id)).size).toBe(1);
  });

  describe('is walked page by page', () => {
    const ROWS = 500;
    beforeAll(async () => {
      // One pipeline per partition, as a cluster requires.
      const [few, many] = [on.stored.redis.pipeline(), on.stored.redis.pipeline()];
      for (let row = 0; row < ROWS; row += 1) {
        // Many rows share a millisecond, and reading them takes more than one run.
        const entry = [
          'op',
          row % 2 === 0 ? 'even' : 'odd',
          'tn',
          '__admin__',
          'ow',
          'walker',
          'ac',
          'admin',
          'rt',
          'walk',
          'ri',
          `r${row}`,
          'st',
          '200',
        ];
        few.xadd(auditLogKey('{p3f}'), `${4_000_000_000_000 + Math.floor(row / 40)}-*`, ...entry);
        many.xadd(auditLogKey('{p3e}'), `${4_000_000_000_000 + Math.floor(row / 3)}-*`, ...entry);
      }
      await Promise.all([few.exec(), many.exec()]);
    });

    test.each(['', 'sort_dir=asc', 'sort_by=operation', 'sort_by=status&sort_dir=asc', 'sort_by=key_id'])(
      'without gaps or duplicates: %s',
      async (order) => {
        const seen: string[] = [];
        let cursor = '';
        do {
          const page = expectStatus(
            await on.holdfast.admin(
              'GET',
              `/v1/admin/audit/logs?resource_type=walk&limit=70&${order}&cursor=${cursor}`,
            ),
            200,
          );
          seen.push(...page.logs.map(({ log_id: id }: Json) => id as string));
          cursor = page.next_cursor ?? '';
          expect(page.has_more).toBe(cursor !== '');
        } while (cursor !== '');
        expect(seen).toHaveLength(2 * ROWS);
        expect(new Set(seen).size).toBe(2 * ROWS);
      },
    );

    test('in chronological order', async () => {
      const rows = await logs('resource_type=walk&limit=100');
      const times = rows.map(({ timestamp }: Json) => timestamp as string);
      expect(times).toEqual([...times].sort().reverse());
      expect(times[0]).toBe(new Date(4_000_000_000_000 + Math.floor((ROWS - 1) / 3)).toISOString());
    });

    test('and a cursor belongs to its filters', async () => {
      const { next_cursor: cursor } = expectStatus(
        await on.holdfast.admin('GET', '/v1/admin/audit/logs?resource_type=walk&limit=1'),
        200,
      );
      expectRefusal(
        await on.holdfast.admin('GET', `/v1/admin/audit/logs?resource_type=other&limit=1&cursor=${cursor}`),
        400,
        'INVALID_REQUEST',
      );
    });
  });

  test.each([
    'status=200&status_min=200',
    'status=200&status_max=200',
    'status_min=300&status_max=200',
    'status_min=99',
    'status_max=600',
    `operation=${Array.from({ length: 26 }, (_, index) => `o${index}`).join(',')}`,
    `search=${'s'.repeat(129)}`,
    'trace_id=odd',
    'from=yesterday',
    'sort_by=metadata',
    'cursor=odd',
    'limit=0',
  ])('refuses %s', async (query) => {
    shows('audit filter refusals');
    expectRefusal(await on.holdfast.admin('GET', `/v1/admin/audit/logs?${query}`), 400, 'INVALID_REQUEST');
  });

  test('is for operators, and ignores parameters that it does not know', async () => {
    const tenant = await on.holdfast.createTenant();
    const key = await on.holdfast.createKey(tenant.id, { permissions: ['admin:read', 'admin:audit:read'] });
    expectRefusal(await on.holdfast.call('GET', '/v1/admin/audit/logs', { key }), 401, 'UNAUTHORIZED');
    expectStatus(
      await on.holdfast.call('GET', '/v1/admin/audit/logs?colour=red&limit=2000', {
        headers: { 'x-admin-api-key': ADMIN_API_KEY },
      }),
      200,
    );
  });
});
