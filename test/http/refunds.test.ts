import { describe, expect, test } from '@jest/globals';
import { journalKey, reservationKey, tagOfReservationId, tagOfTenant } from '../../src/redis/keyspace.js';
import { expectRefusal, expectStatus, newKey, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

interface Charged {
  readonly tenant: TestTenant;
  /** May refund, besides what a key may by default. */
  readonly key: string;
  readonly id: string;
}

async function refunder(tenant: TestTenant, more: Record<string, unknown> = {}): Promise<string> {
  return on.holdfast.createKey(tenant.id, {
    permissions: ['refunds:create', 'reservations:commit'],
    ...more,
  });
}

/** A reservation that was charged. */
async function charged(amount: number, allocated = 1000): Promise<Charged> {
  const tenant = await on.holdfast.fundedTenant(allocated);
  const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, amount), 200);
  expectStatus(await on.holdfast.commit(tenant, id, amount), 200);
  return { tenant, key: await refunder(tenant), id };
}

const bodyOf = (amount: number | bigint, more: Record<string, unknown> = {}): Json => ({
  idempotency_key: newKey(),
  amount: { unit: 'TOKENS', amount },
  ...more,
});
const refund = (key: string, path: string, body: Json) =>
  on.holdfast.call('POST', `/v1/${path}/refunds`, { key, body });
const ofReservation = ({ key, id }: Charged, body: Json) => refund(key, `reservations/${id}`, body);

async function debited(tenant: TestTenant, amount: number, subject: Json = {}): Promise<string> {
  const answer = await on.holdfast.call('POST', '/v1/events', {
    key: tenant.key,
    body: {
      idempotency_key: newKey(),
      subject: { tenant: tenant.id, ...subject },
      action: { kind: 'llm.completion', name: 'gpt' },
      actual: { unit: 'TOKENS', amount },
    },
  });
  return expectStatus(answer, 201).event_id as string;
}

describe('a refund of a reservation', () => {
  test('answers what it took back and what each budget has now, byte for byte again', async () => {
    const one = await charged(100);
    const scope = `tenant:${one.tenant.id}`;
    const body = bodyOf(30, { reason: 'billed less', metadata: { invoice: 7 } });
    const answer = await ofReservation(one, body);
    expect(expectStatus(answer, 200)).toMatchObject({
      status: 'REFUNDED',
      refunded: { unit: 'TOKENS', amount: 30 },
      refunded_total: { unit: 'TOKENS', amount: 30 },
      returned: [{ scope, amount: 30 }],
      balances: [{ scope, remaining: { amount: 930 }, spent: { amount: 70 } }],
    });
    expect(expectStatus(await ofReservation(one, bodyOf(20)), 200)).toMatchObject({
      refunded_total: { amount: 50 },
    });
    expect((await ofReservation(one, body)).text).toBe(answer.text);
    expectRefusal(await ofReservation(one, { ...body, reason: 'other' }), 409, 'IDEMPOTENCY_MISMATCH');
    expect(await on.holdfast.balances(one.tenant)).toEqual({ [scope]: '950 0 50 0' });
  });

  test('is shown by GET, lists, the audit view and an event, and verify counts it', async () => {
    const one = await charged(100);
    expectStatus(await ofReservation(one, bodyOf(30, { reason: 'billed less' })), 200);
    const refunded = { unit: 'TOKENS', amount: 30 };
    const shown = { key: one.tenant.key, extended: true };
    const got = await on.holdfast.call('GET', `/v1/reservations/${one.id}`, shown);
    expect(expectStatus(got, 200)).toMatchObject({ committed: { amount: 100 }, refunded });
    const listed = await on.holdfast.call('GET', '/v1/reservations', shown);
    expect(expectStatus(listed, 200).reservations).toMatchObject([{ refunded }]);
    const history = await on.holdfast.admin('GET', `/ops/reservations/${one.id}`);
    expect(expectStatus(history, 200).end).toMatchObject({ charged: { amount: 100 }, refunded });
    const events = await on.holdfast.admin(
      'GET',
      `/v1/admin/events?tenant_id=${one.tenant.id}&event_type=custom.reservation.refunded`,
    );
    expect(expectStatus(events, 200).events).toMatchObject([
      {
        data: {
          reservation_id: one.id,
          refunded: 30,
          refunded_total: 30,
          charged: 100,
          reason: 'billed less',
        },
      },
    ]);
    const verified = await on.holdfast.admin('GET', `/ops/verify?tenant_id=${one.tenant.id}`);
    expect(expectStatus(verified, 200)).toMatchObject({ ok: true, journal: [] });
    await on.stored.redis.hset(reservationKey(tagOfReservationId(one.id, 64) as string, one.id), 'rf', '29');
    const wrong = await on.holdfast.admin('GET', `/ops/verify?tenant_id=${one.tenant.id}`);
    expect(expectStatus(wrong, 200)).toMatchObject({
      ok: false,
      journal: [{ reservation_id: one.id, kind: 'REFUND' }],
    });
  });

  test('of more than is left, or of a live hold, is refused with the figures', async () => {
    const one = await charged(100);
    await ofReservation(one, bodyOf(60));
    const figures = (status: string, charge: number, back: number) => ({
      status,
      charged: { unit: 'TOKENS', amount: charge },
      refunded: { unit: 'TOKENS', amount: back },
      refundable: { unit: 'TOKENS', amount: charge - back },
    });
    const tooMuch = await ofReservation(one, bodyOf(41));
    expectRefusal(tooMuch, 409, 'BUDGET_EXCEEDED');
    expect(tooMuch.body.details).toEqual(figures('COMMITTED', 100, 60));
    const { reservation_id: id } = expectStatus(await on.holdfast.reserve(one.tenant, 10), 200);
    const live = await ofReservation({ ...one, id }, bodyOf(1));
    expectRefusal(live, 409, 'BUDGET_EXCEEDED');
    expect(live.body.details).toEqual(figures('ACTIVE', 0, 0));
  });

  test('needs its own permission, an amount of at least 1 in the unit of the charge, and the own tenant', async () => {
    const one = await charged(100);
    expectRefusal(await ofReservation({ ...one, key: one.tenant.key }, bodyOf(1)), 403, 'FORBIDDEN');
    for (const amount of [0, -1, 1.5]) {
      expectRefusal(await ofReservation(one, bodyOf(amount)), 400, 'INVALID_REQUEST');
    }
    expectRefusal(
      await ofReservation(one, { ...bodyOf(1), amount: { unit: 'CREDITS', amount: 1 } }),
      400,
      'UNIT_MISMATCH',
    );
    const other = await charged(100);
    expectRefusal(await ofReservation({ ...one, key: other.key }, bodyOf(1)), 403, 'FORBIDDEN');
    expectRefusal(await refund(one.key, 'reservations/rsv_0', bodyOf(1)), 404, 'NOT_FOUND');
    const narrow = await refunder(one.tenant, { scope_filter: [`tenant:${one.tenant.id}/agent:cat`] });
    expectRefusal(await ofReservation({ ...one, key: narrow }, bodyOf(1)), 403, 'FORBIDDEN');
  });

  test('is exact beyond 2^53', async () => {
    const tenant = await on.holdfast.createTenant();
    await on.holdfast.createBudget(tenant, '', 9_223_372_036_854_775_807n);
    const { reservation_id: id } = expectStatus(
      await on.holdfast.reserve(tenant, 9_007_199_254_740_993n),
      200,
    );
    expectStatus(await on.holdfast.commit(tenant, id, 9_007_199_254_740_993n), 200);
    const answer = await ofReservation(
      { tenant, id, key: await refunder(tenant) },
      bodyOf(9_007_199_254_740_993n),
    );
    expect(expectStatus(answer, 200).refunded_total.amount).toBe(9_007_199_254_740_993n);
  });

  test('by an operator has an audit row with its reason', async () => {
    const { tenant, id } = await charged(100);
    const answer = await on.holdfast.admin(
      'POST',
      `/v1/reservations/${id}/refunds`,
      bodyOf(10, { reason: 'goodwill' }),
    );
    expect(expectStatus(answer, 200).refunded_total.amount).toBe(10);
    const rows = await on.holdfast.admin(
      'GET',
      `/v1/admin/audit/logs?tenant_id=${tenant.id}&operation=refundReservation`,
    );
    expect(expectStatus(rows, 200).logs).toMatchObject([
      { status: 200, resource_id: id, metadata: { actor_type: 'admin_on_behalf_of', reason: 'goodwill' } },
    ]);
  });
});

describe('a refund of a direct debit', () => {
  test('takes back a part, and no more than is left', async () => {
    const tenant = await on.holdfast.fundedTenant(1000);
    const [key, id] = [await refunder(tenant), await debited(tenant, 80)];
    const body = bodyOf(50, { reason: 'twice' });
    const answer = await refund(key, `events/${id}`, body);
    expect(expectStatus(answer, 200)).toMatchObject({
      refunded_total: { amount: 50 },
      returned: [{ scope: `tenant:${tenant.id}`, amount: 50 }],
    });
    expect((await refund(key, `events/${id}`, body)).text).toBe(answer.text);
    const tooMuch = await refund(key, `events/${id}`, bodyOf(31));
    expectRefusal(tooMuch, 409, 'BUDGET_EXCEEDED');
    expect(tooMuch.body.details).toMatchObject({ status: 'APPLIED', refundable: { amount: 30 } });
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '970 0 30 0' });
    const events = await on.holdfast.admin('GET', `/v1/admin/events?correlation_id=${id}`);
    expect(expectStatus(events, 200).events).toMatchObject([
      { event_type: 'custom.direct_debit.refunded', data: { event_id: id, refunded: 50, reason: 'twice' } },
    ]);
  });

  test('is verified: its refunds add up to those of its events, and its charge is that of its event', async () => {
    const tenant = await on.holdfast.fundedTenant(1000);
    const [key, id] = [await refunder(tenant), await debited(tenant, 80)];
    for (const amount of [50, 20]) {
      expectStatus(await refund(key, `events/${id}`, bodyOf(amount)), 200);
    }
    const verified = async (): Promise<Json> =>
      expectStatus(await on.holdfast.admin('GET', `/ops/verify?tenant_id=${tenant.id}`), 200);
    expect(await verified()).toMatchObject({ ok: true, journal: [] });
    const { redis } = on.stored;
    const tag = tagOfTenant(tenant.id, 64);
    const about = `${tag}co:${id}`;
    const last = (await redis.xrange(about, '-', '+')).at(-1);
    await redis.xdel(about, last?.[0] ?? '');
    const fault = { tenant_id: tenant.id, reservation_id: id };
    expect(await verified()).toMatchObject({ ok: false, journal: [{ ...fault, kind: 'REFUND' }] });
    // As another writer would leave it: a second entry of the debit, with another charge.
    const [, fields = []] = (await redis.xrange(journalKey(tag), '-', '+')).at(-1) ?? [];
    await redis.xadd(journalKey(tag), '*', 'event', fields[1 + fields.indexOf('event')] as string, 'ch', '9');
    expect((await verified()).journal).toEqual([
      { ...fault, kind: 'DOUBLED' },
      { ...fault, kind: 'REFUND' },
    ]);
  });

  test('is refused for what is unknown, of another tenant, or outside the scope filter of the key', async () => {
    const tenant = await on.holdfast.fundedTenant(1000);
    const [key, id] = [await refunder(tenant), await debited(tenant, 80, { agent: 'bot' })];
    for (const unknown of ['evn_1', id.replace(/^(evn_..).{9}/, '$1aaaaaaaaa')]) {
      expectRefusal(await refund(key, `events/${unknown}`, bodyOf(1)), 404, 'NOT_FOUND');
    }
    const other = await charged(100);
    expectRefusal(await refund(other.key, `events/${id}`, bodyOf(1)), 403, 'FORBIDDEN');
    const filtered = (agent: string) =>
      refunder(tenant, { scope_filter: [`tenant:${tenant.id}/agent:${agent}`] });
    expectRefusal(await refund(await filtered('cat'), `events/${id}`, bodyOf(1)), 403, 'FORBIDDEN');
    expectStatus(await refund(await filtered('bot'), `events/${id}`, bodyOf(1)), 200);
  });
});

test('refunds are counted by their outcome', async () => {
  const one = await charged(100);
  const counted = (decision: string, reason: string): Promise<number> =>
    on.holdfast.metric('holdfast_refunds_total', { tenant: one.tenant.id, decision, reason });
  const body = bodyOf(10);
  await ofReservation(one, body);
  await ofReservation(one, body);
  await ofReservation(one, bodyOf(91));
  expect(
    await Promise.all([
      counted('REFUNDED', 'OK'),
      counted('REFUNDED', 'IDEMPOTENT_REPLAY'),
      counted('DENY', 'BUDGET_EXCEEDED'),
    ]),
  ).toEqual([1, 1, 1]);
});

test('refunds in a batch answer as requests of their own', async () => {
  const one = await charged(100);
  const eventId = await debited(one.tenant, 50);
  const send = (operations: readonly Json[]) =>
    on.holdfast.call('POST', '/v1/batch', { key: one.key, body: { operations } });
  const operations = [
    { op: 'refund', reservation_id: one.id, body: bodyOf(10) },
    { op: 'refund', event_id: eventId, body: bodyOf(51) },
  ];
  const { results } = expectStatus(await send(operations), 200);
  expect(results).toMatchObject([
    { status: 200, body: { status: 'REFUNDED', refunded_total: { amount: 10 } } },
    { status: 409, body: { error: 'BUDGET_EXCEEDED' } },
  ]);
  expect(expectStatus(await send(operations.slice(0, 1)), 200).results[0].body).toEqual(results[0].body);
  for (const wrong of [
    { op: 'refund', body: bodyOf(1) },
    { op: 'refund', reservation_id: one.id, event_id: eventId, body: bodyOf(1) },
    { op: 'commit', event_id: eventId, body: bodyOf(1) },
  ]) {
    expectRefusal(await send([wrong]), 400, 'INVALID_REQUEST');
  }
  expectRefusal(await send([operations[1], operations[1]]), 400, 'INVALID_REQUEST');
});
