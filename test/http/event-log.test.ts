import { beforeAll, describe, expect, test } from '@jest/globals';
import { eventIdOf, eventPlaceOf } from '../../src/events/event.js';
import { eventLogKey, tenantEventsKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const EVENTS = '/v1/admin/events';

describe('the event log', () => {
  const on = useGovernance();

  const page = async (query: string): Promise<Json> =>
    expectStatus(await on.holdfast.admin('GET', `${EVENTS}?${query}`), 200);
  const types = async (query: string): Promise<string[]> =>
    (await page(query)).events.map(({ event_type: type }: Json) => type as string);

  async function walk(query: string, limit: number): Promise<Json[]> {
    const seen: Json[] = [];
    let cursor = '';
    do {
      const {
        events,
        has_more: hasMore,
        next_cursor: next = '',
      } = await page(`${query}&limit=${limit}&cursor=${cursor}`);
      expect(events.length).toBeLessThanOrEqual(limit);
      expect(hasMore).toBe(next !== '');
      seen.push(...events);
      cursor = next;
    } while (cursor !== '');
    return seen;
  }

  describe('of a tenant', () => {
    let tenant: TestTenant;
    let reader: string;
    let denied: Answer;
    beforeAll(async () => {
      tenant = await on.holdfast.createTenant();
      reader = await on.holdfast.createKey(tenant.id, { permissions: ['events:read'] });
      await on.holdfast.createBudget(tenant, '', 10);
      await on.holdfast.createBudget(tenant, '/agent:a', 9);
      denied = await on.holdfast.reserve(tenant, 11);
      expectRefusal(denied, 409, 'BUDGET_EXCEEDED');
      expectStatus(
        await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?scope=tenant:${tenant.id}&unit=TOKENS`, {
          reason: 'why',
          metadata: { ticket: 7 },
        }),
        200,
      );
    });

    test('is listed newest first, with the actor and the outcome', async () => {
      shows('listEvents');
      const { events, has_more: hasMore } = await page(`tenant_id=${tenant.id}`);
      expect(hasMore).toBe(false);
      expect(events.map(({ event_type: type }: Json) => type)).toEqual([
        'budget.frozen',
        'reservation.denied',
        'budget.created',
        'budget.created',
        'api_key.created',
        'api_key.created',
        'tenant.created',
      ]);
      expect(events[0]).toEqual({
        event_id: expect.stringMatching(/^evt_[0-9a-f]{16}$/),
        event_type: 'budget.frozen',
        category: 'budget',
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        tenant_id: tenant.id,
        scope: `tenant:${tenant.id}`,
        actor: { type: 'admin' },
        source: 'holdfast',
        data: {
          scope: `tenant:${tenant.id}`,
          unit: 'TOKENS',
          ledger_id: expect.any(String),
          operation: 'STATUS_CHANGE',
          reason: 'why',
          previous_state: { status: 'ACTIVE' },
          new_state: { status: 'FROZEN' },
        },
        request_id: expect.stringMatching(/^req_/),
        trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
        metadata: { ticket: 7 },
      });
      expect(events[1]).toMatchObject({
        actor: { type: 'api_key', key_id: expect.stringMatching(/^key_/) },
        request_id: denied.headers.get('x-request-id'),
        trace_id: denied.headers.get('x-cycles-trace-id'),
        data: {
          reason_code: 'BUDGET_EXCEEDED',
          requested_amount: 11,
          remaining: 10,
          subject: { tenant: tenant.id },
          action: { kind: expect.any(String) },
        },
      });
    });

    test('of a denial is found by the idempotency key of the client', async () => {
      const poor = await on.holdfast.fundedTenant(10);
      for (const key of ['order-17', '0b0d7c52-4f3e-4c6b-9a57-6f4a2f1e8c11']) {
        expectRefusal(await on.holdfast.reserve(poor, 11, { idempotency_key: key }), 409, 'BUDGET_EXCEEDED');
        const { events } = await page(`tenant_id=${poor.id}&search=${key.toUpperCase()}`);
        expect(events).toMatchObject([{ event_type: 'reservation.denied', data: { idempotency_key: key } }]);
      }
    });

    test('is found by each filter, and by all of them together', async () => {
      shows('event filters');
      const own = `tenant_id=${tenant.id}`;
      expect(await types(`${own}&event_type=budget.frozen`)).toEqual(['budget.frozen']);
      expect(await types(`${own}&category=budget`)).toEqual([
        'budget.frozen',
        'budget.created',
        'budget.created',
      ]);
      expect(await types(`${own}&category=policy`)).toEqual([]);
      expect(await types(`scope=tenant:${tenant.id}/`)).toEqual(['budget.created']);
      expect(await types(`scope=tenant:${tenant.id}/AGENT:`)).toEqual([]);
      expect(await types(`scope=tenant:${tenant.id.slice(0, -1)}`)).toEqual([]);
      expect(await types(`scope=tenant:${tenant.id}`)).toEqual([
        'budget.frozen',
        'reservation.denied',
        'budget.created',
        'budget.created',
      ]);
      expect(await types(`trace_id=${denied.headers.get('x-cycles-trace-id')}`)).toEqual([
        'reservation.denied',
      ]);
      expect(await types(`request_id=${denied.headers.get('x-request-id')}`)).toEqual(['reservation.denied']);
      expect(await types(`search=${tenant.id.toUpperCase()}/agent`)).toEqual(['budget.created']);
      expect(await types(`${own}&search=`)).toHaveLength(7);
      const [{ timestamp }] = (await page(`${own}&event_type=reservation.denied`)).events;
      expect(await types(`${own}&event_type=reservation.denied&from=${timestamp}&to=${timestamp}`)).toEqual([
        'reservation.denied',
      ]);
      expect(await types(`${own}&from=2099-01-01T00:00:00Z`)).toEqual([]);
      expect(await types(`${own}&to=2001-01-01T00:00:00Z`)).toEqual([]);
      const all = `${own}&event_type=reservation.denied&category=reservation&scope=tenant:${tenant.id}&trace_id=${denied.headers.get('x-cycles-trace-id')}&request_id=${denied.headers.get('x-request-id')}&search=tenant`;
      expect(await types(all)).toEqual(['reservation.denied']);
      expect(await types(`${all}x`)).toEqual([]);
    });

    test.each(['', '&sort_dir=asc', '&sort_by=event_type', '&sort_by=scope&sort_dir=asc'])(
      'is walked in pages of one without gaps or duplicates%s',
      async (order) => {
        shows('event cursor');
        const ids = (await walk(`tenant_id=${tenant.id}${order}`, 1)).map(({ event_id: id }) => id as string);
        expect(ids).toHaveLength(7);
        expect(ids).toEqual(
          (await page(`tenant_id=${tenant.id}${order}`)).events.map(({ event_id: id }: Json) => id),
        );
      },
    );

    test('is sorted by the requested key', async () => {
      expect(await types(`tenant_id=${tenant.id}&sort_dir=asc`)).toEqual(
        (await types(`tenant_id=${tenant.id}`)).reverse(),
      );
      const byType = await types(`tenant_id=${tenant.id}&sort_by=event_type&sort_dir=asc`);
      expect(byType).toEqual([...byType].sort());
      const categories = (await page(`tenant_id=${tenant.id}&sort_by=category`)).events.map(
        ({ category }: Json) => category as string,
      );
      expect(categories).toEqual([...categories].sort().reverse());
    });

    test("is visible to the tenant itself, except for operators' events", async () => {
      shows('tenant events', 'listTenantEvents');
      const own = async (query: string): Promise<string[]> =>
        expectStatus(await on.holdfast.call('GET', `/v1/events?${query}`, { key: reader }), 200).events.map(
          ({ event_type: type }: Json) => type as string,
        );
      expect(await own('')).toEqual([
        'budget.frozen',
        'reservation.denied',
        'budget.created',
        'budget.created',
        'tenant.created',
      ]);
      expect(await own(`tenant_id=other&category=tenant`)).toEqual(['tenant.created']);
      expect(await own('event_type=reservation.denied&limit=1')).toEqual(['reservation.denied']);
      for (const query of [
        'category=api_key',
        'category=policy',
        'category=webhook',
        'category=system',
        'event_type=api_key.created',
        'event_type=custom.other',
      ]) {
        expectRefusal(
          await on.holdfast.call('GET', `/v1/events?${query}`, { key: reader }),
          400,
          'INVALID_REQUEST',
        );
      }
    });

    test('shows a confined key its own scopes only, and a key without the permission nothing', async () => {
      shows('events permission');
      const confined = await on.holdfast.createKey(tenant.id, {
        permissions: ['events:read'],
        scope_filter: ['agent:a'],
      });
      const { events } = expectStatus(await on.holdfast.call('GET', '/v1/events', { key: confined }), 200);
      expect(events.map(({ scope }: Json) => scope)).toEqual([`tenant:${tenant.id}/agent:a`]);
      expectRefusal(
        await on.holdfast.call('GET', '/v1/events', { key: tenant.key }),
        403,
        'INSUFFICIENT_PERMISSIONS',
      );
      expectRefusal(await on.holdfast.call('GET', EVENTS, { key: reader }), 401, 'UNAUTHORIZED');
    });

    test('never shows another tenant', async () => {
      shows('tenant events');
      const other = await on.holdfast.createTenant();
      const key = await on.holdfast.createKey(other.id, { permissions: ['events:read'] });
      const { events } = expectStatus(
        await on.holdfast.call('GET', `/v1/events?tenant_id=${tenant.id}&scope=tenant:${tenant.id}`, { key }),
        200,
      );
      expect(events).toEqual([]);
    });
  });

  test('returns each event by its id, and knows no other ids', async () => {
    shows('getEvent');
    const tenant = await on.holdfast.fundedTenant(10);
    const [event] = (await page(`tenant_id=${tenant.id}`)).events;
    expect(expectStatus(await on.holdfast.admin('GET', `${EVENTS}/${event.event_id}`), 200)).toEqual(event);
    const { subject, action } = reserveBody(tenant, 1);
    const body = { idempotency_key: newKey(), subject, action, actual: { unit: 'TOKENS', amount: 1 } };
    const debit = expectStatus(await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body }), 201);
    const { partition = '', entryId = '' } = eventPlaceOf(event.event_id) ?? {};
    const later = `${Number(entryId.split('-')[0]) + 1}-0`;
    for (const id of [
      debit.event_id,
      eventIdOf({ partition, entryId: later }),
      eventIdOf({ partition: 'ff', entryId }),
      'evt_1',
      'evt_',
    ]) {
      expectRefusal(await on.holdfast.admin('GET', `${EVENTS}/${id}`), 404, 'EVENT_NOT_FOUND');
    }
    const [told] = (await page(`tenant_id=${tenant.id}&event_type=custom.direct_debit.applied`)).events;
    expect(told).toMatchObject({
      category: 'budget',
      data: { event_id: debit.event_id, charged: 1, subject: { tenant: tenant.id } },
    });
  });

  test('finds related events by their correlation id, page by page', async () => {
    shows('event cursor');
    const tenant = await on.holdfast.createTenant();
    for (const agent of ['a', 'b', 'c']) {
      await on.holdfast.createBudget(tenant, `/agent:${agent}`, 10);
    }
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }),
      200,
    );
    const [closed] = (await page(`tenant_id=${tenant.id}&event_type=tenant.closed`)).events;
    const together = `correlation_id=${encodeURIComponent(closed.correlation_id)}`;
    const expected = [
      'tenant.closed',
      'api_key.revoked_via_tenant_cascade',
      ...Array.from({ length: 3 }, () => 'budget.closed_via_tenant_cascade'),
    ];
    expect(await types(together)).toEqual(expected);
    expect((await walk(together, 1)).map(({ event_type: type }) => type as string)).toEqual(expected);
    expect(await types(`${together}&tenant_id=${tenant.id}&category=api_key`)).toEqual([
      'api_key.revoked_via_tenant_cascade',
    ]);
    expect(await types(`${together}&tenant_id=another`)).toEqual([]);
    expect(await types(`search=${encodeURIComponent(closed.correlation_id.toUpperCase())}`)).toEqual(
      expected,
    );
  });

  test('64-bit amounts pass through it exactly', async () => {
    const tenant = await on.holdfast.fundedTenant(9223372036854775807n);
    const answer = await on.holdfast.admin(
      'GET',
      `${EVENTS}?tenant_id=${tenant.id}&event_type=budget.created`,
    );
    expect(expectStatus(answer, 200).events[0].data.new_state.allocated).toBe(9223372036854775807n);
  });

  test('events without a tenant belong to __system__, wherever they happened', async () => {
    for (const code of ['00', '3f']) {
      const entry = [
        'ty',
        'system.high_latency',
        'tn',
        '__system__',
        'ac',
        'system',
        'component',
        'store',
        'p99_ms',
        '7',
      ];
      const id = (await on.stored.redis.xadd(eventLogKey(`{p${code}}`), '*', ...entry)) as string;
      await on.stored.redis.xadd(tenantEventsKey(`{p${code}}`, '__system__'), id, 'y', 'system.high_latency');
    }
    const { events } = await page('tenant_id=__system__');
    expect(events).toHaveLength(2);
    expect(events[0]).toMatchObject({
      category: 'system',
      data: { component: 'store', details: { p99_ms: 7 } },
    });
    expect(events[0].data).not.toHaveProperty('scope');
  });

  describe('of many partitions', () => {
    const ROWS = 500;
    beforeAll(async () => {
      // One pipeline per partition, as a cluster requires.
      const [few, many] = [on.stored.redis.pipeline(), on.stored.redis.pipeline()];
      for (let row = 0; row < ROWS; row += 1) {
        // Many events share a millisecond, also across partitions, and reading them takes more than one run.
        const entry = [
          'ty',
          row % 2 === 0 ? 'policy.created' : 'budget.created',
          'tn',
          'walker',
          'ac',
          'admin',
          'rq',
          'walk',
          'sc',
          `tenant:walker/agent:a${row}`,
        ];
        few.xadd(eventLogKey('{p3f}'), `${4_000_000_000_000 + Math.floor(row / 40)}-*`, ...entry);
        many.xadd(eventLogKey('{p3e}'), `${4_000_000_000_000 + Math.floor(row / 3)}-*`, ...entry);
      }
      await Promise.all([few.exec(), many.exec()]);
    });

    test.each(['', 'sort_dir=asc', 'sort_by=event_type', 'sort_by=scope&sort_dir=asc'])(
      'is walked without gaps or duplicates: %s',
      async (order) => {
        shows('event cursor');
        const ids = (await walk(`request_id=walk&${order}`, 70)).map(({ event_id: id }) => id as string);
        expect(ids).toHaveLength(2 * ROWS);
        expect(new Set(ids).size).toBe(2 * ROWS);
      },
    );

    test('is in chronological order, then by partition, then as written', async () => {
      const ids = (await walk('request_id=walk&sort_dir=asc', 33)).map(({ event_id: id }) => id as string);
      expect(ids).toEqual([...ids].sort());
      expect((await walk('request_id=walk', 33)).map(({ event_id: id }) => id as string)).toEqual(
        [...ids].reverse(),
      );
    });

    test('and a cursor belongs to its filters', async () => {
      const { next_cursor: cursor } = await page('request_id=walk&limit=1');
      expectRefusal(
        await on.holdfast.admin('GET', `${EVENTS}?request_id=other&limit=1&cursor=${cursor}`),
        400,
        'INVALID_REQUEST',
      );
    });

    test('treats a limit beyond the largest page as the largest page', async () => {
      expect((await page('request_id=walk&limit=1000')).events).toHaveLength(100);
    });
  });

  test.each([
    'event_type=budget.lost',
    'event_type=custom.',
    'category=spend',
    `search=${'s'.repeat(129)}`,
    'trace_id=odd',
    'from=yesterday',
    'sort_by=data',
    'sort_dir=up',
    'cursor=odd',
    'limit=0',
  ])('refuses %s', async (query) => {
    shows('event filters');
    expectRefusal(await on.holdfast.admin('GET', `${EVENTS}?${query}`), 400, 'INVALID_REQUEST');
  });
});

describe('a long event log', () => {
  const on = useGovernance();
  const ENTRIES = 201_000;
  const page = async (query: string): Promise<Json> =>
    expectStatus(await on.holdfast.admin('GET', `${EVENTS}?${query}`), 200);

  beforeAll(async () => {
    const script = `for row = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], row .. '-0', 'ty', 'budget.created', 'tn', 'long', 'rq', row % 60000 == 0 and 'rare' or 'r') end`;
    await on.stored.redis.eval(script, 1, eventLogKey('{p07}'), ENTRIES);
  });

  test('is read in bounded parts: a page may end early, and the next one continues there', async () => {
    const found: string[] = [];
    let [cursor, pages] = ['', 0];
    do {
      const { events, next_cursor: next = '' } = await page(`request_id=rare&cursor=${cursor}`);
      found.push(...events.map(({ timestamp }: Json) => String(Date.parse(timestamp))));
      [cursor, pages] = [next, pages + 1];
    } while (cursor !== '');
    expect(found).toEqual(['180000', '120000', '60000']);
    expect(pages).toBe(5);
    expect(await on.holdfast.metric('holdfast_event_pages_cut_total')).toBe(4);
  });

  test('as a whole, is only sorted by time', async () => {
    expectRefusal(await on.holdfast.admin('GET', `${EVENTS}?sort_by=scope`), 400, 'INVALID_REQUEST');
    const to = new Date(1000).toISOString();
    expect((await page(`sort_by=scope&to=${to}`)).events).toHaveLength(50);
    // The service may have told of itself meanwhile, as on a busy machine.
    const soon = new Date(ENTRIES + 60_000).toISOString();
    expect((await page(`limit=1&to=${soon}`)).events[0].timestamp).toBe(new Date(ENTRIES).toISOString());
  });
});
