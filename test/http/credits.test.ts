import { describe, expect, jest, test } from '@jest/globals';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { creditKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Json,
  newKey,
  type TestTenant,
} from '../support/holdfast.js';
import { DAY_MS, eventsOf, expectSound, HOUR_MS, TestClock, timeOf } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCK: 'true', IDEMPOTENCY_TTL_MS: String(DAY_MS) });
const clock = new TestClock(() => on.holdfast);
const PATH = '/ops/budgets/credits';

const tokens = (amount: number | bigint): Json => ({ unit: 'TOKENS', amount });
const scopeOf = ({ id }: TestTenant): string => `tenant:${id}`;

const bodyOf = (tenant: TestTenant, amount: number | bigint, more: Json = {}): Json => ({
  idempotency_key: newKey(),
  tenant_id: tenant.id,
  scope: scopeOf(tenant),
  unit: 'TOKENS',
  amount: tokens(amount),
  name: 'Welcome',
  ...more,
});
const send = (body: Json): Promise<Answer> => on.holdfast.admin('POST', PATH, body);
const grant = async (tenant: TestTenant, amount: number, more: Json = {}): Promise<Json> =>
  expectStatus(await send(bodyOf(tenant, amount, more)), 201);
const list = (tenant: TestTenant, more = ''): Promise<Answer> =>
  on.holdfast.admin('GET', `${PATH}?tenant_id=${tenant.id}&scope=${scopeOf(tenant)}&unit=TOKENS${more}`);

/** `name status amount remaining consumed lapsed pinned voided` of each credit, as it is listed. */
async function figures(tenant: TestTenant): Promise<string[]> {
  const { credits } = expectStatus(await list(tenant), 200);
  return (credits as Json[]).map((credit) =>
    [
      credit.name,
      credit.status,
      ...['amount', 'remaining', 'consumed', 'lapsed', 'pinned', 'voided'].map(
        (name) => credit[name as 'amount'].amount as number,
      ),
    ].join(' '),
  );
}

async function spend(tenant: TestTenant, amount: number): Promise<void> {
  const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, amount), 200);
  expectStatus(await on.holdfast.commit(tenant, id as string, amount), 200);
}

describe('a credit', () => {
  test('is a part of the allocation, and answered as it is listed, byte for byte again', async () => {
    const tenant = await clock.tenant(100);
    const body = bodyOf(tenant, 40, {
      category: 'promotion',
      expires_at: '2199-01-01T00:00:00Z',
      notify_before_ms: HOUR_MS,
      metadata: { campaign: 'spring' },
    });
    const answer = await send(body);
    const credit = expectStatus(answer, 201);
    expect(credit).toEqual({
      credit_id: expect.stringMatching(/^crd_[0-9a-f]{2}[0-9A-Za-z]{16}$/),
      name: 'Welcome',
      category: 'promotion',
      status: 'ACTIVE',
      amount: tokens(40),
      remaining: tokens(40),
      consumed: tokens(0),
      lapsed: tokens(0),
      pinned: tokens(0),
      voided: tokens(0),
      priority: 50,
      effective_at: credit['created_at'],
      expires_at: '2199-01-01T00:00:00.000Z',
      notify_before_ms: HOUR_MS,
      metadata: { campaign: 'spring' },
      created_at: expect.any(String),
    });
    expect(expectStatus(await list(tenant), 200)).toEqual({ credits: [credit] });
    expect(await on.holdfast.balances(tenant)).toEqual({ [scopeOf(tenant)]: '140 0 0 0' });
    await spend(tenant, 30);
    expect((await send(body)).text).toBe(answer.text);
    expectRefusal(await send({ ...body, name: 'other' }), 409, 'IDEMPOTENCY_MISMATCH');
    expect(await figures(tenant)).toEqual(['Welcome ACTIVE 40 10 30 0 0 0']);
    await expectSound(on.holdfast, tenant);
  });

  test('burns by priority, then by its end, and before what else is allocated', async () => {
    const tenant = await clock.tenant(100);
    await grant(tenant, 10, { name: 'endless' });
    await grant(tenant, 10, { name: 'late', expires_at: '2199-01-01T00:00:00Z' });
    await grant(tenant, 10, { name: 'soon', expires_at: '2198-01-01T00:00:00Z' });
    await grant(tenant, 10, { name: 'last', priority: 100, expires_at: '2197-01-01T00:00:00Z' });
    await grant(tenant, 10, { name: 'first', priority: 0 });
    await grant(tenant, 10, { name: 'later', effective_at: '2190-01-01T00:00:00Z' });
    await spend(tenant, 25);
    const shown = await figures(tenant);
    expect(shown.slice(0, 4)).toEqual([
      'late ACTIVE 10 5 5 0 0 0',
      'endless ACTIVE 10 10 0 0 0 0',
      'later SCHEDULED 10 10 0 0 0 0',
      'last ACTIVE 10 10 0 0 0 0',
    ]);
    // Both ended by the same charge.
    expect(shown.slice(4).sort()).toEqual(['first EXHAUSTED 10 0 10 0 0 0', 'soon EXHAUSTED 10 0 10 0 0 0']);
    expect(await on.holdfast.balances(tenant)).toEqual({ [scopeOf(tenant)]: '125 0 25 0' });
  });

  test('keeps at its end what live holds may need, and gives it to no later hold', async () => {
    const tenant = await clock.tenant(10);
    const ends = (await clock.nowMs()) + HOUR_MS;
    await grant(tenant, 50, { expires_at: timeOf(ends) });
    const { reservation_id: id } = expectStatus(
      await on.holdfast.reserve(tenant, 30, { ttl_ms: 2 * HOUR_MS }),
      200,
    );
    await clock.advanceTo(ends);
    expect(await figures(tenant)).toEqual(['Welcome ENDED 50 0 0 20 30 0']);
    expect(await on.holdfast.balances(tenant)).toEqual({ [scopeOf(tenant)]: '10 30 0 0' });
    expectRefusal(await on.holdfast.reserve(tenant, 11), 409, 'BUDGET_EXCEEDED');
    expectStatus(await on.holdfast.commit(tenant, id as string, 18), 200);
    expect(await figures(tenant)).toEqual(['Welcome ENDED 50 0 18 32 0 0']);
    expect(await on.holdfast.balances(tenant)).toEqual({ [scopeOf(tenant)]: '10 0 18 0' });
    await expectSound(on.holdfast, tenant);
  });
});

const voided = (id: string, body?: Json): Promise<Answer> =>
  on.holdfast.admin('POST', `${PATH}/${id}/void`, body);
const changed = (id: string, body: Json): Promise<Answer> =>
  on.holdfast.admin('PATCH', `${PATH}/${id}`, body);

describe('an operator', () => {
  test('voids what nobody has consumed and no hold needs', async () => {
    const tenant = await clock.tenant(10);
    const { credit_id: id } = await grant(tenant, 50);
    await spend(tenant, 5);
    const { reservation_id: hold } = expectStatus(await on.holdfast.reserve(tenant, 20), 200);
    const answer = await voided(id as string, { reason: 'by mistake' });
    expect(expectStatus(answer, 200)).toMatchObject({
      credit_id: id,
      status: 'VOIDED',
      remaining: tokens(0),
      consumed: tokens(5),
      pinned: tokens(20),
      voided: tokens(25),
      ended_at: expect.any(String),
    });
    expect(await on.holdfast.balances(tenant)).toEqual({ [scopeOf(tenant)]: '10 20 5 0' });
    expect((await voided(id as string)).text).toBe(answer.text);
    const path = `/v1/reservations/${hold}/release`;
    const body = { idempotency_key: newKey() };
    expectStatus(await on.holdfast.call('POST', path, { key: tenant.key, body }), 200);
    expect(await figures(tenant)).toEqual(['Welcome VOIDED 50 0 5 20 0 25']);
    await expectSound(on.holdfast, tenant);
  });

  test('moves the end of a credit, ends the end, and names it anew', async () => {
    const tenant = await clock.tenant(10);
    const nowMs = await clock.nowMs();
    const end = timeOf(nowMs + HOUR_MS);
    const { credit_id: id, ...credit } = await grant(tenant, 50, { expires_at: end });
    const later = timeOf(nowMs + 2 * HOUR_MS);
    const moved = expectStatus(await changed(id as string, { expires_at: later, name: 'Longer' }), 200);
    expect(moved).toEqual({ ...credit, credit_id: id, expires_at: later, name: 'Longer' });
    await clock.advanceBy(HOUR_MS);
    expect(await figures(tenant)).toEqual(['Longer ACTIVE 50 50 0 0 0 0']);
    const endless = expectStatus(await changed(id as string, { expires_at: null }), 200);
    expect(endless).not.toHaveProperty('expires_at');
    await clock.advanceBy(2 * HOUR_MS);
    expect(await figures(tenant)).toEqual(['Longer ACTIVE 50 50 0 0 0 0']);
    const past = await changed(id as string, { expires_at: end });
    expect(expectRefusal(past, 400, 'INVALID_REQUEST').details).toMatchObject({ field: 'expires_at' });
  });

  test('neither voids nor changes what has ended, nor what never was', async () => {
    const tenant = await clock.tenant(10);
    const { credit_id: id } = await grant(tenant, 5);
    await spend(tenant, 5);
    for (const refused of [await voided(id as string), await changed(id as string, { name: 'x' })]) {
      const { details } = expectRefusal(refused, 409, 'RESERVATION_FINALIZED');
      expect(details).toEqual({ status: 'EXHAUSTED' });
    }
    for (const other of ['crd_001234567890abcdef', 'crd_ff1234567890abcdef', 'x']) {
      expectRefusal(await voided(other), 404, 'NOT_FOUND');
      expectRefusal(await changed(other, { name: 'x' }), 404, 'NOT_FOUND');
    }
  });
});

describe('a grant is refused', () => {
  test.each<[why: string, code: string, more: (tenant: TestTenant) => Json, field: string | undefined]>([
    ['a unit of the amount', 'UNIT_MISMATCH', () => ({ unit: 'CREDITS' }), 'amount.unit'],
    ['another tenant', 'INVALID_REQUEST', () => ({ tenant_id: 'other' }), 'scope'],
    ['nothing', 'INVALID_REQUEST', () => ({ amount: tokens(0) }), 'amount.amount'],
    ['a priority', 'INVALID_REQUEST', () => ({ priority: 101 }), 'priority'],
    ['a name of spaces', 'INVALID_REQUEST', () => ({ name: '  ' }), 'name'],
    [
      'an end that has passed',
      'INVALID_REQUEST',
      () => ({ expires_at: '2001-01-01T00:00:00Z' }),
      'expires_at',
    ],
    ['a start long ago', 'INVALID_REQUEST', () => ({ effective_at: '1969-12-31T00:00:00Z' }), 'effective_at'],
    ['too much', 'INVALID_REQUEST', () => ({ amount: tokens(9223372036854775807n) }), 'amount.amount'],
  ])('for %s', async (_, code, more, field) => {
    const tenant = await clock.tenant(10);
    const { details } = expectRefusal(await send(bodyOf(tenant, 5, more(tenant))), 400, code);
    expect(details).toMatchObject({ field });
    expect(await figures(tenant)).toEqual([]);
  });

  test('without a budget, for a frozen one, and for a closed tenant', async () => {
    const tenant = await clock.tenant(10);
    const other = { scope: `${scopeOf(tenant)}/agent:a` };
    expectRefusal(await send(bodyOf(tenant, 5, other)), 404, 'BUDGET_NOT_FOUND');
    const at = `scope=${scopeOf(tenant)}&unit=TOKENS`;
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?${at}`), 200);
    expectRefusal(await send(bodyOf(tenant, 5)), 409, 'BUDGET_FROZEN');
    const close = { status: 'CLOSED' };
    expectStatus(await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, close), 200);
    expectRefusal(await send(bodyOf(tenant, 5)), 409, 'TENANT_CLOSED');
  });

  test('for the 65th credit that lives', async () => {
    const tenant = await clock.tenant(10);
    for (let count = 0; count < 64; count += 1) {
      await grant(tenant, 1);
    }
    const { details } = expectRefusal(await send(bodyOf(tenant, 5)), 400, 'INVALID_REQUEST');
    expect(details).toMatchObject({ limit: 64 });
    await spend(tenant, 1);
    await grant(tenant, 5);
  });
});

describe('GET /v1/credits', () => {
  const own = (key: string, scope: string): Promise<Answer> =>
    on.holdfast.call('GET', `/v1/credits?scope=${scope}&unit=TOKENS`, { key });

  test('shows the credits of an own budget to keys that may read budgets', async () => {
    const [tenant, other] = [await clock.tenant(10), await clock.tenant(10)];
    await grant(tenant, 5);
    const credits = expectStatus(await list(tenant), 200);
    expect(expectStatus(await own(tenant.key, scopeOf(tenant)), 200)).toEqual(credits);
    expectRefusal(await own(other.key, scopeOf(tenant)), 403, 'FORBIDDEN');
    expectRefusal(await own(tenant.key, `${scopeOf(tenant)}/agent:a`), 404, 'NOT_FOUND');
    const narrow = await on.holdfast.createKey(tenant.id, { scope_filter: ['agent:a'] });
    expectRefusal(await own(narrow, scopeOf(tenant)), 403, 'FORBIDDEN');
    const poor = await on.holdfast.createKey(tenant.id, { permissions: ['balances:read'] });
    expectRefusal(await own(poor, scopeOf(tenant)), 403, 'FORBIDDEN');
  });
});

describe('a grant to all budgets that a filter matches', () => {
  test('gives each of them one credit, and tells which it could not', async () => {
    const tenant = await clock.tenant(10);
    await on.holdfast.createBudget(tenant, '/agent:a', 10);
    const frozen = `${scopeOf(tenant)}/agent:b`;
    await on.holdfast.createBudget(tenant, '/agent:b', 10);
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?scope=${frozen}&unit=TOKENS`),
      200,
    );
    const body = {
      idempotency_key: newKey(),
      filter: { tenant_id: tenant.id, unit: 'TOKENS' },
      expected_count: 3,
      credit: { amount: tokens(7), name: 'Sorry', category: 'goodwill', expires_at: '2199-01-01T00:00:00Z' },
    };
    const answer = await on.holdfast.admin('POST', `${PATH}/bulk`, body);
    expect(expectStatus(answer, 200)).toMatchObject({
      action: 'GRANT_CREDIT',
      total_matched: 3,
      succeeded: [{}, {}],
      failed: [{ error_code: 'INVALID_TRANSITION' }],
      skipped: [],
    });
    expect((await on.holdfast.admin('POST', `${PATH}/bulk`, body)).text).toBe(answer.text);
    expect(await figures(tenant)).toEqual(['Sorry ACTIVE 7 7 0 0 0 0']);
    const granted = await eventsOf(on.holdfast, tenant, 'custom.credit.granted');
    expect(new Set(granted.map(({ correlation_id: id }) => id)).size).toBe(1);
    expect(granted.map(({ scope }) => scope).sort()).toEqual([scopeOf(tenant), `${scopeOf(tenant)}/agent:a`]);
    const wrong = { ...body, credit: { ...body.credit, amount: tokens(8) } };
    expectRefusal(await on.holdfast.admin('POST', `${PATH}/bulk`, wrong), 409, 'IDEMPOTENCY_MISMATCH');
    const other = { ...body, idempotency_key: newKey(), expected_count: 2 };
    expectRefusal(await on.holdfast.admin('POST', `${PATH}/bulk`, other), 409, 'COUNT_MISMATCH');
  });
});

test('a grant to all whose process died goes on, and gives nothing twice', async () => {
  const tenant = await clock.tenant(10);
  await on.holdfast.createBudget(tenant, '/agent:a', 10);
  const { scripts } = on.holdfast.app.get(RedisService);
  const call = scripts.call.bind(scripts) as (...of: unknown[]) => Promise<unknown>;
  let grants = 0;
  const spy = jest.spyOn(scripts, 'call').mockImplementation(((name: string, ...rest: unknown[]) => {
    grants += name === 'grant_credit' ? 1 : 0;
    return grants === 2
      ? Promise.reject(new StoreUnavailable('connection'))
      : (call as (...all: unknown[]) => unknown)(name, ...rest);
  }) as never);
  const body = {
    idempotency_key: newKey(),
    filter: { tenant_id: tenant.id },
    credit: { amount: tokens(7), name: 'Sorry' },
  };
  expectStatus(await on.holdfast.admin('POST', `${PATH}/bulk`, body), 503);
  spy.mockRestore();
  expect((await eventsOf(on.holdfast, tenant, 'custom.credit.granted')).length).toBe(1);
  expect(expectStatus(await on.holdfast.admin('POST', `${PATH}/bulk`, body), 200)).toMatchObject({
    succeeded: [{}, {}],
  });
  expect((await eventsOf(on.holdfast, tenant, 'custom.credit.granted')).length).toBe(2);
});

describe('the end of a credit', () => {
  test('comes by itself to an idle budget, with its notice, and is counted', async () => {
    const tenant = await clock.tenant(10);
    const ends = (await clock.nowMs()) + 2 * HOUR_MS;
    const before = await on.holdfast.metric('holdfast_credit_moments_total');
    const late = await on.holdfast.metric('holdfast_credit_lateness_seconds_count');
    const { credit_id: id } = await grant(tenant, 50, {
      effective_at: timeOf(ends - HOUR_MS),
      expires_at: timeOf(ends),
      notify_before_ms: HOUR_MS / 2,
    });
    expect(await on.holdfast.balances(tenant)).toEqual({ [scopeOf(tenant)]: '10 0 0 0' });
    await clock.advanceTo(ends);
    const credits = async () =>
      (await eventsOf(on.holdfast, tenant)).filter(({ category, event_type: type }) => {
        return category === 'budget' && String(type).startsWith('custom.credit.');
      });
    const of = { credit_id: id, name: 'Welcome', unit: 'TOKENS' };
    expect((await credits()).map(({ event_type: type, data }) => [type, data])).toMatchObject([
      ['custom.credit.granted', { ...of, amount: 50, priority: 50, expires_at: timeOf(ends) }],
      ['custom.credit.started', { ...of, remaining: 50, debt_repaid: 0 }],
      ['custom.credit.ending', { ...of, remaining: 50, expires_at: timeOf(ends) }],
      ['custom.credit.ended', { ...of, lapsed: 50, pinned: 0 }],
    ]);
    expect(await figures(tenant)).toEqual(['Welcome ENDED 50 0 0 50 0 0']);
    expect(await on.holdfast.metric('holdfast_credit_moments_total')).toBe(before + 3);
    expect(await on.holdfast.metric('holdfast_credit_lateness_seconds_count')).toBeGreaterThan(late);
  });

  test('tells that a budget is exhausted if nothing else remains', async () => {
    const tenant = await clock.tenant(10);
    await spend(tenant, 10);
    const ends = (await clock.nowMs()) + HOUR_MS;
    await grant(tenant, 50, { expires_at: timeOf(ends) });
    await clock.advanceTo(ends);
    expect(await eventsOf(on.holdfast, tenant, 'budget.exhausted')).toHaveLength(2);
  });
});

test('a damaged record is left out of the list, and named', async () => {
  const tenant = await clock.tenant(100);
  const [damaged, whole] = [await grant(tenant, 10), await grant(tenant, 20)];
  const id = damaged.credit_id as string;
  await on.holds.redis.hdel(creditKey(on.holds.tagOfTenant(tenant.id), id), 'name');
  const answer = await list(tenant);
  expect(expectStatus(answer, 200).credits).toMatchObject([{ credit_id: whole.credit_id }]);
  expect(answer.headers.get('x-holdfast-skipped-records')).toBe(`credit=${id}`);
  for (const damage of ['gone', 'no record']) {
    await on.holds.redis.del(creditKey(on.holds.tagOfTenant(tenant.id), id));
    if (damage === 'no record') {
      await on.holds.redis.set(creditKey(on.holds.tagOfTenant(tenant.id), id), 'x');
    }
    expect((await list(tenant)).headers.get('x-holdfast-skipped-records')).toBe(`credit=${id}`);
  }
});
