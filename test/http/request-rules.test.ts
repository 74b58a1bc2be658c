import { describe, expect, test } from '@jest/globals';
import { expectRefusal, expectStatus, newKey, reserveBody, type Answer, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const tokens = (amount: number): object => ({ unit: 'TOKENS', amount });

async function held(): Promise<{ tenant: TestTenant; id: string }> {
  const tenant = await on.holdfast.createTenant();
  await on.holdfast.createBudget(tenant, '', 100);
  const metadata = { a: { b: [1] } };
  const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, 10, { subject: { agent: 'Bot', dimensions: { run: '1' } }, metadata }), 200);
  return { tenant, id: id as string };
}

const debitBody = (tenant: TestTenant, amount: number): Record<string, unknown> => {
  const { estimate: _, ...body } = reserveBody(tenant, 0);
  return { ...body, actual: tokens(amount) };
};

describe('the idempotency key of the header', () => {
  type Request = (tenant: TestTenant, id: string) => [path: string, body: Record<string, unknown>];
  const onHold = (verb: string, more: object): Request => (_tenant, id) => [`/v1/reservations/${id}/${verb}`, { idempotency_key: newKey(), ...more }];
  const REQUESTS: Record<string, Request> = {
    reserve: (tenant) => ['/v1/reservations', reserveBody(tenant, 1)],
    commit: onHold('commit', { actual: tokens(1) }),
    release: onHold('release', {}),
    extend: onHold('extend', { extend_by_ms: 1 }),
    decide: (tenant) => ['/v1/decide', reserveBody(tenant, 1)],
    'direct debit': (tenant) => ['/v1/events', debitBody(tenant, 1)],
  };

  test.each(Object.keys(REQUESTS))('must be that of the body in a %s, which is done when they are equal', async (name) => {
    const { tenant, id } = await held();
    const [path, body] = (REQUESTS[name] as Request)(tenant, id);
    const send = (key: string): Promise<Answer> => on.holdfast.call('POST', path, { key: tenant.key, body, headers: { 'x-idempotency-key': key } });
    expect(expectRefusal(await send(newKey()), 400, 'INVALID_REQUEST').message).toContain('X-Idempotency-Key');
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
    expect([200, 201]).toContain((await send(body['idempotency_key'] as string)).status);
  });
});

test('an extension changes the expiry of a reservation and nothing else of it', async () => {
  const { tenant, id } = await held();
  const read = async (): Promise<Record<string, unknown>> =>
    expectStatus(await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }), 200) as Record<string, unknown>;
  const before = await read();
  const { expires_at_ms: expiresAt } = expectStatus(await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 5000 }), 200);
  expect(expiresAt).toBe((before['expires_at_ms'] as number) + 5000);
  expect(await read()).toEqual({ ...before, expires_at_ms: expiresAt });
  expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
});

test("the client's own time decides nothing about a direct debit", async () => {
  const { tenant } = await held();
  for (const client_time_ms of [0, Number.MAX_SAFE_INTEGER]) {
    const body = { ...debitBody(tenant, 5), client_time_ms };
    const first = await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body });
    expectStatus(first, 201);
    expect((await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body })).text).toBe(first.text);
  }
  expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '80 10 10 0' });
});
