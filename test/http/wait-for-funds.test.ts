import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BudgetRollovers } from '../../src/governance/budgets/budget-rollovers.js';
import { arrivalsKey, budgetKey, waiterQueueKey, waitersKey } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { endPeriodAt } from '../support/periods.js';
import { useGovernance } from '../support/use-governance.js';

const SETTINGS = { HOLDFAST_ROLES: 'api,sweeper', SWEEP_INTERVAL_MS: '50', waitersPerTenant: 210 };
const on = useGovernance({}, SETTINGS);
let other: Holdfast;
beforeAll(async () => {
  other = await Holdfast.start({ REDIS_URL: on.redis.url, ...SETTINGS });
  // An instance subscribes when its first reserve waits. Until then, a waiting reserve learns of its turn
  // only by its renewals.
  for (const at of [on.holdfast, other]) {
    await eventually('it hears of freed funds', async () => {
      const [tenant, held] = await saturated();
      const answer = reserve(tenant, 100, { at });
      await untilWaiting(tenant, 1);
      expectStatus(await release(tenant, held), 200);
      expectStatus(await answer, 200);
      return (await at.metric('holdfast_reserve_wake_ups_total', { by: 'freed' })) > 0;
    });
  }
});
afterAll(() => other.stop());

interface Options {
  readonly at?: Holdfast;
  readonly waitMs?: number | string;
  readonly more?: Record<string, unknown>;
  readonly extended?: boolean;
}

/** Sends a reserve that waits. */
function reserve(tenant: TestTenant, amount: number, options: Options = {}): Promise<Answer> {
  const { at = on.holdfast, waitMs = 25_000, more = {}, extended = false } = options;
  return at.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, amount, { grace_period_ms: 0, ...more }),
    headers: { 'x-holdfast-wait-ms': String(waitMs) },
    extended,
  });
}

/** Sends a reserve of 100 that waits until its client disconnects. @returns what disconnects it */
function waitUntilLeft({ id, key }: TestTenant): () => void {
  const leaving = request(`${on.holdfast.url}/v1/reservations`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-cycles-api-key': key,
      'x-holdfast-wait-ms': '25000',
    },
  });
  leaving.on('error', () => undefined);
  leaving.end(JSON.stringify(reserveBody({ id, key }, 100)));
  return () => void leaving.destroy();
}

/** A tenant with a budget that one reservation has used up. */
async function saturated(more: Record<string, unknown> = {}): Promise<[TestTenant, string]> {
  const tenant = await on.holdfast.fundedTenant(100);
  const held = expectStatus(await on.holdfast.reserve(tenant, 100, { grace_period_ms: 0, ...more }), 200);
  return [tenant, held.reservation_id as string];
}

const rootOf = ({ id }: TestTenant): string => `tenant:${id}`;
const release = (tenant: TestTenant, id: string): Promise<Answer> =>
  on.holdfast.settle(tenant, 'release', id);

function fund(
  tenant: TestTenant,
  amount: number,
  operation = 'CREDIT',
  scope = rootOf(tenant),
): Promise<Answer> {
  return on.holdfast.admin(
    'POST',
    `/v1/admin/budgets/fund?tenant_id=${tenant.id}&scope=${scope}&unit=TOKENS`,
    {
      operation,
      amount: { unit: 'TOKENS', amount },
      idempotency_key: newKey(),
    },
  );
}

/** Resolves when this many of the tenant's reserves have a place in a queue. */
async function untilWaiting(tenant: TestTenant, count: number): Promise<void> {
  const key = waitersKey(on.stored.tagOf(tenant.id), tenant.id);
  await eventually(`${count} wait`, async () => (await on.stored.redis.zcard(key)) === count);
}

const ended = (outcome: string): Promise<number> =>
  on.holdfast.metric('holdfast_reserve_waits_total', { outcome });
const wokenBy = async (by: string): Promise<number> =>
  (await on.holdfast.metric('holdfast_reserve_wake_ups_total', { by })) +
  (await other.metric('holdfast_reserve_wake_ups_total', { by }));

describe('a reserve that waits', () => {
  test('gets the funds that a release returns, and the response that an immediate reserve would have got', async () => {
    const [tenant, held] = await saturated();
    const [freed, granted] = [await wokenBy('freed'), await ended('granted')];
    const answer = reserve(tenant, 60);
    await untilWaiting(tenant, 1);
    expect(await on.holdfast.metric('holdfast_reserve_waiters')).toBe(1);
    expectStatus(await release(tenant, held), 200);
    expect(expectStatus(await answer, 200)).toMatchObject({ decision: 'ALLOW', reserved: { amount: 60 } });
    expect(await on.holdfast.balances(tenant)).toEqual({ [rootOf(tenant)]: '40 60 0 0' });
    expect(await on.holdfast.metric('holdfast_reserve_waiters')).toBe(0);
    expect(await wokenBy('freed')).toBe(freed + 1);
    expect(await on.holdfast.metric('holdfast_reserve_wait_seconds_count')).toBeGreaterThan(0);
    expect(await ended('granted')).toBe(granted + 1);
    const tag = on.stored.tagOf(tenant.id);
    const [queue, budget] = [waiterQueueKey, budgetKey].map((key) => key(tag, 'TOKENS', rootOf(tenant)));
    expect(await on.stored.redis.exists(queue as string, waitersKey(tag, tenant.id))).toBe(0);
    expect(await on.stored.redis.hget(budget as string, 'waiting')).toBeNull();
    expect(await on.stored.redis.pttl(arrivalsKey(tag))).toBeGreaterThan(0);
  });

  test('is refused at the end of its time, and only then reported as denied', async () => {
    const [tenant] = await saturated();
    const before = await ended('timed_out');
    const began = performance.now();
    expectRefusal(await reserve(tenant, 1, { waitMs: 300 }), 409, 'BUDGET_EXCEEDED');
    expect(performance.now() - began).toBeGreaterThanOrEqual(299);
    expect(await ended('timed_out')).toBe(before + 1);
    const path = `/v1/admin/events?tenant_id=${tenant.id}&event_type=reservation.denied`;
    expect(expectStatus(await on.holdfast.admin('GET', path), 200).events).toHaveLength(1);
    await untilWaiting(tenant, 0);
  });

  test('does not make a slow request', async () => {
    const counted = async (): Promise<number> => {
      const labels = { uri: '/v1/reservations', status: '409' };
      const took = await on.holdfast.metric('http_server_requests_seconds_sum', labels);
      return took + (await on.holdfast.metric('holdfast_reserve_wait_seconds_sum'));
    };
    const [tenant] = await saturated();
    const before = await counted();
    const began = performance.now();
    expectRefusal(await reserve(tenant, 1, { waitMs: 2000 }), 409, 'BUDGET_EXCEEDED');
    const tookS = (performance.now() - began) / 1000;
    // The time that it waited counts once.
    expect((await counted()) - before).toBeLessThan(tookS + 0.1);
  });

  test('waits at one instance for what the other frees, in order of arrival', async () => {
    const [tenant, held] = await saturated();
    const order: number[] = [];
    const holds: Promise<string>[] = [];
    for (let i = 0; i < 6; i += 1) {
      const answer = reserve(tenant, 100, { at: i % 2 === 0 ? on.holdfast : other });
      holds.push(
        answer.then((one) => {
          order.push(i);
          return expectStatus(one, 200).reservation_id as string;
        }),
      );
      await untilWaiting(tenant, i + 1);
    }
    expectStatus(await release(tenant, held), 200);
    for (const hold of holds) {
      expectStatus(await other.settle(tenant, 'release', await hold), 200);
    }
    expect(order).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('is not starved by later, smaller ones, which get what is left', async () => {
    const [tenant, held] = await saturated();
    const large = reserve(tenant, 90);
    await untilWaiting(tenant, 1);
    expectStatus(await on.holdfast.commit(tenant, held, 50), 200);
    const small = [1, 2].map(() => reserve(tenant, 50, { at: other }));
    const impatient = await reserve(tenant, 10, { waitMs: 100 });
    expectRefusal(impatient, 409, 'BUDGET_EXCEEDED');
    await untilWaiting(tenant, 3);
    expect(await on.holdfast.balances(tenant)).toEqual({ [rootOf(tenant)]: '50 0 50 0' });
    expectStatus(await fund(tenant, 90), 200);
    expectStatus(await large, 200);
    expectStatus(await Promise.race(small), 200);
    expectStatus(await on.holdfast.reserve(tenant, 0), 200);
    expectStatus(await fund(tenant, 100), 200);
    expect((await Promise.all(small)).map(({ status }) => status)).toEqual([200, 200]);
  });

  test('does not delay reserves on other budgets', async () => {
    const tenant = await on.holdfast.fundedTenant(1000);
    await on.holdfast.createBudget(tenant, '/workspace:a', 30);
    await on.holdfast.createBudget(tenant, '/workspace:b', 10);
    const usedInA = { subject: { tenant: tenant.id, workspace: 'a' } };
    expectStatus(await on.holdfast.reserve(tenant, 20, usedInA), 200);
    const inA = reserve(tenant, 20, { more: { subject: { tenant: tenant.id, workspace: 'a' } } });
    await untilWaiting(tenant, 1);
    const inB = { subject: { tenant: tenant.id, workspace: 'b' } };
    expectStatus(await reserve(tenant, 10, { more: inB }), 200);
    expectStatus(await reserve(tenant, 880), 200);
    // The workspace's budget has enough now, but the tenant's has not. So the reserve waits there and is
    // still the first.
    expectStatus(await reserve(tenant, 80), 200);
    expectStatus(await fund(tenant, 100, 'CREDIT', `${rootOf(tenant)}/workspace:a`), 200);
    const root = waiterQueueKey(on.stored.tagOf(tenant.id), 'TOKENS', rootOf(tenant));
    await eventually('it has moved', async () => (await on.stored.redis.zcard(root)) === 1);
    const later = reserve(tenant, 10, { at: other });
    await untilWaiting(tenant, 2);
    expectStatus(await fund(tenant, 10), 200);
    expectStatus(await inA, 200);
    expectStatus(await fund(tenant, 10), 200);
    expectStatus(await later, 200);
  });

  test.each([
    ['a commit below the hold', (tenant: TestTenant, id: string) => on.holdfast.commit(tenant, id, 10)],
    ['funds', (tenant: TestTenant) => fund(tenant, 90)],
    ['a reset', (tenant: TestTenant) => fund(tenant, 190, 'RESET')],
  ])('is woken by %s', async (_, free) => {
    const [tenant, held] = await saturated();
    const freed = await wokenBy('freed');
    const answer = reserve(tenant, 90, { at: other });
    await untilWaiting(tenant, 1);
    expectStatus(await free(tenant, held), 200);
    expectStatus(await answer, 200);
    expect(await wokenBy('freed')).toBe(freed + 1);
  });

  test('is woken by the expiry of a hold', async () => {
    const [tenant] = await saturated({ ttl_ms: 1000 });
    const answer = reserve(tenant, 100);
    expectStatus(await answer, 200);
  });

  test('is woken by a new period of its budget', async () => {
    const [tenant, held] = await saturated();
    expectStatus(await on.holdfast.commit(tenant, held, 100), 200);
    const period = { period_end: new Date(Date.now() + 3_600_000).toISOString() };
    const path = `/ops/budgets/period?scope=${rootOf(tenant)}&unit=TOKENS`;
    expectStatus(await on.holdfast.admin('PATCH', path, period), 200);
    const answer = reserve(tenant, 100);
    await untilWaiting(tenant, 1);
    await endPeriodAt(on.stored.redis, tenant.id, Date.now());
    await eventually('the idle budget rolls over', async () => {
      await other.app.get(BudgetRollovers).runTurn({ goesOn: () => true });
      return (await other.metric('holdfast_budget_rollovers_total')) > 0;
    });
    expectStatus(await answer, 200);
  });

  test('is woken by the repayment of debt', async () => {
    const tenant = await on.holdfast.fundedTenant(
      10,
      {},
      { overdraft_limit: { unit: 'TOKENS', amount: 100 } },
    );
    const held = await on.holdfast.reserve(tenant, 10, { overage_policy: 'ALLOW_WITH_OVERDRAFT' });
    expectStatus(await on.holdfast.commit(tenant, expectStatus(held, 200).reservation_id as string, 60), 200);
    const answer = reserve(tenant, 5);
    await untilWaiting(tenant, 1);
    expectStatus(await fund(tenant, 60, 'REPAY_DEBT'), 200);
    expectStatus(await answer, 200);
  });

  test('is refused as soon as its budget is frozen, or its tenant closed', async () => {
    const [frozen] = await saturated();
    const refused = await ended('refused');
    const answers = [reserve(frozen, 10), reserve(frozen, 90)];
    await untilWaiting(frozen, 2);
    const budget = `scope=${rootOf(frozen)}&unit=TOKENS`;
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?${budget}`, {}), 200);
    for (const answer of answers) {
      expectRefusal(await answer, 409, 'BUDGET_FROZEN');
    }
    expect(await ended('refused')).toBe(refused + 2);
    const [closed] = await saturated();
    const last = reserve(closed, 10);
    await untilWaiting(closed, 1);
    const path = `/v1/admin/tenants/${closed.id}`;
    expectStatus(await on.holdfast.admin('PATCH', path, { status: 'CLOSED' }), 200);
    expectRefusal(await last, 409, 'TENANT_CLOSED');
  });

  test('gives up its place when its client disconnects', async () => {
    const [tenant, held] = await saturated();
    const before = await ended('client_gone');
    const leave = waitUntilLeft(tenant);
    await untilWaiting(tenant, 1);
    const next = reserve(tenant, 60, { at: other });
    await untilWaiting(tenant, 2);
    expectStatus(await on.holdfast.commit(tenant, held, 40), 200);
    leave();
    expectStatus(await next, 200);
    expect(await ended('client_gone')).toBe(before + 1);
    expect(await on.holdfast.balances(tenant)).toEqual({ [rootOf(tenant)]: '0 60 40 0' });
  });

  test('counts places that could not be renewed or given up', async () => {
    const failed = (call: string): Promise<number> =>
      on.holdfast.metric('holdfast_reserve_place_failures_total', { call });
    const before = [await failed('renew'), await failed('leave')] as const;
    const [tenant] = await saturated();
    const leave = waitUntilLeft(tenant);
    await untilWaiting(tenant, 1);
    const places = waitersKey(on.stored.tagOf(tenant.id), tenant.id);
    await on.stored.redis.del(places);
    await on.stored.redis.set(places, 'damaged');
    await eventually('a renewal has failed', async () => (await failed('renew')) > before[0]);
    leave();
    await eventually('giving up has failed', async () => (await failed('leave')) > before[1]);
    await on.stored.redis.del(places);
  });

  test('shares its outcome with a retry that has the same key', async () => {
    const [tenant, held] = await saturated();
    const more = { idempotency_key: newKey() };
    const answers = [on.holdfast, other, on.holdfast].map((at) => reserve(tenant, 60, { at, more }));
    await untilWaiting(tenant, 3);
    expectStatus(await release(tenant, held), 200);
    const ids = (await Promise.all(answers)).map((answer) => expectStatus(answer, 200).reservation_id);
    expect(new Set(ids).size).toBe(1);
    expectStatus(await reserve(tenant, 60, { more }), 200);
    expect(await on.holdfast.balances(tenant)).toEqual({ [rootOf(tenant)]: '40 60 0 0' });
  });
});

/** A key of the tenant with its id, so that it can be changed. */
async function keyOf(tenant: TestTenant): Promise<TestTenant & { readonly keyId: string }> {
  const body = { tenant_id: tenant.id, name: 'changes during a wait' };
  const made = expectStatus(await on.holdfast.admin('POST', '/v1/admin/api-keys', body), 201);
  return { id: tenant.id, key: made.key_secret as string, keyId: made.key_id as string };
}

const changeKey = (keyId: string, body: unknown): Promise<Answer> =>
  on.holdfast.admin('PATCH', `/v1/admin/api-keys/${keyId}`, body);

describe('whoever may no longer act', () => {
  type Change = (caller: TestTenant & { readonly keyId: string }) => Promise<Answer>;
  const CHANGES: readonly [what: string, change: Change, status: number, code: string][] = [
    [
      'whose key was revoked',
      ({ keyId }) => on.holdfast.admin('DELETE', `/v1/admin/api-keys/${keyId}`),
      401,
      'UNAUTHORIZED',
    ],
    [
      'whose key has lost its permission',
      ({ keyId }) => changeKey(keyId, { permissions: ['balances:read'] }),
      403,
      'FORBIDDEN',
    ],
    [
      'whose key was confined to another scope',
      ({ keyId }) => changeKey(keyId, { scope_filter: ['workspace:other'] }),
      403,
      'FORBIDDEN',
    ],
    [
      'whose tenant was suspended',
      ({ id }) => on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { status: 'SUSPENDED' }),
      401,
      'UNAUTHORIZED',
    ],
  ];

  test.each(CHANGES)('is not served at its turn: one %s', async (_, change, status, code) => {
    const [tenant, held] = await saturated();
    const caller = await keyOf(tenant);
    const refused = await ended('refused');
    const answer = reserve(caller, 60);
    await untilWaiting(tenant, 1);
    expectStatus(await change(caller), 200);
    const path = `/v1/reservations/${held}/release`;
    const body = { idempotency_key: newKey() };
    await on.holdfast.call('POST', path, { body, headers: { 'x-admin-api-key': ADMIN_API_KEY } });
    expectRefusal(await answer, status, code);
    expect(await ended('refused')).toBe(refused + 1);
    await untilWaiting(tenant, 0);
    const root = budgetKey(on.stored.tagOf(tenant.id), 'TOKENS', rootOf(tenant));
    expect(await on.stored.redis.hmget(root, 'remaining', 'reserved')).toEqual(['100', '0']);
  });

  test.each(CHANGES.slice(0, 3))('does not hold up others: one %s', async (_, change, status, code) => {
    const [tenant, held] = await saturated();
    const caller = await keyOf(tenant);
    const first = reserve(caller, 90, { at: other, waitMs: 30_000 });
    await untilWaiting(tenant, 1);
    expectStatus(await on.holdfast.commit(tenant, held, 50), 200);
    // Refused long before the first would leave by itself.
    const second = reserve(tenant, 10, { waitMs: 15_000 });
    await untilWaiting(tenant, 2);
    expectStatus(await change(caller), 200);
    expectRefusal(await first, status, code);
    expectStatus(await second, 200);
  });
});

describe('a reserve that cannot have its funds', () => {
  const inWorkspace = ({ id }: TestTenant, workspace: string): Record<string, unknown> => ({
    subject: { tenant: id, workspace },
  });

  test('is refused at once if it wants more than a budget has in all', async () => {
    const [tenant, held] = await saturated();
    await on.holdfast.createBudget(tenant, '/workspace:a', 50);
    const before = await ended('not_queued');
    expectRefusal(await reserve(tenant, 101), 409, 'BUDGET_EXCEEDED');
    expectRefusal(await reserve(tenant, 51, { more: inWorkspace(tenant, 'a') }), 409, 'BUDGET_EXCEEDED');
    expect(await ended('not_queued')).toBe(before + 2);
    const fits = reserve(tenant, 50, { more: inWorkspace(tenant, 'a') });
    await untilWaiting(tenant, 1);
    expectStatus(await release(tenant, held), 200);
    expectStatus(await fits, 200);
  });

  test('is refused as soon as its budget has become too small', async () => {
    const [tenant, held] = await saturated();
    const large = reserve(tenant, 90, { at: other });
    await untilWaiting(tenant, 1);
    expectStatus(await on.holdfast.commit(tenant, held, 50), 200);
    const small = reserve(tenant, 10);
    await untilWaiting(tenant, 2);
    expectStatus(await fund(tenant, 80, 'RESET'), 200);
    expectRefusal(await large, 409, 'BUDGET_EXCEEDED');
    expectStatus(await small, 200);
  });

  test('because a workspace lacks them does not hold up other workspaces', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    await on.holdfast.createBudget(tenant, '/workspace:a', 90);
    expectStatus(await on.holdfast.reserve(tenant, 40, inWorkspace(tenant, 'a')), 200);
    // Both budgets lack 20 of 80, but those of the tenant alone would not help.
    const inA = reserve(tenant, 80, { more: inWorkspace(tenant, 'a'), waitMs: 3000 });
    await untilWaiting(tenant, 1);
    const confined = await on.holdfast.createKey(tenant.id, { scope_filter: ['workspace:b'] });
    const inB = { id: tenant.id, key: confined };
    expectStatus(await reserve(inB, 60, { more: inWorkspace(tenant, 'b') }), 200);
    expectRefusal(await inA, 409, 'BUDGET_EXCEEDED');
  });

  test('because an earlier one waits says so when it is refused', async () => {
    const [tenant, held] = await saturated();
    const large = reserve(tenant, 90);
    await untilWaiting(tenant, 1);
    expectStatus(await on.holdfast.commit(tenant, held, 50), 200);
    const headers = { 'x-holdfast-wait-ms': '100', 'x-holdfast-explain': 'true' };
    const starved = await on.holdfast.call('POST', '/v1/reservations', {
      key: tenant.key,
      body: reserveBody(tenant, 10),
      headers,
    });
    const { message, details } = expectRefusal(starved, 409, 'BUDGET_EXCEEDED');
    expect(message).toBe(`what remains at scope ${rootOf(tenant)} is kept for a reserve that waited longer`);
    expect(details).toEqual({
      scope: rootOf(tenant),
      kept_for: 'EARLIER_WAITER',
      unit: 'TOKENS',
      requested: 10,
      retry_unknown: 'EARLIER_WAITER',
      deny_detail: {
        reason_code: 'BUDGET_EXCEEDED',
        blocked_by_scope: rootOf(tenant),
        suggested_fix: `Retry later: what remains at ${rootOf(tenant)} is kept for a reserve that waited longer`,
        budget_remaining: 50,
      },
    });
    expectStatus(await fund(tenant, 90), 200);
    expectStatus(await large, 200);
  });
});

describe('no reserve waits', () => {
  test.each(['', '-1', '1.5', '30001', '1e3', 'true'])('for the time %p', async (waitMs) => {
    const [tenant] = await saturated();
    const body = expectRefusal(await reserve(tenant, 1, { waitMs }), 400, 'INVALID_REQUEST');
    expect(body.details).toEqual({ field: 'X-Holdfast-Wait-Ms' });
  });

  test('for what waiting cannot change, for a dry run, or for no time', async () => {
    const [tenant] = await saturated();
    expectRefusal(await reserve(tenant, 1, { waitMs: 0 }), 409, 'BUDGET_EXCEEDED');
    expect(expectStatus(await reserve(tenant, 1, { more: { dry_run: true } }), 200)).toMatchObject({
      decision: 'DENY',
      reason_code: 'BUDGET_EXCEEDED',
    });
    const observed = await on.holdfast.fundedTenant(1, { observe_mode: 'OBSERVE' });
    expect(expectStatus(await reserve(observed, 2, { extended: true }), 200)).toMatchObject({
      decision: 'DENY',
    });
    const none = await on.holdfast.createTenant();
    expectRefusal(await reserve(none, 1), 404, 'NOT_FOUND');
  });
});
