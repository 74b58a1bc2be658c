import { afterAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../support/eventually.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Json,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { StoredHolds } from '../support/stored-holds.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const HEADER = 'x-holdfast-charge-on-expiry';
let stored: StoredHolds | undefined;
afterAll(() => stored?.close());

const reserve = (
  tenant: TestTenant,
  amount: number | bigint,
  charge: string | undefined,
  more: Json = {},
): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, amount, { grace_period_ms: 0, ...more }),
    headers: charge === undefined ? {} : { [HEADER]: charge },
  });

async function withBudget(amount = 1000): Promise<TestTenant> {
  const tenant = await on.holdfast.createTenant();
  await on.holdfast.createBudget(tenant, '', amount);
  return tenant;
}

/** A reservation that has expired, found by its client's read. */
async function expired(tenant: TestTenant, charge: string | undefined, amount = 100): Promise<string> {
  stored ??= new StoredHolds(on.redis.url);
  const { reservation_id: id } = expectStatus(await reserve(tenant, amount, charge), 200);
  await stored.expireIn(id as string, -60_000);
  expectRefusal(
    await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
    410,
    'RESERVATION_EXPIRED',
  );
  return id as string;
}

const historyOf = async (id: string): Promise<Json> =>
  expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
const rootOf = async (tenant: TestTenant): Promise<Json> => {
  const path = `/v1/balances?tenant=${tenant.id}`;
  const [balance] = expectStatus(await on.holdfast.call('GET', path, { key: tenant.key }), 200).balances;
  return balance;
};

describe('a reservation that costs something if it expires', () => {
  test('says how much in its balance, event, history and expiration', async () => {
    const tenant = await withBudget();
    const labels = { source: 'access', outcome: 'EXPIRED', detail: 'charged' };
    const counted = await on.holdfast.metric('holdfast_expiry_outcomes_total', labels);
    const id = await expired(tenant, '60');
    const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });
    // Only a part of its hold was returned.
    const read = await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key });
    expect(expectRefusal(read, 410, 'RESERVATION_EXPIRED').message).toBe('the reservation has expired');
    expect(await rootOf(tenant)).toMatchObject({
      remaining: tokens(940),
      reserved: tokens(0),
      spent: tokens(60),
    });
    const history = await historyOf(id);
    expect(history).toMatchObject({
      state: 'EXPIRED',
      charge_on_expiry: tokens(60),
      end: { how: 'EXPIRED', charged: tokens(60), returned: [tokens(40)] },
    });
    const events = await on.holdfast.admin(
      'GET',
      `/v1/admin/events?tenant_id=${tenant.id}&event_type=reservation.expired`,
    );
    expect(expectStatus(events, 200).events).toMatchObject([
      { data: { reservation_id: id, estimated_amount: 100, charged: 60 } },
    ]);
    const feed = await on.holdfast.admin('GET', `/ops/expirations?tenant_id=${tenant.id}`);
    expect(expectStatus(feed, 200).expirations).toMatchObject([
      { reservation_id: id, amount: 100, charged: 60 },
    ]);
    expect(await on.holdfast.metric('holdfast_expiry_outcomes_total', labels)).toBe(counted + 1);
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(1);
  });

  test('shows it while it lives, among the holds of its budget, too', async () => {
    const tenant = await withBudget();
    const { reservation_id: id } = expectStatus(await reserve(tenant, 100, '60'), 200);
    const { reservation_id: other } = expectStatus(await reserve(tenant, 100, undefined), 200);
    expect((await historyOf(id as string)).charge_on_expiry).toEqual({ unit: 'TOKENS', amount: 60 });
    expect(await historyOf(other as string)).not.toHaveProperty('charge_on_expiry');
    const path = `/ops/budgets/holds?scope=tenant:${tenant.id}&unit=TOKENS`;
    const { holds } = expectStatus(await on.holdfast.admin('GET', path), 200);
    const charges = Object.fromEntries(
      (holds as Json[]).map((hold) => [hold.reservation_id as string, hold.charge_on_expiry]),
    );
    expect(charges).toEqual({ [id as string]: { unit: 'TOKENS', amount: 60 }, [other as string]: undefined });
  });

  test('leaves an instance that died with its calls in flight no budget to spend twice', async () => {
    const tenant = await withBudget(480);
    stored ??= new StoredHolds(on.redis.url);
    for (let call = 0; call < 48; call += 1) {
      const { reservation_id: id } = expectStatus(await reserve(tenant, 10, '10'), 200);
      await stored.expireIn(id as string, -60_000);
    }
    expectRefusal(await reserve(tenant, 1, undefined), 409, 'BUDGET_EXCEEDED');
    expect(await rootOf(tenant)).toMatchObject({ spent: { amount: 480 }, reserved: { amount: 0 } });
  });

  test('is sent again with the same charge only', async () => {
    const tenant = await withBudget();
    const idempotency_key = newKey();
    const first = expectStatus(await reserve(tenant, 100, '60', { idempotency_key }), 200);
    const again = expectStatus(await reserve(tenant, 100, '60', { idempotency_key }), 200);
    expect(again.reservation_id).toBe(first.reservation_id);
    for (const other of ['61', '0', undefined]) {
      const answer = await reserve(tenant, 100, other, { idempotency_key });
      expectRefusal(answer, 409, 'IDEMPOTENCY_MISMATCH');
    }
  });

  test('has amounts beyond 2^53', async () => {
    const tenant = await on.holdfast.createTenant();
    await on.holdfast.createBudget(tenant, '', 9223372036854775807n);
    const { reservation_id: id } = expectStatus(
      await reserve(tenant, 9223372036854775807n, '9223372036854775807'),
      200,
    );
    const { text } = await on.holdfast.admin('GET', `/ops/reservations/${id}`);
    expect(text).toContain('"charge_on_expiry":{"unit":"TOKENS","amount":9223372036854775807}');
  });

  test.each(['101', '-1', '+1', '1.0', '1e2', '0x1', '', ' ', 'all', '18446744073709551616', '5, 6'])(
    'is refused with a charge of %j, in a dry run as well',
    async (charge) => {
      const tenant = await withBudget();
      for (const more of [{}, { dry_run: true }, { observe_mode: 'OBSERVE' }]) {
        const { error, details } = expectRefusal(
          await reserve(tenant, 100, charge, more),
          400,
          'INVALID_REQUEST',
        );
        expect([error, details.field]).toEqual(['INVALID_REQUEST', 'X-Holdfast-Charge-On-Expiry']);
      }
      expect(await rootOf(tenant)).toMatchObject({ reserved: { amount: 0 } });
    },
  );

  test('tells nothing of it in what only evaluates or denies', async () => {
    const tenant = await withBudget();
    expectStatus(await reserve(tenant, 100, '60', { dry_run: true }), 200);
    expectStatus(await reserve(tenant, 100, '60', { observe_mode: 'OBSERVE' }), 200);
    expectRefusal(await reserve(tenant, 5000, '60'), 409, 'BUDGET_EXCEEDED');
    const { text } = await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`);
    expect(text).toContain('reservation.observed_allowed');
    expect(text).toContain('reservation.denied');
    expect(text).not.toMatch(/"ce"|charge/);
  });
});

describe('the default share', () => {
  const path = (tenant: TestTenant): string => `/ops/tenants/${tenant.id}/charge-on-expiry`;
  const chargeOf = async (tenant: TestTenant, charge?: string, amount = 101): Promise<unknown> => {
    const { reservation_id: id } = expectStatus(await reserve(tenant, amount, charge), 200);
    return (await historyOf(id as string)).charge_on_expiry?.amount;
  };

  test('of a tenant applies to its next reservations, unless the request says otherwise', async () => {
    const tenant = await withBudget();
    expect(expectStatus(await on.holdfast.admin('GET', path(tenant)), 200)).toEqual({
      tenant_id: tenant.id,
      percent: 0,
    });
    expect(await chargeOf(tenant)).toBeUndefined();
    const set = expectStatus(await on.holdfast.admin('PUT', path(tenant), { percent: 50 }), 200);
    expect(set).toEqual({ tenant_id: tenant.id, percent: 50 });
    expect(expectStatus(await on.holdfast.admin('GET', path(tenant)), 200)).toEqual(set);
    expect(await chargeOf(tenant)).toBe(51);
    expect(await chargeOf(tenant, '7')).toBe(7);
    expect(await chargeOf(tenant, '0')).toBeUndefined();
    expectStatus(await on.holdfast.admin('PUT', path(tenant), { percent: 0 }), 200);
    expect(await chargeOf(tenant)).toBeUndefined();
    const { events } = expectStatus(
      await on.holdfast.admin(
        'GET',
        `/v1/admin/events?tenant_id=${tenant.id}&event_type=tenant.settings_changed`,
      ),
      200,
    );
    expect((events as Json[]).map(({ data }) => data.changed_fields)).toEqual([
      ['charge_on_expiry_percent'],
      ['charge_on_expiry_percent'],
    ]);
  });

  test("of a policy wins over its tenant's, even if it is nothing, until it is removed", async () => {
    const tenant = await withBudget();
    expectStatus(await on.holdfast.admin('PUT', path(tenant), { percent: 100 }), 200);
    const { policy_id: policy } = expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/policies', {
        tenant_id: tenant.id,
        name: 'charge',
        scope_pattern: `tenant:${tenant.id}`,
      }),
      201,
    );
    const own = `/ops/policies/${policy}/charge-on-expiry`;
    expect(expectStatus(await on.holdfast.admin('GET', own), 200)).toEqual({ policy_id: policy });
    expect(await chargeOf(tenant)).toBe(101);
    for (const [percent, charge] of [
      [10, 11],
      [0, undefined],
    ] as const) {
      const set = expectStatus(await on.holdfast.admin('PUT', own, { percent }), 200);
      expect(set).toEqual({ policy_id: policy, percent });
      expect(expectStatus(await on.holdfast.admin('GET', own), 200)).toEqual(set);
      expect(await chargeOf(tenant)).toBe(charge);
    }
    expect(expectStatus(await on.holdfast.admin('DELETE', own), 200)).toEqual({ policy_id: policy });
    expect(await chargeOf(tenant)).toBe(101);
  });

  test.each([
    {},
    { percent: -1 },
    { percent: 101 },
    { percent: 0.5 },
    { percent: '5' },
    { percent: 5, more: 1 },
  ])('is refused as %j', async (body) => {
    const tenant = await withBudget();
    expectRefusal(await on.holdfast.admin('PUT', path(tenant), body), 400, 'INVALID_REQUEST');
  });

  test('is not found for what does not exist', async () => {
    for (const method of ['GET', 'PUT']) {
      const body = method === 'PUT' ? { percent: 1 } : undefined;
      const tenant = await on.holdfast.admin(method, '/ops/tenants/nobody/charge-on-expiry', body);
      expectRefusal(tenant, 404, 'TENANT_NOT_FOUND');
      const policy = await on.holdfast.admin(method, '/ops/policies/pol_nothing/charge-on-expiry', body);
      expectRefusal(policy, 404, 'NOT_FOUND');
    }
  });

  test('is what the sweeper charges', async () => {
    const tenant = await withBudget();
    expectStatus(await on.holdfast.admin('PUT', path(tenant), { percent: 100 }), 200);
    stored ??= new StoredHolds(on.redis.url);
    const { reservation_id: id } = expectStatus(await reserve(tenant, 100, undefined), 200);
    await stored.expireIn(id as string, -60_000);
    await eventually('it is expired', async () => {
      expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
      return (await rootOf(tenant)).spent.amount === 100;
    });
  });
});
