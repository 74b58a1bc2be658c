import { beforeAll, describe, expect, test } from '@jest/globals';
import { expectRefusal, expectStatus, type Answer, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

let tenant: TestTenant;
let reader: string;
let subscription: string;
beforeAll(async () => {
  tenant = await on.holdfast.createTenant();
  reader = await on.holdfast.createKey(tenant.id, { permissions: ['events:read', 'reservations:list'] });
  const made = await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, {
    url: 'https://93.184.216.34/hook',
    event_types: ['budget.created'],
  });
  subscription = expectStatus(made, 201).subscription.subscription_id;
  await on.holdfast.createBudget(tenant, '', 100);
  expectStatus(await on.holdfast.reserve(tenant, 1), 200);
});

type Ask = (bounds: Record<string, string>) => Promise<Answer>;
const query = (bounds: Record<string, string>): string => new URLSearchParams(bounds).toString();
const operator =
  (path: () => string): Ask =>
  (bounds) =>
    on.holdfast.admin('GET', `${path()}&${query(bounds)}`);

/** Everything that accepts a window, and how its response counts what lies inside. */
const WINDOWS: readonly [name: string, ask: Ask, count: (body: Json) => number][] = [
  [
    '/v1/events',
    (bounds) => on.holdfast.call('GET', `/v1/events?${query(bounds)}`, { key: reader }),
    (body) => body.events.length,
  ],
  [
    '/v1/admin/events',
    operator(() => `/v1/admin/events?tenant_id=${tenant.id}`),
    (body) => body.events.length,
  ],
  [
    '/v1/admin/events of all tenants, ascending',
    operator(() => '/v1/admin/events?sort_dir=asc'),
    (body) => body.events.length,
  ],
  ['/v1/admin/events sorted', operator(() => '/v1/admin/events?sort_by=scope'), (body) => body.events.length],
  [
    '/v1/admin/audit/logs',
    operator(() => `/v1/admin/audit/logs?tenant_id=${tenant.id}`),
    (body) => body.logs.length,
  ],
  [
    '/v1/admin/audit/logs ascending',
    operator(() => '/v1/admin/audit/logs?sort_dir=asc'),
    (body) => body.logs.length,
  ],
  [
    '/v1/reservations',
    (bounds) => on.holdfast.call('GET', `/v1/reservations?${query(bounds)}`, { key: reader }),
    (body) => body.reservations.length,
  ],
];

const EARLY = [
  '1969-12-31T23:59:59.999Z',
  '1900-02-28T12:00:00+05:30',
  '0001-01-01T00:00:00Z',
  '0000-01-01T00:00:00+23:59',
];
const LATE = [
  '9999-12-31T23:59:59.999999999999Z',
  '9999-12-31T23:59:59-23:59',
  '2999-06-30T23:59:60Z',
  '2999-07-01t05:29:60.5+05:30',
  '3000-01-01T00:00:00-00:00',
];

describe('a window', () => {
  test.each(WINDOWS)('of %s may start before 1970 and end in the far future', async (_name, ask, count) => {
    const all = count(expectStatus(await ask({}), 200));
    for (const from of EARLY) {
      expect([from, count(expectStatus(await ask({ from }), 200))]).toEqual([from, all]);
    }
    for (const to of LATE) {
      expect([to, count(expectStatus(await ask({ to, from: EARLY[0] as string }), 200))]).toEqual([to, all]);
    }
  });

  test.each(WINDOWS)(
    'of %s that ends before 1970 or starts in the far future is empty',
    async (_name, ask, count) => {
      for (const to of EARLY) {
        expect([to, count(expectStatus(await ask({ to }), 200))]).toEqual([to, 0]);
      }
      for (const from of LATE) {
        expect([from, count(expectStatus(await ask({ from }), 200))]).toEqual([from, 0]);
      }
    },
  );

  test.each(WINDOWS)('of %s must be an instant', async (_name, ask) => {
    for (const from of [
      '2026-02-29T00:00:00Z',
      '2026-01-01T24:00:00Z',
      '2026-01-01T12:30:60Z',
      '2026-06-15T23:59:60Z',
      '2026-01-01T00:00:61Z',
      '2026-01-01T00:00:00',
      '2026-01-01T00:00:00+24:00',
      '2026-00-10T00:00:00Z',
    ]) {
      expectRefusal(await ask({ from }), 400, 'INVALID_REQUEST');
    }
  });

  test('of /ops/expirations also in milliseconds', async () => {
    const ask = operator(() => `/ops/expirations?tenant=${tenant.id}`);
    for (const bounds of [...EARLY, '-1', '-62135596800000'].flatMap((bound) => [
      { from: bound },
      { to: bound },
    ])) {
      expect(expectStatus(await ask(bounds as unknown as Record<string, string>), 200).expirations).toEqual(
        [],
      );
    }
    for (const to of LATE) {
      expectStatus(await ask({ to, from: '-1' }), 200);
    }
  });

  test('of the deliveries and of a replay', async () => {
    const base = `/v1/admin/webhooks/${subscription}`;
    for (const bounds of [
      { from: EARLY[0] },
      { to: EARLY[0] },
      { from: EARLY[1], to: LATE[0] },
      { from: LATE[1] },
    ] as Record<string, string>[]) {
      expectStatus(await on.holdfast.admin('GET', `${base}/deliveries?${query(bounds)}`), 200);
    }
    expect(
      expectStatus(await on.holdfast.admin('POST', `${base}/replay`, { to: EARLY[0] }), 202),
    ).toMatchObject({ events_queued: 0 });
    expect(
      expectStatus(await on.holdfast.admin('POST', `${base}/replay`, { from: LATE[0] }), 202),
    ).toMatchObject({ events_queued: 0 });
    expect(
      expectStatus(await on.holdfast.admin('POST', `${base}/replay`, { from: EARLY[2], to: LATE[1] }), 202),
    ).toMatchObject({ events_queued: 1 });
  });
});

describe('a stored instant', () => {
  test('before 1970 or beyond the year 9999 in UTC limits a policy and is shown', async () => {
    const create = (name: string, more: Json): Promise<Answer> =>
      on.holdfast.admin('POST', '/v1/admin/policies', {
        tenant_id: tenant.id,
        name,
        scope_pattern: `tenant:${tenant.id}`,
        caps: { max_tokens: 7 },
        ...more,
      });
    expectStatus(
      await create('over', {
        effective_from: '1960-01-01T00:00:00Z',
        effective_until: '1969-12-31T23:59:59Z',
        priority: 2,
      }),
      201,
    );
    const policy = expectStatus(
      await create('lasting', {
        effective_from: '1969-12-31T23:59:59.5Z',
        effective_until: '9999-12-31T23:59:59-10:00',
        priority: 1,
        caps: { max_tokens: 9 },
      }),
      201,
    );
    expect(policy).toMatchObject({
      effective_from: '1969-12-31T23:59:59.500Z',
      effective_until: '9999-12-31T23:59:59.999Z',
    });
    expect(expectStatus(await on.holdfast.reserve(tenant, 1), 200)).toMatchObject({
      decision: 'ALLOW_WITH_CAPS',
      caps: { max_tokens: 9 },
    });
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/policies/${policy.policy_id}`, {
        effective_from: '1950-01-01T00:00:00Z',
      }),
      200,
    );
  });

  test("may be a leap second in a key's expiry, and an expiry before 1970 is past", async () => {
    const create = (expiresAt: string): Promise<Answer> =>
      on.holdfast.admin('POST', '/v1/admin/api-keys', {
        tenant_id: tenant.id,
        name: 'timed',
        expires_at: expiresAt,
      });
    expect(expectStatus(await create('2999-12-31T23:59:60Z'), 201)).toMatchObject({
      expires_at: '3000-01-01T00:00:00.000Z',
    });
    expectRefusal(await create('1969-12-31T23:59:59Z'), 400, 'INVALID_REQUEST');
  });
});

describe('a forged cursor', () => {
  test('that no log entry can have is 400', async () => {
    const { next_cursor: cursor } = expectStatus(
      await on.holdfast.admin('GET', '/v1/admin/audit/logs?limit=1'),
      200,
    );
    const [fingerprint, ...parts] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as string[];
    const [type, value, , ...order] = parts;
    const forged = Buffer.from(
      JSON.stringify([fingerprint, type, value, 'log_00179533605-99999999999999999999', ...order]),
    ).toString('base64url');
    expectRefusal(
      await on.holdfast.admin('GET', `/v1/admin/audit/logs?cursor=${forged}`),
      400,
      'INVALID_REQUEST',
    );
  });
});
