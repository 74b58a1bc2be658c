import { beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { randomBytes } from 'node:crypto';
import { expectRefusal, expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const newId = (): string => `t-${randomBytes(6).toString('hex')}`;

describe('tenants', () => {
  const on = useGovernance();

  const create = (body: unknown): Promise<Answer> => on.holdfast.admin('POST', '/v1/admin/tenants', body);

  test('a new tenant is created with the defaults of the spec, and can be read back', async () => {
    shows('createTenant');
    const id = newId();
    const tenant = expectStatus(await create({ tenant_id: id, name: 'Acme' }), 201);
    expect(tenant).toEqual({
      tenant_id: id,
      name: 'Acme',
      status: 'ACTIVE',
      default_commit_overage_policy: 'ALLOW_IF_AVAILABLE',
      default_reservation_ttl_ms: 60_000,
      max_reservation_ttl_ms: 3_600_000,
      max_reservation_extensions: 10,
      reservation_expiry_policy: 'AUTO_RELEASE',
      observe_mode: 'ENFORCE',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updated_at: expect.any(String),
    });
    expect(expectStatus(await on.holdfast.admin('GET', `/v1/admin/tenants/${id}`), 200)).toEqual(tenant);
  });

  test('every given setting is stored', async () => {
    const settings = {
      parent_tenant_id: 'parent-tenant',
      metadata: { team: 'größe', empty: '' },
      default_commit_overage_policy: 'REJECT',
      default_reservation_ttl_ms: 1000,
      max_reservation_ttl_ms: 86_400_000,
      max_reservation_extensions: 0,
      reservation_expiry_policy: 'MANUAL_CLEANUP',
      observe_mode: 'DISABLED',
    };
    const id = newId();
    expect(expectStatus(await create({ tenant_id: id, name: 'n', ...settings }), 201)).toMatchObject(
      settings,
    );
  });

  test('the same id and name again is 200 with the tenant that exists, and emits no second event', async () => {
    shows('tenant creation');
    const id = newId();
    const first = expectStatus(await create({ tenant_id: id, name: 'Acme' }), 201);
    const again = expectStatus(
      await create({ tenant_id: id, name: 'Acme', max_reservation_extensions: 3 }),
      200,
    );
    expect(again).toEqual(first);
    const events = await on.stored.events(id);
    expect(events.map(({ type }) => type)).toEqual(['tenant.created']);
    expect(events[0]?.fields).toMatchObject({
      ac: 'admin',
      tenant_id: id,
      new_status: 'ACTIVE',
      rq: expect.stringMatching(/^req_/),
    });
  });

  test('the same id with another name is a duplicate', async () => {
    shows('tenant creation');
    const id = newId();
    expectStatus(await create({ tenant_id: id, name: 'Acme' }), 201);
    expectRefusal(await create({ tenant_id: id, name: 'Other' }), 409, 'DUPLICATE_RESOURCE');
  });

  test('twenty parallel creations of one tenant make exactly one', async () => {
    const id = newId();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => create({ tenant_id: id, name: 'Acme' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([
      ...Array.from({ length: 19 }, () => 200),
      201,
    ]);
    expect(await on.stored.events(id)).toHaveLength(1);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['an id that is too short', { tenant_id: 'ab' }, 'tenant_id'],
    ['an id that is too long', { tenant_id: 'a'.repeat(65) }, 'tenant_id'],
    ['an id with upper case', { tenant_id: 'Acme' }, 'tenant_id'],
    ['an id with a colon', { tenant_id: 'a:me' }, 'tenant_id'],
    ['a missing name', { name: undefined }, 'name'],
    ['a name that is too long', { name: 'n'.repeat(257) }, 'name'],
    ['a default ttl below a second', { default_reservation_ttl_ms: 999 }, 'default_reservation_ttl_ms'],
    ['a maximum ttl above a day', { max_reservation_ttl_ms: 86_400_001 }, 'max_reservation_ttl_ms'],
    [
      'a default ttl above the maximum',
      { default_reservation_ttl_ms: 2000, max_reservation_ttl_ms: 1000 },
      'default_reservation_ttl_ms',
    ],
    [
      'a default ttl above the default maximum',
      { default_reservation_ttl_ms: 3_600_001 },
      'default_reservation_ttl_ms',
    ],
    ['a negative number of extensions', { max_reservation_extensions: -1 }, 'max_reservation_extensions'],
    [
      'an unknown overage policy',
      { default_commit_overage_policy: 'ALLOW' },
      'default_commit_overage_policy',
    ],
    ['an unknown observe mode', { observe_mode: 'SHADOW' }, 'observe_mode'],
    ['an observe mode of null', { observe_mode: null }, 'observe_mode'],
    ['an unknown expiry policy', { reservation_expiry_policy: 'NEVER' }, 'reservation_expiry_policy'],
    [
      'metadata with 33 entries',
      { metadata: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`k${i}`, ''])) },
      'metadata',
    ],
    ['metadata that is not a string', { metadata: { a: 1 } }, 'metadata'],
    ['an unknown field', { colour: 'red' }, 'colour'],
    ['an explicit null', { metadata: null }, 'metadata'],
  ])('%s is refused, naming the field', async (_what, change, field) => {
    const body = expectRefusal(
      await create({ tenant_id: newId(), name: 'Acme', ...change }),
      400,
      'INVALID_REQUEST',
    );
    expect(body.message).toContain(field);
    expect(body.details.field).toBe(field);
  });

  test('an unknown tenant is 404 TENANT_NOT_FOUND, whatever its id looks like', async () => {
    shows('getTenant');
    for (const id of [newId(), 'NO', 'a%3Ab', '%7Bp00%7D']) {
      expectRefusal(await on.holdfast.admin('GET', `/v1/admin/tenants/${id}`), 404, 'TENANT_NOT_FOUND');
    }
  });

  test('a record that Holdfast did not write this way is a 500 and never an invented tenant', async () => {
    const id = newId();
    expectStatus(await create({ tenant_id: id, name: 'Acme' }), 201);
    await on.stored.setTenantStatus(id, 'ODD');
    try {
      const before = await on.holdfast.metric('holdfast_unexpected_errors_total');
      expectRefusal(await on.holdfast.admin('GET', `/v1/admin/tenants/${id}`), 500, 'INTERNAL_ERROR');
      expectRefusal(await create({ tenant_id: id, name: 'Acme' }), 500, 'INTERNAL_ERROR');
      expect(await on.holdfast.metric('holdfast_unexpected_errors_total')).toBe(before + 2);
    } finally {
      await on.stored.setTenantStatus(id, 'ACTIVE');
    }
  });

  describe('lists', () => {
    const mark = randomBytes(6).toString('hex');
    const ids = Array.from({ length: 7 }, (_, index) => `list-${mark}-${index}`);

    beforeAll(async () => {
      for (const [index, id] of ids.entries()) {
        expectStatus(
          await create({
            tenant_id: id,
            name: `Name ${6 - index} ${mark}`,
            parent_tenant_id: index < 3 ? `p-${mark}` : 'other',
          }),
          201,
        );
        // Otherwise two of them could be from the same millisecond, and would be sorted by id.
        await on.stored.redis.hset(on.stored.tenantKey(id), 'created_at', String(1_700_000_000_000 + index));
      }
      await on.stored.setTenantStatus(ids[1] as string, 'SUSPENDED');
    });

    async function walk(query: string): Promise<string[]> {
      const seen: string[] = [];
      for (let cursor = ''; ;) {
        const page = expectStatus(
          await on.holdfast.admin('GET', `/v1/admin/tenants?search=${mark}&${query}${cursor}`),
          200,
        );
        seen.push(...page.tenants.map((tenant: Json) => tenant.tenant_id));
        expect(page.has_more).toBe('next_cursor' in page);
        if (page.has_more === false) {
          return seen;
        }
        cursor = `&cursor=${page.next_cursor}`;
      }
    }

    test('the newest come first, and small pages miss and repeat nothing', async () => {
      shows('listTenants');
      expect(await walk('limit=2')).toEqual([...ids].reverse());
      expect(await walk('limit=7')).toEqual([...ids].reverse());
      expect(await walk('sort_dir=asc&limit=3')).toEqual(ids);
    });

    test('tenants that share a creation time are all listed, by id', async () => {
      for (const id of ids) {
        await on.stored.redis.hset(on.stored.tenantKey(id), 'created_at', '1700000000000');
      }
      expect(await walk('limit=2')).toEqual(ids);
      expect(await walk('limit=2&sort_dir=asc')).toEqual(ids);
    });

    test('each sort key orders in both directions', async () => {
      expect(await walk('sort_by=tenant_id&limit=3')).toEqual([...ids].reverse());
      expect(await walk('sort_by=name&sort_dir=asc&limit=3')).toEqual([...ids].reverse());
      expect((await walk('sort_by=status&limit=3'))[0]).toBe(ids[1]);
    });

    test('filters combine', async () => {
      expect(await walk('status=SUSPENDED')).toEqual([ids[1]]);
      expect(await walk(`parent_tenant_id=p-${mark}&sort_by=tenant_id&sort_dir=asc`)).toEqual(
        ids.slice(0, 3),
      );
      expect(await walk(`parent_tenant_id=p-${mark}&status=ACTIVE&sort_by=tenant_id&sort_dir=asc`)).toEqual([
        ids[0],
        ids[2],
      ]);
      const byName = expectStatus(
        await on.holdfast.admin('GET', `/v1/admin/tenants?search=NAME%202%20${mark.toUpperCase()}`),
        200,
      );
      expect(byName.tenants.map((tenant: Json) => tenant.tenant_id)).toEqual([ids[4]]);
    });

    test('a limit over 100 is clamped, and unknown parameters are ignored', async () => {
      expectStatus(await on.holdfast.admin('GET', '/v1/admin/tenants?limit=2000&colour=red'), 200);
    });

    test.each([
      'limit=0',
      'limit=x',
      'status=odd',
      'observe_mode=x',
      'observe_mode=observe',
      'sort_by=colour',
      'sort_dir=up',
      `search=${'s'.repeat(129)}`,
      'cursor=odd',
    ])('%s is refused', async (query) => {
      expectRefusal(await on.holdfast.admin('GET', `/v1/admin/tenants?${query}`), 400, 'INVALID_REQUEST');
    });

    test('a cursor continues only the list that returned it', async () => {
      const page = expectStatus(
        await on.holdfast.admin('GET', `/v1/admin/tenants?search=${mark}&limit=2`),
        200,
      );
      expectRefusal(
        await on.holdfast.admin('GET', `/v1/admin/tenants?limit=2&cursor=${page.next_cursor}`),
        400,
        'INVALID_REQUEST',
      );
      const other = `/v1/admin/tenants?search=${mark}&limit=2&sort_dir=asc&cursor=${page.next_cursor}`;
      expectRefusal(await on.holdfast.admin('GET', other), 400, 'INVALID_REQUEST');
    });
  });
});
