import { beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { makeHolds, setCreation } from '../support/bulk-holds.js';
import { expectStatus, newKey, type Json, type TestTenant } from '../support/holdfast.js';
import { expectBadParameter, ReservationLists } from '../support/reservation-lists.js';
import { commandCounts } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const lists = new ReservationLists(on);

describe('order', () => {
  let tenant: TestTenant;
  let rows: Json[];
  beforeAll(async () => {
    tenant = await lists.newTenant(9223372036854775807n);
    const subjects = [
      { agent: 'z' },
      { workspace: 'b' },
      { agent: 'a' },
      { agent: 'a' },
      { workspace: 'b', agent: 'a' },
      { agent: 'a-b' },
    ];
    for (const [index, subject] of subjects.entries()) {
      const amount = [5n, 9007199254740993n, 5n, 40n, 9007199254740992n, 40n][index] as bigint;
      const id = await lists.hold(tenant, { subject, ttl_ms: [3_500_000, 3_600_000][index % 2] }, amount);
      await (index % 3 === 0 ? on.holdfast.settle(tenant, 'release', id) : Promise.resolve());
    }
    rows = (await lists.page(tenant)).reservations;
    const holds = lists.stored();
    const tag = holds.tagOfTenant(tenant.id);
    const [first, second, third] = rows.map((row) => row.created_at_ms as number) as [number, number, number];
    await setCreation(
      holds.redis,
      tag,
      tenant.id,
      new Map(
        rows.map((row, index) => [
          row.reservation_id,
          [first, first, second, second, second, third][index] as number,
        ]),
      ),
    );
    rows = (await lists.page(tenant)).reservations;
    holds.close();
  });

  const VALUES: Record<string, (row: Json) => string | bigint> = {
    reservation_id: (row) => row.reservation_id,
    tenant: (row) => row.subject.tenant,
    // As a tree: what is below a scope comes before its next sibling.
    scope_path: (row) => (row.scope_path as string).replaceAll('/', '\u0001'),
    status: (row) => row.status,
    reserved: (row) => BigInt(row.reserved.amount),
    created_at_ms: (row) => BigInt(row.created_at_ms),
    expires_at_ms: (row) => BigInt(row.expires_at_ms),
  };

  function sorted(by: string, dir: string): string[] {
    const value = VALUES[by] as (row: Json) => string | bigint;
    const compare = (a: Json, b: Json): number => {
      if (value(a) !== value(b)) {
        return value(a) < value(b) === (dir === 'asc') ? -1 : 1;
      }
      return a.reservation_id < b.reservation_id ? -1 : 1;
    };
    return [...rows].sort(compare).map((row) => row.reservation_id);
  }

  test.each(Object.keys(VALUES).flatMap((by) => ['asc', 'desc'].map((dir): [string, string] => [by, dir])))(
    'by %s %s, rows with the same value by ascending id, in pages of every size',
    async (by, dir) => {
      for (const limit of [1, 2, 4, 5, 6]) {
        const found = await lists.walk(tenant, `sort_by=${by}&sort_dir=${dir}&limit=${limit}`);
        expect([limit, found.map((row) => row.reservation_id)]).toEqual([limit, sorted(by, dir)]);
      }
    },
  );

  test('is by creation and descending unless asked otherwise, whatever the case of the words', async () => {
    shows('sort defaults', 'listReservations');
    expect(await lists.idsOf(tenant)).toEqual(sorted('created_at_ms', 'desc'));
    expect(await lists.idsOf(tenant, 'sort_by=STATUS')).toEqual(sorted('status', 'desc'));
    expect(await lists.idsOf(tenant, 'sort_by=Reserved&sort_dir=ASC')).toEqual(sorted('reserved', 'asc'));
    expect(await lists.idsOf(tenant, 'sort_dir=asc')).toEqual(sorted('created_at_ms', 'asc'));
  });

  test('works together with a filter', async () => {
    const released = rows.filter((row) => row.status === 'RELEASED').map((row) => row.reservation_id);
    expect(await lists.idsOf(tenant, 'sort_by=scope_path&sort_dir=asc&status=released')).toEqual(
      sorted('scope_path', 'asc').filter((id) => released.includes(id)),
    );
  });

  test.each(['sort_by=reserved', 'sort_by=scope_path&sort_dir=asc', 'sort_dir=asc', 'sort_by=status'])(
    'a cursor of %s continues in its order, whether or not the order is repeated',
    async (order) => {
      shows('cursor order');
      const expected = await lists.idsOf(tenant, order);
      const { next_cursor: cursor } = await lists.page(tenant, `${order}&limit=2`);
      const repeated = new URLSearchParams(order);
      for (const again of [
        '',
        order,
        `sort_by=${repeated.get('sort_by') ?? 'created_at_ms'}`,
        `sort_dir=${repeated.get('sort_dir') ?? 'desc'}`,
      ]) {
        expect([again, await lists.idsOf(tenant, `${again}&cursor=${cursor}`)]).toEqual([
          again,
          expected.slice(2),
        ]);
      }
      const second = await lists.page(tenant, `limit=2&cursor=${cursor}`);
      expect(await lists.idsOf(tenant, `cursor=${second.next_cursor}`)).toEqual(expected.slice(4));
    },
  );

  test('a cursor continues only the query that returned it', async () => {
    shows('cursor questions');
    const other = await lists.newTenant();
    const forgeries = ['number', 'string', 'bigint'].flatMap((type) =>
      ['x', '1e400', '-'].map((text) => [type, text, 'rsv_0x']),
    );
    for (const [question, foreign] of [
      [
        'limit=2',
        ['sort_by=status', 'sort_dir=asc', 'status=ACTIVE', 'from=2000-01-01T00:00:00Z', 'agent=a'],
      ],
      [
        'limit=2&sort_by=reserved',
        [
          'status=ACTIVE',
          'sort_by=expires_at_ms',
          'sort_dir=asc',
          'sort_by=created_at_ms',
          'sort_by=reserved&sort_dir=asc',
          'sort_by=reserved&expires_to=2999-01-01T00:00:00Z',
          'sort_by=reserved&finalized_from=2000-01-01T00:00:00Z',
        ],
      ],
    ] as const) {
      const { next_cursor: cursor } = await lists.page(tenant, question);
      expect(await lists.idsOf(tenant, `${question}&cursor=${cursor}`)).toHaveLength(2);
      expect(
        await lists.idsOf(
          tenant,
          `${question}&cursor=${cursor}&tenant=${tenant.id}&limit=5`.replace('limit=2&', ''),
        ),
      ).toHaveLength(4);
      for (const query of foreign) {
        expectBadParameter(await lists.list(tenant, `${query}&limit=2&cursor=${cursor}`), 'cursor');
      }
      expectBadParameter(await lists.list(other, `${question}&cursor=${cursor}`), 'cursor');
      const [asked, , , , ...order] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as [
        string,
        ...string[],
      ];
      for (const parts of forgeries) {
        const forged = Buffer.from(JSON.stringify([asked, ...parts, ...order])).toString('base64url');
        expectBadParameter(await lists.list(tenant, `${question}&cursor=${forged}`), 'cursor');
      }
    }
    expect(await lists.idsOf(tenant, 'limit=2&cursor=')).toHaveLength(2);
  });
});

describe('many reservations', () => {
  test('2,500 that match are all returned by a sorted walk', async () => {
    const tenant = await lists.newTenant();
    const holds = lists.stored();
    const made = Array.from({ length: 2500 }, (_, index) => ({
      amount: index % 7,
      subject: { agent: `a${index % 3}` },
    }));
    const ids = await makeHolds(holds.redis, holds.tagOfTenant(tenant.id), tenant.id, made);
    holds.close();
    const found = await lists.walk(tenant, 'sort_by=reserved&sort_dir=asc&limit=200');
    expect(found.map((row) => row.reservation_id)).toEqual(
      ids
        .map((id, index) => ({ id, amount: index % 7 }))
        .sort((a, b) => a.amount - b.amount || (a.id < b.id ? -1 : 1))
        .map(({ id }) => id),
    );
    const agents = await lists.walk(tenant, 'sort_by=scope_path&agent=a1&limit=200');
    expect(new Set(agents.map((row) => row.reservation_id))).toEqual(
      new Set(ids.filter((_, index) => index % 3 === 1)),
    );
  });

  test('10,000 of which 100 were made in one millisecond are listed without gaps or repetitions in both directions', async () => {
    const tenant = await lists.newTenant();
    const holds = lists.stored();
    const tag = holds.tagOfTenant(tenant.id);
    const ids = await makeHolds(
      holds.redis,
      tag,
      tenant.id,
      Array.from({ length: 10_000 }, () => ({})),
    );
    const start = 1_700_000_000_000;
    const times = new Map(
      ids.map((id, index) => [id, start + (index >= 4950 && index < 5050 ? 5000 : index)]),
    );
    await setCreation(holds.redis, tag, tenant.id, times);
    holds.close();
    const time = (id: string): number => times.get(id) as number;
    for (const dir of ['asc', 'desc']) {
      const found = (await lists.walk(tenant, `sort_dir=${dir}&limit=199`)).map(
        (row) => row.reservation_id as string,
      );
      const expected = [...ids].sort(
        (a, b) => (time(a) - time(b)) * (dir === 'asc' ? 1 : -1) || (a < b ? -1 : 1),
      );
      expect(found).toEqual(expected);
    }
  });

  test('a page that finds few matches among many rows ends early with a cursor, and the pages still contain all', async () => {
    const tenant = await lists.newTenant();
    const holds = lists.stored();
    const oldest = await lists.hold(tenant, { idempotency_key: 'the oldest' });
    await makeHolds(
      holds.redis,
      holds.tagOfTenant(tenant.id),
      tenant.id,
      Array.from({ length: 20_500 }, () => ({})),
    );
    await on.holdfast.settle(tenant, 'release', oldest);
    const first = await lists.list(tenant, 'status=RELEASED');
    expect(expectStatus(first, 200)).toMatchObject({ reservations: [], has_more: true });
    expect(first.headers.get('x-holdfast-examined')).toBe('20000');
    expect((await lists.list(tenant)).headers.get('x-holdfast-examined')).toBeNull();
    expect((await lists.walk(tenant, 'status=RELEASED')).map((row) => row.reservation_id)).toEqual([oldest]);
    expect(await lists.idsOf(tenant, 'idempotency_key=the%20oldest')).toEqual([oldest]);
    holds.close();

    await on.holdfast.createBudget(tenant, '/workspace:rare', 10);
    const subject = { tenant: tenant.id, workspace: 'rare' };
    const rare = await lists.hold(tenant, { subject, ttl_ms: 3_600_000 });
    const holdsOf = async (more: string): Promise<Json> =>
      expectStatus(
        await on.holdfast.admin(
          'GET',
          `/ops/budgets/holds?scope=tenant:${tenant.id}/workspace:rare&unit=TOKENS${more}`,
        ),
        200,
      );
    const none = await holdsOf('');
    expect(none).toMatchObject({ holds: [], examined: 20_000, has_more: true });
    expect(await holdsOf(`&cursor=${none.next_cursor}`)).toMatchObject({
      holds: [{ reservation_id: rare }],
      has_more: false,
    });
  });
});

describe('the work of a list', () => {
  async function commandsOf(act: () => Promise<unknown>): Promise<Record<string, number>> {
    const before = await commandCounts(on.stored.redis);
    await act();
    const after = Object.entries(await commandCounts(on.stored.redis)).map(
      ([name, calls]) => [name, calls - (before[name] ?? 0)] as const,
    );
    return Object.fromEntries(after.filter(([, calls]) => calls > 0));
  }

  test('does not grow with what other tenants hold, and never scans', async () => {
    const tenant = await lists.newTenant();
    const ids: string[] = [];
    for (let count = 0; count < 5; count += 1) {
      ids.push(await lists.hold(tenant, { metadata: { count }, idempotency_key: newKey() }));
    }
    const holds = lists.stored();
    const tag = holds.tagOfTenant(tenant.id);
    const questions = [
      '',
      'sort_by=reserved',
      'status=ACTIVE&include=metadata',
      'idempotency_key=unknown',
      'sort_by=scope_path&sort_dir=asc&limit=2',
    ];
    const ask = async (): Promise<void> => {
      for (const query of questions) {
        expectStatus(await lists.list(tenant, query), 200);
      }
    };
    await ask();
    const others = Array.from({ length: 3 }, (_, index) => `other-${tenant.id}-${index}`);
    // Commands of the registry, of connections, replicas and Sentinels. Holdfast publishes nothing here.
    const noise = [
      'info',
      'publish',
      'cluster',
      'replconf',
      'fcall',
      'eval',
      'get',
      'ping',
      'hello',
      'client',
      'select',
      'command',
    ];
    const workOf = async (): Promise<Record<string, number>> => {
      const counts = await commandsOf(ask);
      expect(
        Object.keys(counts).filter((name) =>
          /^(scan|keys|sort|hscan|zscan|sscan|smembers|randomkey)$/.test(name),
        ),
      ).toEqual([]);
      return Object.fromEntries(
        Object.entries(counts).filter(([name]) => !noise.some((word) => name.startsWith(word))),
      );
    };
    const before = await workOf();
    for (const other of others) {
      await holds.redis.hset(`${tag}b:TOKENS:tenant:${other}`, {
        remaining: 100_000,
        reserved: 0,
        spent: 0,
        allocated: 100_000,
        debt: 0,
        overdraft_limit: 0,
        is_over_limit: 0,
        status: 'ACTIVE',
      });
      await makeHolds(
        holds.redis,
        tag,
        other,
        Array.from({ length: 2000 }, () => ({})),
      );
    }
    const after = await workOf();
    holds.close();
    // Authentication reads the time and two records once per second, whatever is listed.
    const listing = ({ hmget: _, time: __, ...counts }: Record<string, number>): Record<string, number> =>
      counts;
    expect(listing(after)).toEqual(listing(before));
    for (const name of ['hmget', 'time']) {
      expect(Math.abs((after[name] ?? 0) - (before[name] ?? 0))).toBeLessThanOrEqual(2 * questions.length);
    }
  });
});
