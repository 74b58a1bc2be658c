import { describe, expect, test } from '@jest/globals';
import { RecordJanitor } from '../../src/retention/record-janitor.js';
import { treeOrder } from '../../src/ledger/scopes.js';
import { budgetKey, journalKey, reservationIndexKey, tenantKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { granted } from '../support/credit-client.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { appendEnd } from '../support/journal.js';
import { LedgerClient } from '../support/ledger-client.js';
import { serverTimeMs } from '../support/server-time.js';
import { commandCounts } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

async function newTenant(): Promise<TestTenant> {
  const tenant = await on.holdfast.fundedTenant(1_000_000);
  await on.holdfast.createBudget(tenant, '/workspace:w', 1_000_000);
  return tenant;
}

async function hold(tenant: TestTenant, amount: number): Promise<string> {
  const answer = await on.holdfast.reserve(tenant, amount, {
    subject: { tenant: tenant.id, workspace: 'w' },
  });
  return expectStatus(answer, 200).reservation_id as string;
}

async function verify(query = ''): Promise<Json> {
  return expectStatus(await on.holdfast.admin('GET', `/ops/verify?${query}`), 200);
}

async function change(tenant: TestTenant, below: string, by: Record<string, number>): Promise<void> {
  const key = budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}${below}`);
  const changes = on.holds.redis.multi();
  Object.entries(by).forEach(([field, amount]) => changes.hincrby(key, field, amount));
  await changes.exec();
}

const DAY = 'day,100,0,9999999999998,9999999999999';

describe('verifying the ledger', () => {
  test('finds a balanced ledger balanced, with holds in every state and overdue ones not swept yet', async () => {
    const tenant = await newTenant();
    await hold(tenant, 10);
    expectStatus(await on.holdfast.commit(tenant, await hold(tenant, 20), 15), 200);
    expectStatus(await on.holdfast.settle(tenant, 'release', await hold(tenant, 30)), 200);
    const [overdue, broken] = [await hold(tenant, 40), await hold(tenant, 50)];
    await on.holds.expireIn(overdue, -60_000);
    await on.holds.set(broken, { ex: 'never' });
    expect(await verify(`tenant=${tenant.id}`)).toEqual({
      deployment_id: on.holdfast.app.get(RedisService).deployment.id,
      ok: false,
      tenants: 1,
      budgets: 2,
      drift: [expect.objectContaining({ difference: 50 }), expect.objectContaining({ difference: 50 })],
      unreadable: [
        { tenant_id: tenant.id, reservation_id: broken, reason: 'INVALID_EXPIRY', quarantined: false },
      ],
      journal: [],
      has_more: false,
    });
    await on.holds.set(broken, { ex: String(Number.MAX_SAFE_INTEGER).slice(0, 13) });
    expect(await verify(`tenant=${tenant.id.toUpperCase()}`)).toEqual({
      deployment_id: on.holdfast.app.get(RedisService).deployment.id,
      ok: true,
      tenants: 1,
      budgets: 2,
      drift: [],
      unreadable: [],
      journal: [],
      has_more: false,
    });
  });

  test("is not misled by instants that Redis' clock wrote before it stepped back by an hour", async () => {
    const tenant = await newTenant();
    const [live, committed, both] = [await hold(tenant, 10), await hold(tenant, 20), await hold(tenant, 40)];
    expectStatus(await on.holdfast.commit(tenant, committed, 15), 200);
    expectStatus(await on.holdfast.settle(tenant, 'release', both), 200);
    const ahead = String((await serverTimeMs(on.holds.redis)) + 3_600_000);
    const index = reservationIndexKey(on.holds.tagOfTenant(tenant.id), tenant.id);
    for (const [id, fields] of [
      [live, { ca: ahead }],
      [committed, { fa: ahead }],
      [both, { ca: ahead, fa: ahead }],
    ] as const) {
      await on.holds.set(id, fields);
      await on.holds.redis.zadd(index, 'ca' in fields ? ahead : '1', id);
    }
    const balanced = { ok: true, budgets: 2, drift: [], unreadable: [] };
    expect(await verify(`tenant=${tenant.id}`)).toMatchObject(balanced);
    // Drift is found all the same.
    await change(tenant, '', { reserved: 5, remaining: -5 });
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([
      { kind: 'RESERVED', stored: { reserved: 15 }, expected: 10 },
    ]);
  });

  test('a tenant that does not exist is refused, but not one that only lost its record', async () => {
    expectRefusal(await on.holdfast.admin('GET', '/ops/verify?tenant=acne'), 404, 'TENANT_NOT_FOUND');
    const tenant = await newTenant();
    await on.holds.redis.del(tenantKey(on.holds.tagOfTenant(tenant.id), tenant.id));
    expect(await verify(`tenant=${tenant.id}`)).toMatchObject({ ok: true, tenants: 1, budgets: 2 });
  });

  test('names reservations whose end the journal does not have exactly once, with its charge', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()];
    const tag = on.holds.tagOfTenant(tenant.id);
    const key = journalKey(tag);
    const ids: string[] = [];
    for (let count = 0; count < 5; count += 1) {
      const id = await hold(tenant, 10);
      expectStatus(await on.holdfast.commit(tenant, id, 4), 200);
      ids.push(id);
    }
    const [missing, doubled, charge, mended] = ids as [string, string, string, string];
    expect(await verify(`tenant=${tenant.id}`)).toMatchObject({ ok: true, journal: [] });
    const before = (await on.holdfast.metric('holdfast_verify_drift_total')) ?? 0;
    const live = await hold(tenant, 10);
    for (const [entry, [, id]] of await on.holds.redis.xrange(key, '-', '+')) {
      if ([missing, charge].includes(`${missing.slice(0, 6)}${id}`)) {
        await on.holds.redis.xdel(key, entry);
      }
    }
    await appendEnd(on.holds.redis, tag, charge, live);
    await on.holds.redis.xadd(key, '*', 'id', doubled.slice(6), 'ch', '4');
    await on.holds.redis.xadd(key, '*', 'id', mended.slice(6), 'ch', '4', 'mended', '1');
    const { ok, drift, journal } = await verify(`tenant=${tenant.id}`);
    expect({ ok, drift, journal: (journal as Json[]).map(({ kind, ...of }) => [kind, of]) }).toEqual({
      ok: false,
      drift: [],
      journal: expect.arrayContaining([
        ['CHARGE', { tenant_id: tenant.id, reservation_id: charge }],
        ['LIVE', { tenant_id: tenant.id, reservation_id: live }],
        ['DOUBLED', { tenant_id: tenant.id, reservation_id: doubled }],
        ['MISSING', { tenant_id: tenant.id, reservation_id: missing }],
      ]),
    });
    expect(journal).toHaveLength(4);
    expect(await on.holdfast.metric('holdfast_verify_drift_total')).toBe(before + 4);
    expect(await verify(`tenant=${other.id}`)).toMatchObject({ ok: true, journal: [] });
    // Nothing can be said of what packing has passed.
    await on.holdfast.app.get(RecordJanitor).pack(Infinity);
    expect(await verify(`tenant=${tenant.id}`)).toMatchObject({ ok: true, journal: [] });
  });

  test('names the scope, the drift and the reservations involved', async () => {
    const tenant = await newTenant();
    const ids = [await hold(tenant, 10), await hold(tenant, 5)];
    await change(tenant, '/workspace:w', { reserved: 7, remaining: -7 });
    const { ok, drift } = await verify(`tenant=${tenant.id}`);
    expect({ ok, drift }).toEqual({
      ok: false,
      drift: [
        {
          tenant_id: tenant.id,
          scope: `tenant:${tenant.id}/workspace:w`,
          unit: 'TOKENS',
          kind: 'RESERVED',
          stored: {
            remaining: 999_978,
            reserved: 22,
            spent: 0,
            allocated: 1_000_000,
            debt: 0,
            status: 'ACTIVE',
          },
          expected: 15,
          difference: 7,
          reservation_count: 2,
          reservations: expect.arrayContaining([
            { reservation_id: ids[0], amount: 10, quarantined: false },
            { reservation_id: ids[1], amount: 5, quarantined: false },
          ]),
        },
      ],
    });
    await change(tenant, '/workspace:w', { reserved: -7 });
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([
      { kind: 'INVARIANT', expected: 999_985, difference: -7 },
    ]);
    await change(tenant, '/workspace:w', { remaining: 7 });
    expect((await verify(`tenant=${tenant.id}`)).ok).toBe(true);
  });

  test('finds a budget that is damaged, and a missing one that has holds', async () => {
    const tenant = await newTenant();
    const id = await hold(tenant, 9);
    const key = budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}/workspace:w`);
    await on.holds.redis.hset(key, 'spent', 'much');
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([
      { kind: 'UNREADABLE_BUDGET', scope: `tenant:${tenant.id}/workspace:w` },
    ]);
    await on.holds.redis.del(key);
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([
      { kind: 'UNREADABLE_BUDGET', reservations: [{ reservation_id: id }] },
    ]);
    await on.holds.redis.zrem(
      `${on.holds.tagOfTenant(tenant.id)}budgets:${tenant.id}`,
      treeOrder(`tenant:${tenant.id}/workspace:w TOKENS`),
    );
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([
      { kind: 'MISSING_BUDGET', expected: 9, reservations: [{ reservation_id: id }] },
    ]);
  });

  test.each<[string, Record<string, string>]>([
    ['INVALID_INSTANTS', { period_start: '1e3' }],
    ['INVALID_INSTANTS', { period_start: '9999999999999' }],
    ['UNKNOWN_POLICY', { rollover_policy: 'SOME' }],
    ['INVALID_ALLOCATION', { period_allocated: 'all' }],
    ['INVALID_BOUNDARIES', { boundaries: '9999999999999,9999999999999' }],
    ['NOT_INDEXED', { period_end: '9999999999998' }],
    ['NOT_PLANNED', { recurrence: 'none that anybody set' }],
    ['INVALID_WINDOWS', { windows: 'day' }],
    ['INVALID_WINDOWS', { windows: DAY, window_plans: '' }],
    ['INVALID_WINDOW_PLANS', { windows: DAY, window_rules: 'a rule', window_plans: '1' }],
    ['WINDOW_NOT_PLANNED', { windows: DAY, window_rules: 'a rule', window_plans: '' }],
  ])('finds a period with %s', async (defect, fields) => {
    const tenant = await newTenant();
    const at = `scope=tenant:${tenant.id}&unit=TOKENS`;
    const body = { period_end: new Date(Date.now() + 86_400_000).toISOString() };
    expectStatus(await on.holdfast.admin('PATCH', `/ops/budgets/period?${at}`, body), 200);
    expect((await verify(`tenant=${tenant.id}`)).ok).toBe(true);
    const key = budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}`);
    await on.holds.redis.hset(key, fields);
    expect(await verify(`tenant=${tenant.id}`)).toMatchObject({
      ok: false,
      drift: [{ kind: 'PERIOD', scope: `tenant:${tenant.id}`, period_defect: defect }],
    });
  });

  test.each<[string, (text: string) => string]>([
    ['INVALID_CREDITS', (text) => text.replace('|', '')],
    ['INVALID_CREDITS', (text) => text.replace(/^\d+/, '1')],
    ['NOT_ALLOCATED', (text) => text.replace(',a,20,', ',a,2000000,')],
    ['NOT_HELD', (text) => `${text}crd_00,1,5,5`],
    ['CREDIT_NOT_INDEXED', (text) => text.replaceAll(/9{13}/g, '9999999999998')],
    ['NOT_GRANTED', (text) => text.replace(',a,20,', ',a,21,')],
  ])('finds credits with %s', async (defect, damage) => {
    const tenant = await newTenant();
    const client = new LedgerClient(on.holds.redis, on.holds.tagOfTenant(tenant.id), tenant.id);
    await granted(client, 20, { ends: 9_999_999_999_999 });
    expect((await verify(`tenant=${tenant.id}`)).ok).toBe(true);
    const key = client.budgetKeyOf();
    await client.redis.hset(key, 'credits', damage((await client.redis.hget(key, 'credits')) ?? ''));
    expect(await verify(`tenant=${tenant.id}`)).toMatchObject({
      ok: false,
      drift: [{ kind: 'CREDITS', scope: `tenant:${tenant.id}`, credit_defect: defect }],
    });
  });

  test('finds credits that have paid more than was spent', async () => {
    const tenant = await newTenant();
    const key = budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}`);
    await on.holds.redis.hset(key, { spent: '0', paid_by_credits: '1' });
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([{ credit_defect: 'NOT_SPENT' }]);
  });

  test('finds a period that reserves would overlook', async () => {
    const tenant = await newTenant();
    const at = `scope=tenant:${tenant.id}&unit=TOKENS`;
    const body = { period_end: new Date(Date.now() + 86_400_000).toISOString() };
    expectStatus(await on.holdfast.admin('PATCH', `/ops/budgets/period?${at}`, body), 200);
    await on.holds.redis.hdel(
      budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}`),
      'extras',
    );
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([{ period_defect: 'NOT_MARKED' }]);
    expectStatus(await on.holdfast.admin('PATCH', `/ops/budgets/period?${at}`, body), 200);
    expect((await verify(`tenant=${tenant.id}`)).ok).toBe(true);
  });

  test('finds waiting reserves that other reserves would overlook', async () => {
    const tenant = await newTenant();
    const key = budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}`);
    await on.holds.redis.hset(key, { waiting: '1' });
    expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([{ period_defect: 'NOT_MARKED' }]);
    await on.holds.redis.hset(key, { extras: '1' });
    expect((await verify(`tenant=${tenant.id}`)).ok).toBe(true);
  });

  test('is counted, with the drift that it finds', async () => {
    const tenant = await newTenant();
    const broken = await hold(tenant, 50);
    const names = [
      'holdfast_verify_budgets_total',
      'holdfast_verify_drift_total',
      'holdfast_verify_unreadable_total',
    ];
    const counts = (): Promise<number[]> => Promise.all(names.map((name) => on.holdfast.metric(name)));
    const [budgets = 0, drift = 0, unreadable = 0] = await counts();
    await verify(`tenant=${tenant.id}`);
    expect(await counts()).toEqual([budgets + 2, drift, unreadable]);
    await on.holds.set(broken, { ex: 'never' });
    await verify(`tenant=${tenant.id}`);
    expect(await counts()).toEqual([budgets + 4, drift + 2, unreadable + 1]);
  });

  test('does not mistake what the closing of a tenant drained for drift', async () => {
    const tenant = await newTenant();
    const broken = await hold(tenant, 50);
    await on.holds.set(broken, { ex: 'never' });
    expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${broken}`), 200);
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }),
      200,
    );
    await on.holds.set(broken, { ex: '1763722222222' });
    expect(await verify(`tenant=${tenant.id}`)).toMatchObject({ ok: true, drift: [] });
  });

  test('raises no false alarm while traffic runs, and still finds real drift', async () => {
    const tenant = await newTenant();
    let running = true;
    let operations = 0;
    const client = async (index: number): Promise<void> => {
      while (running) {
        const id = await hold(tenant, 1 + index);
        operations += 1;
        await (index % 3 === 0
          ? on.holdfast.settle(tenant, 'release', id)
          : index % 3 === 1
            ? on.holdfast.commit(tenant, id, 1)
            : on.holds.expireIn(id, -60_000));
      }
    };
    const sweeper = async (): Promise<void> => {
      while (running) {
        await on.holdfast.call('GET', '/v1/reservations?limit=200', { key: tenant.key });
      }
    };
    const clients = [...Array.from({ length: 8 }, (_, index) => client(index)), sweeper()];
    try {
      for (let count = 0; count < 12; count += 1) {
        expect(await verify(`tenant=${tenant.id}`)).toMatchObject({ ok: true, drift: [] });
      }
      await change(tenant, '', { reserved: 100_000, remaining: -100_000 });
      expect((await verify(`tenant=${tenant.id}`)).drift).toMatchObject([
        { kind: 'RESERVED', scope: `tenant:${tenant.id}` },
      ]);
    } finally {
      running = false;
      await Promise.all(clients);
      await change(tenant, '', { reserved: -100_000, remaining: 100_000 });
    }
    expect(operations).toBeGreaterThan(100);
    expect((await verify(`tenant=${tenant.id}`)).ok).toBe(true);
  });

  test('without a tenant covers all of them, never scanning, and is for operators', async () => {
    const before = await commandCounts(on.holds.redis);
    let report = await verify();
    let tenants = report.tenants as number;
    // A page ends early when its time is up.
    while (report.has_more === true) {
      report = await verify(`cursor=${report.next_cursor}`);
      tenants += report.tenants as number;
    }
    expect(tenants).toBeGreaterThanOrEqual(4);
    const after = await commandCounts(on.holds.redis);
    for (const name of ['scan', 'keys', 'hscan', 'zscan']) {
      expect([name, after[name]]).toEqual([name, before[name]]);
    }
    expectRefusal(await on.holdfast.admin('GET', '/ops/verify?cursor=none'), 400, 'INVALID_REQUEST');
    expectRefusal(await on.holdfast.call('GET', '/ops/verify'), 401, 'UNAUTHORIZED');
  });
});
