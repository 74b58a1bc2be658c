import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventLogKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

describe('credentials', () => {
  const on = useGovernance();

  const create = async (tenant: TestTenant, settings: Record<string, unknown> = {}): Promise<Json> =>
    expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenant.id, name: 'n', ...settings }),
      201,
    );
  const patch = (keyId: string, body: unknown): Promise<Answer> =>
    on.holdfast.admin('PATCH', `/v1/admin/api-keys/${keyId}`, body);
  const validate = async (secret: string): Promise<Json> =>
    expectStatus(await on.holdfast.admin('POST', '/v1/auth/validate', { key_secret: secret }), 200);
  const introspect = (key: string): Promise<Answer> =>
    on.holdfast.call('GET', '/v1/auth/introspect', { key });
  const keyEvents = async (tenant: TestTenant): Promise<[string, string | undefined][]> =>
    (await on.stored.events(tenant.id))
      .filter(({ type }) => type.startsWith('api_key.') && type !== 'api_key.created')
      .map(({ type, fields }) => [type, fields['failure_reason']]);

  describe('a patched API key', () => {
    let other: Holdfast;
    beforeAll(async () => {
      other = await Holdfast.start({ REDIS_URL: on.redis.url });
    });
    afterAll(async () => {
      await other?.stop();
    });

    test('has its new permissions here immediately and elsewhere within a second, and keeps what was not named', async () => {
      shows('key changes', 'updateApiKey');
      const tenant = await on.holdfast.fundedTenant(100);
      const { key_id, key_secret } = await create(tenant, { description: 'd', metadata: { a: 1 } });
      const look = (holdfast: Holdfast): Promise<Answer> =>
        holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: key_secret as string });
      expectStatus(await look(on.holdfast), 200);
      expectStatus(await look(other), 200);
      const body = expectStatus(
        await patch(key_id as string, {
          permissions: ['reservations:create'],
          scope_filter: ['Agent:A'],
          name: 'new',
        }),
        200,
      );
      expect(body).toMatchObject({
        name: 'new',
        description: 'd',
        metadata: { a: 1 },
        permissions: ['reservations:create'],
        scope_filter: ['agent:a'],
        status: 'ACTIVE',
      });
      expect(body).not.toHaveProperty('key_secret');
      expectRefusal(await look(on.holdfast), 403, 'FORBIDDEN');
      await eventually(
        'the other instance has heard of it',
        async () => (await look(other)).status === 403,
        1100,
      );
      expectRefusal(await on.holdfast.reserve({ ...tenant, key: key_secret as string }, 1), 403, 'FORBIDDEN');
      expect(await keyEvents(tenant)).toEqual([['api_key.permissions_changed', undefined]]);
      expectStatus(
        await patch(key_id as string, { permissions: ['reservations:create'], description: 'e' }),
        200,
      );
      expect(await keyEvents(tenant)).toHaveLength(1);
    });

    test('must be active, and so must its tenant', async () => {
      shows('change after close');
      const tenant = await on.holdfast.createTenant();
      const [revoked, expired, orphan] = [await create(tenant), await create(tenant), await create(tenant)];
      expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${revoked.key_id}`), 200);
      expectRefusal(await patch(revoked.key_id as string, { name: 'x' }), 409, 'KEY_REVOKED');
      await on.stored.redis.hset(
        on.stored.apiKeyKey(expired.key_id as string),
        'expires_at',
        '1700000000000',
      );
      expectRefusal(await patch(expired.key_id as string, { name: 'x' }), 409, 'KEY_EXPIRED');
      await on.stored.setTenantStatus(tenant.id, 'CLOSED');
      expectRefusal(await patch(orphan.key_id as string, { name: 'x' }), 409, 'TENANT_CLOSED');
      expectRefusal(await patch('key_000000000000000000', { name: 'x' }), 404, 'NOT_FOUND');
      expectRefusal(await patch('odd', { name: 'x' }), 404, 'NOT_FOUND');
    });

    test.each<[string, unknown, string]>([
      ['an unknown permission', { permissions: ['rule:all'] }, 'rule:all'],
      ['a filter with an unknown level', { scope_filter: ['team:eng'] }, 'scope_filter'],
      ['its end', { expires_at: '2099-01-01T00:00:00Z' }, 'expires_at'],
      ['its status', { status: 'ACTIVE' }, 'status'],
    ])('takes no %s', async (_what, body, word) => {
      shows('key changes');
      const { key_id } = await create(await on.holdfast.createTenant());
      expect(expectRefusal(await patch(key_id as string, body), 400, 'INVALID_REQUEST').message).toContain(
        word,
      );
    });
  });

  describe('introspection', () => {
    test('of the admin key: everything, and no tenant', async () => {
      shows('admin introspection', 'introspectAuth');
      const body = expectStatus(await on.holdfast.admin('GET', '/v1/auth/introspect'), 200);
      expect(body).toMatchObject({ authenticated: true, auth_type: 'admin', permissions: ['*'] });
      expect(new Set(Object.values(body.capabilities as object))).toEqual(new Set([true]));
      expect(Object.keys(body.capabilities as object)).toHaveLength(15);
      expect(Object.keys(body as object).sort()).toEqual([
        'auth_type',
        'authenticated',
        'capabilities',
        'permissions',
      ]);
    });

    test('of an API key: what it was granted, and never what is for operators', async () => {
      shows('key capabilities');
      const tenant = await on.holdfast.createTenant();
      const key = await on.holdfast.createKey(tenant.id, {
        permissions: ['budgets:read', 'reservations:commit', 'admin:write', 'admin:tenants:read'],
        scope_filter: ['agent:a'],
      });
      const body = expectStatus(await introspect(key), 200);
      expect(body).toMatchObject({
        authenticated: true,
        auth_type: 'tenant',
        tenant_id: tenant.id,
        scope_filter: ['agent:a'],
        permissions: expect.arrayContaining(['budgets:read']),
      });
      expect(body.capabilities).toEqual({
        view_overview: false,
        view_budgets: true,
        view_events: false,
        view_webhooks: false,
        view_audit: false,
        view_tenants: false,
        view_api_keys: false,
        view_policies: false,
        view_reservations: true,
        manage_budgets: true,
        manage_policies: true,
        manage_webhooks: true,
        manage_tenants: false,
        manage_api_keys: false,
        manage_reservations: true,
      });
      const plain = expectStatus(
        await introspect(await on.holdfast.createKey(tenant.id, { permissions: [] })),
        200,
      );
      expect(plain).not.toHaveProperty('scope_filter');
      expect(new Set(Object.values(plain.capabilities as object))).toEqual(new Set([false]));
    });

    test('without a good key is 401', async () => {
      expectRefusal(await on.holdfast.call('GET', '/v1/auth/introspect'), 401, 'UNAUTHORIZED');
      expectRefusal(await introspect('odd'), 401, 'UNAUTHORIZED');
      const tenant = await on.holdfast.createTenant();
      const headers = { 'x-admin-api-key': `${ADMIN_API_KEY}x` };
      expectRefusal(
        await on.holdfast.call('GET', '/v1/auth/introspect', { key: tenant.key, headers }),
        401,
        'UNAUTHORIZED',
      );
    });
  });

  describe('validation', () => {
    test('of a good key returns its tenant and its permissions', async () => {
      shows('validateApiKey');
      const tenant = await on.holdfast.createTenant();
      const made = await create(tenant, { permissions: ['balances:read'], scope_filter: ['agent:a'] });
      expect(await validate(made.key_secret as string)).toEqual({
        valid: true,
        tenant_id: tenant.id,
        key_id: made.key_id,
        permissions: ['balances:read'],
        scope_filter: ['agent:a'],
        expires_at: made.expires_at,
      });
      expect(await keyEvents(tenant)).toEqual([]);
    });

    test('of an invalid one returns the reason, and emits an event', async () => {
      shows('key validation');
      const tenant = await on.holdfast.createTenant();
      const made = await create(tenant);
      const bad = (reason: string): Json => ({
        valid: false,
        tenant_id: tenant.id,
        key_id: made.key_id,
        reason,
      });
      const key = on.stored.apiKeyKey(made.key_id as string);
      for (const [status, reason] of [
        ['SUSPENDED', 'TENANT_SUSPENDED'],
        ['CLOSED', 'TENANT_CLOSED'],
      ] as const) {
        await on.stored.setTenantStatus(tenant.id, status);
        expect(await validate(made.key_secret as string)).toEqual(bad(reason));
      }
      await on.stored.redis.hset(key, 'expires_at', '1700000000000');
      expect(await validate(made.key_secret as string)).toEqual(bad('EXPIRED'));
      await on.stored.redis.hset(key, 'status', 'REVOKED');
      expect(await validate(made.key_secret as string)).toEqual(bad('REVOKED'));
      expect(await keyEvents(tenant)).toEqual(
        ['tenant_suspended', 'tenant_closed', 'key_expired', 'key_revoked'].map((reason) => [
          'api_key.auth_failed',
          reason,
        ]),
      );
    });

    test('of an unknown secret names no tenant; its event belongs to the system and holds no secret', async () => {
      const unknown = `cyc_live_00${'a'.repeat(43)}`;
      expect(await validate(unknown)).toEqual({ valid: false, tenant_id: '', reason: 'NOT_FOUND' });
      expect(await validate('odd')).toEqual({ valid: false, tenant_id: '', reason: 'INVALID_FORMAT' });
      expect(await validate('')).toEqual({ valid: false, tenant_id: '', reason: 'INVALID_FORMAT' });
      const events = JSON.stringify(
        await on.stored.redis.xrevrange(eventLogKey('{p00}'), '+', '-', 'COUNT', 3),
      );
      expect(events).toContain('__system__');
      expect(events).toContain('key_not_found');
      expect(events).not.toContain(unknown);
    });

    test('is for operators, and needs the secret', async () => {
      const tenant = await on.holdfast.createTenant();
      expectRefusal(
        await on.holdfast.call('POST', '/v1/auth/validate', {
          key: tenant.key,
          body: { key_secret: tenant.key },
        }),
        401,
        'UNAUTHORIZED',
      );
      expectRefusal(await on.holdfast.admin('POST', '/v1/auth/validate', {}), 400, 'INVALID_REQUEST');
    });
  });
});
