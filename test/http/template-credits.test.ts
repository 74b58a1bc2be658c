import { expect, test } from '@jest/globals';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Json,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { DAY_MS, eventsOf, expectSound, HOUR_MS, TestClock } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCK: 'true' });
const clock = new TestClock(() => on.holdfast);
const tokens = (amount: number | bigint): Json => ({ unit: 'TOKENS', amount });
const TRIAL = { amount: tokens(30), lasts_ms: HOUR_MS, name: 'Trial' };

const put = (tenant: TestTenant, credits: readonly Json[] | undefined, more: Json = {}): Promise<Answer> =>
  on.holdfast.admin('PUT', '/ops/budget-templates/per-user', {
    tenant_id: tenant.id,
    scope_pattern: `tenant:${tenant.id}/agent:*`,
    unit: 'TOKENS',
    allocated: tokens(50),
    credits,
    ...more,
  });

async function withTemplate(...credits: readonly Json[]): Promise<TestTenant> {
  const tenant = await clock.tenant(1000);
  expectStatus(await put(tenant, credits), 201);
  return tenant;
}

const at = (tenant: TestTenant, agent: string): Json => ({ subject: { tenant: tenant.id, agent } });
const scopeOf = (tenant: TestTenant, agent: string): string => `tenant:${tenant.id}/agent:${agent}`;
const remaining = async (tenant: TestTenant, agent: string): Promise<unknown> => {
  const path = `/v1/admin/budgets/lookup?scope=${scopeOf(tenant, agent)}&unit=TOKENS`;
  return expectStatus(await on.holdfast.admin('GET', path), 200).remaining.amount;
};
const creditsOf = async (tenant: TestTenant, agent: string): Promise<Json[]> => {
  const path = `/ops/budgets/credits?scope=${scopeOf(tenant, agent)}&unit=TOKENS`;
  return expectStatus(await on.holdfast.admin('GET', path), 200).credits as Json[];
};

test("a new user's first reserve gives a trial, which pays what is charged, and ends by itself", async () => {
  const tenant = await withTemplate({ ...TRIAL, category: 'trial', notify_before_ms: HOUR_MS / 2 });
  expectRefusal(await on.holdfast.reserve(tenant, 81, at(tenant, 'anna')), 409, 'BUDGET_EXCEEDED');
  const hold = expectStatus(await on.holdfast.reserve(tenant, 60, at(tenant, 'anna')), 200);
  expect(hold.balances).toContainEqual(
    expect.objectContaining({ scope: 'agent:anna', remaining: tokens(20), reserved: tokens(60) }),
  );
  const [trial, ...others] = await creditsOf(tenant, 'anna');
  expect(others).toEqual([]);
  expect(trial).toMatchObject({ name: 'Trial', category: 'trial', status: 'ACTIVE', priority: 50 });
  expect(Date.parse(trial?.expires_at) - Date.parse(trial?.effective_at)).toBe(HOUR_MS);
  expectStatus(await on.holdfast.commit(tenant, hold.reservation_id, 10), 200);
  const shown = await on.holdfast.admin('GET', `/ops/reservations/${hold.reservation_id}`);
  expect(expectStatus(shown, 200).end.credits).toMatchObject([
    { credit_id: trial?.credit_id, amount: tokens(10) },
  ]);
  await clock.advanceTo(Date.parse(trial?.expires_at));
  expect(await creditsOf(tenant, 'anna')).toMatchObject([
    { status: 'ENDED', consumed: tokens(10), lapsed: tokens(20) },
  ]);
  expect(await remaining(tenant, 'anna')).toBe(50);
  const told = (await eventsOf(on.holdfast, tenant)).filter(
    ({ scope, event_type: type }) =>
      scope === scopeOf(tenant, 'anna') && /created|credit/.test(type as string),
  );
  expect(told.map(({ event_type: type, actor }) => [type, actor.type])).toEqual(
    [
      'budget.created',
      ...['granted', 'started', 'ending', 'ended'].map((word) => `custom.credit.${word}`),
    ].map((type) => [type, 'system']),
  );
  // The next request gives no other one.
  expectStatus(await on.holdfast.reserve(tenant, 1, at(tenant, 'anna')), 200);
  expect(await creditsOf(tenant, 'anna')).toHaveLength(1);
  await expectSound(on.holdfast, tenant);
});

test('debits, sets and batches give it, too, and what makes no budget gives nothing', async () => {
  const tenant = await withTemplate(TRIAL);
  const action = { kind: 'llm.completion', name: 'x' };
  const post = (path: string, body: Json): Promise<Answer> =>
    on.holdfast.call('POST', path, { key: tenant.key, body });
  const debit = { idempotency_key: newKey(), ...at(tenant, 'debit'), action, actual: tokens(8) };
  expectStatus(await post('/v1/events', debit), 201);
  const pair = [40, 40].map((amount) => reserveBody(tenant, amount, at(tenant, 'set')));
  expectStatus(await post('/v1/reservation-sets', { reservations: pair }), 200);
  const operations = [1, 2].map((amount) => ({
    op: 'reserve',
    body: reserveBody(tenant, amount, at(tenant, 'batch')),
  }));
  expectStatus(await post('/v1/batch', { operations }), 200);
  const consumed = { debit: 8, set: 0, batch: 0 };
  for (const [agent, amount] of Object.entries(consumed)) {
    expect(await creditsOf(tenant, agent)).toMatchObject([{ name: 'Trial', consumed: tokens(amount) }]);
  }
  const decide = reserveBody(tenant, 80, at(tenant, 'nobody'));
  expect(expectStatus(await post('/v1/decide', decide), 200).decision).toBe('ALLOW');
  const dry = expectStatus(
    await on.holdfast.reserve(tenant, 80, { ...at(tenant, 'nobody'), dry_run: true }),
    200,
  );
  expect(dry.decision).toBe('ALLOW');
  const granted = await eventsOf(on.holdfast, tenant, 'custom.credit.granted');
  expect(granted.map(({ scope }) => scope)).toEqual(
    ['debit', 'set', 'batch'].map((agent) => scopeOf(tenant, agent)),
  );
  await expectSound(on.holdfast, tenant);
});

test('a template shows its credits, and gives each once to what it has made when it is applied', async () => {
  const whole = {
    ...{ ...TRIAL, priority: 10, category: 'trial', notify_before_ms: 5 },
    metadata: { campaign: 'spring' },
  };
  const tenant = await withTemplate(whole);
  const path = `/ops/budget-templates/per-user?tenant_id=${tenant.id}`;
  const shown = async (): Promise<Json> => expectStatus(await on.holdfast.admin('GET', path), 200);
  expect((await shown()).credits).toEqual([whole]);
  expectStatus(await on.holdfast.reserve(tenant, 1, at(tenant, 'anna')), 200);
  const apply = (credits: readonly Json[] | undefined, more: Json = {}): Promise<Answer> =>
    put(tenant, credits, { apply_to_existing: true, idempotency_key: newKey(), ...more });
  const second = { amount: tokens(5), lasts_ms: DAY_MS, name: 'Second' };
  const [first, after] = [
    { ...whole, amount: tokens(31) },
    { ...second, priority: 50 },
  ];
  const answer = expectStatus(await apply([first, second]), 200);
  expect(answer).toMatchObject({ credits: [first, after], existing: { failed: [], succeeded: [{}] } });
  expect(await creditsOf(tenant, 'anna')).toMatchObject([
    { name: 'Trial', amount: tokens(30), metadata: { campaign: 'spring' } },
    { name: 'Second', amount: tokens(5) },
  ]);
  const big = { ...second, name: 'Big', amount: tokens(9223372036854775807n - 60n) };
  expect(expectStatus(await apply([big]), 200).existing.failed).toMatchObject([
    { error_code: 'INVALID_REQUEST' },
  ]);
  expectStatus(await apply(undefined), 200);
  expect(await shown()).not.toHaveProperty('credits');
  expect(await creditsOf(tenant, 'anna')).toHaveLength(2);
  await expectSound(on.holdfast, tenant);
});

test.each<[why: string, credits: readonly Json[], code: string, field: string]>([
  ['none', [], 'INVALID_REQUEST', 'credits'],
  [
    'more than 16',
    Array.from({ length: 17 }, (_, at) => ({ ...TRIAL, name: `${at}` })),
    'INVALID_REQUEST',
    'credits',
  ],
  ['one name twice', [TRIAL, TRIAL], 'INVALID_REQUEST', 'credits'],
  ['a name of spaces', [{ ...TRIAL, name: ' ' }], 'INVALID_REQUEST', 'credits[0].name'],
  [
    'another unit',
    [{ ...TRIAL, amount: { unit: 'CREDITS', amount: 1 } }],
    'UNIT_MISMATCH',
    'credits[0].amount.unit',
  ],
  ['nothing', [{ ...TRIAL, amount: tokens(0) }], 'INVALID_REQUEST', 'credits[0].amount.amount'],
  ['no end', [{ amount: tokens(1), name: 'x' }], 'INVALID_REQUEST', 'credits[0].lasts_ms'],
  [
    'too much with what it allocates',
    [{ ...TRIAL, amount: tokens(9223372036854775807n - 49n) }],
    'INVALID_REQUEST',
    'credits',
  ],
])('a template with %s as its credits is refused', async (_, credits, code, field) => {
  const tenant = await clock.tenant(1);
  expect(expectRefusal(await put(tenant, credits), 400, code).details).toMatchObject({ field });
});
