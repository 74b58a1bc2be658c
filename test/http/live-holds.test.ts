import { beforeAll, describe, expect, test } from '@jest/globals';
import { reservationKey, tagOfReservationId, ttlIndexKey } from '../../src/redis/keyspace.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

const page = async (query: string): Promise<Json> =>
  expectStatus(await on.holdfast.admin('GET', `/ops/holds?${query}`), 200);
const idsOf = ({ holds }: Json): string[] => holds.map((hold: Json) => hold.reservation_id as string);

describe('the live holds of all tenants', () => {
  let tenants: TestTenant[];
  /** By when they expire. */
  const ids: string[] = [];
  beforeAll(async () => {
    tenants = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
    for (const tenant of tenants) {
      await on.holdfast.createBudget(tenant, '', 100);
    }
    for (let count = 0; count < 7; count += 1) {
      const id = await on.holdfast.hold(tenants[count % 2] as TestTenant, count + 1);
      await on.holds.expireIn(id, 60_000 * count);
      ids.push(id);
    }
    // Three of them at the same instant, in two partitions.
    const indexOf = (id: string): string => ttlIndexKey(tagOfReservationId(id, 64) as string);
    const deadline = (await on.stored.redis.zscore(indexOf(ids[4] as string), ids[4] as string)) as string;
    for (const id of ids.slice(4)) {
      await on.stored.redis.zadd(indexOf(id), deadline, id);
    }
  });

  test('are listed by when they expire, with owner, scope and amount', async () => {
    const { holds, has_more: hasMore, examined } = await page('limit=50');
    expect({ hasMore, examined }).toEqual({ hasMore: false, examined: 7 });
    expect(idsOf({ holds }).slice(0, 4)).toEqual(ids.slice(0, 4));
    expect(new Set(idsOf({ holds }))).toEqual(new Set(ids));
    expect(holds[1]).toEqual({
      reservation_id: ids[1],
      tenant_id: tenants[1]?.id,
      scope: `tenant:${tenants[1]?.id}`,
      amount: { unit: 'TOKENS', amount: 2 },
      created_at_ms: expect.any(Number),
      expires_at_ms: expect.any(Number),
      reclaim_at_ms: expect.any(Number),
    });
    const deadlines = holds.map((hold: Json) => hold.reclaim_at_ms as number);
    expect(deadlines).toEqual(deadlines.toSorted((one: number, other: number) => one - other));
  });

  test('are listed once each, page by page, also where deadlines are equal', async () => {
    const all = idsOf(await page('limit=50'));
    for (const limit of [1, 2, 3]) {
      const read: string[] = [];
      let cursor = '';
      do {
        const part = await page(`limit=${limit}${cursor}`);
        expect(part.holds.length).toBeLessThanOrEqual(limit);
        read.push(...idsOf(part));
        cursor = part.has_more === true ? `&cursor=${encodeURIComponent(part.next_cursor)}` : '';
      } while (cursor !== '');
      expect(read).toEqual(all);
    }
  });

  test('are those of one tenant, on request, and no longer those that have ended', async () => {
    const [first] = tenants as [TestTenant];
    expect(new Set(idsOf(await page(`tenant_id=${first.id}`)))).toEqual(
      new Set(ids.filter((_, index) => index % 2 === 0)),
    );
    const ended = await on.holdfast.hold(first, 1);
    const path = `/v1/reservations/${ended}/release`;
    const body = { idempotency_key: 'release-it' };
    expectStatus(await on.holdfast.call('POST', path, { key: first.key, body }), 200);
    expect(idsOf(await page(`tenant_id=${first.id}`))).not.toContain(ended);
  });

  test('are those that should have expired, on request', async () => {
    const late = ids[3] as string;
    await on.holds.expireIn(late, -60_000);
    expect(idsOf(await page('overdue=true'))).toContain(late);
    expect(idsOf(await page('overdue=true'))).not.toContain(ids[6]);
  });

  test('are not counted for operators who may not know of them, nor are those of a budget', async () => {
    const [mine] = tenants as [TestTenant];
    const body = { name: 'of-some-holds', role: 'viewer', tenants: [mine.id] };
    const operator = await on.holdfast.admin('POST', '/ops/operators', body);
    const theirs = { 'x-admin-api-key': expectStatus(operator, 201).key_secret as string };
    // Of another tenant in the partition, with a record that cannot be read.
    const index = ttlIndexKey(on.holds.tagOfTenant(mine.id));
    const foreign = `rsv_${on.holds.tagOfTenant(mine.id).slice(2, 4)}0000000000foreign`;
    await on.stored.redis.zadd(index, 1, foreign);
    await on.stored.redis.set(reservationKey(on.holds.tagOfTenant(mine.id), foreign), 'damaged');
    for (const path of ['/ops/holds?limit=50', `/ops/budgets/holds?scope=tenant:${mine.id}&unit=TOKENS`]) {
      const all = await on.holdfast.admin('GET', path);
      const some = await on.holdfast.call('GET', path, { headers: theirs });
      const own = expectStatus(some, 200).holds.length as number;
      expect(some.body).toMatchObject({ examined: own, has_more: false });
      expect(some.headers.get('x-holdfast-skipped-records') ?? '').not.toContain(foreign);
      expect(expectStatus(all, 200).examined).toBeGreaterThan(own);
      expect(all.headers.get('x-holdfast-skipped-records')).toContain(foreign);
    }
    await on.stored.redis.zrem(index, foreign);
  });

  test('leave out damaged records, and name them', async () => {
    await on.holds.set(ids[6] as string, { am: 'x' });
    const answer = await on.holdfast.admin('GET', '/ops/holds');
    expect(idsOf(expectStatus(answer, 200))).not.toContain(ids[6]);
    expect(answer.headers.get('x-holdfast-skipped-records')).toContain(ids[6]);
  });

  test('are for operators only, and a cursor belongs to its list', async () => {
    const key = (tenants[0] as TestTenant).key;
    expectRefusal(await on.holdfast.call('GET', '/ops/holds', { key }), 401, 'UNAUTHORIZED');
    const { next_cursor: cursor } = await page('limit=1');
    const other = `/ops/holds?overdue=true&cursor=${encodeURIComponent(cursor)}`;
    expectRefusal(await on.holdfast.admin('GET', other), 400, 'INVALID_REQUEST');
  });
});
