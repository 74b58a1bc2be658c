import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { PERMISSIONS } from '../../src/auth/permissions.js';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const DEFAULT_PERMISSIONS = [
  'reservations:create',
  'reservations:commit',
  'reservations:release',
  'reservations:extend',
  'reservations:list',
  'balances:read',
  'budgets:read',
  'budgets:write',
  'policies:read',
  'policies:write',
];
const DAY_MS = 86_400_000;

describe('API keys', () => {
  const on = useGovernance();

  const create = (tenantId: string, settings: Record<string, unknown> = {}): Promise<Answer> =>
    on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenantId, name: 'a key', ...settings });
  const list = async (query: string): Promise<Json> =>
    expectStatus(await on.holdfast.admin('GET', `/v1/admin/api-keys?${query}`), 200);
  const revoke = (keyId: string, query = ''): Promise<Answer> =>
    on.holdfast.admin('DELETE', `/v1/admin/api-keys/${keyId}${query}`);

  test('a new key shows its secret once, has ten permissions and lives for 90 days', async () => {
    shows('key secret once', 'key permissions', 'createApiKey');
    const { id } = await on.holdfast.createTenant();
    const key = expectStatus(await create(id), 201);
    expect(key).toEqual({
      key_id: expect.stringMatching(/^key_[0-9a-f]{2}[0-9A-Za-z]{16}$/),
      key_secret: expect.stringMatching(/^cyc_live_[0-9a-f]{2}[0-9A-Za-z]{43}$/),
      key_prefix: (key.key_secret as string).slice(0, 15),
      tenant_id: id,
      permissions: DEFAULT_PERMISSIONS,
      scope_filter: [],
      created_at: expect.any(String),
      expires_at: expect.any(String),
    });
    expect(Date.parse(key.expires_at) - Date.parse(key.created_at)).toBe(90 * DAY_MS);
    const everything = await list(`tenant_id=${id}`);
    expect(JSON.stringify(everything)).not.toContain(key.key_secret);
  });

  test('neither the secret nor its hash is stored where a list, a revocation or an event would show it', async () => {
    shows('key secret once');
    const { id } = await on.holdfast.createTenant();
    const { key_secret: secret, key_id: keyId } = expectStatus(await create(id), 201);
    const hash = createHash('sha256')
      .update(secret as string)
      .digest('base64url');
    const listed = (await on.holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${id}`)).text;
    const revoked = (await revoke(keyId)).text;
    const record = JSON.stringify(await on.stored.redis.hgetall(on.stored.apiKeyKey(keyId)));
    for (const text of [listed, revoked, JSON.stringify(await on.stored.events(id))]) {
      expect(text).not.toContain(secret);
      expect(text).not.toContain(hash);
      expect(text).not.toMatch(/hash/i);
    }
    expect(record).not.toContain(secret);
  });

  test('every given setting is stored and listed', async () => {
    const { id } = await on.holdfast.createTenant();
    const settings = {
      description: 'for the batch jobs',
      permissions: ['balances:read', 'events:read'],
      scope_filter: ['workspace:eng', 'tenant:acme/agent:*'],
      expires_at: '2099-12-31T23:59:59.000Z',
      metadata: { owner: 'ops', nested: { deep: [1, null], exact: 9007199254740993n } },
    };
    const { key_id: keyId } = expectStatus(await create(id, settings), 201);
    const listed = (await list(`tenant_id=${id}`)).keys.find((key: Json) => key.key_id === keyId);
    expect(listed).toMatchObject({ ...settings, name: 'a key', status: 'ACTIVE', tenant_id: id });
  });

  test('scopes of a filter are kept in lower case, as scopes are', async () => {
    const { id } = await on.holdfast.createTenant();
    expect(expectStatus(await create(id, { scope_filter: ['Workspace:Eng'] }), 201).scope_filter).toEqual([
      'workspace:eng',
    ]);
  });

  test('an empty list of permissions stays empty, even after a revocation', async () => {
    const { id } = await on.holdfast.createTenant();
    const key = expectStatus(await create(id, { permissions: [], scope_filter: [] }), 201);
    expect(key.permissions).toEqual([]);
    expect(expectStatus(await revoke(key.key_id), 200)).toMatchObject({ permissions: [], scope_filter: [] });
    expect((await list(`tenant_id=${id}&status=REVOKED`)).keys).toMatchObject([
      { key_id: key.key_id, permissions: [], scope_filter: [] },
    ]);
  });

  test('an unknown permission is refused by name with a list of the valid ones, and the documentation lists them', async () => {
    shows('key permissions');
    const { id } = await on.holdfast.createTenant();
    const { message } = expectRefusal(
      await create(id, { permissions: ['balances:read', 'reservations:fly'] }),
      400,
      'INVALID_REQUEST',
    );
    expect(message).toBe(
      `permissions: "reservations:fly" is not a permission; allowed: ${PERMISSIONS.join(', ')}`,
    );
    const { paths } = (await on.holdfast.call('GET', '/openapi.json')).body;
    const { description } = paths['/v1/admin/api-keys'].post;
    expect(PERMISSIONS.filter((permission) => !description.includes(`- \`${permission}\`: `))).toEqual([]);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['a missing name', { name: undefined }, 'name'],
    ['a name that is too long', { name: 'n'.repeat(257) }, 'name'],
    ['a description that is too long', { description: 'n'.repeat(1025) }, 'description'],
    ['permissions that are not a list', { permissions: 'balances:read' }, 'permissions'],
    ['a permission that is a number of 64 bits', { permissions: [2n ** 64n] }, 'permissions'],
    ['a filter with an unknown level', { scope_filter: ['team:eng'] }, 'scope_filter'],
    ['a filter entry without a value', { scope_filter: ['workspace:'] }, 'scope_filter'],
    ['a filter entry that is not a string', { scope_filter: [1] }, 'scope_filter'],
    ['an expiry that is not an instant', { expires_at: 'tomorrow' }, 'expires_at'],
    ['an expiry on a day that does not exist', { expires_at: '2099-02-31T00:00:00Z' }, 'expires_at'],
    ['an expiry in the past', { expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    ['an unknown field', { colour: 'red' }, 'colour'],
    ['a tenant that does not exist', { tenant_id: 'nobody-here' }, 'tenant_id'],
  ])('%s is refused, naming the field', async (_what, change, field) => {
    const { id } = await on.holdfast.createTenant();
    const body = expectRefusal(await create(id, change), 400, 'INVALID_REQUEST');
    expect(body.message).toContain(field);
  });

  test('a revocation is final, keeps its reason and emits one event', async () => {
    shows('revoked key', 'revokeApiKey');
    const { id } = await on.holdfast.createTenant();
    const { key_id: keyId } = expectStatus(await create(id, { permissions: ['balances:read'] }), 201);
    const revoked = expectStatus(await revoke(keyId, '?reason=leaked%20%26%20found'), 200);
    expect(revoked).toMatchObject({
      key_id: keyId,
      status: 'REVOKED',
      revoked_reason: 'leaked & found',
      revoked_at: expect.any(String),
    });
    expectRefusal(await revoke(keyId), 409, 'KEY_REVOKED');
    const events = (await on.stored.events(id)).filter(({ fields }) => fields['key_id'] === keyId);
    expect(events.map(({ type }) => type)).toEqual(['api_key.created', 'api_key.revoked']);
    expect(events[1]?.fields).toMatchObject({
      previous_status: 'ACTIVE',
      new_status: 'REVOKED',
      permissions: '["balances:read"]',
      ac: 'admin',
    });
  });

  test('of parallel revocations one wins', async () => {
    const { id } = await on.holdfast.createTenant();
    const { key_id: keyId } = expectStatus(await create(id), 201);
    const answers = await Promise.all(Array.from({ length: 10 }, () => revoke(keyId)));
    expect(answers.map(({ status }) => status).sort()).toEqual([
      200,
      ...Array.from({ length: 9 }, () => 409),
    ]);
  });

  test('a key id that was never issued is 404, whatever it looks like', async () => {
    for (const keyId of ['key_0000000000000000AA', 'key_ff0000000000000000', 'odd', '%7Bp00%7D']) {
      expectRefusal(await revoke(keyId), 404, 'NOT_FOUND');
    }
    expectRefusal(await revoke('odd', `?reason=${'r'.repeat(513)}`), 400, 'INVALID_REQUEST');
  });

  test('keys of a closed tenant are neither created nor revoked, but listed', async () => {
    shows('change after close');
    const { id } = await on.holdfast.createTenant();
    const { key_id: keyId } = expectStatus(await create(id), 201);
    await on.stored.setTenantStatus(id, 'CLOSED');
    expectRefusal(await create(id), 409, 'TENANT_CLOSED');
    expectRefusal(await revoke(keyId), 409, 'TENANT_CLOSED');
    expect((await list(`tenant_id=${id}`)).keys).toHaveLength(2);
  });

  test('a key past its expiry is listed as EXPIRED', async () => {
    shows('key permissions');
    const { id } = await on.holdfast.createTenant();
    const { key_id: keyId } = expectStatus(await create(id), 201);
    await on.stored.redis.hset(on.stored.apiKeyKey(keyId), 'expires_at', '1700000000000');
    expect((await list(`tenant_id=${id}&status=EXPIRED`)).keys).toMatchObject([
      { key_id: keyId, status: 'EXPIRED' },
    ]);
    expect((await list(`tenant_id=${id}&status=ACTIVE`)).keys).toHaveLength(1);
  });

  test('an operator walks through the keys of all tenants, sorted and filtered', async () => {
    shows('listApiKeys');
    const tenants = [
      await on.holdfast.createTenant(),
      await on.holdfast.createTenant(),
      await on.holdfast.createTenant(),
    ];
    const mark = `walk-${tenants[0]?.id ?? ''}`;
    const made: string[] = [];
    for (const [index, tenant] of [...tenants, ...tenants].entries()) {
      made.push(expectStatus(await create(tenant.id, { name: `${mark} ${index}` }), 201).key_id);
    }
    const seen: string[] = [];
    let cursor = '';
    do {
      const page = await list(`search=${mark}&sort_by=name&sort_dir=asc&limit=4${cursor}`);
      seen.push(...page.keys.map((key: Json) => key.key_id));
      cursor = page.has_more === true ? `&cursor=${page.next_cursor}` : '';
    } while (cursor !== '');
    expect(seen).toEqual(made);
    expect(
      (await list(`search=${mark}&tenant_id=${tenants[1]?.id}`)).keys.map((key: Json) => key.key_id).sort(),
    ).toEqual([made[1], made[4]].sort());
    expect((await list('tenant_id=nobody-here')).keys).toEqual([]);
    expectStatus(await on.holdfast.admin('GET', '/v1/admin/api-keys?limit=2000'), 200);
    for (const query of ['sort_by=secret', 'status=odd', 'limit=-1', 'cursor=e30']) {
      expectRefusal(await on.holdfast.admin('GET', `/v1/admin/api-keys?${query}`), 400, 'INVALID_REQUEST');
    }
  });
});
