import { EventEmitter } from 'node:events';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type { FastifyRequest } from 'fastify';
import { LargeBodies } from '../../src/http/large-bodies.js';
import type { ConcurrencyLimiter } from '../../src/redis/concurrency-limiter.js';
import { eventually } from '../support/eventually.js';
import { shows } from '../compatibility/shows.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';

const on = useGovernance();
/** Node writes each character of a header as a byte. */
const bytesOf = (text: string): string => Buffer.from(text).toString('latin1');
const tokens = (amount: number): object => ({ unit: 'TOKENS', amount });

async function held(): Promise<{ tenant: TestTenant; id: string }> {
  const tenant = await on.holdfast.fundedTenant(100);
  const metadata = { a: { b: [1] } };
  const id = await on.holdfast.hold(tenant, 10, {
    subject: { agent: 'Bot', dimensions: { run: '1' } },
    metadata,
  });
  return { tenant, id: id };
}

const debitBody = (tenant: TestTenant, amount: number): Record<string, unknown> => {
  const { estimate: _, ...body } = reserveBody(tenant, 0);
  return { ...body, actual: tokens(amount) };
};

describe('the idempotency key of the header', () => {
  type Request = (tenant: TestTenant, id: string) => [path: string, body: Record<string, unknown>];
  const onHold =
    (verb: string, more: object): Request =>
    (_tenant, id) => [`/v1/reservations/${id}/${verb}`, { idempotency_key: newKey(), ...more }];
  const REQUESTS: Record<string, Request> = {
    reserve: (tenant) => ['/v1/reservations', reserveBody(tenant, 1)],
    commit: onHold('commit', { actual: tokens(1) }),
    release: onHold('release', {}),
    extend: onHold('extend', { extend_by_ms: 1 }),
    decide: (tenant) => ['/v1/decide', reserveBody(tenant, 1)],
    'direct debit': (tenant) => ['/v1/events', debitBody(tenant, 1)],
  };

  test.each(Object.keys(REQUESTS))(
    'must be that of the body in a %s, which succeeds if they are equal',
    async (name) => {
      shows('header equals body key');
      const { tenant, id } = await held();
      const [path, body] = (REQUESTS[name] as Request)(tenant, id);
      const send = (key: string): Promise<Answer> =>
        on.holdfast.call('POST', path, { key: tenant.key, body, headers: { 'x-idempotency-key': key } });
      expect(expectRefusal(await send(newKey()), 400, 'INVALID_REQUEST').message).toContain(
        'X-Idempotency-Key',
      );
      expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
      expect([200, 201]).toContain((await send(body['idempotency_key'] as string)).status);
    },
  );

  test.each(Object.keys(REQUESTS))('is compared as UTF-8 in a %s, as the body is', async (name) => {
    const { tenant, id } = await held();
    const [path, body] = (REQUESTS[name] as Request)(tenant, id);
    const key = `clé-鍵-🔑-${newKey()}`;
    const send = (header: string): Promise<Answer> =>
      on.holdfast.call('POST', path, {
        key: tenant.key,
        body: { ...body, idempotency_key: key },
        headers: { 'x-idempotency-key': bytesOf(header) },
      });
    expectRefusal(await send(key.replace('é', 'e')), 400, 'INVALID_REQUEST');
    expect([200, 201]).toContain((await send(key)).status);
  });
});

test('an extension changes the expiry of a reservation and nothing else of it', async () => {
  shows('extension scope', 'extendReservation');
  const { tenant, id } = await held();
  const read = async (): Promise<Record<string, unknown>> =>
    expectStatus(await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }), 200) as Record<
      string,
      unknown
    >;
  const before = await read();
  const { expires_at_ms: expiresAt } = expectStatus(
    await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 5000 }),
    200,
  );
  expect(expiresAt).toBe((before['expires_at_ms'] as number) + 5000);
  expect(await read()).toEqual({ ...before, expires_at_ms: expiresAt });
  expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
});

test("the client's own time does not affect a direct debit", async () => {
  shows('client time');
  const { tenant } = await held();
  for (const client_time_ms of [0, Number.MAX_SAFE_INTEGER]) {
    const body = { ...debitBody(tenant, 5), client_time_ms };
    const first = await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body });
    expectStatus(first, 201);
    expect((await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body })).text).toBe(first.text);
  }
  expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '80 10 10 0' });
});

describe('a number', () => {
  const LIMIT = Number.MAX_SAFE_INTEGER;
  const committed = async (metrics: object): Promise<Answer> => {
    const { tenant, id } = await held();
    return on.holdfast.settle(tenant, 'commit', id, { actual: tokens(1), metrics });
  };

  test.each(['tokens_input', 'tokens_output', 'latency_ms'])(
    '%s ends at 2^53 - 1, which the refusal of more says',
    async (name) => {
      expectStatus(await committed({ [name]: LIMIT }), 200);
      const { message } = expectRefusal(
        await committed({ [name]: BigInt(LIMIT) + 1n }),
        400,
        'INVALID_REQUEST',
      );
      expect(message).toBe(`metrics.${name} must be an integer from 0 to ${LIMIT}`);
    },
  );

  test('of a query has the same limit', async () => {
    const ask = (limit: number | bigint): Promise<Answer> =>
      on.holdfast.admin('GET', `/v1/admin/tenants?limit=${limit}`);
    expectStatus(await ask(LIMIT), 200);
    const { message } = expectRefusal(await ask(BigInt(LIMIT) + 1n), 400, 'INVALID_REQUEST');
    expect(message).toBe(`limit must be an integer from 1 to ${LIMIT}`);
  });
});

describe('what is not written as an integer', () => {
  /** A request for each field, with NUMBER in the place of the integer. */
  type Request = (
    tenant: TestTenant,
    id: string,
  ) => [method: string, path: string, body: unknown, isAdmin?: boolean];
  const NUMBER = 'NUMBER';
  const amount = { unit: 'TOKENS', amount: NUMBER };
  const REQUESTS: Record<string, Request> = {
    'estimate.amount': (tenant) => ['POST', '/v1/reservations', reserveBody(tenant, 1, { estimate: amount })],
    ttl_ms: (tenant) => ['POST', '/v1/reservations', reserveBody(tenant, 1, { ttl_ms: NUMBER })],
    'estimate.amount of a decision': (tenant) => [
      'POST',
      '/v1/decide',
      reserveBody(tenant, 1, { estimate: amount }),
    ],
    'actual.amount': (_tenant, id) => [
      'POST',
      `/v1/reservations/${id}/commit`,
      { idempotency_key: newKey(), actual: amount },
    ],
    'metrics.tokens_input': (_tenant, id) => [
      'POST',
      `/v1/reservations/${id}/commit`,
      { idempotency_key: newKey(), actual: tokens(1), metrics: { tokens_input: NUMBER } },
    ],
    extend_by_ms: (_tenant, id) => [
      'POST',
      `/v1/reservations/${id}/extend`,
      { idempotency_key: newKey(), extend_by_ms: NUMBER },
    ],
    'actual.amount of a direct debit': (tenant) => [
      'POST',
      '/v1/events',
      { ...debitBody(tenant, 1), actual: amount },
    ],
    'allocated.amount': (tenant) => [
      'POST',
      '/v1/admin/budgets',
      { tenant_id: tenant.id, scope: `tenant:${tenant.id}/app:a`, unit: 'TOKENS', allocated: amount },
      true,
    ],
    'amount.amount': (tenant) => [
      'POST',
      `/v1/admin/budgets/fund?tenant_id=${tenant.id}&scope=tenant:${tenant.id}&unit=TOKENS`,
      { operation: 'CREDIT', amount, idempotency_key: newKey() },
      true,
    ],
    max_reservation_ttl_ms: (tenant) => [
      'PATCH',
      `/v1/admin/tenants/${tenant.id}`,
      { max_reservation_ttl_ms: NUMBER },
      true,
    ],
  };

  test.each(Object.keys(REQUESTS))('is refused as %s, and changes nothing', async (name) => {
    const { tenant, id } = await held();
    const [method, path, body, isAdmin] = (REQUESTS[name] as Request)(tenant, id);
    const admin = { 'x-admin-api-key': ADMIN_API_KEY };
    for (const number of ['2000.0', '2e3', '1999.99999999999999999999', '1e-400', '0.99999999999999999999']) {
      const raw = JSON.stringify(body).replace(`"${NUMBER}"`, number);
      const answer = await on.holdfast.call(
        method,
        path,
        isAdmin === true ? { raw, headers: admin } : { raw, key: tenant.key },
      );
      expect(expectRefusal(answer, 400, 'INVALID_REQUEST').message).toMatch(
        new RegExp(`${name.split(' ')[0]} must be an integer.* without a fraction or an exponent`),
      );
    }
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '90 10 0 0' });
  });

  test('is accepted where a number is allowed, as in the back-off of a webhook', async () => {
    const { tenant } = await held();
    const raw =
      '{"url":"https://93.184.216.34/h","event_types":["budget.created"],"retry_policy":{"backoff_multiplier":2.0,"max_retries":3}}';
    const send = (text: string): Promise<Answer> =>
      on.holdfast.call('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, {
        raw: text,
        headers: { 'x-admin-api-key': ADMIN_API_KEY },
      });
    expect(expectStatus(await send(raw), 201).subscription.retry_policy).toMatchObject({
      backoff_multiplier: 2,
      max_retries: 3,
    });
    expectRefusal(await send(raw.replace('"max_retries":3', '"max_retries":3.0')), 400, 'INVALID_REQUEST');
  });
});

describe('requests with large bodies', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  /** A valid reserve of this many bytes. */
  const padded = (tenant: TestTenant, bytes: number): Promise<Response> =>
    fetch(`${on.holdfast.url}/v1/reservations`, {
      method: 'POST',
      headers: { 'x-cycles-api-key': tenant.key, 'content-type': 'application/json' },
      body: JSON.stringify(reserveBody(tenant, 1)).padEnd(bytes),
    });

  test('go through LargeBodies, and have the usual effect', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const inTurn = jest.spyOn(LargeBodies.prototype, 'inTurn');
    const metadata = { note: 'x'.repeat(200_000) };
    const refused = Array.from({ length: 20 }, () => on.holdfast.reserve(tenant, 1, { metadata }));
    const valid = Array.from({ length: 20 }, () => padded(tenant, 200_000));
    for (const answer of await Promise.all(refused)) {
      expectRefusal(answer, 400, 'INVALID_REQUEST');
    }
    expect((await Promise.all(valid)).map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '80 20 0 0' });
    expect(inTurn).toHaveBeenCalledTimes(40);
    const headers = { 'x-admin-api-key': ADMIN_API_KEY };
    const { text } = await on.holdfast.call('GET', '/metrics', { headers });
    expect(text).toContain('\nholdfast_large_body_pauses_total{');
  });

  test('take turns by valid keys: callers with made-up keys share one turn, however many they are', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const inTurn = jest.spyOn(LargeBodies.prototype, 'inTurn');
    expect((await padded(tenant, 40_000)).status).toBe(200);
    const bodies = inTurn.mock.contexts[0] as LargeBodies;
    inTurn.mockRestore();
    const original = bodies.inTurn.bind(bodies);
    const order: string[] = [];
    jest.spyOn(bodies, 'inTurn').mockImplementation((request, parse) =>
      original(request, () => {
        order.push(String(request.headers['x-cycles-api-key']));
        parse();
      }),
    );
    const { turns } = bodies as unknown as { turns: ConcurrencyLimiter };
    const barrier = { owner: 'the test' };
    expect(turns.tryAcquire(barrier)).toBe(true);
    const failures = await on.holdfast.metric('holdfast_auth_failures_total');
    const unknown = Array.from({ length: 20 }, (_, made) => ({
      id: tenant.id,
      key: `cyc_live_00${String(made).padStart(43, 'a')}`,
    }));
    const refused = unknown.map((caller) => padded(caller, 40_000));
    await eventually('they wait', () => turns.waiting === 20);
    const served = padded(tenant, 40_000);
    await eventually('the tenant waits', () => turns.waiting === 21);
    turns.release(barrier);
    expect((await served).status).toBe(200);
    expect(order.indexOf(tenant.key)).toBeLessThanOrEqual(1);
    expect((await Promise.all(refused)).map(({ status }) => status)).toEqual(Array(20).fill(401));
    expect(await on.holdfast.metric('holdfast_auth_failures_total')).toBe(failures + 20);
  });

  test('are not handled if the client disconnects while they wait', async () => {
    const bodies = new LargeBodies();
    const handled: string[] = [];
    const request = (socket: EventEmitter): FastifyRequest =>
      ({ raw: { socket }, headers: {}, ip: '127.0.0.1' }) as unknown as FastifyRequest;
    const [first, second] = [new EventEmitter(), new EventEmitter()];
    const answers = [
      bodies.inTurn(request(first), () => handled.push('first')),
      bodies.inTurn(request(second), () => handled.push('second')),
    ];
    second.emit('close');
    const outcomes = await Promise.allSettled(answers);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    await expect(answers[1]).rejects.toThrow('the client closed the connection');
    expect(handled).toEqual(['first']);
    expect(first.listenerCount('close')).toBe(0);
  });

  test('pause when their share is used up, are refused if they wait too long, and both are counted', async () => {
    const [bodies, registry] = [new LargeBodies(20), new MetricsRegistry({ metricsTenantLabel: true })];
    bodies.countIn(registry);
    const request = { raw: { socket: new EventEmitter() }, headers: {}, ip: '127.0.0.1' } as unknown;
    const send = (parse: () => void): Promise<void> => bodies.inTurn(request as FastifyRequest, parse);
    // Uses up the share, so the next request pauses for longer than the third one may wait.
    const first = send(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100));
    await first;
    const [second, third] = [send(() => undefined), send(() => undefined)];
    await expect(third).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED', retryAfterS: 1 });
    await second;
    const metrics = await registry.registry.metrics();
    expect(metrics).toMatch(/^holdfast_large_body_pauses_total\{.*\} [1-9]/m);
    expect(metrics).toMatch(/^holdfast_large_bodies_refused_total\{.*\} 1$/m);
  });
});
