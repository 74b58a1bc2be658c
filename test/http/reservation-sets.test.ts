import { describe, expect, test } from '@jest/globals';
import { generateEvidenceKeys } from '../../src/config/evidence-keys.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { endPeriodAt } from '../support/periods.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance(
  {},
  {
    EVIDENCE_SERVER_ID: 'https://cycles.example.com/v1',
    EVIDENCE_KEYS: generateEvidenceKeys(1_700_000_000_000),
    RATE_LIMIT_PER_KEY_PER_MINUTE: '40',
  },
);
const UNIT = 'USD_MICROCENTS';
const dollars = (amount: number): Json => ({ estimate: { unit: UNIT, amount } });

async function funded(settings = {}): Promise<TestTenant> {
  const tenant = await on.holdfast.createTenant(settings);
  await on.holdfast.createBudget(tenant, '', 100);
  await on.holdfast.createBudget(tenant, '', 50, { unit: UNIT });
  return tenant;
}

const send = (tenant: TestTenant, reservations: readonly Json[], headers = {}): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/reservation-sets', { key: tenant.key, headers, body: { reservations } });

const both = (tenant: TestTenant, tokens: number, cents: number): Json[] => [
  reserveBody(tenant, tokens),
  reserveBody(tenant, 0, dollars(cents)),
];

/** Remaining and reserved by unit. */
async function held(tenant: TestTenant): Promise<Record<string, string>> {
  const answer = await on.holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key });
  const balances = expectStatus(answer, 200).balances as Json[];
  return Object.fromEntries(
    balances.map(({ remaining, reserved }) => [
      remaining.unit,
      `${String(remaining.amount)} ${String(reserved?.amount ?? 0)}`,
    ]),
  );
}

test('tokens and dollars are held together, answered in order, and settled apart', async () => {
  const tenant = await funded();
  const [first, second] = both(tenant, 30, 20);
  const wordy = { ...second, metadata: { note: 'm'.repeat(1100) } };
  const { reservation_set_id: setId, reservations } = expectStatus(await send(tenant, [first, wordy]), 200);
  expect(setId).toMatch(/^set_\w{18}$/);
  expect(reservations).toMatchObject([
    { decision: 'ALLOW', reserved: { unit: 'TOKENS', amount: 30 }, remaining_ttl_ms: 60_000 },
    { decision: 'ALLOW', reserved: { unit: UNIT, amount: 20 } },
  ]);
  expect(await held(tenant)).toEqual({ TOKENS: '70 30', [UNIT]: '30 20' });
  const [tokens, cents] = (reservations as Json[]).map(({ reservation_id: id }) => id as string);
  expect(tokens).toBe((setId as string).replace('set_', 'rsv_'));
  expectStatus(await on.holdfast.commit(tenant, tokens as string, 25), 200);
  expect(await held(tenant)).toEqual({ TOKENS: '75 0', [UNIT]: '30 20' });
  for (const id of [tokens, cents]) {
    const shown = await on.holdfast.call('GET', `/v1/reservations/${id}`, {
      key: tenant.key,
      extended: true,
    });
    expect(expectStatus(shown, 200).reservation_set_id).toBe(setId);
    const history = await on.holdfast.admin('GET', `/ops/reservations/${id}`);
    expect(expectStatus(history, 200).request.reservation_set_id).toBe(setId);
  }
  const listed = await on.holdfast.call('GET', '/v1/reservations', { key: tenant.key, extended: true });
  expect(
    (expectStatus(listed, 200).reservations as Json[]).map(({ reservation_set_id: id }) => id as string),
  ).toEqual([setId, setId]);
});

test('the first refused member is answered as alone, with its place, and nothing else happens', async () => {
  const tenant = await funded();
  const before = await on.holdfast.metric('holdfast_reservation_sets_total', { outcome: 'refused' });
  const alone = expectRefusal(await on.holdfast.reserve(tenant, 0, dollars(51)), 409, 'BUDGET_EXCEEDED');
  const refused = expectRefusal(await send(tenant, both(tenant, 30, 51)), 409, 'BUDGET_EXCEEDED');
  expect(refused).toMatchObject({ message: alone.message, details: { ...alone.details, operation: 1 } });
  expect(await held(tenant)).toEqual({ TOKENS: '100 0', [UNIT]: '50 0' });
  const events = await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`);
  const denied = (expectStatus(events, 200).events as Json[]).filter(
    ({ event_type: type }) => type === 'reservation.denied',
  );
  expect(denied).toHaveLength(2);
  expect(await on.holdfast.metric('holdfast_reservation_sets_total', { outcome: 'refused' })).toBe(
    before + 1,
  );
  expect(
    await on.holdfast.metric('cycles_reservations_reserve_total', { tenant: tenant.id, decision: 'DENY' }),
  ).toBe(2);
});

test('a repeated set has the same id and reservations; a key of it alone is a mismatch', async () => {
  const tenant = await funded();
  const bodies = both(tenant, 30, 20);
  const first = expectStatus(await send(tenant, bodies), 200);
  const again = expectStatus(await send(tenant, bodies), 200);
  const idsOf = ({ reservations, reservation_set_id: id }: Json): unknown[] => [
    id,
    ...(reservations as Json[]).map(({ reservation_id: one }) => one as string),
  ];
  expect(idsOf(again)).toEqual(idsOf(first));
  expect(await held(tenant)).toEqual({ TOKENS: '70 30', [UNIT]: '30 20' });
  const alone = await on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, body: bodies[0] });
  expectRefusal(alone, 409, 'IDEMPOTENCY_MISMATCH');
  const turned = expectRefusal(await send(tenant, [...bodies].reverse()), 409, 'IDEMPOTENCY_MISMATCH');
  expect(turned.details.operation).toBe(0);
});

test('each member says in its headers what it costs if it expires', async () => {
  const tenant = await funded();
  const [first, second] = both(tenant, 30, 20);
  const charged = { ...first, headers: { 'x-holdfast-charge-on-expiry': '12' } };
  const { reservations } = expectStatus(await send(tenant, [charged, second]), 200);
  const costs = (reservations as Json[]).map(async ({ reservation_id: id }) => {
    const history = await on.holdfast.admin('GET', `/ops/reservations/${String(id)}`);
    return expectStatus(history, 200).charge_on_expiry as unknown;
  });
  expect(await Promise.all(costs)).toEqual([{ unit: 'TOKENS', amount: 12 }, undefined]);
  expectStatus(await send(tenant, [charged, second]), 200);
  expectRefusal(await send(tenant, [first, second]), 409, 'IDEMPOTENCY_MISMATCH');
  const dearer = { ...second, idempotency_key: newKey(), headers: { 'X-Holdfast-Charge-On-Expiry': '21' } };
  const refused = expectRefusal(await send(tenant, [reserveBody(tenant, 1), dearer]), 400, 'INVALID_REQUEST');
  expect(refused.details).toMatchObject({ field: 'X-Holdfast-Charge-On-Expiry', operation: 1 });
  expect(await held(tenant)).toEqual({ TOKENS: '70 30', [UNIT]: '30 20' });
});

test('a refusal is explained by what the whole set needs in that unit', async () => {
  const tenant = await funded();
  expectStatus(await on.holdfast.reserve(tenant, 20, { ttl_ms: 300_000, grace_period_ms: 0 }), 200);
  const members = [...both(tenant, 60, 10), reserveBody(tenant, 40)];
  const plain = expectRefusal(await send(tenant, members), 409, 'BUDGET_EXCEEDED');
  expect(plain.details).not.toHaveProperty('short_by');
  const answer = await send(tenant, members, { 'x-holdfast-explain': 'true' });
  const { details } = expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
  expect(details).toMatchObject({
    operation: 2,
    unit: 'TOKENS',
    remaining: 80,
    requested: 100,
    short_by: 20,
  });
  expect(details.retry_after_ms).toBeGreaterThan(290_000);
  expect(answer.headers.get('retry-after')).toBe(String(Math.ceil(details.retry_after_ms / 1000)));
  expectRefusal(await send(tenant, members, { 'x-holdfast-explain': 'yes' }), 400, 'INVALID_REQUEST');
});

describe('a request that is no set is refused', () => {
  test.each<[string, (tenant: TestTenant) => Json[], Record<string, string>]>([
    ['one member', (tenant) => [reserveBody(tenant, 1)], {}],
    ['nine members', (tenant) => Array.from({ length: 9 }, () => reserveBody(tenant, 1)), {}],
    ['a dry run', (tenant) => [reserveBody(tenant, 1), reserveBody(tenant, 1, { dry_run: true })], {}],
    [
      'an observed member',
      (tenant) => [reserveBody(tenant, 1), reserveBody(tenant, 1, { observe_mode: 'OBSERVE' })],
      {},
    ],
    [
      'the same key twice',
      (tenant) => [
        reserveBody(tenant, 1, { idempotency_key: 'k' }),
        reserveBody(tenant, 2, { idempotency_key: 'k' }),
      ],
      {},
    ],
    ['a wait', (tenant) => both(tenant, 1, 1), { 'x-holdfast-wait-ms': '100' }],
    ['a charge on expiry', (tenant) => both(tenant, 1, 1), { 'x-holdfast-charge-on-expiry': '1' }],
    ['a key in the header', (tenant) => both(tenant, 1, 1), { 'x-idempotency-key': newKey() }],
  ])('%s', async (_what, bodies, headers) => {
    const tenant = await funded();
    expectRefusal(await send(tenant, bodies(tenant), headers), 400, 'INVALID_REQUEST');
    expect(await held(tenant)).toEqual({ TOKENS: '100 0', [UNIT]: '50 0' });
  });

  test.each([
    ['dry_run', { dry_run: true }],
    ['observe_mode', { observe_mode: 'OBSERVE' }],
    ['estimate', { estimate: undefined }],
  ])('names the member at fault in one form: %s', async (field, more) => {
    const tenant = await funded();
    const answer = await send(tenant, [reserveBody(tenant, 1), reserveBody(tenant, 1, more)]);
    expect(expectRefusal(answer, 400, 'INVALID_REQUEST').details.field).toBe(`reservations[1].${field}`);
  });

  test('under a tenant in observe mode', async () => {
    const tenant = await funded({ observe_mode: 'OBSERVE' });
    expectRefusal(await send(tenant, both(tenant, 1, 1)), 400, 'INVALID_REQUEST');
    const enforced = both(tenant, 1, 1).map((body) => ({ ...body, observe_mode: 'ENFORCE' }));
    expectStatus(await send(tenant, enforced), 200);
  });
});

test('permission, scope filter and tenant are asked of each member', async () => {
  const tenant = await funded();
  const key = async (settings: Json): Promise<TestTenant> => ({
    id: tenant.id,
    key: await on.holdfast.createKey(tenant.id, settings),
  });
  const reader = await key({ permissions: ['reservations:list'] });
  expectRefusal(await send(reader, both(tenant, 1, 1)), 403, 'FORBIDDEN');
  const narrow = await key({ scope_filter: ['workspace:dev'] });
  const inside = reserveBody(tenant, 1, { subject: { workspace: 'dev' } });
  const refusal = expectRefusal(await send(narrow, [inside, reserveBody(tenant, 1)]), 403, 'FORBIDDEN');
  expect(refusal.details).toMatchObject({ operation: 1, field: 'subject' });
  expect(await held(tenant)).toEqual({ TOKENS: '100 0', [UNIT]: '50 0' });
  const other = await funded();
  expectRefusal(await send(tenant, [reserveBody(tenant, 1), reserveBody(other, 1)]), 403, 'FORBIDDEN');
});

test('each member counts for the rate of the key', async () => {
  const tenant = await funded();
  const left = async (): Promise<number> =>
    Number((await send(tenant, both(tenant, 1, 1))).headers.get('x-ratelimit-remaining'));
  const first = await left();
  expect(await left()).toBe(first - 2);
});

test('a set with more members than requests are left leaves these to smaller ones', async () => {
  const tenant = await funded();
  const members = (count: number): Json[] => Array.from({ length: count }, () => reserveBody(tenant, 1));
  for (const count of [8, 8, 8, 8]) {
    expectStatus(await send(tenant, members(count)), 200);
  }
  expectStatus(await send(tenant, members(2)), 200);
  const tooMany = await send(tenant, members(8));
  expectRefusal(tooMany, 429, 'LIMIT_EXCEEDED');
  expect(tooMany.headers.get('x-ratelimit-remaining')).toBe('5');
  const last = await send(tenant, members(5));
  expectStatus(last, 200);
  expect(last.headers.get('x-ratelimit-remaining')).toBe('0');
  expectRefusal(await on.holdfast.reserve(tenant, 1), 429, 'LIMIT_EXCEEDED');
});

test('a set of more members than its key has requests in a minute is refused for good', async () => {
  const tenant = await funded();
  const narrow = await Holdfast.start({ REDIS_URL: on.redis.url, RATE_LIMIT_PER_KEY_PER_MINUTE: '5' });
  const body = { reservations: Array.from({ length: 6 }, () => reserveBody(tenant, 1)) };
  const answer = await narrow.call('POST', '/v1/reservation-sets', { key: tenant.key, body });
  expect(expectRefusal(answer, 400, 'INVALID_REQUEST').message).toBe(
    'this counts as 6 requests, and only 5 requests with this API key are allowed in a minute',
  );
  expect(answer.headers.get('retry-after')).toBeNull();
  expectStatus(
    await narrow.call('POST', '/v1/reservation-sets', {
      key: tenant.key,
      body: { reservations: body.reservations.slice(0, 4) },
    }),
    200,
  );
  await narrow.stop();
});

test('each member has its evidence, and so has a refusal', async () => {
  const tenant = await funded();
  const { reservations } = expectStatus(await send(tenant, both(tenant, 1, 1)), 200);
  for (const [place, { cycles_evidence: evidence, reservation_id: id }] of (
    reservations as Json[]
  ).entries()) {
    const envelope = expectStatus(
      await on.holdfast.call('GET', `/v1/evidence/${evidence.evidence_id as string}`),
      200,
    );
    expect(envelope.payload.reserve.response.reservation_id).toBe(id);
    expect(envelope.payload.reserve.request.estimate.unit).toBe(place === 0 ? 'TOKENS' : UNIT);
  }
  const refusal = expectRefusal(await send(tenant, both(tenant, 1, 51)), 409, 'BUDGET_EXCEEDED');
  const envelope = expectStatus(
    await on.holdfast.call('GET', `/v1/evidence/${refusal.cycles_evidence.evidence_id as string}`),
    200,
  );
  expect(envelope).toMatchObject({
    artifact_type: 'error',
    payload: { error: { response: { details: { operation: 1 } } } },
  });
});

test('a period that is over ends at the first touch, and a refused set holds nothing in the new one', async () => {
  const tenant = await on.holdfast.createTenant();
  const now = Date.now();
  await on.holdfast.createBudget(tenant, '', 100, {
    rollover_policy: 'NONE',
    period_start: new Date(now - 86_400_000).toISOString(),
    period_end: new Date(now + 86_400_000).toISOString(),
  });
  await on.holdfast.createBudget(tenant, '', 50, { unit: UNIT });
  const { reservation_id: spent } = expectStatus(await on.holdfast.reserve(tenant, 90), 200);
  expectStatus(await on.holdfast.commit(tenant, spent as string, 90), 200);
  await endPeriodAt(on.stored.redis, tenant.id, Date.now() - 1000);
  expectRefusal(await send(tenant, both(tenant, 80, 51)), 409, 'BUDGET_EXCEEDED');
  expect(await held(tenant)).toMatchObject({ TOKENS: '100 0', [UNIT]: '50 0' });
  expectStatus(await send(tenant, both(tenant, 80, 50)), 200);
});
