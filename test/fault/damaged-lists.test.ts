import { beforeAll, describe, expect, test } from '@jest/globals';
import {
  apiKeyIndexKey,
  apiKeyKey,
  budgetKey,
  policyKey,
  tenantKey,
  webhookKey,
} from '../../src/redis/keyspace.js';
import { expectStatus, newKey, newTenantId, type Json, type TestTenant } from '../support/holdfast.js';
import { PUBLIC_URL } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const get = async (path: string): Promise<Json> => expectStatus(await on.holdfast.admin('GET', path), 200);

/** One record that is damaged and one beside it that is not. */
interface Pair {
  readonly damaged: string;
  readonly whole: string;
  /** Of the damaged one. */
  readonly key: string;
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
  /** Reads the damaged record alone. */
  readonly single?: (pair: Pair) => string;
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
  const answer = expectStatus(
    await on.holdfast.admin('POST', path, { idempotency_key: newKey(), ...body }),
    200,
  );
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
      return { damaged, whole: owner.id, key: tenantKey(tagOf(damaged), damaged), owner };
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
    single: ({ damaged }) => `/v1/admin/tenants/${damaged}`,
  },
  api_key: {
    make: async () => {
      const owner = await on.holdfast.createTenant();
      await on.holdfast.createKey(owner.id);
      const tag = tagOf(owner.id);
      const [damaged = '', whole = ''] = await on.stored.redis.zrange(
        apiKeyIndexKey(tag, owner.id),
        '0',
        '-1',
      );
      return { damaged, whole, key: apiKeyKey(tag, damaged), owner };
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
      return { damaged: damaged as string, whole: whole as string, key, owner };
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
    single: ({ owner }) => `/v1/admin/budgets/lookup?scope=tenant:${owner.id}/agent:a&unit=TOKENS`,
  },
  policy: {
    make: async () => {
      const owner = await on.holdfast.createTenant();
      const [damaged, whole] = [await policy(owner, 'a'), await policy(owner, 'b')];
      return { damaged, whole, key: policyKey(tagOf(owner.id), damaged), owner };
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
      return { damaged, whole, key: webhookKey(tagOf(owner.id), damaged), owner };
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
    single: ({ damaged }) => `/v1/admin/webhooks/${damaged}`,
  },
};

const CASES = Object.entries(KINDS).flatMap(([kind, { damage }]) =>
  Object.keys(damage).map((field): [string, string] => [kind, field]),
);

describe.each(CASES)('a %s whose %s is junk', (kind, field) => {
  const { make, damage, lists, single } = KINDS[kind] as Kind;
  let pair: Pair;

  beforeAll(async () => {
    pair = await make();
    await on.stored.redis.hset(pair.key, field, damage[field] as string);
  });

  test.each(Object.keys(lists))('is left out of %s and counted, and no other is', async (name) => {
    const counted = await on.holdfast.metric('holdfast_records_skipped_total', { kind });
    const found = await (lists[name] as Reader['ids'])(pair);
    expect(found).toContain(pair.whole);
    if (!name.startsWith('a bulk')) {
      expect(found).not.toContain(pair.damaged);
      expect(await on.holdfast.metric('holdfast_records_skipped_total', { kind })).toBeGreaterThan(counted);
    }
  });

  test('does not hide the overview', async () => {
    const overview = await get('/v1/admin/overview');
    expect(overview.tenant_counts.total).toBeGreaterThan(0);
  });

  if (single !== undefined) {
    test('is a loud error when it is read alone', async () => {
      const answer = await on.holdfast.admin('GET', single(pair));
      expect([field, answer.status, answer.body.error]).toEqual([field, 500, 'INTERNAL_ERROR']);
    });
  }
});

test('the overview names damaged budgets, tenants and subscriptions by their kind', async () => {
  const kinds = ['tenant', 'budget', 'webhook'];
  const count = (): Promise<number[]> =>
    Promise.all(kinds.map((kind) => on.holdfast.metric('holdfast_records_skipped_total', { kind })));
  const before = await count();
  await get('/v1/admin/overview');
  (await count()).forEach((now, index) => expect(now).toBeGreaterThan(before[index] as number));
});
