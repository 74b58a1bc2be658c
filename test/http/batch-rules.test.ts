import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { ApiKeyVerifier } from '../../src/auth/index.js';
import { Refusal } from '../../src/ledger/index.js';
import { RedisService } from '../../src/redis/index.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  Holdfast,
  type TestTenant,
} from '../support/holdfast.js';
import {
  chargeOnExpiry,
  commitOf,
  eventOf,
  extendOf,
  type Operation,
  releaseOf,
  reserveOf,
  resultsOf,
  sendAlone,
  sendBatch,
} from '../support/batches.js';
import { earlyInMinute } from '../support/server-time.js';
import type { Settings } from '../support/settings.js';
import { startStore, type Store } from '../support/store.js';

// Of its own: when funds return is unknown where other suites have many holds in the partition.
let redis: Store;
let holdfast: Holdfast;
const started: Holdfast[] = [];

beforeAll(async () => {
  redis = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
});
afterAll(async () => {
  await holdfast.stop();
  await redis.stop();
});
afterEach(async () => {
  jest.restoreAllMocks();
  await Promise.all(started.splice(0).map((instance) => instance.stop()));
});

async function start(settings: Settings): Promise<Holdfast> {
  const instance = await Holdfast.start({ REDIS_URL: redis.url, ...settings });
  started.push(instance);
  return instance;
}

async function tenantOf(instance = holdfast): Promise<TestTenant> {
  const tenant = await instance.createTenant();
  await instance.createBudget(tenant, '', 1000);
  return tenant;
}

async function hold(tenant: TestTenant, amount = 10, instance = holdfast): Promise<string> {
  return expectStatus(await instance.reserve(tenant, amount), 200).reservation_id as string;
}

const only = async (tenant: TestTenant, instance = holdfast): Promise<string | undefined> =>
  Object.values(await instance.balances(tenant))[0];

const many = (tenant: TestTenant, count: number): Operation[] =>
  Array.from({ length: count }, () => reserveOf(tenant, 1));

describe('a batch is refused as a whole, and nothing happens', () => {
  const REFUSED: readonly [
    name: string,
    field: string,
    operations: (tenant: TestTenant) => readonly unknown[],
    headers?: Record<string, string>,
  ][] = [
    ['without operations', 'operations', () => []],
    ['with 51 operations', 'operations', (tenant) => many(tenant, 51)],
    [
      'with an unknown operation',
      'operations[1].op',
      (tenant) => [reserveOf(tenant, 1), { op: 'decide', body: {} }],
    ],
    ['with an operation that is no object', 'operations', (tenant) => [reserveOf(tenant, 1), 'reserve']],
    [
      'with an operation without a body',
      'operations[1].body',
      (tenant) => [reserveOf(tenant, 1), { op: 'reserve' }],
    ],
    [
      'with an unknown member of an operation',
      'operations[0].id',
      (tenant) => [{ ...reserveOf(tenant, 1), id: 'one' }],
    ],
    [
      'with a commit of no reservation',
      'operations[1].reservation_id',
      (tenant) => [reserveOf(tenant, 1), { op: 'commit', body: {} }],
    ],
    [
      'with a reserve that names a reservation',
      'operations[0].reservation_id',
      (tenant) => [{ ...reserveOf(tenant, 1), reservation_id: 'rsv_1' }],
    ],
    [
      'with two operations on one reservation',
      'operations[2].reservation_id',
      (tenant) => [commitOf('rsv_1', 1), reserveOf(tenant, 1), extendOf('rsv_1')],
    ],
    [
      'with two reserves of one key',
      'operations[1].body.idempotency_key',
      (tenant) => [
        reserveOf(tenant, 1, { idempotency_key: 'same' }),
        reserveOf(tenant, 2, { idempotency_key: 'same' }),
      ],
    ],
    [
      'with two events of one key',
      'operations[2].body.idempotency_key',
      (tenant) => [
        eventOf(tenant, 1, { idempotency_key: 'same' }),
        reserveOf(tenant, 1),
        eventOf(tenant, 1, { idempotency_key: 'same' }),
      ],
    ],
    ['that would wait', 'X-Holdfast-Wait-Ms', (tenant) => many(tenant, 2), { 'x-holdfast-wait-ms': '0' }],
    [
      'with a key for all of it',
      'X-Idempotency-Key',
      (tenant) => many(tenant, 2),
      { 'x-idempotency-key': 'one' },
    ],
    [
      'with a header that cannot be understood',
      'X-Holdfast-Explain',
      (tenant) => many(tenant, 2),
      { 'x-holdfast-explain': 'yes' },
    ],
  ];

  test.each(REFUSED)('%s', async (...[, field, operationsFor, headers]) => {
    const tenant = await tenantOf();
    const answer = await holdfast.call('POST', '/v1/batch', {
      key: tenant.key,
      body: { operations: operationsFor(tenant) },
      ...(headers === undefined ? {} : { headers }),
    });
    expect(expectRefusal(answer, 400, 'INVALID_REQUEST').details.field).toBe(field);
    expect(await only(tenant)).toBe('1000 0 0 0');
  });

  test.each([undefined, [], 'text', { operations: {} }, { operations: [], more: 1 }])(
    'with the body %j',
    async (body) => {
      const tenant = await tenantOf();
      expectRefusal(
        await holdfast.call('POST', '/v1/batch', { key: tenant.key, body }),
        400,
        'INVALID_REQUEST',
      );
    },
  );

  test('without a key of a tenant', async () => {
    const tenant = await tenantOf();
    const body = { operations: many(tenant, 2) };
    expectRefusal(await holdfast.call('POST', '/v1/batch', { body }), 401, 'UNAUTHORIZED');
    const headers = { 'x-admin-api-key': ADMIN_API_KEY };
    expectRefusal(await holdfast.call('POST', '/v1/batch', { body, headers }), 401, 'UNAUTHORIZED');
    expect(await only(tenant)).toBe('1000 0 0 0');
  });

  test.each(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])('with the method %s', async (method) => {
    const { key } = await tenantOf();
    const answer = await holdfast.call(method, '/v1/batch', { key });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
  });
});

test('a reserve says what it costs if it expires, as a request of its own does', async () => {
  const tenant = await tenantOf();
  const [one, other] = [reserveOf(tenant, 10), reserveOf(tenant, 10)];
  const results = await resultsOf(holdfast, tenant, [
    { ...one, ...chargeOnExpiry(4) },
    { ...other, ...chargeOnExpiry(11) },
  ]);
  expect(results.map(({ status }) => status as number)).toEqual([200, 400]);
  const charge = { 'x-holdfast-charge-on-expiry': '4' };
  const alone = expectStatus(await sendAlone(holdfast, tenant, one, charge), 200);
  expect(alone.reservation_id).toBe(results[0].body.reservation_id);
  expectRefusal(await sendAlone(holdfast, tenant, one), 409, 'IDEMPOTENCY_MISMATCH');
  const unknown = { headers: { 'X-Holdfast-Wait-Ms': '5' } };
  const wrong = [
    { ...eventOf(tenant, 1), ...chargeOnExpiry(1) },
    { ...one, ...unknown },
    { ...one, headers: { 'X-Holdfast-Charge-On-Expiry': 4 } },
    { ...one, charge_on_expiry: 4 },
  ];
  for (const operation of wrong) {
    const answer = await sendBatch(holdfast, tenant, [operation as Operation]);
    expectRefusal(answer, 400, 'INVALID_REQUEST');
  }
  expectRefusal(await sendBatch(holdfast, tenant, many(tenant, 2), charge), 400, 'INVALID_REQUEST');
});

test('a reserve and an event may have one key, and so may settlements of two reservations', async () => {
  const tenant = await tenantOf();
  const same = { idempotency_key: 'same' };
  const results = await resultsOf(holdfast, tenant, [
    reserveOf(tenant, 1, same),
    eventOf(tenant, 1, same),
    commitOf(await hold(tenant), 1, same),
    commitOf(await hold(tenant), 1, same),
  ]);
  expect(results.map(({ status }) => status as number)).toEqual([200, 201, 200, 200]);
});

test('at most sixteen operations of a batch are in one run, and a batch waits for its runs one by one', async () => {
  const instance = await start({});
  const tenant = await tenantOf(instance);
  await resultsOf(instance, tenant, many(tenant, 50));
  const sizes = (figure: string): Promise<number> =>
    instance.metric(`holdfast_script_group_size_${figure}`, { script: 'reserve' });
  expect([await sizes('sum'), await sizes('count')]).toEqual([50, 4]);
  expect(await only(tenant, instance)).toBe('950 50 0 0');
});

test('a key that is revoked meanwhile is refused from the next sixteen operations on', async () => {
  const tenant = await tenantOf();
  const verifier = holdfast.app.get(ApiKeyVerifier, { strict: false });
  const verify = verifier.verify.bind(verifier);
  let judged = 0;
  jest.spyOn(verifier, 'verify').mockImplementation((secret) => {
    judged += 1;
    if (judged > 2) {
      throw new Refusal('UNAUTHORIZED', 'the API key is revoked');
    }
    return verify(secret);
  });
  const results = await resultsOf(holdfast, tenant, many(tenant, 50));
  expect(results.map(({ status }) => status as number)).toEqual(
    Array.from({ length: 50 }, (_, index) => (index < 32 ? 200 : 401)),
  );
  jest.restoreAllMocks();
  expect(await only(tenant)).toBe('968 32 0 0');
});

describe('the limit of each API key', () => {
  test('counts operations, and those beyond it are refused one by one', async () => {
    const instance = await start({ RATE_LIMIT_PER_KEY_PER_MINUTE: '7' });
    const tenant = await tenantOf(instance);
    const first = await sendBatch(instance, tenant, many(tenant, 5));
    expectStatus(first, 200);
    expect([first.headers.get('x-ratelimit-remaining'), first.headers.get('retry-after')]).toEqual([
      '2',
      null,
    ]);
    const second = await sendBatch(instance, tenant, many(tenant, 4));
    const results = expectStatus(second, 200).results;
    expect(results.map(({ status }: { status: number }) => status)).toEqual([200, 200, 429, 429]);
    expect(results[2].body).toMatchObject({ error: 'LIMIT_EXCEEDED' });
    expect(second.headers.get('x-ratelimit-remaining')).toBe('0');
    expect(second.headers.get('retry-after')).toBe(String(results[2].retry_after_s));
    const whole = await sendBatch(instance, tenant, many(tenant, 4));
    expectRefusal(whole, 429, 'LIMIT_EXCEEDED');
    expect(Number(whole.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await instance.metric('holdfast_rate_limited_total', { limit: 'api_key' })).toBe(3);
  });

  test('counts each of seventeen operations once, also one that the key may not do, and allows just as many', async () => {
    const instance = await start({ RATE_LIMIT_PER_KEY_PER_MINUTE: '17' });
    const tenant = await tenantOf(instance);
    const key = await instance.createKey(tenant.id, { permissions: ['reservations:create'] });
    const answer = await sendBatch(instance, { key }, many(tenant, 17).with(8, releaseOf('rsv_1')));
    expect(expectStatus(answer, 200).results.map(({ status }: { status: number }) => status)).toEqual(
      new Array<number>(17).fill(200).with(8, 403),
    );
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
    expectRefusal(await sendBatch(instance, { key }, many(tenant, 1)), 429, 'LIMIT_EXCEEDED');
  });

  test('counts a batch that is refused as one operation', async () => {
    const instance = await start({ RATE_LIMIT_PER_KEY_PER_MINUTE: '2' });
    const tenant = await tenantOf(instance);
    expectRefusal(await sendBatch(instance, tenant, many(tenant, 51)), 400, 'INVALID_REQUEST');
    expect(
      (await resultsOf(instance, tenant, many(tenant, 2))).map(({ status }) => status as number),
    ).toEqual([200, 429]);
  });
});

test('the answer has the longest Retry-After of its results, and each result has its own', async () => {
  const tenant = await tenantOf();
  const scope_pattern = `tenant:${tenant.id}`;
  expectStatus(
    await holdfast.admin('POST', '/v1/admin/policies', {
      ...{ tenant_id: tenant.id, name: 'slow', scope_pattern },
      rate_limits: { max_reservations_per_minute: 1 },
    }),
    201,
  );
  await earlyInMinute(holdfast.app.get(RedisService).client);
  await hold(tenant);
  const answer = await sendBatch(holdfast, tenant, [reserveOf(tenant, 1), eventOf(tenant, 1)]);
  const [limited, applied] = expectStatus(answer, 200).results;
  expect([limited.status, applied.status]).toEqual([429, 201]);
  expect(limited.retry_after_s).toBeGreaterThan(0);
  expect(applied).not.toHaveProperty('retry_after_s');
  expect(answer.headers.get('retry-after')).toBe(String(limited.retry_after_s));
});

test('each refusal for lack of budget is explained where the batch asks for it', async () => {
  const tenant = await tenantOf();
  await hold(tenant, 900);
  const operations = [
    reserveOf(tenant, 500),
    eventOf(tenant, 600, { overage_policy: 'REJECT' }),
    releaseOf('rsv_1'),
  ];
  const explain = { 'x-holdfast-explain': 'true' };
  const answer = await sendBatch(holdfast, tenant, operations, explain);
  const results = expectStatus(answer, 200).results;
  expect(
    results.map(({ body }: { body: { details?: { short_by?: number } } }) => body.details?.short_by),
  ).toEqual([400, 500, undefined]);
  const alone = await sendAlone(holdfast, tenant, operations[0] as Operation, explain);
  const { retry_after_ms: _, ...details } = alone.body.details;
  expect(results[0].body.details).toMatchObject(details);
  expect(Number(answer.headers.get('retry-after'))).toBe(
    Math.max(results[0].retry_after_s, results[1].retry_after_s),
  );
  const [plain] = await resultsOf(holdfast, tenant, [reserveOf(tenant, 500)]);
  expect(plain.body.details).not.toHaveProperty('short_by');
});

test('each operation is counted as what it is, and in the batch by its status', async () => {
  const instance = await start({});
  const tenant = await tenantOf(instance);
  const held = await hold(tenant, 10, instance);
  await resultsOf(instance, tenant, [
    reserveOf(tenant, 1),
    reserveOf(tenant, 1),
    reserveOf(tenant, 5000),
    commitOf(held, 3),
    releaseOf('rsv_1'),
    extendOf('rsv_2'),
    eventOf(tenant, 1),
  ]);
  const labels = { tenant: tenant.id };
  const count = (name: string, more: Record<string, string>): Promise<number> =>
    instance.metric(name, { ...labels, ...more });
  expect([
    await count('cycles_reservations_reserve_total', { reason: 'OK' }),
    await count('cycles_reservations_reserve_total', { reason: 'BUDGET_EXCEEDED' }),
    await count('cycles_reservations_commit_total', { reason: 'OK' }),
    await count('cycles_reservations_release_total', { reason: 'NOT_FOUND' }),
    await count('cycles_reservations_extend_total', { reason: 'NOT_FOUND' }),
    await count('cycles_events_total', { reason: 'OK' }),
  ]).toEqual([3, 1, 1, 1, 1, 1]);
  const batched = (op: string, status: string): Promise<number> =>
    instance.metric('holdfast_batch_operations_total', { op, status });
  expect([
    await batched('reserve', '200'),
    await batched('reserve', '409'),
    await batched('commit', '200'),
    await batched('release', '404'),
    await batched('extend', '404'),
    await batched('event', '201'),
  ]).toEqual([2, 1, 1, 1, 1, 1]);
});

test('the history of each reservation has its operations, with the request of the batch', async () => {
  const tenant = await tenantOf();
  const held = await hold(tenant);
  const answer = await sendBatch(holdfast, tenant, [reserveOf(tenant, 2), commitOf(held, 3)]);
  const made = expectStatus(answer, 200).results[0].body.reservation_id as string;
  const requestId = answer.headers.get('x-request-id');
  for (const id of [made, held]) {
    const history = expectStatus(await holdfast.admin('GET', `/ops/reservations/${id}`), 200);
    expect(JSON.stringify(history)).toContain(tenant.id);
  }
  const events = expectStatus(
    await holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}&request_id=${requestId}`),
    200,
  );
  expect(events.events).toEqual([]);
  const [denied, debited] = await resultsOf(holdfast, tenant, [reserveOf(tenant, 5000), eventOf(tenant, 4)]);
  const told = expectStatus(await holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`), 200);
  expect(
    told.events
      .filter(({ event_type: type }: { event_type: string }) => /denied|debit/.test(type))
      .map(({ event_type: type, request_id: id }: { event_type: string; request_id: string }) => [type, id]),
  ).toEqual(
    expect.arrayContaining([
      ['reservation.denied', denied.body.request_id],
      ['custom.direct_debit.applied', denied.body.request_id],
    ]),
  );
  expect(debited.status).toBe(201);
});
