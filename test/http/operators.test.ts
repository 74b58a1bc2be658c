import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { hashOfSecret } from '../../src/auth/api-key-verifier.js';
import { OperatorKeys } from '../../src/auth/operator-keys.js';
import { isOperatorsPlane } from '../../src/http/operators-plane.js';
import { RouteTable } from '../../src/http/route-table.js';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { LiveFeed } from '../../src/console/live-feed.js';
import { quarantineKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { ConsoleClient } from '../support/console-client.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  newTenantId,
} from '../support/holdfast.js';
import { topologyOfRun } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

/** A test clock needs a single Redis. */
const CLOCK = topologyOfRun() === 'single' ? { HOLDFAST_TEST_CLOCK: 'true' } : {};
const on = useGovernance({}, CLOCK);

const OPERATORS = '/ops/operators';
const TENANTS = '/v1/admin/tenants';
let made = 0;
const newName = (): string => `alice+${(made += 1)}@example.com`;

/** Sends a request with an operator's key. */
const as = (key: string, method: string, path: string, body?: unknown, at = on.holdfast): Promise<Answer> =>
  at.call(method, path, { body, headers: { 'x-admin-api-key': key } });

async function create(role: string, more: Json = {}): Promise<{ name: string; key: string }> {
  const name = newName();
  const answer = await on.holdfast.admin('POST', OPERATORS, { name, role, ...more });
  return { name, key: expectStatus(answer, 201).key_secret as string };
}

/** The place of an operator's record. */
function recordOf(name: string): string {
  return `${on.holdfast.app.get(OperatorKeys, { strict: false }).tag}op:${name}`;
}

const forget = (key: string, at = on.holdfast): void =>
  at.app.get(OperatorKeys, { strict: false }).forget(hashOfSecret(key));

async function lastAudit(operation: string): Promise<Json> {
  const { logs } = expectStatus(
    await on.holdfast.admin('GET', `/v1/admin/audit/logs?operation=${operation}&limit=1`),
    200,
  );
  return logs[0];
}

describe('a named operator', () => {
  test('is created with a key that is shown once and stored as a hash', async () => {
    const name = newName();
    const answer = await on.holdfast.admin('POST', OPERATORS, { name, role: 'operator' });
    const { key_secret: key, ...operator } = expectStatus(answer, 201);
    expect(key).toMatch(/^opr_[0-9A-Za-z]{43}$/);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(operator).toEqual({
      name,
      role: 'operator',
      tenants: ['*'],
      status: 'ACTIVE',
      key_prefix: key.slice(0, 8),
      created_at: expect.any(String),
    });
    expect(expectStatus(await on.holdfast.admin('GET', `${OPERATORS}/${name}`), 200)).toEqual(operator);
    const record = await on.stored.redis.hgetall(recordOf(name));
    expect(record['secret_hash']).toBe(hashOfSecret(key as string));
    expect(JSON.stringify(record)).not.toContain((key as string).slice(8));
    expect(await lastAudit('createOperator')).toMatchObject({
      resource_type: 'operator',
      resource_id: name,
      status: 201,
      tenant_id: '__admin__',
      metadata: { role: 'operator', tenants: '*' },
    });
  });

  test('is named by the audit rows and events of what it does', async () => {
    const { name, key } = await create('operator');
    const tenantId = newTenantId();
    const answer = await as(key, 'POST', TENANTS, { tenant_id: tenantId, name: 'Acme' });
    expectStatus(answer, 201);
    const actor = `operator:${name}`;
    expect(await lastAudit('createTenant')).toMatchObject({
      resource_id: tenantId,
      key_id: actor,
      metadata: { actor_type: 'admin' },
    });
    const { logs } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/audit/logs?key_id=${encodeURIComponent(actor)}`),
      200,
    );
    expect(logs).toMatchObject([{ operation: 'createTenant' }]);
    const { events } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenantId}`),
      200,
    );
    expect(events).toMatchObject([{ event_type: 'tenant.created', actor: { type: 'admin', key_id: actor } }]);
    // What it is refused, and what it reads, has a row of its own.
    expectRefusal(await as(key, 'GET', `${TENANTS}/t-nobody`), 404, 'TENANT_NOT_FOUND');
    expect(await lastAudit('GET:/v1/admin/tenants/{tenant_id}')).toMatchObject({ key_id: actor });
  });

  test('who settles reservations is named, too: by the row, the event and the history', async () => {
    const { name, key } = await create('operator');
    const actor = `operator:${name}`;
    const tenant = await on.holdfast.fundedTenant();
    const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    const by = async (reservationId: string): Promise<Json> =>
      expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${reservationId}`), 200).end.by;
    expectStatus(
      await as(key, 'POST', `/v1/reservations/${id}/release`, { idempotency_key: `release-${name}` }),
      200,
    );
    expect(await lastAudit('releaseReservation')).toMatchObject({
      key_id: actor,
      metadata: { actor_type: 'admin_on_behalf_of' },
    });
    expect(await by(id as string)).toEqual({ type: 'admin', key_id: actor });

    const stuck = expectStatus(await on.holdfast.reserve(tenant, 1), 200).reservation_id as string;
    await on.holds.set(stuck, { gr: 'junk' });
    await on.holds.redis.hset(quarantineKey(on.holds.tagOfTenant(tenant.id)), stuck, 'INVALID_EXPIRY 1');
    expectStatus(await as(key, 'POST', `/ops/quarantine/${stuck}/decide`, { action: 'release' }), 200);
    expect(await lastAudit('decideQuarantined')).toMatchObject({ resource_id: stuck, key_id: actor });
    expect(await by(stuck)).toEqual({ type: 'admin', key_id: actor });

    expectStatus(
      await as(key, 'PUT', `/ops/tenants/${tenant.id}/expiry-policy`, {
        reservation_expiry_policy: 'MANUAL_CLEANUP',
      }),
      200,
    );
    const left = expectStatus(await on.holdfast.reserve(tenant, 1), 200).reservation_id as string;
    await on.holds.expireIn(left, -3_600_000);
    expectStatus(await as(key, 'POST', '/ops/reservations/cleanup', { tenant_id: tenant.id }), 200);
    expect(await lastAudit('cleanupReservations')).toMatchObject({ resource_id: left, key_id: actor });
    expect(await by(left)).toEqual({ type: 'admin', key_id: actor });
    const { events } = expectStatus(
      await on.holdfast.admin(
        'GET',
        `/v1/admin/events?tenant_id=${tenant.id}&event_type=reservation.expired`,
      ),
      200,
    );
    expect(events).toMatchObject([{ actor: { type: 'admin', key_id: actor } }]);
  });

  test('never has the name of another one, even of a revoked one', async () => {
    const { name } = await create('viewer');
    const again = { name, role: 'admin' };
    expectRefusal(await on.holdfast.admin('POST', OPERATORS, again), 409, 'DUPLICATE_RESOURCE');
    expectStatus(await on.holdfast.admin('DELETE', `${OPERATORS}/${name}`), 200);
    expectRefusal(await on.holdfast.admin('POST', OPERATORS, again), 409, 'DUPLICATE_RESOURCE');
  });

  test.each<[string, Json]>([
    ['name', { name: 'Alice', role: 'viewer' }],
    ['name', { name: 'a|b', role: 'viewer' }],
    ['name', { name: 'a b', role: 'viewer' }],
    ['name', { name: 'a'.repeat(129), role: 'viewer' }],
    ['role', { name: 'bob', role: 'owner' }],
    ['tenants', { name: 'bob', role: 'viewer', tenants: [] }],
    ['tenants', { name: 'bob', role: 'viewer', tenants: ['a*b'] }],
    ['tenants', { name: 'bob', role: 'viewer', tenants: ['Acme'] }],
    ['tenants', { name: 'bob', role: 'viewer', tenants: 'acme' }],
    ['tenants', { name: 'bob', role: 'viewer', tenants: Array(51).fill('acme') }],
    ['expires_at', { name: 'bob', role: 'viewer', expires_at: '2020-01-01T00:00:00Z' }],
    ['overlap_ms', { overlap_ms: 604_800_001 }],
  ])('is not accepted with such a %s: %j', async (field, body) => {
    const path = 'overlap_ms' in body ? `${OPERATORS}/nobody/rotate` : OPERATORS;
    const { message } = expectRefusal(await on.holdfast.admin('POST', path, body), 400, 'INVALID_REQUEST');
    expect(message).toContain(field);
  });

  test.each(['nobody', 'NOBODY', 'a%7Cb'])('%s is not found', async (name) => {
    for (const [method, path] of [
      ['GET', `${OPERATORS}/${name}`],
      ['DELETE', `${OPERATORS}/${name}`],
      ['POST', `${OPERATORS}/${name}/rotate`],
    ] as const) {
      const body = method === 'POST' ? {} : undefined;
      expectRefusal(await on.holdfast.admin(method, path, body), 404, 'NOT_FOUND');
    }
  });
});

describe('the roles', () => {
  const keys: Record<string, string> = {};
  beforeAll(async () => {
    for (const role of ['metrics', 'viewer', 'operator', 'admin']) {
      keys[role] = (await create(role)).key;
    }
  });

  /** The changes that an operator may not make, whatever the body. */
  const ADMIN_ONLY = [
    'POST /ops/operators',
    'PATCH /ops/operators/x',
    'POST /ops/operators/x/rotate',
    'DELETE /ops/operators/x',
    'PUT /v1/admin/config/webhook-security',
    'POST /ops/test-clock/advance',
  ];
  /** They have a log-in and rules of their own. */
  const isConsole = (path: string): boolean => path.startsWith('/console');

  const routes = (): { method: string; path: string }[] =>
    on.holdfast.app
      .get(RouteTable)
      .list()
      .map((route) => {
        const [method = '', template = ''] = route.split(' ');
        return { method, path: template.replaceAll(/:\w+/g, 'x') };
      })
      .filter(({ method, path }) => method !== 'HEAD' && isOperatorsPlane(path) && !isConsole(path));

  test.each(['metrics', 'viewer', 'operator', 'admin'])(
    '%s may do what its row of the table says',
    async (role) => {
      const isScrape = (path: string): boolean => path === '/metrics' || path === '/actuator/prometheus';
      const before = await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'missing_role' });
      let refused = 0;
      for (const { method, path } of routes()) {
        const mayRead = role !== 'metrics' || isScrape(path);
        const mayChange =
          role === 'admin' || (role === 'operator' && !ADMIN_ONLY.includes(`${method} ${path}`));
        const may = method === 'GET' ? mayRead : mayChange;
        const { status, body } = await as(
          keys[role] as string,
          method,
          path,
          method === 'GET' || method === 'DELETE' ? undefined : {},
        );
        expect({ method, path, status: status === 403 ? body.error : 'admitted' }).toEqual({
          method,
          path,
          status: may ? 'admitted' : 'INSUFFICIENT_PERMISSIONS',
        });
        refused += may ? 0 : 1;
      }
      expect(await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'missing_role' })).toBe(
        before + refused,
      );
    },
  );

  test('only an admin closes tenants, one or many', async () => {
    const { id } = await on.holdfast.createTenant();
    const bulk = (action: string): Json => ({
      filter: { search: id },
      action,
      expected_count: 1,
      idempotency_key: `${id}-${action}`,
    });
    const operator = keys['operator'] as string;
    expectRefusal(
      await as(operator, 'PATCH', `${TENANTS}/${id}`, { status: 'CLOSED' }),
      403,
      'INSUFFICIENT_PERMISSIONS',
    );
    expectRefusal(
      await as(operator, 'POST', `${TENANTS}/bulk-action`, bulk('CLOSE')),
      403,
      'INSUFFICIENT_PERMISSIONS',
    );
    expectStatus(await as(operator, 'PATCH', `${TENANTS}/${id}`, { status: 'SUSPENDED' }), 200);
    expectStatus(await as(operator, 'POST', `${TENANTS}/bulk-action`, bulk('REACTIVATE')), 200);
    expect(expectStatus(await on.holdfast.admin('GET', `${TENANTS}/${id}`), 200).status).toBe('ACTIVE');
    expectStatus(await as(keys['admin'] as string, 'PATCH', `${TENANTS}/${id}`, { status: 'CLOSED' }), 200);
  });

  test('are told by what the dashboard asks', async () => {
    const ask = async (role: string): Promise<Json> =>
      expectStatus(await as(keys[role] as string, 'GET', '/v1/auth/introspect'), 200);
    expect(await ask('viewer')).toMatchObject({
      auth_type: 'admin',
      permissions: ['admin:read'],
      capabilities: { view_tenants: true, manage_tenants: false, manage_budgets: false },
    });
    expect(await ask('operator')).toMatchObject({
      capabilities: { view_tenants: true, manage_tenants: true },
    });
    expectRefusal(
      await as(keys['metrics'] as string, 'GET', '/v1/auth/introspect'),
      403,
      'INSUFFICIENT_PERMISSIONS',
    );
  });
});

describe('the key of an operator', () => {
  test('is refused once it has expired, and no rotation brings the operator back', async () => {
    const { name, key } = await create('viewer', { expires_at: '2099-01-01T00:00:00Z' });
    expectStatus(await as(key, 'GET', TENANTS), 200);
    await on.stored.redis.hset(recordOf(name), 'expires_at', '1700000000000');
    forget(key);
    const before = await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'expired_operator' });
    expectRefusal(await as(key, 'GET', TENANTS), 401, 'UNAUTHORIZED');
    expect(await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'expired_operator' })).toBe(
      before + 1,
    );
    expect(expectStatus(await on.holdfast.admin('GET', `${OPERATORS}/${name}`), 200).status).toBe('EXPIRED');
    for (const body of [{}, { expires_at: '2099-01-01T00:00:00Z' }]) {
      expectRefusal(await on.holdfast.admin('POST', `${OPERATORS}/${name}/rotate`, body), 409, 'KEY_EXPIRED');
    }
    expectRefusal(await as(key, 'GET', TENANTS), 401, 'UNAUTHORIZED');
  });

  test('ends when the one before a rotation would have, unless another end is given', async () => {
    const expires = '2099-01-01T00:00:00.000Z';
    const { name } = await create('viewer', { expires_at: expires });
    const rotate = async (body: Json): Promise<Json> =>
      expectStatus(await on.holdfast.admin('POST', `${OPERATORS}/${name}/rotate`, body), 200);
    expect(await rotate({})).toMatchObject({ expires_at: expires });
    const later = '2100-01-01T00:00:00.000Z';
    expect(await rotate({ expires_at: later })).toMatchObject({ expires_at: later });
    const endless = await create('viewer');
    const answer = await on.holdfast.admin('POST', `${OPERATORS}/${endless.name}/rotate`, {});
    expect(expectStatus(answer, 200)).not.toHaveProperty('expires_at');
  });

  test('works beside the next one until the overlap ends', async () => {
    const { name, key: first } = await create('viewer');
    const rotate = async (body: Json): Promise<Json> =>
      expectStatus(await on.holdfast.admin('POST', `${OPERATORS}/${name}/rotate`, body), 200);
    const { key_secret: second, previous_key_until: until } = await rotate({ overlap_ms: 3_600_000 });
    expect(second).not.toBe(first);
    expect(Date.parse(until as string)).toBeGreaterThan(0);
    for (const key of [first, second]) {
      expectStatus(await as(key, 'GET', TENANTS), 200);
    }
    expect(await lastAudit('rotateOperator')).toMatchObject({
      resource_id: name,
      metadata: { overlap_ms: '3600000' },
    });
    await on.stored.redis.hset(recordOf(name), 'previous_until', '1700000000000');
    forget(first);
    expectRefusal(await as(first, 'GET', TENANTS), 401, 'UNAUTHORIZED');
    expectStatus(await as(second, 'GET', TENANTS), 200);
    // An overlap of 0 ends the key before at once, in this instance before the answer.
    const { key_secret: third, ...rest } = await rotate({ overlap_ms: 0 });
    expect(rest).not.toHaveProperty('previous_key_until');
    expectRefusal(await as(second, 'GET', TENANTS), 401, 'UNAUTHORIZED');
    expectStatus(await as(third as string, 'GET', TENANTS), 200);
  });

  test('is one of at most two: a rotation during the overlap ends the oldest', async () => {
    const { name, key: first } = await create('viewer');
    expectStatus(await as(first, 'GET', TENANTS), 200);
    const keys = [first];
    for (let rotation = 0; rotation < 2; rotation += 1) {
      const answer = await on.holdfast.admin('POST', `${OPERATORS}/${name}/rotate`, {});
      keys.push(expectStatus(answer, 200).key_secret as string);
    }
    await eventually(
      'the oldest is refused',
      async () => (await as(first, 'GET', TENANTS)).status === 401,
      1000,
    );
    for (const key of keys.slice(1)) {
      expectStatus(await as(key, 'GET', TENANTS), 200);
    }
  });

  test('is revoked for good, with its overlap', async () => {
    const { name, key: first } = await create('admin');
    const second = expectStatus(await on.holdfast.admin('POST', `${OPERATORS}/${name}/rotate`, {}), 200);
    const revoked = await on.holdfast.admin('DELETE', `${OPERATORS}/${name}?reason=left`);
    expect(expectStatus(revoked, 200)).toMatchObject({ status: 'REVOKED', revoked_reason: 'left' });
    const before = await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'revoked_operator' });
    for (const key of [first, second.key_secret as string]) {
      expectRefusal(await as(key, 'GET', TENANTS), 401, 'UNAUTHORIZED');
    }
    expect(await on.holdfast.metric('holdfast_auth_failures_total', { reason: 'revoked_operator' })).toBe(
      before + 2,
    );
    for (const [method, path] of [
      ['DELETE', ''],
      ['POST', '/rotate'],
    ] as const) {
      const answer = await on.holdfast.admin(
        method,
        `${OPERATORS}/${name}${path}`,
        method === 'POST' ? {} : undefined,
      );
      expectRefusal(answer, 409, 'KEY_REVOKED');
    }
    expect(await lastAudit('revokeOperator')).toMatchObject({
      resource_id: name,
      metadata: { reason: 'left' },
    });
  });

  test('is refused with the same words whatever is wrong with it', async () => {
    const { name, key } = await create('viewer');
    expectStatus(await on.holdfast.admin('DELETE', `${OPERATORS}/${name}`), 200);
    const seen = new Set<string>();
    for (const wrong of [key, `opr_${'a'.repeat(43)}`, 'opr_short', 'anything']) {
      const { error, message } = expectRefusal(await as(wrong, 'GET', TENANTS), 401, 'UNAUTHORIZED');
      seen.add(`${error} ${message}`);
    }
    expect(seen.size).toBe(1);
  });

  test('of a damaged record admits nobody', async () => {
    const { name, key } = await create('viewer');
    for (const damage of [
      ['role', 'owner'],
      ['status', 'ODD'],
      ['expires_at', 'soon'],
    ] as const) {
      const kept = await on.stored.redis.hgetall(recordOf(name));
      await on.stored.redis.hset(recordOf(name), ...damage);
      expectRefusal(await as(key, 'GET', TENANTS), 500, 'INTERNAL_ERROR');
      await on.stored.redis.del(recordOf(name));
      await on.stored.redis.hset(recordOf(name), kept);
    }
    expectStatus(await as(key, 'GET', TENANTS), 200);
  });
});

describe('several instances', () => {
  let other: Holdfast;
  beforeAll(async () => {
    other = await Holdfast.start({ REDIS_URL: on.redis.url, ...CLOCK });
  });
  afterAll(() => other.stop());

  test.each<[string, (name: string) => Promise<Answer>]>([
    ['revoked', (name) => on.holdfast.admin('DELETE', `${OPERATORS}/${name}`)],
    ['rotated', (name) => on.holdfast.admin('POST', `${OPERATORS}/${name}/rotate`, { overlap_ms: 0 })],
  ])(
    'a key that is %s on one is refused there at once and on the other within a second',
    async (_what, end) => {
      const { name, key } = await create('viewer');
      for (const instance of [on.holdfast, other]) {
        expectStatus(await as(key, 'GET', TENANTS, undefined, instance), 200);
      }
      expectStatus(await end(name), 200);
      expectRefusal(await as(key, 'GET', TENANTS), 401, 'UNAUTHORIZED');
      await eventually(
        'the other instance refuses',
        async () => (await as(key, 'GET', TENANTS, undefined, other)).status === 401,
        1000,
      );
    },
  );

  test('the announcement alone makes the other one forget', async () => {
    const { name, key } = await create('viewer');
    const keys = other.app.get(OperatorKeys, { strict: false });
    const forgets = jest.spyOn(keys, 'forget');
    await keys.verify(key);
    expectStatus(await on.holdfast.admin('DELETE', `${OPERATORS}/${name}`), 200);
    await eventually('it is told', () => forgets.mock.calls.some(([hash]) => hash === hashOfSecret(key)));
    forgets.mockRestore();
  });
});

describe('Prometheus', () => {
  test('needs only the role metrics, with the key in the header or as a bearer token', async () => {
    const { key } = await create('metrics');
    for (const headers of [{ 'x-admin-api-key': key }, { authorization: `Bearer ${key}` }]) {
      for (const path of ['/metrics', '/actuator/prometheus']) {
        const { status, text } = await on.holdfast.call('GET', path, { headers });
        expect([status, text]).toEqual([200, expect.stringContaining('holdfast_ready')]);
      }
    }
    // Only scrapes take a bearer token.
    expectRefusal(
      await on.holdfast.call('GET', TENANTS, { headers: { authorization: `Bearer ${key}` } }),
      401,
      'UNAUTHORIZED',
    );
  });

  test('still scrapes while Redis is away, with a key that was valid before', async () => {
    const [{ key }, { key: unseen }, gone] = [
      await create('metrics'),
      await create('metrics'),
      await create('metrics'),
    ];
    for (const seen of [key, gone.key]) {
      expectStatus(await as(seen, 'GET', '/metrics'), 200);
    }
    expectStatus(await on.holdfast.admin('DELETE', `${OPERATORS}/${gone.name}`), 200);
    const { scripts } = on.holdfast.app.get(RedisService);
    const call = scripts.call.bind(scripts) as (...all: unknown[]) => Promise<never>;
    const away = jest
      .spyOn(scripts, 'call')
      .mockImplementation((name, ...rest) =>
        name === 'authenticate_operator'
          ? Promise.reject(new StoreUnavailable('timeout'))
          : call(name, ...rest),
      );
    try {
      // As if the cache's second had passed.
      const { answers } = on.holdfast.app.get<OperatorKeys, { answers: { forget(hash: string): void } }>(
        OperatorKeys,
        { strict: false },
      );
      answers.forget(hashOfSecret(key));
      expectStatus(await as(key, 'GET', '/metrics'), 200);
      expect((await as(gone.key, 'GET', '/metrics')).status).toBe(503);
      expect((await as(unseen, 'GET', '/metrics')).status).toBe(503);
      expect((await as(key, 'GET', TENANTS)).status).toBe(503);
    } finally {
      away.mockRestore();
    }
  });
});

describe('a session of the console', () => {
  test('names the operator, has the role, and ends with the key', async () => {
    const { name, key } = await create('operator');
    const page = new ConsoleClient(on.holdfast.url);
    const { body } = await page.logIn(key);
    expect(body.session).toMatchObject({ role: 'operator', name: `operator:${name}` });
    const tenantId = newTenantId();
    expect((await page.send('POST', TENANTS, { body: { tenant_id: tenantId, name: 'Acme' } })).status).toBe(
      201,
    );
    expect(await lastAudit('createTenant')).toMatchObject({
      resource_id: tenantId,
      key_id: `operator:${name}`,
    });
    expect(await lastAudit('logInToConsole')).toMatchObject({ key_id: `operator:${name}` });
    expect((await page.send('DELETE', `${OPERATORS}/${name}`)).status).toBe(403);
    // A rotation with an overlap ends it with the overlap.
    expectStatus(await on.holdfast.admin('POST', `${OPERATORS}/${name}/rotate`, {}), 200);
    expect((await page.send('GET', TENANTS)).status).toBe(200);
    expectStatus(await on.holdfast.admin('DELETE', `${OPERATORS}/${name}`), 200);
    expect((await page.send('GET', TENANTS)).status).toBe(401);
    expect((await page.send('GET', '/console/api/session')).body.session).toBeNull();
  });

  test('is not what a live stream needs, which ends with the key of a named operator, too', async () => {
    const { name, key } = await create('viewer');
    const follow = jest.spyOn(on.holdfast.app.get(LiveFeed, { strict: false }), 'follow');
    const gone = new AbortController();
    const open = async (presented: string): Promise<() => Promise<boolean>> => {
      const answer = await fetch(`${on.holdfast.url}/console/api/stream`, {
        headers: { 'x-admin-api-key': presented },
        signal: gone.signal,
      });
      expect(answer.status).toBe(200);
      return (follow.mock.lastCall as Parameters<LiveFeed['follow']>)[0].isLive;
    };
    const streams = [await open(key), await open(ADMIN_API_KEY)];
    const areLive = (): Promise<boolean[]> => Promise.all(streams.map((isLive) => isLive()));
    expect(await areLive()).toEqual([true, true]);
    expectStatus(await on.holdfast.admin('DELETE', `${OPERATORS}/${name}`), 200);
    expect(await areLive()).toEqual([false, true]);
    gone.abort();
    follow.mockRestore();
  });

  test('is not for those who only scrape', async () => {
    const { key } = await create('metrics');
    const answer = await new ConsoleClient(on.holdfast.url).logIn(key);
    expect([answer.status, answer.body.error]).toEqual([403, 'INSUFFICIENT_PERMISSIONS']);
    expect(answer.headers.get('set-cookie')).toBeNull();
  });
});

test('the list goes by name, in pages, by status, and leaves out what is damaged', async () => {
  const { name: damaged } = await create('viewer');
  const { name: revoked } = await create('viewer');
  expectStatus(await on.holdfast.admin('DELETE', `${OPERATORS}/${revoked}`), 200);
  await on.stored.redis.hset(recordOf(damaged), 'status', 'ODD');
  const names: string[] = [];
  let cursor = '';
  do {
    const answer = await on.holdfast.admin('GET', `${OPERATORS}?limit=3&cursor=${cursor}`);
    const page = expectStatus(answer, 200);
    names.push(...page.operators.map((operator: Json) => operator.name as string));
    expect(answer.headers.get('x-holdfast-skipped-records')).toContain('operator=');
    cursor = page.next_cursor ?? '';
  } while (cursor !== '');
  expect(names).toEqual([...names].sort());
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain(revoked);
  expect(names).not.toContain(damaged);
  const { operators } = expectStatus(
    await on.holdfast.admin('GET', `${OPERATORS}?status=REVOKED&limit=100`),
    200,
  );
  expect(operators.every(({ status }: Json) => status === 'REVOKED')).toBe(true);
  expect(operators.map(({ name }: Json) => name)).toContain(revoked);
});
