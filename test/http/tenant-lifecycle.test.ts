import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { TenantClosingJanitor } from '../../src/governance/tenants/tenant-closing.js';
import { closingKey, tenantKey } from '../../src/redis/keyspace.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

describe('the life of a tenant', () => {
  const on = useGovernance();

  const patch = (tenant: TestTenant, body: unknown): Promise<Answer> =>
    on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, body);
  const tenantEvents = async (tenant: TestTenant): Promise<[string, string | undefined][]> =>
    (await on.stored.events(tenant.id))
      .filter(({ type }) => type.startsWith('tenant.'))
      .map(({ type, fields }) => [type, fields['changed_fields']]);
  const budgets = async (tenant: TestTenant): Promise<Json[]> =>
    expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/budgets?tenant_id=${tenant.id}&sort_by=scope&sort_dir=asc`),
      200,
    ).ledgers;
  const keys = async (tenant: TestTenant): Promise<Json[]> =>
    expectStatus(await on.holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}`), 200).keys;
  const cascadeOf = async (tenant: TestTenant): Promise<string[]> =>
    (await on.stored.events(tenant.id))
      .map(({ type }) => type)
      .filter((type) => type.endsWith('_via_tenant_cascade') || type === 'tenant.closed');

  /** Only flips the status, as if the instance had died immediately afterwards. */
  async function flip(tenant: TestTenant): Promise<void> {
    const scripts = new ScriptRegistry(on.stored.redis);
    const key = tenantKey(on.stored.tagOf(tenant.id), tenant.id);
    const reply = await scripts.run(
      'update_tenant',
      [key],
      [tenant.id, 'CLOSED', 'admin', '', 'req_dead', `${'a'.repeat(32)}-01`],
    );
    expect(reply[0]).toBe('CLOSING');
  }

  describe('its settings', () => {
    test('change as named, are honoured by the next reserve, and differ from its description', async () => {
      shows('updateTenant');
      const tenant = await on.holdfast.fundedTenant();
      const body = expectStatus(
        await patch(tenant, {
          name: 'New',
          metadata: { a: 'b' },
          default_reservation_ttl_ms: 5000,
          max_reservation_ttl_ms: 6000,
        }),
        200,
      );
      expect(body).toMatchObject({
        name: 'New',
        metadata: { a: 'b' },
        default_reservation_ttl_ms: 5000,
        max_reservation_ttl_ms: 6000,
        status: 'ACTIVE',
      });
      const held = expectStatus(await on.holdfast.reserve(tenant, 1, { ttl_ms: 60_000 }), 200);
      expect(held.remaining_ttl_ms).toBeLessThanOrEqual(6000);
      expectStatus(await patch(tenant, { name: 'New' }), 200);
      expectStatus(await patch(tenant, {}), 200);
      expect(await tenantEvents(tenant)).toEqual([
        ['tenant.created', undefined],
        ['tenant.updated', '["name","metadata"]'],
        ['tenant.settings_changed', '["default_reservation_ttl_ms","max_reservation_ttl_ms"]'],
      ]);
    });

    test('are refused when the default would exceed the maximum, also against what is stored', async () => {
      const tenant = await on.holdfast.fundedTenant(1000, { default_reservation_ttl_ms: 50_000 });
      expectRefusal(await patch(tenant, { max_reservation_ttl_ms: 49_999 }), 400, 'INVALID_REQUEST');
      expectRefusal(await patch(tenant, { default_reservation_ttl_ms: 3_600_001 }), 400, 'INVALID_REQUEST');
      expectStatus(
        await patch(tenant, { max_reservation_ttl_ms: 40_000, default_reservation_ttl_ms: 40_000 }),
        200,
      );
    });

    test.each<[string, unknown]>([
      ['an unknown status', { status: 'PAUSED' }],
      ['a member that may not be changed', { tenant_id: 'other' }],
      ['an empty name', { name: '' }],
      ['metadata that is not a string', { metadata: { a: 1 } }],
      ['no body', undefined],
    ])('with %s are refused', async (_what, body) => {
      expectRefusal(await patch(await on.holdfast.createTenant(), body), 400, 'INVALID_REQUEST');
    });

    test('of an unknown tenant are 404, and only operators change them', async () => {
      expectRefusal(
        await on.holdfast.admin('PATCH', '/v1/admin/tenants/nobody', { name: 'x' }),
        404,
        'TENANT_NOT_FOUND',
      );
      expectRefusal(
        await on.holdfast.admin('PATCH', '/v1/admin/tenants/No%7Cbody', { name: 'x' }),
        404,
        'TENANT_NOT_FOUND',
      );
      const tenant = await on.holdfast.createTenant();
      expectRefusal(
        await on.holdfast.call('PATCH', `/v1/admin/tenants/${tenant.id}`, { key: tenant.key, body: {} }),
        401,
        'UNAUTHORIZED',
      );
    });
  });

  describe('suspended', () => {
    let other: Holdfast;
    beforeAll(async () => {
      other = await Holdfast.start({ REDIS_URL: on.redis.url });
    });
    afterAll(async () => {
      await other?.stop();
    });

    test('its keys are refused within a second on every instance, and work again when it is back; holds survive', async () => {
      shows('tenant status');
      const tenant = await on.holdfast.fundedTenant();
      const { reservation_id } = expectStatus(await on.holdfast.reserve(tenant, 10), 200);
      expectStatus(await other.reserve(tenant, 1), 200);
      expect(expectStatus(await patch(tenant, { status: 'SUSPENDED' }), 200)).toMatchObject({
        status: 'SUSPENDED',
        suspended_at: expect.any(String),
      });
      const look = (holdfast: Holdfast): Promise<Answer> =>
        holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key });
      await Promise.all(
        [on.holdfast, other].map((holdfast) =>
          eventually('the instance refuses', async () => (await look(holdfast)).status === 401, 1100),
        ),
      );
      expectRefusal(await on.holdfast.commit(tenant, reservation_id as string, 1), 401, 'UNAUTHORIZED');
      const back = expectStatus(await patch(tenant, { status: 'ACTIVE' }), 200);
      expect(back).not.toHaveProperty('suspended_at');
      expectStatus(await look(other), 200);
      expectStatus(await on.holdfast.commit(tenant, reservation_id as string, 1), 200);
      expect((await tenantEvents(tenant)).map(([type]) => type)).toEqual([
        'tenant.created',
        'tenant.suspended',
        'tenant.reactivated',
      ]);
    });
  });

  describe('closed', () => {
    test('everything it owns is closed with it: holds, budgets, keys, each reported once with one correlation id, tenant.closed last', async () => {
      shows('close cascade');
      const tenant = await on.holdfast.fundedTenant();
      await on.holdfast.createBudget(tenant, '/agent:a', 500);
      await on.holdfast.createBudget(tenant, '/agent:b', 10);
      const second = await on.holdfast.createKey(tenant.id);
      const { reservation_id } = expectStatus(
        await on.holdfast.reserve(tenant, 10, { subject: { tenant: tenant.id, agent: 'a' } }),
        200,
      );
      expectStatus(
        await on.holdfast.admin(
          'POST',
          `/v1/admin/budgets/freeze?scope=tenant:${tenant.id}/agent:b&unit=TOKENS`,
        ),
        200,
      );

      const answer = await patch(tenant, { status: 'CLOSED' });
      expect(expectStatus(answer, 200)).toMatchObject({ status: 'CLOSED', closed_at: expect.any(String) });
      expect(answer.headers.get('x-cycles-cascade-status')).toBeNull();

      for (const budget of await budgets(tenant)) {
        expect(budget).toMatchObject({ status: 'CLOSED', reserved: { amount: 0 } });
        expect(budget.remaining).toEqual(budget.allocated);
      }
      for (const key of await keys(tenant)) {
        expect(key).toMatchObject({ status: 'REVOKED', revoked_reason: 'tenant_closed' });
      }
      for (const key of [tenant.key, second]) {
        await eventually(
          'the key is refused',
          async () => (await on.holdfast.reserve({ ...tenant, key }, 1)).status === 401,
          1000,
        );
      }
      expect(await cascadeOf(tenant)).toEqual([
        'reservation.released_via_tenant_cascade',
        'budget.closed_via_tenant_cascade',
        'reservation.released_via_tenant_cascade',
        'budget.closed_via_tenant_cascade',
        'budget.closed_via_tenant_cascade',
        'api_key.revoked_via_tenant_cascade',
        'api_key.revoked_via_tenant_cascade',
        'tenant.closed',
      ]);
      const events = (await on.stored.events(tenant.id)).filter(({ fields }) => fields['co'] !== undefined);
      expect(new Set(events.map(({ fields }) => `${fields['co']} ${fields['rq']}`))).toEqual(
        new Set([
          `tenant_close_cascade:${tenant.id}:${answer.headers.get('x-request-id')} ${answer.headers.get('x-request-id')}`,
        ]),
      );
      expect(
        events.map(({ fields }) => fields['prior_status']).filter((status) => status === 'FROZEN'),
      ).toHaveLength(1);
      expect(await on.stored.redis.exists(closingKey(on.stored.tagOf(tenant.id)))).toBe(0);
      expect(reservation_id).toMatch(/^rsv_/);
    });

    test('stays closed: another status is 400, another change 409, and closing again changes and reports nothing', async () => {
      shows('close again', 'tenant status');
      const tenant = await on.holdfast.fundedTenant();
      expectStatus(await patch(tenant, { status: 'CLOSED' }), 200);
      const told = await on.stored.events(tenant.id);
      for (const status of ['ACTIVE', 'SUSPENDED']) {
        expectRefusal(await patch(tenant, { status }), 400, 'INVALID_REQUEST');
      }
      expectRefusal(await patch(tenant, { name: 'x' }), 409, 'TENANT_CLOSED');
      expectStatus(await patch(tenant, { status: 'CLOSED' }), 200);
      expect(await on.stored.events(tenant.id)).toEqual(told);
      expectStatus(await on.holdfast.admin('GET', `/v1/admin/tenants/${tenant.id}`), 200);
    });

    test('as soon as its status is CLOSED, before anything else is closed, every mutation is refused and reads continue', async () => {
      shows('closed tenant refuses', 'close reads', 'change after close');
      const tenant = await on.holdfast.fundedTenant();
      const id = await on.holdfast.hold(tenant, 10);
      const [{ key_id: keyId }] = (await keys(tenant)) as [Json];
      await flip(tenant);
      const at = `?scope=tenant:${tenant.id}&unit=TOKENS`;
      const tokens = { unit: 'TOKENS', amount: 1 };
      const refused: Promise<Answer>[] = [
        on.holdfast.reserve(tenant, 1),
        on.holdfast.commit(tenant, id, 1),
        on.holdfast.settle(tenant, 'release', id),
        on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 }),
        on.holdfast.call('POST', '/v1/admin/budgets', {
          key: tenant.key,
          body: { scope: `tenant:${tenant.id}/agent:x`, unit: 'TOKENS', allocated: tokens },
        }),
        on.holdfast.call('POST', `/v1/admin/budgets/fund${at}`, {
          key: tenant.key,
          body: { operation: 'CREDIT', amount: tokens, idempotency_key: newKey() },
        }),
        on.holdfast.admin('PATCH', `/v1/admin/budgets${at}`, {}),
        on.holdfast.admin('POST', `/v1/admin/budgets/freeze${at}`),
        on.holdfast.admin('POST', `/v1/admin/budgets/unfreeze${at}`),
        on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenant.id, name: 'n' }),
        on.holdfast.admin('DELETE', `/v1/admin/api-keys/${keyId}`),
        patch(tenant, { name: 'x' }),
      ];
      for (const answer of refused) {
        expectRefusal(await answer, 409, 'TENANT_CLOSED');
      }
      expect((await budgets(tenant))[0]).toMatchObject({ status: 'ACTIVE', reserved: { amount: 10 } });
      expectStatus(await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }), 200);
    });

    test('an interrupted closing is finished by a janitor, once', async () => {
      shows('trace of later events', 'close interrupted');
      const tenant = await on.holdfast.fundedTenant();
      await on.holdfast.createBudget(tenant, '/agent:a', 500);
      for (let count = 0; count < 150; count += 1) {
        expectStatus(
          await on.holdfast.reserve(tenant, 1, { subject: { tenant: tenant.id, agent: 'a' } }),
          200,
        );
      }
      await flip(tenant);
      expect(await cascadeOf(tenant)).toEqual([]);
      const janitors = await Promise.all(
        [0, 1].map(() => Holdfast.start({ REDIS_URL: on.redis.url, HOLDFAST_ROLES: 'janitor' })),
      );
      try {
        await eventually(
          'the closing ends',
          async () => (await cascadeOf(tenant)).includes('tenant.closed'),
          5000,
        );
      } finally {
        await Promise.all(janitors.map((janitor) => janitor.stop()));
      }
      expect(await cascadeOf(tenant)).toEqual([
        'reservation.released_via_tenant_cascade',
        'budget.closed_via_tenant_cascade',
        'reservation.released_via_tenant_cascade',
        'budget.closed_via_tenant_cascade',
        'api_key.revoked_via_tenant_cascade',
        'tenant.closed',
      ]);
      const released = (await on.stored.events(tenant.id)).filter(({ type }) =>
        type.startsWith('reservation.released'),
      );
      expect(released.map(({ fields }) => [fields['released_amount'], fields['rq']])).toEqual([
        ['150', 'req_dead'],
        ['150', 'req_dead'],
      ]);
      expect((await budgets(tenant)).map(({ status, reserved }) => [status, reserved.amount])).toEqual([
        ['CLOSED', 0],
        ['CLOSED', 0],
      ]);
    });

    test('closing again only handles what was left', async () => {
      shows('close again');
      const tenant = await on.holdfast.fundedTenant();
      expectStatus(await patch(tenant, { status: 'CLOSED' }), 200);
      const before = (await cascadeOf(tenant)).length;
      await on.stored.redis.hset(on.stored.budgetKey(tenant.id), 'status', 'ACTIVE');
      expectStatus(await patch(tenant, { status: 'CLOSED' }), 200);
      expect((await cascadeOf(tenant)).slice(before)).toEqual(['budget.closed_via_tenant_cascade']);
    });

    test('what cannot be closed is named, the rest is closed, and the closing completes after the repair', async () => {
      const tenant = await on.holdfast.fundedTenant();
      await on.holdfast.createBudget(tenant, '/agent:a', 500);
      const bad = on.stored.budgetKey(tenant.id, '/agent:a');
      await on.stored.redis.hset(bad, 'spent', 'much');
      const incomplete = (): Promise<number> =>
        on.holdfast.metric('cycles_admin_tenant_close_reconcile_incomplete_total');
      const before = await incomplete();
      const body = expectRefusal(await patch(tenant, { status: 'CLOSED' }), 500, 'INTERNAL_ERROR');
      expect(body.details.failed_resources).toEqual([
        { resource_type: 'budget', resource_id: `tenant:${tenant.id}/agent:a TOKENS` },
      ]);
      expect(await cascadeOf(tenant)).toEqual([
        'budget.closed_via_tenant_cascade',
        'api_key.revoked_via_tenant_cascade',
      ]);
      expect(await incomplete()).toBe(before + 1);
      await on.stored.redis.hset(bad, 'spent', '0');
      expectStatus(await patch(tenant, { status: 'CLOSED' }), 200);
      expect((await cascadeOf(tenant)).slice(2)).toEqual([
        'budget.closed_via_tenant_cascade',
        'tenant.closed',
      ]);
    });

    test('a run that cannot read one partition closes the tenants of the others, and names it', async () => {
      const tenants = await Promise.all([0, 1, 2].map(() => on.holdfast.fundedTenant()));
      for (const tenant of tenants) {
        await flip(tenant);
      }
      const [{ id }] = tenants as [TestTenant];
      const key = closingKey(on.stored.tagOf(id));
      await on.stored.redis.rename(key, `${key}-saved`);
      await on.stored.redis.set(key, 'damaged');
      const job = on.holdfast.app.get(TenantClosingJanitor, { strict: false });
      await expect(job.closeAll()).rejects.toThrow(
        `not closed: partition ${on.stored.tagOf(id).slice(2, 4)}`,
      );
      const closed = await Promise.all(tenants.map(cascadeOf));
      expect(closed.map((events) => events.includes('tenant.closed'))).toEqual([false, true, true]);
      await on.stored.redis.rename(`${key}-saved`, key);
      await job.closeAll();
      expect(await cascadeOf(tenants[0] as TestTenant)).toContain('tenant.closed');
    });

    test('a run that is cut goes on with the tenants that it has not reached', async () => {
      const tenants = await Promise.all([0, 1, 2].map(() => on.holdfast.fundedTenant()));
      for (const tenant of tenants) {
        await flip(tenant);
      }
      const job = on.holdfast.app.get(TenantClosingJanitor, { strict: false });
      const closed = async (): Promise<number> =>
        (await Promise.all(tenants.map(cascadeOf))).filter((events) => events.includes('tenant.closed'))
          .length;
      let seen = 0;
      while (seen < tenants.length) {
        let visits = 0;
        await job.closeAll(Infinity, {
          goesOn: () => {
            visits += 1;
            return visits <= 8;
          },
        });
        const now = await closed();
        expect(now).toBeGreaterThanOrEqual(seen);
        seen = now;
      }
    });

    test('a run that cannot read which tenants are closing is counted', async () => {
      const key = closingKey(on.stored.tagOf((await on.holdfast.createTenant()).id));
      await on.stored.redis.set(key, 'damaged');
      const janitor = await Holdfast.start({ REDIS_URL: on.redis.url, HOLDFAST_ROLES: 'janitor' });
      try {
        await eventually(
          'the failure is counted',
          async () => (await janitor.metric('cycles_admin_tenant_close_reconcile_errors_total')) > 0,
        );
      } finally {
        await janitor.stop();
        await on.stored.redis.del(key);
      }
    });

    test('during reserves and commits nothing stays held, and every granted hold is accounted for', async () => {
      shows('close guard');
      const tenant = await on.holdfast.fundedTenant();
      const traffic = Array.from({ length: 60 }, async () => {
        const answer = await on.holdfast.reserve(tenant, 1);
        return answer.status === 200
          ? (await on.holdfast.commit(tenant, answer.body.reservation_id as string, 1)).status
          : answer.status;
      });
      const statuses = await Promise.all([
        ...traffic,
        patch(tenant, { status: 'CLOSED' }).then(({ status }) => status),
      ]);
      expect(statuses.filter((status) => ![200, 401, 409].includes(status))).toEqual([]);
      const [budget] = (await budgets(tenant)) as [Json];
      expect(budget).toMatchObject({ status: 'CLOSED', reserved: { amount: 0 } });
      expect(budget.spent.amount).toBe(statuses.slice(0, 60).filter((status) => status === 200).length);
      expect(budget.remaining.amount).toBe(1000 - budget.spent.amount);
    });
  });
});
