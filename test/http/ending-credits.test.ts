import { expect, test } from '@jest/globals';
import { budgetKey, creditIndexKey, tagOfPartition } from '../../src/redis/keyspace.js';
import { type Answer, expectStatus, type Json, newKey, type TestTenant } from '../support/holdfast.js';
import { DAY_MS, timeOf } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const PATH = '/ops/credits/ending';

const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });
const ending = (query = '', key?: string): Promise<Answer> =>
  key === undefined
    ? on.holdfast.admin('GET', `${PATH}?${query}`)
    : on.holdfast.call('GET', `${PATH}?${query}`, { headers: { 'x-admin-api-key': key } });
const ofTenant = async ({ id }: TestTenant, more = ''): Promise<Json> =>
  expectStatus(await ending(`tenant_id=${id}${more}`), 200);
const inDays = (days: number): string => timeOf(Date.now() + days * DAY_MS);

async function grant({ id }: TestTenant, below: string, amount: number, more: Json = {}): Promise<Json> {
  const body = {
    idempotency_key: newKey(),
    tenant_id: id,
    scope: `tenant:${id}${below}`,
    unit: 'TOKENS',
    amount: tokens(amount),
    name: 'Trial',
    ...more,
  };
  return expectStatus(await on.holdfast.admin('POST', '/ops/budgets/credits', body), 201);
}

test('what ends within a week is added up for each budget, by the first end', async () => {
  const tenant = await on.holdfast.fundedTenant(100);
  await on.holdfast.createBudget(tenant, '/agent:a', 100);
  await on.holdfast.createBudget(tenant, '/agent:b', 100);
  await on.holdfast.createBudget(tenant, '/agent:closed', 100);
  await grant(tenant, '', 30, { expires_at: inDays(6) });
  const { expires_at: first } = await grant(tenant, '', 20, { expires_at: inDays(5), priority: 0 });
  const { expires_at: sooner } = await grant(tenant, '/agent:a', 7, { expires_at: inDays(2) });
  // None of these ends within a week, or takes anything away then.
  await grant(tenant, '/agent:b', 1);
  await grant(tenant, '/agent:b', 2, { expires_at: inDays(8), notify_before_ms: 3 * DAY_MS });
  await grant(tenant, '/agent:b', 4, { effective_at: inDays(1), expires_at: inDays(3) });
  await grant(tenant, '/agent:closed', 5, { expires_at: inDays(1) });
  const closed = budgetKey(on.holds.tagOfTenant(tenant.id), 'TOKENS', `tenant:${tenant.id}/agent:closed`);
  await on.stored.redis.hset(closed, 'status', 'CLOSED');
  // Eight of the twenty are consumed.
  const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, 8), 200);
  expectStatus(await on.holdfast.commit(tenant, id as string, 8), 200);
  const rows = [
    {
      tenant_id: tenant.id,
      scope: `tenant:${tenant.id}/agent:a`,
      unit: 'TOKENS',
      credits: 1,
      first_ends_at: sooner,
      remaining: tokens(7),
    },
    {
      tenant_id: tenant.id,
      scope: `tenant:${tenant.id}`,
      unit: 'TOKENS',
      credits: 2,
      first_ends_at: first,
      remaining: tokens(42),
    },
  ];
  const found = await ofTenant(tenant);
  expect(found).toMatchObject({ budgets: rows, has_more: false, examined: 4 });
  expect((await ofTenant(tenant, `&ends_before=${inDays(2.5)}`)).budgets).toEqual([rows[0]]);
  const later = await ofTenant(tenant, `&ends_before=${inDays(9)}`);
  expect(later.budgets.map((row: Json) => row.remaining.amount)).toEqual([7, 42, 2]);
});

test('it is that of all tenants, and for operators of some tenants that of theirs', async () => {
  const [mine, other] = [await on.holdfast.fundedTenant(10), await on.holdfast.fundedTenant(10)];
  await grant(mine, '', 1, { expires_at: inDays(2) });
  await grant(other, '', 2, { expires_at: inDays(1) });
  const tenantsOf = (answer: Answer): string[] =>
    expectStatus(answer, 200).budgets.map((row: Json) => row.tenant_id as string);
  const all = tenantsOf(await ending());
  expect(all.indexOf(other.id)).toBeGreaterThanOrEqual(0);
  expect(all.indexOf(other.id)).toBeLessThan(all.indexOf(mine.id));
  const operator = await on.holdfast.admin('POST', '/ops/operators', {
    name: 'of-one',
    role: 'viewer',
    tenants: [mine.id],
  });
  const key = expectStatus(operator, 201).key_secret as string;
  expect(tenantsOf(await ending('', key))).toEqual([mine.id]);
  // Of another tenant in its partition.
  const index = creditIndexKey(on.holds.tagOfTenant(mine.id));
  await on.stored.redis.zadd(index, Date.now() + DAY_MS, 'tenant:foreign TOKENS');
  expect((await ending('', key)).body).toMatchObject({ examined: 1, has_more: false });
  expect((await ofTenant(mine)).examined).toBeGreaterThan(1);
  await on.stored.redis.zrem(index, 'tenant:foreign TOKENS');
  expect(tenantsOf(await ending(`tenant_id=${mine.id}`, key))).toEqual([mine.id]);
});

test('there are more than were looked at only if any follow the last one', async () => {
  const [tag, next] = ['00', '01'].map((code) => creditIndexKey(`{p${code}}`)) as [string, string];
  const soon = Date.now() + DAY_MS;
  await Promise.all(
    Array.from({ length: 64 }, (_, number) => on.stored.redis.del(creditIndexKey(tagOfPartition(number)))),
  );
  const members = Array.from({ length: 20_000 }, (_, budget) => [soon, `tenant:a/agent:${budget} TOKENS`]);
  await on.stored.redis.zadd(tag, ...members.flat());
  expect((await ending()).body).toMatchObject({ budgets: [], examined: 20_000, has_more: false });
  await on.stored.redis.zadd(next, soon, 'tenant:b TOKENS');
  expect((await ending()).body).toMatchObject({ budgets: [], examined: 20_000, has_more: true });
  await on.stored.redis.zrem(tag, 'tenant:a/agent:1 TOKENS');
  expect((await ending()).body).toMatchObject({ budgets: [], examined: 20_000, has_more: false });
  await on.stored.redis.zadd(tag, soon, 'tenant:a/agent:1 TOKENS', soon, 'tenant:a/agent:0x TOKENS');
  expect((await ending()).body).toMatchObject({ budgets: [], examined: 20_000, has_more: true });
  await Promise.all([tag, next].map((index) => on.stored.redis.del(index)));
});

test('at most 100 budgets are listed, read in several runs, and damaged ones are named', async () => {
  const tenant = await on.holdfast.fundedTenant(10);
  for (let agent = 0; agent < 104; agent += 1) {
    await on.holdfast.createBudget(tenant, `/agent:a${agent}`, 1);
  }
  const granted = await on.holdfast.admin('POST', '/ops/budgets/credits/bulk', {
    idempotency_key: newKey(),
    filter: { tenant_id: tenant.id, unit: 'TOKENS' },
    credit: { amount: tokens(3), name: 'Sorry', expires_at: inDays(3) },
  });
  expect(expectStatus(granted, 200).succeeded).toHaveLength(105);
  const found = await ofTenant(tenant);
  expect(found.has_more).toBe(true);
  expect(found.examined).toBeGreaterThanOrEqual(105);
  expect(found.budgets).toHaveLength(100);
  const [damaged] = found.budgets as Json[];
  const tag = on.holds.tagOfTenant(tenant.id);
  await on.stored.redis.hset(budgetKey(tag, 'TOKENS', damaged?.scope as string), 'credits', 'x');
  const answer = await ending(`tenant_id=${tenant.id}`);
  expect(answer.headers.get('x-holdfast-skipped-records')).toContain(damaged?.scope);
  expect(expectStatus(answer, 200).budgets.map((row: Json) => row.scope)).not.toContain(damaged?.scope);
  await on.stored.redis.del(creditIndexKey(tag));
  await on.stored.redis.set(creditIndexKey(tag), 'no index');
  const without = await ending(`tenant_id=${tenant.id}`);
  expect(without.headers.get('x-holdfast-skipped-records')).toContain('credits');
  expect(expectStatus(without, 200).budgets).toEqual([]);
  await on.stored.redis.del(creditIndexKey(tag));
});
