import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  commitOf,
  eventOf,
  extendOf,
  type Operation,
  releaseOf,
  reserveOf,
  sendAlone,
  sendBatch,
} from '../support/batches.js';
import { expectStatus, Holdfast, newKey, type Json, type TestTenant } from '../support/holdfast.js';
import { earlyInMinute } from '../support/server-time.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';

let redis: Store;
let holdfast: Holdfast;
let stored: StoredHolds;

beforeAll(async () => {
  // A store of its own: requests of another file could expire the holds that this file makes overdue.
  redis = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
});

afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await redis.stop();
});

/** A tenant with a budget of 1,000 tokens, and an operation of it. */
interface Case {
  readonly tenant: TestTenant;
  readonly operation: Operation;
}

type Prepare = (tenant: TestTenant) => Operation | Promise<Operation>;

async function prepared(prepare: Prepare, settings: Record<string, unknown> = {}): Promise<Case> {
  const tenant = await holdfast.createTenant(settings);
  await holdfast.createBudget(tenant, '', 1000);
  return { tenant, operation: await prepare(tenant) };
}

async function hold(tenant: TestTenant, more: Record<string, unknown> = {}): Promise<string> {
  return expectStatus(await holdfast.reserve(tenant, 10, more), 200).reservation_id as string;
}

async function sent(tenant: TestTenant, operation: Operation): Promise<Operation> {
  await sendAlone(holdfast, tenant, operation);
  return operation;
}

const changed = (operation: Operation, more: Record<string, unknown>): Operation => ({
  ...operation,
  body: { ...(operation.body as object), ...more },
});

/** The text without ids and times, in which two equal requests of two tenants differ. */
function comparable(text: string, { id }: TestTenant): string {
  return text
    .replaceAll(id, 'TENANT')
    .replace(/"(rsv|evn|req|pol)_\w+"/g, '"$1"')
    .replace(/"trace_id":"[0-9a-f]{32}"/g, '"trace_id":""')
    .replace(/"(expires_at_ms|remaining_ttl_ms|ends_at_ms|retry_after_ms)":\d+/g, '"$1":0')
    .replace(/retry in \d+ s/g, 'retry in 0 s');
}

/** The text of the body of each result, as it was sent. */
function textsOf(answer: { readonly text: string; readonly body: Json }): string[] {
  const pieces = answer.text.slice('{"results":['.length, -']}'.length).split(/,?\{"status":\d{3},/);
  return pieces
    .slice(1)
    .map((piece) => piece.replace(/^"retry_after_s":\d+,/, '').slice('"body":'.length, -1));
}

const LONG_ID = `rsv_${'a'.repeat(125)}`;
const UNKNOWN_ID = 'rsv_00aaaaaaaaaaaaaaaa';
const minute = { max_reservations_per_minute: 1 };

const CASES: readonly [name: string, status: number, prepare: Prepare, settings?: Record<string, unknown>][] =
  [
    ['a reserve that is granted', 200, (tenant) => reserveOf(tenant, 10)],
    ['a reserve that is repeated', 200, (tenant) => sent(tenant, reserveOf(tenant, 10))],
    ['a dry run', 200, (tenant) => reserveOf(tenant, 10, { dry_run: true })],
    ['a dry run that is denied', 200, (tenant) => reserveOf(tenant, 2000, { dry_run: true })],
    ['a reserve of more than remains', 409, (tenant) => reserveOf(tenant, 2000)],
    [
      'a reserve with the key of another one',
      409,
      async (tenant) => changed(await sent(tenant, reserveOf(tenant, 10)), { ttl_ms: 5000 }),
    ],
    [
      'a reserve in a unit without a budget',
      400,
      (tenant) => reserveOf(tenant, 1, { estimate: { unit: 'CREDITS', amount: 1 } }),
    ],
    ['a reserve for another tenant', 403, (tenant) => reserveOf({ ...tenant, id: 'another' }, 10)],
    ['a reserve of a negative amount', 400, (tenant) => reserveOf(tenant, -1)],
    ['a reserve with an unknown member', 400, (tenant) => reserveOf(tenant, 1, { no_such_member: 1 })],
    ['a reserve without a key', 400, (tenant) => reserveOf(tenant, 1, { idempotency_key: undefined })],
    ['a reserve whose body is a list', 400, () => ({ op: 'reserve', body: [1] })],
    ['a reserve whose body is null', 400, () => ({ op: 'reserve', body: null })],
    [
      'a reserve beyond the rate of a policy',
      429,
      async (tenant) => {
        const scope_pattern = `tenant:${tenant.id}`;
        const policy = { tenant_id: tenant.id, name: 'slow', scope_pattern, rate_limits: minute };
        expectStatus(await holdfast.admin('POST', '/v1/admin/policies', policy), 201);
        await hold(tenant);
        return reserveOf(tenant, 10);
      },
    ],
    [
      'a reserve in a frozen budget',
      409,
      async (tenant) => {
        const path = `/v1/admin/budgets/freeze?scope=tenant:${tenant.id}&unit=TOKENS`;
        expectStatus(await holdfast.admin('POST', path, { reason: 'a test' }), 200);
        return reserveOf(tenant, 10);
      },
    ],
    ['a commit', 200, async (tenant) => commitOf(await hold(tenant), 7, { metadata: { run: 2n ** 60n } })],
    ['a commit that is repeated', 200, async (tenant) => sent(tenant, commitOf(await hold(tenant), 7))],
    ['a commit of more than was held', 200, async (tenant) => commitOf(await hold(tenant), 17)],
    [
      'a commit of more than was held, under REJECT',
      409,
      async (tenant) => commitOf(await hold(tenant, { overage_policy: 'REJECT' }), 17),
    ],
    [
      'a commit with the key of another one',
      409,
      async (tenant) => {
        const commit = await sent(tenant, commitOf(await hold(tenant), 7));
        return changed(commit, { actual: { unit: 'TOKENS', amount: 8 } });
      },
    ],
    [
      'a commit in another unit',
      400,
      async (tenant) => commitOf(await hold(tenant), 7, { actual: { unit: 'CREDITS', amount: 7 } }),
    ],
    ['a commit of an unknown reservation', 404, () => commitOf(UNKNOWN_ID, 7)],
    ['a commit of an id longer than any', 400, () => commitOf(LONG_ID, 7)],
    [
      'a commit of what is committed',
      409,
      async (tenant) => {
        const id = await hold(tenant);
        await sent(tenant, commitOf(id, 1));
        return commitOf(id, 7);
      },
    ],
    [
      'a commit that is too late',
      410,
      async (tenant) => {
        const id = await hold(tenant);
        await stored.expireIn(id, -3_600_000);
        return commitOf(id, 7);
      },
    ],
    ['a release', 200, async (tenant) => releaseOf(await hold(tenant), { reason: 'not needed' })],
    ['a release that is repeated', 200, async (tenant) => sent(tenant, releaseOf(await hold(tenant)))],
    ['a release of an unknown reservation', 404, () => releaseOf(UNKNOWN_ID)],
    ['an extension', 200, async (tenant) => extendOf(await hold(tenant))],
    [
      'an extension by too much',
      400,
      async (tenant) => extendOf(await hold(tenant), { extend_by_ms: 86_400_001 }),
    ],
    [
      'an extension too many',
      409,
      async (tenant) => extendOf(await hold(tenant)),
      { max_reservation_extensions: 0 },
    ],
    ['an event', 201, (tenant) => eventOf(tenant, 10)],
    ['an event that is repeated', 201, (tenant) => sent(tenant, eventOf(tenant, 10))],
    ['an event that is capped', 201, (tenant) => eventOf(tenant, 2000)],
    ['an event of more than remains', 409, (tenant) => eventOf(tenant, 2000, { overage_policy: 'REJECT' })],
    ['an event without a subject', 400, (tenant) => eventOf(tenant, 1, { subject: {} })],
  ];

describe('a result of a batch', () => {
  test.each(CASES)('is that of the single request: %s', async (...[, status, prepare, settings]) => {
    await (status === 429 ? earlyInMinute(stored.redis) : undefined);
    const [one, other] = [await prepared(prepare, settings), await prepared(prepare, settings)];
    const alone = await sendAlone(holdfast, one.tenant, one.operation);
    expect(alone.status).toBe(status);
    const answer = await sendBatch(holdfast, other.tenant, [
      releaseOf('rsv_00bbbbbbbbbbbbbbbb'),
      other.operation,
      releaseOf('rsv_00cccccccccccccccc'),
    ]);
    const results = expectStatus(answer, 200).results as Json[];
    expect(results.map((result) => result.status)).toEqual([404, status, 404]);
    expect(comparable(textsOf(answer)[1] as string, other.tenant)).toBe(comparable(alone.text, one.tenant));
    expect(results[1].retry_after_s !== undefined).toBe(alone.headers.has('retry-after'));
    expect(await holdfast.balances(other.tenant)).toEqual(
      JSON.parse(
        JSON.stringify(await holdfast.balances(one.tenant)).replaceAll(one.tenant.id, other.tenant.id),
      ),
    );
  });

  test('of a closed tenant is that of the single request', async () => {
    const { tenant } = await prepared((owner) => reserveOf(owner, 1));
    const operations = [reserveOf(tenant, 1), commitOf(await hold(tenant), 1), eventOf(tenant, 1)];
    expectStatus(await holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }), 200);
    const answer = await sendBatch(holdfast, tenant, operations);
    const alone = await Promise.all(operations.map((operation) => sendAlone(holdfast, tenant, operation)));
    if (answer.status === 200) {
      expect(textsOf(answer).map((text) => comparable(text, tenant))).toEqual(
        alone.map(({ text }) => comparable(text, tenant)),
      );
    } else {
      expect(alone.map(({ status }) => status)).toEqual(alone.map(() => answer.status));
    }
  });

  test.each([
    ['reservations:create', [200, 403, 403, 403, 403]],
    ['reservations:commit', [403, 200, 403, 403, 201]],
    ['reservations:release', [403, 403, 200, 403, 403]],
    ['reservations:extend', [403, 403, 403, 200, 403]],
    ['balances:read', [403, 403, 403, 403, 403]],
  ])('needs the permission of its operation: a key with %s', async (permission, statuses) => {
    const { tenant } = await prepared((owner) => reserveOf(owner, 1));
    const key = await holdfast.createKey(tenant.id, { permissions: [permission] });
    const operations = [
      reserveOf(tenant, 10),
      commitOf(await hold(tenant), 10),
      releaseOf(await hold(tenant)),
      extendOf(await hold(tenant)),
      eventOf(tenant, 10),
    ];
    const answer = await sendBatch(holdfast, { key }, operations);
    const alone = await Promise.all(operations.map((operation) => sendAlone(holdfast, { key }, operation)));
    const results = expectStatus(answer, 200).results as Json[];
    expect(results.map(({ status }) => status as number)).toEqual(statuses);
    for (const [index, { status, text }] of alone.entries()) {
      if (status === 403) {
        expect(comparable(textsOf(answer)[index] as string, tenant)).toBe(comparable(text, tenant));
      }
    }
  });

  test('obeys the scope filter of the key', async () => {
    const { tenant } = await prepared((owner) => reserveOf(owner, 1));
    const key = await holdfast.createKey(tenant.id, { scope_filter: ['agent:mine'] });
    const [mine, other] = [{ agent: 'mine' }, { agent: 'other' }].map((subject) => ({ subject }));
    const answer = await sendBatch(holdfast, { key }, [
      reserveOf(tenant, 1, mine),
      reserveOf(tenant, 1, other),
      commitOf(await hold(tenant, mine), 1),
      commitOf(await hold(tenant, other), 1),
      releaseOf(await hold(tenant, other)),
      extendOf(await hold(tenant, other)),
      eventOf(tenant, 1, mine),
      eventOf(tenant, 1, other),
    ]);
    expect(
      (expectStatus(answer, 200).results as Json[]).map(
        ({ status, body }) => [status, body.error] as unknown,
      ),
    ).toEqual([
      [200, undefined],
      [403, 'FORBIDDEN'],
      [200, undefined],
      [403, 'FORBIDDEN'],
      [403, 'FORBIDDEN'],
      [403, 'FORBIDDEN'],
      [201, undefined],
      [403, 'FORBIDDEN'],
    ]);
  });
});

test('fifty results are in the order of their operations, and each operation takes effect once', async () => {
  const { tenant } = await prepared((owner) => reserveOf(owner, 1));
  const held = await Promise.all(Array.from({ length: 15 }, () => hold(tenant)));
  const operations = Array.from({ length: 50 }, (_, index): Operation => {
    const id = held[Math.floor(index / 5) + (index % 5 > 2 ? 10 : 0)] as string;
    switch (index % 5) {
      case 0:
        return reserveOf(tenant, index, { metadata: { index } });
      case 1:
        return eventOf(tenant, index);
      case 2:
        return commitOf(id, index / 10);
      default:
        return index < 25 ? (index % 5 === 3 ? releaseOf(id) : extendOf(newKey())) : reserveOf(tenant, index);
    }
  }).map((operation) =>
    operation.op === 'commit' ? changed(operation, { actual: { unit: 'TOKENS', amount: 3 } }) : operation,
  );
  const answer = await sendBatch(holdfast, tenant, operations);
  const results = expectStatus(answer, 200).results as Json[];
  expect(results).toHaveLength(50);
  expect(
    results.map(({ status, body }, index) => {
      const { op } = operations[index] as Operation;
      const amount = body.reserved?.amount ?? body.charged?.amount ?? body.released?.amount;
      return [index, op, status, op === 'reserve' ? amount : undefined] as unknown;
    }),
  ).toEqual(
    operations.map(({ op }, index) => [
      index,
      op,
      op === 'event' ? 201 : op === 'extend' ? 404 : 200,
      op === 'reserve' ? index : undefined,
    ]),
  );
  const again = expectStatus(await sendBatch(holdfast, tenant, operations), 200).results as Json[];
  expect(again.map(({ body }) => body.reservation_id ?? body.event_id ?? body.status)).toEqual(
    results.map(({ body }) => body.reservation_id ?? body.event_id ?? body.status),
  );
  const reserved = operations.reduce((sum, { op }, index) => sum + (op === 'reserve' ? index : 0), 0);
  const charged = operations.reduce((sum, { op }, index) => sum + (op === 'event' ? index : 0), 0);
  const kept = held.length - operations.filter(({ op }) => op === 'commit' || op === 'release').length;
  expect(Object.values(await holdfast.balances(tenant))[0]).toBe(
    `${1000 - reserved - charged - kept * 10 - 30} ${reserved + kept * 10} ${charged + 30} 0`,
  );
});
