import { describe, expect, test } from '@jest/globals';
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
    expect(shown.slice(4).sort()).toEqual([
      'first EXHAUSTED 10 0 10 0 0 0',
      'soon EXHAUSTED 10 0 10 0 0 0',
    ]);
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
