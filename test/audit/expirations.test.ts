import { beforeAll, describe, expect, test } from '@jest/globals';
import { eventLogKey, partitionOfTenant } from '../../src/redis/keyspace.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { commandCounts } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

const COUNT = 12;

// Entries with future times would move the clock of logs that other tests share.
const on = useGovernance();
/** Three tenants, each in a different partition. */
let tenants: TestTenant[];
/** Every expiration, in the order of the response. */
let all: Json[];

beforeAll(async () => {
  // A separate store: entries with future times would move the clock of logs that other tests share.
  tenants = [];
  while (tenants.length < 3) {
    const tenant = await on.holdfast.createTenant();
    const partition = partitionOfTenant(tenant.id, 64);
    if (tenants.every(({ id }) => partitionOfTenant(id, 64) !== partition)) {
      await on.holdfast.createBudget(tenant, '', 1_000_000);
      tenants.push(tenant);
    }
  }
  for (let index = 0; index < COUNT; index += 1) {
    const tenant = tenants[index % 3] as TestTenant;
    const subject = {
      tenant: tenant.id,
      ...(index % 2 === 0 ? { workspace: 'prod', agent: 'a' } : { workspace: 'production' }),
    };
    const id = await on.holdfast.hold(tenant, 10 + index, { subject });
    await on.holds.expireIn(id, -60_000);
    await on.holdfast.admin('GET', `/ops/reservations/${id}`);
  }
  all = await ours('');
});

function ask(query: string): Promise<Json> {
  return on.holdfast.admin('GET', `/ops/expirations?${query}`).then((answer) => expectStatus(answer, 200));
}

/** All pages of a query, without the entries of other tests. */
async function ours(query: string, limit = 1000): Promise<Json[]> {
  const rows: Json[] = [];
  let cursor = '';
  do {
    const page = await ask(`${query}&limit=${limit}&cursor=${cursor}`);
    expect(page.expirations.length).toBeLessThanOrEqual(limit);
    rows.push(...page.expirations);
    cursor = page.next_cursor ?? '';
    expect(page.has_more).toBe(cursor !== '');
  } while (cursor !== '');
  return rows.filter(({ tenant_id }) => tenants.some(({ id }) => id === tenant_id));
}

interface Slot {
  readonly at_ms: number;
  expirations: number;
}

/** The counts of all pages, added up. */
async function counted(query: string): Promise<{ pages: number; slots: Slot[] }> {
  const slots = new Map<number, Slot>();
  let [pages, cursor, share] = [0, '', 0];
  do {
    const page = expectStatus(
      await on.holdfast.admin('GET', `/ops/expirations/counts?${query}&cursor=${cursor}`),
      200,
    );
    for (const slot of page.slots as Slot[]) {
      const known = slots.get(slot.at_ms);
      slots.set(slot.at_ms, { ...slot, expirations: slot.expirations + (known?.expirations ?? 0) });
    }
    expect(page.share_read).toBeGreaterThanOrEqual(share);
    [pages, cursor, share] = [pages + 1, page.next_cursor ?? '', page.share_read];
  } while (cursor !== '');
  expect(share).toBe(1);
  return { pages, slots: [...slots.values()] };
}

async function raw(
  query: string,
  headers: Record<string, string> = {},
): Promise<{ type: string; text: string }> {
  const response = await fetch(`${on.holdfast.url}/ops/expirations?${query}`, {
    headers: { 'x-admin-api-key': ADMIN_API_KEY, ...headers },
  });
  expect(response.status).toBe(200);
  return { type: response.headers.get('content-type') ?? '', text: await response.text() };
}

describe('the expirations of a window', () => {
  test('are listed in order, each in its state at that moment', () => {
    expect(all).toHaveLength(COUNT);
    expect(all.map(({ at_ms }) => at_ms)).toEqual(
      all.map(({ at_ms }) => at_ms as number).sort((a, b) => a - b),
    );
    expect(all[0]).toEqual({
      at_ms: expect.any(Number),
      at: new Date(all[0].at_ms as number).toISOString(),
      state: 'EXPIRED',
      reservation_id: expect.stringMatching(/^rsv_/),
      tenant_id: tenants[0]?.id,
      scope: `tenant:${tenants[0]?.id}/workspace:prod/agent:a`,
      unit: 'TOKENS',
      amount: 10,
      created_at_ms: expect.any(Number),
      ttl_ms: expect.any(Number),
      extensions_used: 0,
      event_id: expect.stringMatching(/^evt_/),
      request_id: expect.stringMatching(/^req_/),
      trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
  });

  test('are exactly those between the bounds, including both, in either notation', async () => {
    const [from, to] = [all[3].at_ms, all[8].at_ms] as [number, number];
    const within = all.filter(({ at_ms }) => at_ms >= from && at_ms <= to);
    expect(await ours(`from=${from}&to=${to}`)).toEqual(within);
    expect(await ours(`from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`)).toEqual(
      within,
    );
    expect(await ours(`from=${from + 1}&to=${to - 1}`)).toEqual(
      all.filter(({ at_ms }) => at_ms > from && at_ms < to),
    );
    expect(await ours(`from=${all.at(-1).at_ms + 1}`)).toEqual([]);
    expect(await ours(`to=${all[0].at_ms - 1}`)).toEqual([]);
    expect(await ours(`from=&to=%20`)).toEqual(all);
  });

  test('are listed page by page, none twice and none missed, even if they share an instant', async () => {
    for (const limit of [1, 5]) {
      expect(await ours(`from=${all[0].at_ms}&to=${all.at(-1).at_ms}`, limit)).toEqual(all);
    }
    const cursor = (await ask(`limit=1&from=${all[0].at_ms}`)).next_cursor as string;
    expectRefusal(
      await on.holdfast.admin('GET', `/ops/expirations?cursor=${cursor}&from=${all[1].at_ms}`),
      400,
      'INVALID_REQUEST',
    );
    expectRefusal(await on.holdfast.admin('GET', '/ops/expirations?cursor=none'), 400, 'INVALID_REQUEST');
  });

  test('of one instant are in the order of their partitions', async () => {
    const [first, second] = tenants.map(({ id }) => on.holds.tagOfTenant(id)).sort() as [string, string];
    const at = all.at(-1).at_ms + 3_600_000;
    for (const [tag, name] of [
      [second, 'b1'],
      [second, 'b2'],
      [first, 'a1'],
    ] as const) {
      await on.holds.redis.xadd(
        eventLogKey(tag),
        `${at}-*`,
        'ty',
        'reservation.expired',
        'tn',
        tenants[0]?.id as string,
        'reservation_id',
        name,
        'expired_at',
        at,
      );
    }
    for (const limit of [1, 2, 10]) {
      expect((await ours(`from=${at}&to=${at}`, limit)).map(({ reservation_id }) => reservation_id)).toEqual([
        'a1',
        'b1',
        'b2',
      ]);
    }
    for (const tag of [first, second]) {
      await on.holds.redis.xdel(eventLogKey(tag), `${at}-0`, `${at}-1`);
    }
  });

  test('of a tenant come only from its own partition', async () => {
    const third = tenants[2] as TestTenant;
    const before = await commandCounts(on.holds.redis);
    const rows = await ours(`tenant=${third.id.toUpperCase()}`);
    const after = await commandCounts(on.holds.redis);
    expect(rows).toEqual(all.filter(({ tenant_id }) => tenant_id === third.id));
    expect((after['xrange'] ?? 0) - (before['xrange'] ?? 0)).toBeLessThan(10);
    expect([after['scan'], after['keys']]).toEqual([before['scan'], before['keys']]);
    const scope = `tenant:${third.id}/workspace:prod`;
    expect(await ours(`scope=${scope}`)).toEqual(
      rows.filter((row) => (row.scope as string).startsWith(`${scope}/`)),
    );
    expect(await ours(`scope=${scope}uction`)).toEqual(rows.filter((row) => row.scope === `${scope}uction`));
    expect(await ours(`scope=tenant:${third.id}&state=expired`)).toEqual(rows);
    expect(await ours(`tenant=${third.id}&state=QUARANTINED`)).toEqual([]);
    expectRefusal(
      await on.holdfast.admin('GET', `/ops/expirations?tenant=other&scope=${scope}`),
      400,
      'INVALID_REQUEST',
    );
  });

  test('are quarantined ones on request', async () => {
    const tenant = await on.holdfast.fundedTenant(100);
    const id = await on.holdfast.hold(tenant, 5);
    await on.holds.set(id, { am: 'x' });
    await on.holds.expireIn(id, -60_000);
    await on.holdfast.admin('GET', `/ops/reservations/${id}`);
    const { expirations } = await ask(`tenant=${tenant.id}&state=quarantined`);
    expect(expirations).toMatchObject([
      { state: 'QUARANTINED', reservation_id: id, tenant_id: tenant.id, reason: 'INVALID_ESTIMATE' },
    ]);
    expect((await ask(`tenant=${tenant.id}`)).expirations).toEqual([]);
  });

  test('are exported as NDJSON and CSV, by parameter or by the Accept header', async () => {
    const tenant = await on.holdfast.fundedTenant(1_000_000);
    for (let index = 0; index < 5; index += 1) {
      const id = await on.holdfast.hold(tenant, index);
      await on.holds.expireIn(id, -60_000);
      await on.holdfast.admin('GET', `/ops/reservations/${id}`);
    }
    const rows = (await ask(`tenant=${tenant.id}`)).expirations as Json[];
    for (const [query, headers] of [
      ['&format=ndjson', {}],
      ['', { accept: 'application/x-ndjson' }],
    ] as const) {
      const { type, text } = await raw(`tenant=${tenant.id}${query}`, headers);
      expect(type).toContain('application/x-ndjson');
      expect(
        text
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line)),
      ).toEqual(rows);
    }
    for (const [query, headers] of [
      ['&format=CSV', {}],
      ['', { accept: 'application/json;q=0.5, text/csv' }],
    ] as const) {
      const { type, text } = await raw(`tenant=${tenant.id}${query}`, headers);
      expect(type).toContain('text/csv');
      const [head, ...lines] = text
        .trimEnd()
        .split('\r\n')
        .map((line) => line.split(','));
      expect(lines.map((line) => line[head?.indexOf('reservation_id') as number])).toEqual(
        rows.map(({ reservation_id }) => reservation_id),
      );
    }
    expect((await raw(`tenant=${tenant.id}&format=ndjson&limit=2`)).text.trimEnd().split('\n')).toHaveLength(
      2,
    );
    expect((await raw(`tenant=${tenant.id}`, { accept: 'text/html, */*;q=0.8' })).type).toContain(
      'application/json',
    );
  });

  test('have no text in CSV that a spreadsheet would run as a formula, whatever ends a cell in its locale', async () => {
    const tenant = await on.holdfast.createTenant();
    const tag = on.holds.tagOfTenant(tenant.id);
    const texts = [
      '=1+1',
      '+1+1',
      '-1+1',
      '@SUM(A1)',
      '\t=1',
      '\r=1',
      '=HYPERLINK("http://x")',
      'a=1',
      '-1',
      'x;=1+1',
      'x\t @SUM(A1);-1',
      ' =1',
    ];
    for (const reason of texts) {
      const event = {
        ty: 'reservation.expired',
        tn: tenant.id,
        ac: 'system',
        expired_at: Date.now(),
        reason,
      };
      await on.holds.redis.xadd(eventLogKey(tag), '*', ...Object.entries(event).flat());
    }
    const { text } = await raw(`tenant=${tenant.id}&format=csv`);
    const [, ...lines] = text.trimEnd().split('\r\n');
    expect(lines.map((line) => line.split(',').slice(11, -4).join(','))).toEqual([
      "'=1+1",
      "'+1+1",
      "'-1+1",
      "'@SUM(A1)",
      '"\'\t\'=1"',
      '"\'\r\'=1"',
      `"'=HYPERLINK(""http://x"")"`,
      'a=1',
      '-1',
      `"x;'=1+1"`,
      `"x\t' @SUM(A1);'-1"`,
      "' =1",
    ]);
  });

  test('are counted in slots, exactly as in the list', async () => {
    const [from, to] = [all[2].at_ms, all[9].at_ms] as [number, number];
    const window = `from=${from}&to=${to}`;
    for (const query of ['', `&tenant=${tenants[1]?.id}`, `&scope=tenant:${tenants[2]?.id}/workspace:prod`]) {
      const rows = await ours(window + query);
      const slots = (await counted(`${window}${query}&slot_ms=1000`)).slots;
      for (const { at_ms: at, expirations } of slots) {
        expect(rows.filter(({ at_ms }) => at_ms >= at && at_ms < at + 1000)).toHaveLength(expirations);
      }
      expect(slots.reduce((sum, { expirations }) => sum + expirations, 0)).toBe(rows.length);
    }
    expect((await counted(`${window}&state=QUARANTINED`)).slots).toEqual([]);
    const far = `from=0&to=${to}`;
    expect((await counted(`${far}&tenant=${tenants[0]?.id}`)).slots).toHaveLength(1);
    for (const query of [
      `from=${from}`,
      `to=${to}`,
      `from=&to=${to}`,
      `${window}&slot_ms=999`,
      `${far}&slot_ms=1000`,
      `from=2&to=1`,
      `${window}&cursor=none`,
    ]) {
      expectRefusal(
        await on.holdfast.admin('GET', `/ops/expirations/counts?${query}`),
        400,
        'INVALID_REQUEST',
      );
    }
  });

  test('are counted in bounded parts', async () => {
    const tenant = tenants[0] as TestTenant;
    const at = all.at(-1).at_ms + 7_200_000;
    await on.holds.redis.eval(
      `for i = 1, 20100 do
        redis.call('XADD', KEYS[1], ARGV[1] .. '-*', 'ty', i % 2010 == 0 and 'reservation.expired' or 'budget.funded', 'tn', ARGV[2], 'expired_at', ARGV[1])
      end`,
      1,
      eventLogKey(on.holds.tagOfTenant(tenant.id)),
      at,
      tenant.id,
    );
    const { pages, slots } = await counted(`from=${at}&to=${at + 60_000}`);
    expect(pages).toBe(2);
    expect(slots).toEqual([{ at_ms: at, expirations: 10 }]);
    const first = expectStatus(
      await on.holdfast.admin('GET', `/ops/expirations/counts?from=${at}&to=${at + 1}`),
      200,
    );
    expect(first).toMatchObject({ has_more: true });
    expect(first.share_read).toBeLessThan(1);
    expectRefusal(
      await on.holdfast.admin(
        'GET',
        `/ops/expirations/counts?from=${at}&to=${at}&cursor=${first.next_cursor}`,
      ),
      400,
      'INVALID_REQUEST',
    );
  });

  test('are for operators, and an invalid query is refused', async () => {
    expectRefusal(
      await on.holdfast.call('GET', '/ops/expirations', { key: tenants[0]?.key }),
      401,
      'UNAUTHORIZED',
    );
    for (const query of [
      'from=yesterday',
      'from=2&to=1',
      'limit=0',
      'limit=1001',
      'state=ACTIVE',
      'scope=workspace:x',
      'format=xml',
      'to=2026-02-31T00:00:00Z',
    ]) {
      expectRefusal(await on.holdfast.admin('GET', `/ops/expirations?${query}`), 400, 'INVALID_REQUEST');
    }
  });
});
