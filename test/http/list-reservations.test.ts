import { beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { expectBadParameter, ReservationLists } from '../support/reservation-lists.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const lists = new ReservationLists(on);
const iso = (ms: number): string => new Date(ms).toISOString();

describe('a list of reservations', () => {
  test('shows each row as the single read does, without its metadata', async () => {
    shows('listReservations', 'getReservation');
    const tenant = await lists.newTenant();
    const subject = { tenant: tenant.id, workspace: 'Prod', agent: 'Bot', dimensions: { run: '1' } };
    const id = await lists.hold(tenant, {
      subject,
      action: { kind: 'k', name: 'n', tags: ['t'] },
      metadata: { big: 1 },
    });
    await on.holdfast.commit(tenant, id, 4, { metadata: { done: true } });
    const {
      metadata,
      committed_metadata: committed,
      ...single
    } = expectStatus(await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }), 200);
    expect([metadata, committed]).toEqual([{ big: 1 }, { done: true }]);
    expect(await lists.page(tenant)).toEqual({ reservations: [single], has_more: false });
    expect(single).toMatchObject({
      status: 'COMMITTED',
      committed: { unit: 'TOKENS', amount: 4 },
      finalized_at_ms: expect.any(Number),
    });
  });

  test('is empty for a tenant without reservations', async () => {
    expect(await lists.page(await lists.newTenant())).toEqual({ reservations: [], has_more: false });
  });

  test('shows `committed` on committed rows only, and `finalized_at_ms` on committed and released ones only', async () => {
    shows('summary members');
    const tenant = await lists.newTenant();
    const [committed, released, expired, active] = [
      await lists.hold(tenant),
      await lists.hold(tenant),
      await lists.hold(tenant),
      await lists.hold(tenant),
    ];
    await on.holdfast.commit(tenant, committed, 0);
    await on.holdfast.settle(tenant, 'release', released);
    const holds = lists.stored();
    await holds.expireIn(expired, -60_000);
    holds.close();
    const rows = new Map(
      (await lists.page(tenant)).reservations.map((row: Json) => [
        row.reservation_id,
        [row.status, 'committed' in row, 'finalized_at_ms' in row],
      ]),
    );
    expect(Object.fromEntries(rows)).toEqual({
      [committed]: ['COMMITTED', true, true],
      [released]: ['RELEASED', false, true],
      [expired]: ['EXPIRED', false, false],
      [active]: ['ACTIVE', false, false],
    });
  });

  test('expires overdue reservations, returns their holds, counts them, and still shows them', async () => {
    const tenant = await lists.newTenant(100);
    const id = await lists.hold(tenant, {}, 60);
    const holds = lists.stored();
    await holds.expireIn(id, -60_000);
    const before = await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id });
    expect(await lists.idsOf(tenant, 'status=ACTIVE')).toEqual([]);
    expect((await lists.page(tenant, 'status=EXPIRED')).reservations).toMatchObject([
      { reservation_id: id, status: 'EXPIRED' },
    ]);
    expect((await holds.record(id))['st']).toBe('EXPIRED');
    holds.close();
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '100 0 0 0' });
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(
      before + 1,
    );
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
  });

  test('counts a damaged record and lists it with the others', async () => {
    const tenant = await lists.newTenant();
    const [damaged, sound] = [await lists.hold(tenant), await lists.hold(tenant)];
    const holds = lists.stored();
    await holds.set(damaged, { am: 'x' });
    expect((await lists.idsOf(tenant)).sort()).toEqual([damaged, sound].sort());
    expect(
      await on.holdfast.metric('holdfast_reservations_unreadable_total', { reason: 'INVALID_ESTIMATE' }),
    ).toBe(1);
    holds.close();
  });

  test('never converts an amount to a number that would round it', async () => {
    const tenant = await lists.newTenant(9223372036854775807n);
    await lists.hold(tenant, {}, 9007199254740993n);
    expect((await lists.list(tenant)).text).toContain('"amount":9007199254740993');
  });
});

describe('filters', () => {
  let tenant: TestTenant;
  const ids: Record<string, string> = {};
  beforeAll(async () => {
    tenant = await lists.newTenant();
    ids['active'] = await lists.hold(tenant, {
      subject: { workspace: 'Prod', app: 'A', workflow: 'w', agent: 'bot', toolset: 't' },
      idempotency_key: 'key of the | active',
    });
    ids['committed'] = await lists.hold(tenant, { subject: { workspace: 'prod', agent: 'bot2' } });
    ids['released'] = await lists.hold(tenant, { subject: { workspace: 'dev' } });
    await on.holdfast.commit(tenant, ids['committed'], 1);
    await on.holdfast.settle(tenant, 'release', ids['released']);
  });

  test.each([
    ['status=ACTIVE', ['active']],
    ['status=committed', ['committed']],
    ['status=Released', ['released']],
    ['status=EXPIRED', []],
    ['workspace=PROD', ['committed', 'active']],
    ['workspace=prod&agent=bot', ['active']],
    ['agent=bot2', ['committed']],
    ['agent=bo', []],
    ['app=a', ['active']],
    ['workflow=w', ['active']],
    ['toolset=t', ['active']],
    ['toolset=t&status=RELEASED', []],
    ['idempotency_key=key%20of%20the%20%7C%20active', ['active']],
    ['idempotency_key=key%20of%20the%20%7C%20active&sort_by=status&sort_dir=asc&limit=1', ['active']],
    ['idempotency_key=key%20of%20the%20%7C%20active&status=COMMITTED', []],
    ['idempotency_key=never', []],
    ['colour=blue&page=2', ['released', 'committed', 'active']],
  ])('%s finds %j', async (query, expected) => {
    shows('sort defaults');
    const found = await lists.page(tenant, query);
    expect(found.reservations.map((row: Json) => row.reservation_id).sort()).toEqual(
      expected.map((name) => ids[name]).sort(),
    );
    expect(found.has_more).toBe(false);
  });

  test('the own tenant may be named, in any case; another one is forbidden', async () => {
    shows('own reservations');
    for (const query of [`tenant=${tenant.id}`, `tenant=${tenant.id.toUpperCase()}`, 'tenant=']) {
      expect(await lists.idsOf(tenant, query)).toHaveLength(3);
    }
    for (const other of ['other', 'no+such+form!', (await lists.newTenant()).id]) {
      expectRefusal(await lists.list(tenant, `tenant=${other}`), 403, 'FORBIDDEN');
    }
  });

  test('a key confined to some scopes sees what lies inside them, in full pages', async () => {
    const key = await on.holdfast.createKey(tenant.id, { scope_filter: ['workspace:prod'] });
    const confined = { id: tenant.id, key };
    expect((await lists.idsOf(confined)).sort()).toEqual([ids['committed'], ids['active']].sort());
    expect((await lists.idsOf(confined, 'sort_by=status')).sort()).toEqual(
      [ids['committed'], ids['active']].sort(),
    );
    expect(await lists.walk(confined, 'limit=1')).toHaveLength(2);
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations/${ids['released']}`, { key }),
      403,
      'FORBIDDEN',
    );
  });

  test('a key without reservations:list is refused', async () => {
    const key = await on.holdfast.createKey(tenant.id, { permissions: ['reservations:create'] });
    expectRefusal(await on.holdfast.call('GET', '/v1/reservations', { key }), 403, 'FORBIDDEN');
  });

  test.each([
    ['limit', 'limit=0'],
    ['limit', 'limit=201'],
    ['limit', 'limit=x'],
    ['status', 'status=foo'],
    ['sort_by', 'sort_by=foo'],
    ['sort_dir', 'sort_dir=up'],
    ['idempotency_key', 'idempotency_key='],
    ['idempotency_key', `idempotency_key=${'k'.repeat(257)}`],
    ['agent', 'agent=a/b'],
    ['status', 'status=ACTIVE&status=EXPIRED'],
    ['cursor', 'cursor=odd'],
    ['cursor', 'cursor=e30'],
  ])('a bad %s is refused: %s', async (field, query) => {
    expectBadParameter(await lists.list(tenant, query), field);
  });

  test('the limits themselves are accepted', async () => {
    expect(await lists.idsOf(tenant, 'limit=1')).toHaveLength(1);
    expect(await lists.idsOf(tenant, 'limit=200')).toHaveLength(3);
  });
});

describe('windows', () => {
  let tenant: TestTenant;
  const rows: Record<string, Json> = {};
  beforeAll(async () => {
    tenant = await lists.newTenant();
    const holds = lists.stored();
    for (const name of ['committed', 'released', 'expired', 'active']) {
      const id = await lists.hold(tenant, { ttl_ms: name === 'active' ? 120_000 : 60_000 });
      if (name === 'committed') {
        await on.holdfast.commit(tenant, id, 1);
      } else if (name === 'released') {
        await on.holdfast.settle(tenant, 'release', id);
      } else if (name === 'expired') {
        await holds.expireIn(id, -600_000);
      }
      rows[name] = (await lists.page(tenant)).reservations.find((row: Json) => row.reservation_id === id);
    }
    holds.close();
  });

  const named = async (query: string): Promise<string[]> =>
    (await lists.page(tenant, query)).reservations
      .map(({ reservation_id: id }: Json) =>
        Object.keys(rows).find((name) => rows[name].reservation_id === id),
      )
      .sort();

  test('on the creation include both ends, and apply in every order', async () => {
    shows('time windows');
    for (const order of ['', '&sort_by=reserved', '&sort_by=created_at_ms&sort_dir=desc']) {
      const [first, last] = [
        rows['committed'].created_at_ms as number,
        rows['active'].created_at_ms as number,
      ];
      expect((await named(`from=${iso(first)}&to=${iso(last)}${order}`)).sort()).toEqual(
        Object.keys(rows).sort(),
      );
      expect(await named(`from=${iso(last + 1)}${order}`)).toEqual([]);
      expect(await named(`to=${iso(first - 1)}${order}`)).toEqual([]);
      expect(await named(`from=${iso(last)}${order}`)).toContain('active');
      expect(await named(`to=${iso(first)}${order}`)).toContain('committed');
    }
  });

  test('on the expiry apply to every state', async () => {
    shows('time windows');
    const [ended, latest] = [rows['expired'].expires_at_ms as number, rows['active'].expires_at_ms as number];
    expect(await named(`expires_from=${iso(ended)}&expires_to=${iso(ended)}`)).toEqual(['expired']);
    expect(await named(`expires_from=${iso(latest)}`)).toEqual(['active']);
    expect(await named(`expires_to=${iso(latest - 1)}`)).toEqual(['committed', 'expired', 'released']);
    expect(await named(`expires_from=${iso(latest + 1)}`)).toEqual([]);
  });

  test('on the end leave out the rows without one', async () => {
    shows('no finalized time');
    const [committed, released] = [
      rows['committed'].finalized_at_ms as number,
      rows['released'].finalized_at_ms as number,
    ];
    expect(await named('finalized_from=2000-01-01T00:00:00Z')).toEqual(['committed', 'released']);
    expect(await named('finalized_to=2999-01-01T00:00:00Z')).toEqual(['committed', 'released']);
    expect(await named(`finalized_to=${iso(committed)}`)).toContain('committed');
    expect(await named(`finalized_from=${iso(released + 1)}`)).toEqual([]);
    expect(await named(`finalized_from=${iso(committed - 1)}&finalized_to=${iso(committed - 1)}`)).toEqual(
      [],
    );
  });

  test('combine: a row must be in all of them', async () => {
    shows('time windows');
    const far = 'from=2000-01-01T00:00:00Z&finalized_from=2000-01-01T00:00:00Z';
    expect(await named(`${far}&expires_to=2999-01-01T00:00:00Z`)).toEqual(['committed', 'released']);
    expect(await named(`${far}&expires_from=2999-01-01T00:00:00Z`)).toEqual([]);
  });

  test('with blank bounds are not set', async () => {
    shows('blank bound');
    expect(await named('from=&to=&expires_from=&expires_to=&finalized_from=&finalized_to=')).toHaveLength(4);
    expect(await named('from=%20&to=2999-01-01T00:00:00Z&finalized_from=')).toHaveLength(4);
  });

  test('accept every form of a date-time', async () => {
    const at = rows['active'].created_at_ms as number;
    const elsewhere = new Date(at + 7_200_000).toISOString().replace('Z', '%2B02:00');
    for (const text of [iso(at), iso(at).toLowerCase(), iso(at).replace('Z', '999Z'), elsewhere]) {
      expect(await named(`from=${text}`)).toContain('active');
      expect(await named(`from=${text}&to=${text}`)).toContain('active');
    }
  });

  test.each(['from', 'expires_from', 'finalized_from'])(
    'that end before they start are refused: %s',
    async (start) => {
      shows('window order');
      const end = start.replace('from', 'to');
      expectBadParameter(
        await lists.list(tenant, `${start}=2026-01-02T00:00:00Z&${end}=2026-01-01T00:00:00Z`),
        start,
      );
      expect(
        await lists.list(tenant, `${start}=2026-01-02T00:00:00Z&${end}=2026-01-02T00:00:00Z`),
      ).toMatchObject({ status: 200 });
    },
  );

  test.each([
    'yesterday',
    '2026-02-30T00:00:00Z',
    '2026-01-01',
    '2026-01-01T00:00:00',
    '1767225600000',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:00:00+02:00',
  ])('that are not a date-time are refused: %s', async (text) => {
    for (const name of ['from', 'to', 'expires_from', 'expires_to', 'finalized_from', 'finalized_to']) {
      expectBadParameter(await lists.list(tenant, `${name}=${text}`), name);
    }
  });
});

describe('include', () => {
  test('adds the metadata that is asked for, to the rows that have some', async () => {
    shows('include tokens');
    const tenant = await lists.newTenant();
    const [both, reserve, none] = [
      await lists.hold(tenant, { metadata: { a: 9007199254740993n } }),
      await lists.hold(tenant, { metadata: {} }),
      await lists.hold(tenant),
    ];
    await on.holdfast.commit(tenant, both, 1, { metadata: { c: [1] } });
    const shown = async (include: string): Promise<Record<string, unknown>> =>
      Object.fromEntries(
        (await lists.page(tenant, `include=${include}`)).reservations.map((row: Json) => [
          row.reservation_id,
          [row.metadata, row.committed_metadata],
        ]),
      );
    const nothing = {
      [both]: [undefined, undefined],
      [reserve]: [undefined, undefined],
      [none]: [undefined, undefined],
    };
    expect(await shown('metadata')).toEqual({
      ...nothing,
      [both]: [{ a: 9007199254740993n }, undefined],
      [reserve]: [{}, undefined],
    });
    expect(await shown('committed_metadata')).toEqual({ ...nothing, [both]: [undefined, { c: [1] }] });
    expect(await shown('%20metadata%20,,odd,evidence,committed_metadata,')).toEqual({
      ...nothing,
      [both]: [{ a: 9007199254740993n }, { c: [1] }],
      [reserve]: [{}, undefined],
    });
    for (const ignored of ['', ',', 'odd', 'METADATA', 'evidence']) {
      expect(await shown(ignored)).toEqual(nothing);
    }
  });

  test('may change from page to page', async () => {
    shows('include tokens');
    const tenant = await lists.newTenant();
    const ids = [
      await lists.hold(tenant, { metadata: { n: 1 } }),
      await lists.hold(tenant, { metadata: { n: 2 } }),
      await lists.hold(tenant, { metadata: { n: 3 } }),
    ];
    for (const order of ['', 'sort_by=reservation_id&']) {
      const first = await lists.page(tenant, `${order}limit=1&include=metadata`);
      const second = await lists.page(tenant, `${order}limit=1&cursor=${first.next_cursor}`);
      const third = await lists.page(
        tenant,
        `${order}limit=2&include=committed_metadata,metadata&cursor=${second.next_cursor}`,
      );
      const found = [first, second, third].map(({ reservations }) => reservations[0]);
      expect(found.map((row) => row.reservation_id).sort()).toEqual([...ids].sort());
      expect(found.map((row) => 'metadata' in row)).toEqual([true, false, true]);
    }
  });

  test('ends a page before it grows too large, and the next one continues', async () => {
    const tenant = await lists.newTenant();
    // 0.6 could be told to take metadata as large as this.
    const metadata = JSON.stringify({ text: 'm'.repeat(900_000) });
    const holds = lists.stored();
    for (let count = 0; count < 12; count += 1) {
      await holds.set(await lists.hold(tenant), { md: metadata });
    }
    holds.close();
    for (const order of ['', 'sort_by=status&']) {
      const first = await lists.page(tenant, `${order}include=metadata`);
      expect(first.reservations).toHaveLength(10);
      const rest = await lists.page(tenant, `${order}include=metadata&cursor=${first.next_cursor}`);
      expect(
        new Set([...first.reservations, ...rest.reservations].map((row: Json) => row.reservation_id)).size,
      ).toBe(12);
      expect(rest.has_more).toBe(false);
    }
  });
});

describe('with the admin key', () => {
  test('a list needs a tenant and shows only its reservations', async () => {
    shows('operator names tenant');
    const [tenant, other] = [await lists.newTenant(), await lists.newTenant()];
    const id = await lists.hold(tenant);
    await lists.hold(other);
    for (const query of ['', '?tenant=', '?status=ACTIVE']) {
      const answer = await on.holdfast.admin('GET', `/v1/reservations${query}`);
      expect(expectRefusal(answer, 400, 'INVALID_REQUEST').message).toBe(
        'tenant query parameter is required when using admin key authentication',
      );
    }
    for (const name of [tenant.id, tenant.id.toUpperCase()]) {
      const body = expectStatus(
        await on.holdfast.admin('GET', `/v1/reservations?tenant=${name}&sort_by=status`),
        200,
      );
      expect(body.reservations).toMatchObject([{ reservation_id: id, subject: { tenant: tenant.id } }]);
    }
    expect(expectStatus(await on.holdfast.admin('GET', '/v1/reservations?tenant=nobody'), 200)).toEqual({
      reservations: [],
      has_more: false,
    });
    expectRefusal(
      await on.holdfast.call('GET', `/v1/reservations?tenant=${tenant.id}`, {
        headers: { 'x-admin-api-key': 'wrong' },
      }),
      401,
      'UNAUTHORIZED',
    );
    expectRefusal(await on.holdfast.call('GET', '/v1/reservations'), 401, 'UNAUTHORIZED');
  });

  test('any reservation can be read, and an expired one is 410', async () => {
    shows('operator any reservation');
    const tenant = await lists.newTenant();
    const [id, overdue] = [await lists.hold(tenant, { metadata: { a: 1 } }), await lists.hold(tenant)];
    expect(expectStatus(await on.holdfast.admin('GET', `/v1/reservations/${id}`), 200)).toMatchObject({
      reservation_id: id,
      metadata: { a: 1 },
    });
    const holds = lists.stored();
    await holds.expireIn(overdue, -60_000);
    holds.close();
    expectRefusal(await on.holdfast.admin('GET', `/v1/reservations/${overdue}`), 410, 'RESERVATION_EXPIRED');
    expectRefusal(
      await on.holdfast.admin('GET', '/v1/reservations/rsv_000123456789abcdef'),
      404,
      'NOT_FOUND',
    );
  });
});
