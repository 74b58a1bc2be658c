import { Controller, Get, Module } from '@nestjs/common';
import { describe, expect, test } from '@jest/globals';
import { type AuthAttempts, hashOfSecret } from '../../src/auth/api-key-verifier.js';
import { OperatorKeys } from '../../src/auth/operator-keys.js';
import type { HoldfastConfig } from '../../src/config/config.js';
import { apiKeyHashKey } from '../../src/redis/keyspace.js';
import type { RedisService } from '../../src/redis/redis.service.js';
import { shows } from '../compatibility/shows.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  Holdfast,
  newKey,
  type Answer,
  type TestTenant,
} from '../support/holdfast.js';
import { startStore } from '../support/store.js';
import { StoredRecords } from '../support/stored-records.js';
import { useGovernance } from '../support/use-governance.js';

@Controller('v1/forgotten')
class ForgottenController {
  @Get()
  read(): string {
    return 'secrets';
  }
}

@Module({ controllers: [ForgottenController] })
class ForgottenModule {}

const WELL_FORMED = `cyc_live_00${'a'.repeat(43)}`;

describe('authentication', () => {
  const on = useGovernance({ modules: [ForgottenModule] });

  const lookUp = (
    tenant: TestTenant,
    key: string | undefined,
    headers: Record<string, string> = {},
  ): Promise<Answer> =>
    on.holdfast.call('GET', `/v1/admin/budgets/lookup?scope=tenant:${tenant.id}&unit=TOKENS`, {
      key,
      headers,
    });

  /** The key's id, which its secret does not reveal. */
  async function keyIdOf(tenant: TestTenant): Promise<string> {
    const { keys } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}`),
      200,
    );
    return keys[0].key_id as string;
  }

  describe('the API key', () => {
    test('a valid one is accepted, and the response names its tenant and no rate limit', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const { status, headers } = await lookUp(tenant, tenant.key);
      expect(status).toBe(200);
      expect(headers.get('x-cycles-tenant')).toBe(tenant.id);
      expect(headers.get('x-ratelimit-remaining')).toBe('-1');
      expect(headers.get('x-ratelimit-reset')).toBe('0');
    });

    test('missing, blank, malformed, unknown, revoked and expired keys all get the very same 401', async () => {
      shows('key required');
      const revoked = await on.holdfast.fundedTenant();
      expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${await keyIdOf(revoked)}`), 200);
      const expired = await on.holdfast.fundedTenant();
      await on.stored.redis.hset(on.stored.apiKeyKey(await keyIdOf(expired)), 'expires_at', '1700000000000');
      const malformed = [
        'odd',
        `${WELL_FORMED}a`,
        'cyc_live_zz',
        `cyc_live_ff${'a'.repeat(43)}`,
        '{p00}kh:x',
        '*',
      ];
      const seen = new Set<string>();
      for (const key of [undefined, '', '  ', ...malformed, WELL_FORMED, revoked.key, expired.key]) {
        const answer = await on.holdfast.call('POST', '/v1/reservations', { key, body: {} });
        const { error, message, details } = expectRefusal(answer, 401, 'UNAUTHORIZED');
        seen.add(JSON.stringify([error, message, details]));
        expect(answer.headers.get('x-cycles-trace-id')).toMatch(/^[0-9a-f]{32}$/);
        expect(answer.headers.get('x-cycles-tenant')).toBeNull();
      }
      expect(seen.size).toBe(1);
      expect([...seen][0]).toContain('X-Cycles-API-Key');
    });

    test('a wrong secret that starts like a revoked one is no different from any other', async () => {
      const tenant = await on.holdfast.fundedTenant();
      expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${await keyIdOf(tenant)}`), 200);
      const { message } = expectRefusal(
        await lookUp(tenant, tenant.key.slice(0, 15).padEnd(tenant.key.length, 'x')),
        401,
        'UNAUTHORIZED',
      );
      expect(message).toBe(expectRefusal(await lookUp(tenant, undefined), 401, 'UNAUTHORIZED').message);
    });

    test('failures are counted by reason', async () => {
      const before = await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'unknown_key' });
      await on.holdfast.call('GET', '/v1/balances', { key: WELL_FORMED });
      await on.holdfast.call('GET', '/v1/balances', { key: WELL_FORMED });
      expect(await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'unknown_key' })).toBe(
        before + 2,
      );
    });

    test('a suspended tenant is locked out, and admitted again once it is reactivated', async () => {
      const tenant = await on.holdfast.fundedTenant();
      await on.stored.setTenantStatus(tenant.id, 'SUSPENDED');
      expectRefusal(await lookUp(tenant, tenant.key), 401, 'UNAUTHORIZED');
      expectRefusal(await on.holdfast.reserve(tenant, 1), 401, 'UNAUTHORIZED');
      await on.stored.setTenantStatus(tenant.id, 'ACTIVE');
      expectStatus(await lookUp(tenant, tenant.key), 200);
      expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    });

    test("a closed tenant's key still gets the closed tenant's own refusal, and reads", async () => {
      const tenant = await on.holdfast.fundedTenant();
      await on.stored.setTenantStatus(tenant.id, 'CLOSED');
      expectRefusal(await on.holdfast.reserve(tenant, 1), 409, 'TENANT_CLOSED');
      expectStatus(await lookUp(tenant, tenant.key), 200);
    });

    test.each<[string, (stored: StoredRecords, keyId: string, secret: string) => Promise<unknown>]>([
      [
        'its status is unknown',
        (stored, keyId) => stored.redis.hset(stored.apiKeyKey(keyId), 'status', 'ODD'),
      ],
      [
        'its expiry is not a number',
        (stored, keyId) => stored.redis.hset(stored.apiKeyKey(keyId), 'expires_at', 'soon'),
      ],
      [
        'its permissions are not a list',
        (stored, keyId) => stored.redis.hset(stored.apiKeyKey(keyId), 'permissions', '{}'),
      ],
      [
        'its scope filter is truncated',
        (stored, keyId) => stored.redis.hset(stored.apiKeyKey(keyId), 'scope_filter', '["wor'),
      ],
      ['it is gone', (stored, keyId) => stored.redis.del(stored.apiKeyKey(keyId))],
      ['it is not a hash', (stored, keyId) => stored.redis.set(stored.apiKeyKey(keyId), 'x')],
      [
        'its lookup record is not a string',
        async (stored, keyId, secret) => {
          const key = apiKeyHashKey(`{p${keyId.slice(4, 6)}}`, hashOfSecret(secret));
          await stored.redis.del(key);
          await stored.redis.sadd(key, 'x');
        },
      ],
    ])('a stored key that cannot be trusted admits nobody: %s', async (_what, damage) => {
      const redis = await startStore();
      const holdfast = await Holdfast.start({ REDIS_URL: redis.url });
      const stored = new StoredRecords(redis.url);
      try {
        const { id } = await holdfast.createTenant();
        const made = expectStatus(
          await holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: id, name: 'n' }),
          201,
        );
        await damage(stored, made.key_id as string, made.key_secret as string);
        const answer = await holdfast.call('GET', '/v1/balances', { key: made.key_secret as string });
        expectRefusal(answer, 500, 'INTERNAL_ERROR');
        expect(answer.text).not.toMatch(/corrupt|WRONGTYPE|lua/i);
        expect(await holdfast.metric('holdfast_unexpected_errors_total')).toBe(1);
      } finally {
        await stored.close();
        await holdfast.stop();
        await redis.stop();
      }
    });
  });

  describe('permissions', () => {
    const budgetBody = (tenant: TestTenant, below: string): Record<string, unknown> => ({
      scope: `tenant:${tenant.id}${below}`,
      unit: 'TOKENS',
      allocated: { unit: 'TOKENS', amount: 1 },
    });

    test('the runtime refuses a lacking permission with FORBIDDEN, governance with INSUFFICIENT_PERMISSIONS', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const key = await on.holdfast.createKey(tenant.id, { permissions: ['events:read'] });
      const answers: [Promise<Answer>, string, string][] = [
        [on.holdfast.reserve({ ...tenant, key }, 1), 'FORBIDDEN', 'reservations:create'],
        [on.holdfast.call('GET', '/v1/balances?tenant=' + tenant.id, { key }), 'FORBIDDEN', 'balances:read'],
        [
          on.holdfast.commit({ ...tenant, key }, 'rsv_000000000000000000', 1),
          'FORBIDDEN',
          'reservations:commit',
        ],
        [lookUp(tenant, key), 'INSUFFICIENT_PERMISSIONS', 'budgets:read'],
        [
          on.holdfast.call('POST', '/v1/admin/budgets', { key, body: budgetBody(tenant, '/app:x') }),
          'INSUFFICIENT_PERMISSIONS',
          'budgets:write',
        ],
      ];
      for (const [promise, code, permission] of answers) {
        const answer = await promise;
        expect(expectRefusal(answer, 403, code).message).toContain(permission);
        expect(answer.headers.get('x-cycles-tenant')).toBe(tenant.id);
      }
    });

    test('admin:write stands for every write and for no read, admin:read the other way round', async () => {
      shows('admin permissions');
      const tenant = await on.holdfast.fundedTenant();
      const writer = await on.holdfast.createKey(tenant.id, { permissions: ['admin:write'] });
      const reader = await on.holdfast.createKey(tenant.id, { permissions: ['admin:read'] });
      const create = (key: string, below: string): Promise<Answer> =>
        on.holdfast.call('POST', '/v1/admin/budgets', { key, body: budgetBody(tenant, below) });
      expectStatus(await create(writer, '/app:w'), 201);
      expectRefusal(await create(reader, '/app:r'), 403, 'INSUFFICIENT_PERMISSIONS');
      expectRefusal(await lookUp(tenant, writer), 403, 'INSUFFICIENT_PERMISSIONS');
      expectStatus(await lookUp(tenant, reader), 200);
      expectRefusal(await on.holdfast.reserve({ ...tenant, key: writer }, 1), 403, 'FORBIDDEN');
    });

    test('no API key is accepted where only operators are', async () => {
      const tenant = await on.holdfast.createTenant();
      const key = await on.holdfast.createKey(tenant.id, {
        permissions: ['admin:read', 'admin:write', 'admin:tenants:read'],
      });
      for (const path of ['/v1/admin/tenants', `/v1/admin/tenants/${tenant.id}`, '/v1/admin/api-keys']) {
        expectRefusal(await on.holdfast.call('GET', path, { key }), 401, 'UNAUTHORIZED');
      }
    });

    test('an operation that declares no rule is refused, not public', async () => {
      shows('key required');
      expectRefusal(await on.holdfast.admin('GET', '/v1/forgotten'), 500, 'INTERNAL_ERROR');
    });
  });

  describe('scope filters', () => {
    test('a confined key reserves inside its filter only', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const reserve = (filter: string[], subject: Record<string, string>): Promise<Answer> =>
        on.holdfast
          .createKey(tenant.id, { scope_filter: filter })
          .then((key) =>
            on.holdfast.reserve({ ...tenant, key }, 1, { subject: { tenant: tenant.id, ...subject } }),
          );
      expectStatus(await reserve([`tenant:${tenant.id}/agent:a`], { agent: 'A' }), 200);
      expectRefusal(await reserve([`tenant:${tenant.id}/agent:a`], { agent: 'b' }), 403, 'FORBIDDEN');
      expectRefusal(await reserve([`tenant:${tenant.id}/agent:a`], { agent: 'a2' }), 403, 'FORBIDDEN');
      expectStatus(await reserve(['workspace:eng', 'agent:*'], { workspace: 'eng' }), 200);
      expectStatus(await reserve(['workspace:eng', 'agent:*'], { workspace: 'eng', agent: 'b' }), 200);
      expectRefusal(await reserve(['workspace:eng', 'agent:*'], { agent: 'b' }), 403, 'FORBIDDEN');
      expectRefusal(await reserve(['workspace:eng', 'agent:*'], { workspace: 'ops' }), 403, 'FORBIDDEN');
      expectRefusal(await reserve(['tenant:somebody-else'], { agent: 'a' }), 403, 'FORBIDDEN');
    });

    test('a confined key creates, looks up, funds and lists budgets inside its filter only', async () => {
      shows('budget access');
      const tenant = await on.holdfast.fundedTenant();
      const key = await on.holdfast.createKey(tenant.id, { scope_filter: ['workspace:eng'] });
      const create = (below: string): Promise<Answer> =>
        on.holdfast.call('POST', '/v1/admin/budgets', {
          key,
          body: {
            scope: `tenant:${tenant.id}${below}`,
            unit: 'TOKENS',
            allocated: { unit: 'TOKENS', amount: 1 },
          },
        });
      expectStatus(await create('/workspace:eng/app:x'), 201);
      expectRefusal(await create('/workspace:ops'), 403, 'INSUFFICIENT_PERMISSIONS');
      expectRefusal(await lookUp(tenant, key), 403, 'INSUFFICIENT_PERMISSIONS');
      const fund = await on.holdfast.call(
        'POST',
        `/v1/admin/budgets/fund?scope=tenant:${tenant.id}&unit=TOKENS`,
        {
          key,
          body: { operation: 'CREDIT', amount: { unit: 'TOKENS', amount: 1 }, idempotency_key: newKey() },
        },
      );
      expectRefusal(fund, 403, 'INSUFFICIENT_PERMISSIONS');
      const { ledgers } = expectStatus(await on.holdfast.call('GET', '/v1/admin/budgets', { key }), 200);
      expect(ledgers).toMatchObject([{ scope: `tenant:${tenant.id}/workspace:eng/app:x` }]);
    });
  });

  describe('the admin key', () => {
    test('missing and wrong ones get a 401 that never names the header of API keys', async () => {
      const tenant = await on.holdfast.createTenant();
      for (const headers of [
        {},
        { 'x-admin-api-key': '' },
        { 'x-admin-api-key': 'wrong' },
        { 'x-admin-api-key': `${ADMIN_API_KEY}x` },
      ]) {
        const { message } = expectRefusal(
          await on.holdfast.call('GET', '/v1/admin/tenants', { key: tenant.key, headers }),
          401,
          'UNAUTHORIZED',
        );
        expect(message).not.toMatch(/cycles-api-key/i);
      }
    });

    test('a wrong one is refused even beside a valid API key, and a right one wins over a wrong API key', async () => {
      const tenant = await on.holdfast.fundedTenant();
      const { message } = expectRefusal(
        await lookUp(tenant, tenant.key, { 'x-admin-api-key': 'wrong' }),
        401,
        'UNAUTHORIZED',
      );
      expect(message).not.toMatch(/cycles-api-key/i);
      expectStatus(await lookUp(tenant, 'wrong', { 'x-admin-api-key': ADMIN_API_KEY }), 200);
      expectStatus(await lookUp(tenant, tenant.key, { 'x-admin-api-key': '' }), 200);
    });

    test('it is not accepted where only API keys are', async () => {
      const tenant = await on.holdfast.fundedTenant();
      expectRefusal(await on.holdfast.reserve({ ...tenant, key: '' }, 1), 401, 'UNAUTHORIZED');
      const headers = { 'x-admin-api-key': ADMIN_API_KEY };
      expectRefusal(
        await on.holdfast.call('POST', '/v1/reservations', { headers, body: {} }),
        401,
        'UNAUTHORIZED',
      );
    });

    test('a server without one reports that as its own fault', () => {
      const keys = new OperatorKeys({} as HoldfastConfig, {} as RedisService, {} as AuthAttempts);
      expect(() => keys.find('')).toThrow('started without one');
    });
  });
});
