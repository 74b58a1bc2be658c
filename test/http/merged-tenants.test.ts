import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { reservationKey } from '../../src/redis/keyspace.js';
import { type Answer, expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

/** How the ids of the operator's tenants begin, but for one of them. */
const TEAM = 'team-';

interface Owner {
  readonly id: string;
  readonly key: string;
  readonly live: string;
  readonly quarantined: string;
}

async function expireAt(id: string, offsetMs: number): Promise<void> {
  await on.holds.expireIn(id, offsetMs);
}

/** A tenant with something in every list. */
async function makeOwner(tenant: TestTenant): Promise<Owner> {
  await on.holdfast.createBudget(tenant, '', 1000);
  await on.holdfast.createBudget(tenant, '/workspace:prod', 1000);
  const answer = await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, {
    url: PUBLIC_URL,
    event_types: ['budget.frozen'],
  });
  expectStatus(answer, 201);
  const live = await on.holdfast.hold(tenant, 1);
  expectRefusal(await on.holdfast.reserve(tenant, 5000), 409, 'BUDGET_EXCEEDED');
  const [expired, quarantined] = [await on.holdfast.hold(tenant, 2), await on.holdfast.hold(tenant, 3)];
  await expireAt(expired, -60_000);
  await expireAt(quarantined, -60_000);
  await on.holds.set(quarantined, { am: 'many' });
  return { ...tenant, live, quarantined };
}

async function tenantOfTeam(name: string): Promise<TestTenant> {
  const id = `${TEAM}${name}`;
  const body = { tenant_id: id, name: id };
  expectStatus(await on.holdfast.admin('POST', '/v1/admin/tenants', body), 201);
  return { id, key: await on.holdfast.createKey(id) };
}

describe('an operator of several tenants that names none of them', () => {
  let mine: Owner[];
  let theirs: Owner[];
  let operatorKey: string;
  beforeAll(async () => {
    const own = [await on.holdfast.createTenant(), await tenantOfTeam('red'), await tenantOfTeam('blue')];
    mine = await Promise.all(own.map(makeOwner));
    theirs = await Promise.all([
      makeOwner(await on.holdfast.createTenant()),
      makeOwner(await on.holdfast.createTenant()),
    ]);
    await on.holdfast.app.get(ExpiryService).sweep();
    const body = { name: 'several', role: 'admin', tenants: [mine[0]?.id, `${TEAM}*`] };
    operatorKey = expectStatus(await on.holdfast.admin('POST', '/ops/operators', body), 201).key_secret;
  });

  const ask = (path: string): Promise<Answer> =>
    on.holdfast.call('GET', path, { headers: { 'x-admin-api-key': operatorKey } });

  /** All pages of a list. */
  async function all(path: string, rows: string): Promise<Json[]> {
    const found: Json[] = [];
    let cursor = '';
    do {
      const page = expectStatus(await ask(`${path}${path.includes('?') ? '&' : '?'}limit=2${cursor}`), 200);
      found.push(...page[rows]);
      cursor = page.has_more === true ? `&cursor=${encodeURIComponent(page.next_cursor as string)}` : '';
    } while (cursor !== '');
    return found;
  }

  const ids = (owners: readonly Owner[]): Set<string> => new Set(owners.map(({ id }) => id));

  test.each([
    ['/v1/admin/budgets', 'ledgers', 6],
    ['/v1/admin/budgets?sort_by=scope', 'ledgers', 6],
    ['/v1/admin/api-keys', 'keys', 3],
    ['/v1/admin/webhooks', 'subscriptions', 3],
    ['/v1/admin/events', 'events', undefined],
    ['/v1/admin/events?sort_by=event_type', 'events', undefined],
    ['/v1/admin/audit/logs', 'logs', undefined],
    ['/v1/admin/audit/logs?sort_by=operation', 'logs', undefined],
    ['/ops/requests', 'requests', 3],
    ['/ops/holds', 'holds', 3],
    ['/ops/expirations', 'expirations', 3],
    ['/ops/expirations?state=quarantined', 'expirations', 3],
  ] as const)('has what is of all of them, and nothing else, in %s', async (path, rows, count) => {
    const found = await all(path, rows);
    expect(new Set(found.map((row) => row.tenant_id as string))).toEqual(ids(mine));
    expect(found.length).toBe(count ?? found.length);
    const names = found.map((row) => JSON.stringify(row));
    expect(new Set(names).size).toBe(names.length);
  });

  test.each(['/v1/admin/events', '/ops/requests', '/ops/holds', '/v1/admin/budgets', '/ops/expirations'])(
    'goes on with no cursor of somebody else in %s',
    async (path) => {
      const { next_cursor: cursor } = expectStatus(await on.holdfast.admin('GET', `${path}?limit=1`), 200);
      expectRefusal(
        await ask(`${path}?limit=1&cursor=${encodeURIComponent(cursor as string)}`),
        400,
        'INVALID_REQUEST',
      );
    },
  );

  test('exports and counts only their expirations', async () => {
    const csv = (await ask('/ops/expirations?format=csv')).text.trim().split('\r\n');
    expect(csv).toHaveLength(1 + mine.length);
    theirs.forEach(({ id }) => expect(csv.join('\n')).not.toContain(id));
    const to = Date.now() + 60_000;
    const window = `from=${to - 3_600_000}&to=${to}&slot_ms=60000`;
    const counted = async (asked: (path: string) => Promise<Answer>): Promise<number> => {
      const { slots } = expectStatus(await asked(`/ops/expirations/counts?${window}`), 200);
      return (slots as Json[]).reduce((sum, { expirations }) => sum + (expirations as number), 0);
    };
    expect(await counted(ask)).toBe(mine.length);
    expect(await counted((path) => on.holdfast.admin('GET', path))).toBe(mine.length + theirs.length);
  });

  test('has their holds in quarantine, and verifies their budgets', async () => {
    const entries = await all('/ops/quarantine', 'entries');
    expect(entries.map(({ reservation_id: id }) => id as string).sort()).toEqual(
      mine.map(({ quarantined }) => quarantined).sort(),
    );
    expect(expectStatus(await ask('/ops/verify'), 200)).toMatchObject({ tenants: 3, budgets: 6 });
    const [other] = theirs;
    expectRefusal(await ask(`/ops/verify?tenant=${other?.id}`), 404, 'TENANT_NOT_FOUND');
  });

  test('gets the same of one that it names, and is refused what is of another', async () => {
    for (const path of ['/ops/holds', '/ops/requests', '/v1/admin/api-keys', '/ops/expirations']) {
      const rows = Object.values(expectStatus(await ask(`${path}?tenant_id=${mine[1]?.id}`), 200)).find(
        (part) => Array.isArray(part),
      ) as Json[];
      expect(new Set(rows.map((row) => row.tenant_id as string))).toEqual(new Set([mine[1]?.id]));
      expectRefusal(await ask(`${path}?tenant_id=${theirs[0]?.id}`), 403, 'INSUFFICIENT_PERMISSIONS');
    }
  });

  test('has their sums, and none of another tenant', async () => {
    const path = `/ops/tenant-sums?tenant_ids=${[...mine, ...theirs].map(({ id }) => id).join(',')}`;
    const asked = async (by: (path: string) => Promise<Answer>): Promise<Json[]> =>
      expectStatus(await by(path), 200).tenants;
    const own = await asked(ask);
    expect(own.map(({ tenant_id: id }) => id as string)).toEqual(mine.map(({ id }) => id));
    const all = await asked((one) => on.holdfast.admin('GET', one));
    expect(all.map(({ tenant_id: id }) => id as string)).toEqual([...mine, ...theirs].map(({ id }) => id));
    // What is below the budget of a tenant is in it already. The third hold is in quarantine, and still held.
    const sums = { unit: 'TOKENS', allocated: 1000, spent: 0, reserved: 4, debt: 0, remaining: 996 };
    expect(all.map((row) => row.sums as Json[])).toEqual(all.map(() => [sums]));
  });

  test('names nothing of another tenant as left out', async () => {
    const other = theirs[0] as Owner;
    const path = `/v1/admin/api-keys?tenant_id=${other.id}`;
    const [{ key_id: id }] = expectStatus(await on.holdfast.admin('GET', path), 200).keys as [Json];
    const key = on.stored.apiKeyKey(id as string);
    await on.stored.redis.hset(key, 'status', 'DAMAGED');
    const skipped = ({ headers }: Answer): string | null => headers.get('x-holdfast-skipped-records');
    expect(skipped(await on.holdfast.admin('GET', path))).toContain(id);
    expect(skipped(await ask('/v1/admin/api-keys'))).toBeNull();
    await on.stored.redis.hset(key, 'status', 'ACTIVE');

    const { id: owner, live } = theirs[1] as Owner;
    await on.stored.redis.set(reservationKey(on.holds.tagOfTenant(owner), live), 'damaged');
    expect(skipped(await on.holdfast.admin('GET', '/ops/holds'))).toContain(live);
    expect(skipped(await ask('/ops/holds'))).toBeNull();
  });

  test('finds a key of theirs by its secret, and none of another tenant', async () => {
    const bySecret = (secret: string): Promise<Answer> => {
      const hash = createHash('sha256').update(secret).digest('base64url');
      return ask(`/ops/api-keys/${encodeURIComponent(`${secret.slice(0, 'cyc_live_00'.length)}:${hash}`)}`);
    };
    const found = await Promise.all(mine.map(({ key }) => bySecret(key)));
    expect(found.map((answer) => expectStatus(answer, 200).tenant_id as string)).toEqual(
      mine.map(({ id }) => id),
    );
    expectRefusal(await bySecret((theirs[0] as Owner).key), 404, 'NOT_FOUND');
  });
});
