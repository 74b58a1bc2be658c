import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { FIELD } from '../../src/redis/script-types.js';
import {
  actionCounterIndexKey,
  actionCountersKey,
  apiKeyIndexKey,
  apiKeyKey,
  budgetIndexKey,
  budgetKey,
  cleanupIndexKey,
  deliveryIndexKey,
  deliveryKey,
  policyIndexKey,
  policyKey,
  reservationKey,
  tenantIndexKey,
  tenantKey,
  webhookIndexKey,
  webhookKey,
} from '../../src/redis/keyspace.js';
import {
  type Answer,
  expectStatus,
  newKey,
  newTenantId,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
/** What the headers of the answers since the last test began have named. */
let named: string[] = [];

function read(answer: Answer): Json {
  named.push(...(answer.headers.get('x-holdfast-skipped-records')?.split(', ') ?? []));
  return expectStatus(answer, 200);
}

const get = async (path: string): Promise<Json> => read(await on.holdfast.admin('GET', path));

/** One record that is damaged and one beside it that is not. */
interface Pair {
  readonly damaged: string;
  readonly whole: string;
  /** Of the damaged one, and of the index that has both. */
  readonly key: string;
  readonly index: string;
  readonly owner: TestTenant;
}

interface Reader {
  /** Ids that a list has, in both cases in the form of the pair. */
  readonly ids: (pair: Pair) => Promise<readonly string[]>;
}

interface Kind {
  readonly make: () => Promise<Pair>;
  /** Values that no record of the kind may have, by field. */
  readonly damage: Readonly<Record<string, string>>;
  readonly lists: Readonly<Record<string, Reader['ids']>>;
  /** Each reads the damaged record alone. */
  readonly singles?: readonly ((pair: Pair) => string)[];
}

const JUNK = 'junk';
const tagOf = (tenantId: string): string => on.stored.tagOf(tenantId);

/** Every page of a list, one row a page: a damaged record must not end or repeat one. */
async function pages(path: string, member: string, id: (row: Json) => string): Promise<string[]> {
  const found: string[] = [];
  let cursor = '';
  do {
    const page = await get(`${path}${path.includes('?') ? '&' : '?'}limit=1${cursor}`);
    found.push(...(page[member] as Json[]).map(id));
    cursor = page.has_more === true ? `&cursor=${encodeURIComponent(page.next_cursor as string)}` : '';
  } while (cursor !== '');
  return found;
}

const sorted = (
  path: (pair: Pair) => string,
  member: string,
  id: (row: Json) => string,
  keys: readonly string[],
): Record<string, Reader['ids']> =>
  Object.fromEntries(
    ['', ...keys].map((key) => [
      `the list ${key === '' ? 'as it is' : `by ${key}`}`,
      (pair: Pair) => pages(`${path(pair)}${key === '' ? '' : `&sort_by=${key}`}`, member, id),
    ]),
  );

async function bulk(path: string, body: object): Promise<readonly string[]> {
  const answer = read(await on.holdfast.admin('POST', path, { idempotency_key: newKey(), ...body }));
  return (answer.succeeded as Json[]).map(({ id }) => id as string);
}

const webhook = async (owner: TestTenant, name: string): Promise<string> => {
  const body = { name, url: PUBLIC_URL, event_types: ['budget.exhausted'] };
  const path = `/v1/admin/webhooks?tenant_id=${owner.id}`;
  return expectStatus(await on.holdfast.admin('POST', path, body), 201).subscription
    .subscription_id as string;
};

const policy = async (owner: TestTenant, name: string): Promise<string> =>
  expectStatus(
    await on.holdfast.admin('POST', '/v1/admin/policies', {
      tenant_id: owner.id,
      name,
      scope_pattern: `tenant:${owner.id}/*`,
    }),
    201,
  ).policy_id as string;

const budgetId = ({ scope, unit }: Json): string => `${scope} ${unit}`;

const KINDS: Readonly<Record<string, Kind>> = {
  tenant: {
    make: async () => {
      const owner = await on.holdfast.createTenant();
      const damaged = newTenantId();
      expectStatus(
        await on.holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: damaged, name: owner.id }),
        201,
      );
      return {
        damaged,
        whole: owner.id,
        key: tenantKey(tagOf(damaged), damaged),
        index: tenantIndexKey(tagOf(damaged)),
        owner,
      };
    },
    damage: { status: JUNK, created_at: JUNK, max_reservation_ttl_ms: JUNK, metadata: '{"a":' },
    lists: {
      ...sorted(
        () => '/v1/admin/tenants?',
        'tenants',
        (row) => row.tenant_id as string,
        ['tenant_id', 'name', 'status'],
      ),
      'a bulk action': ({ owner }) =>
        bulk('/v1/admin/tenants/bulk-action', { filter: { search: owner.id }, action: 'SUSPEND' }),
    },
    singles: [({ damaged }) => `/v1/admin/tenants/${damaged}`],
  },
  api_key: {
    make: async () => {
      const owner = await on.holdfast.createTenant();
      await on.holdfast.createKey(owner.id);
      const tag = tagOf(owner.id);
      const index = apiKeyIndexKey(tag, owner.id);
      const [damaged = '', whole = ''] = await on.stored.redis.zrange(index, '0', '-1');
      return { damaged, whole, key: apiKeyKey(tag, damaged), index, owner };
    },
    damage: {
      status: JUNK,
      created_at: JUNK,
      expires_at: JUNK,
      permissions: '[',
      scope_filter: '{',
      metadata: '[',
    },
    lists: sorted(
      ({ owner }) => `/v1/admin/api-keys?tenant_id=${owner.id}`,
      'keys',
      (row) => row.key_id as string,
      ['key_id', 'name', 'status', 'expires_at'],
    ),
  },
  budget: {
    make: async () => {
      const owner = await on.holdfast.createTenant();
      await on.holdfast.createBudget(owner, '/agent:a', 10);
      await on.holdfast.createBudget(owner, '/agent:b', 10);
      const [damaged, whole] = ['a', 'b'].map((agent) => `tenant:${owner.id}/agent:${agent} TOKENS`);
      const key = budgetKey(tagOf(owner.id), 'TOKENS', `tenant:${owner.id}/agent:a`);
      const index = budgetIndexKey(tagOf(owner.id), owner.id);
      return { damaged: damaged as string, whole: whole as string, key, index, owner };
    },
    damage: {
      ...Object.fromEntries(
        ['allocated', 'remaining', 'reserved', 'spent', 'debt', 'overdraft_limit'].map((name) => [
          name,
          JUNK,
        ]),
      ),
      status: JUNK,
      created_at: JUNK,
    },
    lists: {
      ...sorted(({ owner }) => `/v1/admin/budgets?tenant_id=${owner.id}`, 'ledgers', budgetId, [
        'scope',
        'utilization',
        'used',
        'debt',
        'unit',
        'status',
        'commit_overage_policy',
      ]),
      'the list of all tenants': ({ owner }) =>
        pages(`/v1/admin/budgets?search=${owner.id}`, 'ledgers', budgetId),
      'a bulk action': async ({ owner }) => {
        const { ledgers } = await get(`/v1/admin/budgets?tenant_id=${owner.id}`);
        const names = new Map((ledgers as Json[]).map((row) => [row.ledger_id as string, budgetId(row)]));
        const done = await bulk('/v1/admin/budgets/bulk-action', {
          filter: { tenant_id: owner.id, unit: 'TOKENS' },
          action: 'CREDIT',
          amount: { unit: 'TOKENS', amount: 1 },
        });
        return done.flatMap((id) => names.get(id) ?? []);
      },
    },
    singles: ['/v1/admin/budgets/lookup', '/ops/budgets/windows', '/ops/budgets/recurrence'].map(
      (path) =>
        ({ owner }: Pair) =>
          `${path}?scope=tenant:${owner.id}/agent:a&unit=TOKENS`,
    ),
  },
  policy: {
    make: async () => {
      const owner = await on.holdfast.createTenant();
      const [damaged, whole] = [await policy(owner, 'a'), await policy(owner, 'b')];
      const tag = tagOf(owner.id);
      return { damaged, whole, key: policyKey(tag, damaged), index: policyIndexKey(tag, owner.id), owner };
    },
    damage: { status: JUNK, created_at: JUNK, caps: '{"max_tokens":' },
    lists: sorted(
      ({ owner }) => `/v1/admin/policies?tenant_id=${owner.id}`,
      'policies',
      (row) => row.policy_id as string,
      [],
    ),
  },
  webhook: {
    make: async () => {
      const owner = await on.holdfast.createTenant();
      const [damaged, whole] = [await webhook(owner, 'a'), await webhook(owner, 'b')];
      const tag = tagOf(owner.id);
      return { damaged, whole, key: webhookKey(tag, damaged), index: webhookIndexKey(tag, owner.id), owner };
    },
    damage: { st: JUNK, ca: JUNK, lf: JUNK, th: '{', md: '{' },
    lists: {
      ...sorted(
        ({ owner }) => `/v1/admin/webhooks?tenant_id=${owner.id}`,
        'subscriptions',
        (row) => row.subscription_id as string,
        ['url', 'status'],
      ),
      'the list of a tenant': ({ owner }) =>
        pages(`/v1/webhooks?tenant=${owner.id}`, 'subscriptions', (row) => row.subscription_id as string),
    },
    singles: [({ damaged }) => `/v1/admin/webhooks/${damaged}`],
  },
};

type Damage = readonly [kind: string, what: string, inflict: (pair: Pair) => Promise<unknown>];

const ANOTHER_TYPE = 'type';
const GONE = 'record';
const INDEX = 'member of the index';

const CASES: readonly Damage[] = Object.entries(KINDS).flatMap(([kind, { damage }]) => [
  ...Object.entries(damage).map(([field, value]): Damage => [
    kind,
    field,
    ({ key }) => on.stored.redis.hset(key, field, value),
  ]),
  [
    kind,
    ANOTHER_TYPE,
    async ({ key }) => {
      await on.stored.redis.del(key);
      await on.stored.redis.set(key, JUNK);
    },
  ],
  [kind, GONE, ({ key }) => on.stored.redis.del(key)],
  [kind, INDEX, ({ index }) => on.stored.redis.zadd(index, 0, JUNK)],
]);

/** The name of what was damaged, as the header has it. */
const nameIn = (what: string, kind: string, { damaged }: Pair): string =>
  `${kind}=${what === INDEX ? JUNK : damaged.replace(' ', '%20')}`;

describe.each(CASES)('a %s whose %s is junk', (kind, what, inflict) => {
  const { make, lists, singles = [] } = KINDS[kind] as Kind;
  let pair: Pair;

  beforeAll(async () => {
    pair = await make();
    await inflict(pair);
  });

  beforeEach(() => {
    named = [];
  });

  // An index of a tenant would be damaged for the tests after this one.
  afterAll(() => on.stored.redis.zrem(pair.index, JUNK));

  test.each(Object.keys(lists))('is left out of %s and counted, and no other is', async (name) => {
    const counted = await on.holdfast.metric('holdfast_records_skipped_total', { kind });
    const found = await (lists[name] as Reader['ids'])(pair);
    expect(found).toContain(pair.whole);
    if (!name.startsWith('a bulk')) {
      expect(named.some((text) => text.startsWith(nameIn(what, kind, pair)))).toBe(true);
      expect(found.includes(pair.damaged)).toBe(what === INDEX);
      expect(await on.holdfast.metric('holdfast_records_skipped_total', { kind })).toBeGreaterThan(counted);
    }
  });

  test('does not hide the overview', async () => {
    const overview = await get('/v1/admin/overview');
    expect(overview.tenant_counts.total).toBeGreaterThan(0);
  });

  if (what !== GONE && what !== INDEX && singles.length > 0) {
    test.each(singles)('is a loud error when it is read alone (operation %#)', async (pathOf) => {
      const answer = await on.holdfast.admin('GET', pathOf(pair));
      expect([what, answer.status, answer.body.error]).toEqual([what, 500, 'INTERNAL_ERROR']);
    });
  }
});

describe.each(Object.keys(KINDS))('an index of another type in place of that of a %s', (kind) => {
  const { make, lists } = KINDS[kind] as Kind;
  const name = (): string => `${kind}=${encodeURIComponent(pair.index).replaceAll('%3A', ':')}`;
  let pair: Pair;

  beforeAll(async () => {
    pair = await make();
    await on.stored.redis.rename(pair.index, `${pair.index}:aside`);
    await on.stored.redis.set(pair.index, JUNK);
  });

  beforeEach(() => {
    named = [];
  });

  // That of tenants is the index of a whole partition.
  afterAll(() => on.stored.redis.rename(`${pair.index}:aside`, pair.index));

  test.each(Object.keys(lists))('is named and counted by %s, once a walk, which ends', async (list) => {
    const counted = await on.holdfast.metric('holdfast_records_skipped_total', { kind });
    expect(await (lists[list] as Reader['ids'])(pair)).not.toContain(pair.damaged);
    expect(await on.holdfast.metric('holdfast_records_skipped_total', { kind })).toBeGreaterThan(counted);
    if (!list.startsWith('a bulk')) {
      expect(named.some((text) => text.startsWith(name()))).toBe(true);
    }
  });

  if (kind !== 'api_key') {
    test('is named by the overview', async () => {
      await get('/v1/admin/overview');
      expect(named).toContain(name());
    });
  }
});

test('the overview names damaged budgets, tenants and subscriptions by their kind', async () => {
  const kinds = ['tenant', 'budget', 'webhook'];
  const count = (): Promise<number[]> =>
    Promise.all(kinds.map((kind) => on.holdfast.metric('holdfast_records_skipped_total', { kind })));
  const before = await count();
  named = [];
  await get('/v1/admin/overview');
  kinds.forEach((kind) => expect(named.some((text) => text.startsWith(`${kind}=`))).toBe(true));
  (await count()).forEach((now, index) => expect(now).toBeGreaterThan(before[index] as number));
});

const { make: makeBudgets } = KINDS['budget'] as Kind;
const FIGURES = ['allocated', 'remaining', 'reserved', 'spent', 'debt'];

describe.each(
  CASES.filter(([kind, what]) => kind === 'budget' && [...FIGURES, ANOTHER_TYPE, GONE].includes(what)),
)('a %s whose %s is junk', (kind, what, inflict) => {
  let pair: Pair;

  beforeAll(async () => {
    pair = await makeBudgets();
    await inflict(pair);
  });

  test('is left out of the balances and named, and no other is', async () => {
    named = [];
    const { id, key } = pair.owner;
    const path = `/v1/balances?tenant=${id}&include_children=true`;
    const { balances } = read(await on.holdfast.call('GET', path, { key }));
    expect(
      (balances as Json[]).map(({ scope_path, remaining }) => `${scope_path} ${remaining.unit}`),
    ).toEqual([pair.whole]);
    expect(named).toEqual([nameIn(what, kind, pair)]);
  });

  test('is reported by a verification, which goes on', async () => {
    const { ok, budgets, drift } = await get(`/ops/verify?tenant_id=${pair.owner.id}`);
    expect([ok, budgets]).toEqual([false, 2]);
    expect((drift as Json[]).map((row) => [budgetId(row), row.kind])).toEqual([
      [pair.damaged, 'UNREADABLE_BUDGET'],
    ]);
  });
});

test('a member of the index that names no budget is reported by a verification, and disturbs no balance', async () => {
  const { owner, index, whole } = await makeBudgets();
  await on.stored.redis.zadd(index, 0, JUNK);
  const { budgets, drift } = await get(`/ops/verify?tenant_id=${owner.id}`);
  expect(budgets).toBe(3);
  expect((drift as Json[]).map(({ scope, kind }) => [scope, kind])).toEqual([[JUNK, 'UNREADABLE_BUDGET']]);
  const path = `/v1/balances?tenant=${owner.id}&include_children=true`;
  const { balances } = read(await on.holdfast.call('GET', path, { key: owner.key }));
  expect((balances as Json[]).map(({ scope_path }) => scope_path as string)).toContain(whole.split(' ')[0]);
});

test('a key sees no name of a damaged budget outside of its scopes', async () => {
  const { owner, key } = await makeBudgets();
  await on.stored.redis.hset(key, 'spent', JUNK);
  const confined = await on.holdfast.createKey(owner.id, { scope_filter: ['agent:b'] });
  for (const path of [`/v1/balances?tenant=${owner.id}&include_children=true`, '/v1/admin/budgets']) {
    named = [];
    read(await on.holdfast.call('GET', path, { key: confined }));
    expect([path, named]).toEqual([path, []]);
  }
});

test('many damaged records are named up to a bound, and the rest are counted', async () => {
  const owner = await on.holdfast.fundedTenant(10);
  const index = budgetIndexKey(tagOf(owner.id), owner.id);
  const gone = Array.from({ length: 200 }, (_, number) => `tenant:${owner.id}!agent:gone-${number} TOKENS`);
  await on.stored.redis.zadd(index, ...gone.flatMap((member) => [0, member]));
  named = [];
  await get(`/v1/admin/budgets?tenant_id=${owner.id}`);
  const last = named.at(-1) as string;
  expect(last).toMatch(/^more=\d+$/);
  expect(named.length - 1 + Number(last.slice('more='.length))).toBe(gone.length);
  expect(named.join(', ').length).toBeLessThan(2100);
  await on.stored.redis.zrem(index, ...gone);
});

describe('a page that leaves one damaged record out has the others, and names it', () => {
  const skipped = (kind: string): Promise<number> =>
    on.holdfast.metric('holdfast_records_skipped_total', { kind });

  beforeEach(() => {
    named = [];
  });

  test('reservations', async () => {
    const owner = await on.holdfast.fundedTenant(10);
    const made = [await on.holdfast.reserve(owner, 1), await on.holdfast.reserve(owner, 1)];
    const [damaged, whole] = made.map((answer) => expectStatus(answer, 200).reservation_id as string);
    const key = reservationKey(tagOf(owner.id), damaged as string);
    await on.stored.redis.del(key);
    await on.stored.redis.set(key, JUNK);
    const { reservations } = read(await on.holdfast.call('GET', '/v1/reservations', { key: owner.key }));
    expect((reservations as Json[]).map(({ reservation_id }) => reservation_id as string)).toEqual([whole]);
    expect(named).toEqual([`reservation=${damaged}`]);
    await on.stored.redis.del(key);
  });

  test('live holds of a budget', async () => {
    const owner = await on.holdfast.fundedTenant(10);
    const made = [await on.holdfast.reserve(owner, 1), await on.holdfast.reserve(owner, 1)];
    const [damaged, whole] = made.map((answer) => expectStatus(answer, 200).reservation_id as string);
    const tag = tagOf(owner.id);
    await on.stored.redis.hset(reservationKey(tag, damaged as string), FIELD.amount, JUNK);
    const index = cleanupIndexKey(tag);
    await on.stored.redis.set(index, JUNK);
    const before = await skipped('reservation');
    const { holds } = await get(`/ops/budgets/holds?scope=tenant:${owner.id}&unit=TOKENS`);
    await on.stored.redis.del(index);
    expect((holds as Json[]).map(({ reservation_id }) => reservation_id as string)).toEqual([whole]);
    expect(named).toEqual([`reservation=${damaged}`, `reservation=${encodeURIComponent(index)}`]);
    expect(await skipped('reservation')).toBe(before + 2);
  });

  test.each([
    ['whose key has another type', (key: string) => on.stored.redis.set(key, JUNK)],
    [
      'whose time is junk',
      (key: string) => on.stored.redis.hset(key, { ty: 'custom.x', st: 'FAILED', ca: JUNK, at: 1 }),
    ],
  ])('deliveries, one %s', async (_what, inflict) => {
    const owner = await on.holdfast.createTenant();
    const id = await webhook(owner, 'a');
    const [tag, index] = [tagOf(owner.id), deliveryIndexKey(tagOf(owner.id), id)];
    const [damaged, whole] = [1, 2].map((ms) => `${ms}-0:${id}`) as [string, string];
    await on.stored.redis.zadd(index, 1, damaged, 2, whole);
    await inflict(deliveryKey(tag, damaged));
    await on.stored.redis.hset(deliveryKey(tag, whole), { ty: 'custom.x', st: 'FAILED', ca: 2, at: 1 });
    const before = await skipped('delivery');
    for (const filter of ['', '?status=FAILED']) {
      const { deliveries } = await get(`/v1/admin/webhooks/${id}/deliveries${filter}`);
      expect((deliveries as Json[]).map(({ event_type }) => event_type as string)).toEqual(['custom.x']);
    }
    expect(named).toHaveLength(2);
    expect(named[0]).toMatch(/^delivery=dlv_/);
    expect(await skipped('delivery')).toBe(before + 2);
  });

  test.each([
    ['value', (key: string, field: string) => on.stored.redis.hset(key, field, JUNK), 1],
    ['key', (key: string) => on.stored.redis.del(key).then(() => on.stored.redis.set(key, JUNK)), 2],
  ])('counters of quotas, one whose %s is junk', async (_what, inflict, lost) => {
    const owner = await on.holdfast.createTenant();
    const [tag, scope, day] = [tagOf(owner.id), `tenant:${owner.id}`, Math.floor(Date.now() / 86_400_000)];
    const [damaged, whole] = [`${scope}|d|a`, `${scope}|d|b`] as const;
    const key = actionCountersKey(tag, owner.id, day);
    await on.stored.redis.zadd(actionCounterIndexKey(tag, owner.id, day), 0, damaged, 0, whole);
    await on.stored.redis.hset(key, whole, `${day}|1|${Date.now()}|5|pol_1||`);
    await inflict(key, damaged);
    const { counters } = await get(`/v1/admin/action-quota-counters?tenant_id=${owner.id}`);
    const left = (counters as Json[]).map(({ action_kind }) => action_kind as string);
    expect(left).toEqual(lost === 1 ? ['b'] : []);
    expect(named).toEqual(
      [damaged, whole]
        .slice(0, lost)
        .map((field) => `action_counter=${encodeURIComponent(field).replaceAll('%3A', ':')}`),
    );
    await on.stored.redis.del(key);
  });
});
