import { describe, expect, test } from '@jest/globals';
import { RecordJanitor } from '../../src/retention/record-janitor.js';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { Reconciler } from '../../src/expiry/reconciler.js';
import { quarantineKey, reservationKey } from '../../src/redis/keyspace.js';
import { newKey, type Answer, type Json, type TestTenant } from '../support/holdfast.js';
import { damageHold, takeSubjectApart } from '../support/hold-record.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

/** Possible damage to a field; `undefined` removes it. */
const DAMAGES: Readonly<Record<string, string | undefined>> = {
  missing: undefined,
  empty: '',
  junk: 'junk',
  json: '{"a":',
  scalar: '5',
  list: '[1]',
  negative: '-1',
  digits: '9'.repeat(30),
  infinite: 'inf',
  control: '\u0000\r\n\u001f\u001f\u007f',
  huge: 'x'.repeat(70_000),
  entry: '99999999999999999999-1',
};
/** Damage to ended reservations, whose fields are read but not used in calculations. */
const FEWER = ['missing', 'junk', 'json', 'digits', 'control', 'huge'];
const SUBJECT = ['su', 'cn', 'tn', 'ws', 'ag', 'un', 'bm'];
const TEXTS = ['dm', 'ak', 'an', 'at', 'md', 'ik', 'iu', 'tv'];
const TERMS = ['st', 'am', 'ex', 'gr', 'op', 'ca', 'mx', 'xc', 'x1', 'mt', 'ki', 'xp'];
const END = ['fa', 'eb', 'ch', 'cm', 'mc', 'rr', 'ev', 'qa', 'qr'];

const MORE = {
  subject: { workspace: 'Prod', agent: 'bot', dimensions: { team: 'a' } },
  action: { kind: 'llm.completion', name: 'gpt', tags: ['t'] },
  metadata: { run: 1 },
  overage_policy: 'ALLOW_WITH_OVERDRAFT',
};

interface Held {
  readonly tenant: TestTenant;
  readonly id: string;
  readonly key: string;
}

interface Damaged extends Held {
  readonly field: string;
}

/** A tenant with one reservation that is not damaged. */
interface Pair {
  readonly tenant: TestTenant;
  readonly neighbour: Held;
}

/**
 * Every damaged reservation of a tenant is in all later lists, so lists of more would take most of the time.
 */
const FIELDS_OF_TENANT = 8;

async function newTenant(): Promise<TestTenant> {
  const tenant = await on.holdfast.fundedTenant(1_000_000);
  await on.holdfast.createBudget(tenant, '/workspace:prod', 1_000_000);
  return tenant;
}

async function hold(tenant: TestTenant): Promise<Held> {
  const answer = await on.holdfast.reserve(tenant, 10, {
    ...MORE,
    subject: { tenant: tenant.id, ...MORE.subject },
    ttl_ms: 600_000,
    grace_period_ms: 0,
  });
  expect(answer.status).toBe(200);
  const id = answer.body.reservation_id as string;
  await on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 });
  return { tenant, id, key: reservationKey(on.stored.tagOf(tenant.id), id) };
}

/** The forms in which a record may be stored, with the fields to damage in each. */
const FORMS: Readonly<Record<string, { fields: readonly string[]; make: (held: Held) => Promise<unknown> }>> =
  {
    live: { fields: [...SUBJECT, ...TERMS, ...TEXTS, '0', 'fa', 'qa', 'qr'], make: () => Promise.resolve() },
    'live, unpacked': { fields: SUBJECT, make: ({ key }) => takeSubjectApart(on.stored.redis, key) },
    overdue: { fields: [...SUBJECT, ...TERMS], make: ({ key }) => on.stored.redis.hset(key, 'ex', '1000') },
    committed: {
      fields: [...SUBJECT, ...TERMS, ...TEXTS, ...END],
      make: ({ tenant, id }) => on.holdfast.commit(tenant, id, 12, { metadata: { cost: 1 } }),
    },
    released: {
      fields: [...SUBJECT, ...END],
      make: ({ tenant, id }) => on.holdfast.settle(tenant, 'release', id, { reason: 'r' }),
    },
    packed: {
      fields: ['0', '1', '2', 'su', 'tn', 'am', 'ch', 'st', 'fa', 'dm', 'at'],
      make: async ({ tenant, id }) => {
        await on.holdfast.commit(tenant, id, 8);
        await on.holdfast.app.get(RecordJanitor).pack(Infinity);
      },
    },
  };

const LISTS = [
  'include=metadata,committed_metadata',
  'sort_by=reserved',
  'sort_by=expires_at_ms&sort_dir=asc',
  'sort_by=scope_path',
  'status=ACTIVE',
];

async function rowsOf(tenant: TestTenant, query: string): Promise<Json[]> {
  const answer = await on.holdfast.call('GET', `/v1/reservations?limit=200&${query}`, { key: tenant.key });
  expect(answer.status).toBe(200);
  return answer.body.reservations as Json[];
}

type Seen = (held: Damaged, what: string, answer: Answer, ...allowed: number[]) => void;

/** Every read of a single reservation. Each response is also compared with its schema. */
async function readOne(held: Damaged, seen: Seen): Promise<void> {
  const { tenant, id } = held;
  seen(
    held,
    'GET by the tenant',
    await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key }),
    200,
    410,
  );
  seen(held, 'GET by an operator', await on.holdfast.admin('GET', `/v1/reservations/${id}`), 200, 410);
  seen(held, 'the history', await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
  seen(held, 'the quarantined', await on.holdfast.admin('GET', `/ops/quarantine/${id}`), 200, 404);
}

/** Every list, with the damaged reservations and the undamaged one. */
async function readLists({ tenant, neighbour }: Pair, damaged: readonly Damaged[]): Promise<void> {
  expect((await on.holdfast.admin('GET', '/ops/quarantine?limit=200')).status).toBe(200);
  for (const query of LISTS) {
    const ids = (await rowsOf(tenant, query)).map(({ reservation_id: one }) => one as string);
    expect(ids).toContain(neighbour.id);
    if (!query.startsWith('status')) {
      expect(ids).toEqual(expect.arrayContaining(damaged.map(({ id }) => id)));
    }
  }
}

/** Every way to end a reservation, by name. */
const ENDS: Readonly<Record<string, (held: Held) => Promise<Answer>>> = {
  extend: ({ tenant, id }) => on.holdfast.settle(tenant, 'extend', id, { extend_by_ms: 1000 }),
  commit: ({ tenant, id }) => on.holdfast.commit(tenant, id, 11),
  release: ({ tenant, id }) => on.holdfast.settle(tenant, 'release', id, { reason: 'stuck' }),
  'release by an operator': ({ id }) =>
    on.holdfast.admin('POST', `/v1/reservations/${id}/release`, {
      idempotency_key: newKey(),
      reason: 'stuck',
    }),
  'decision of an operator': ({ id }) =>
    on.holdfast.admin('POST', `/ops/quarantine/${id}/decide`, { action: 'release' }),
};

/**
 * The statuses that are allowed. A different level in the subject cannot be recognized as damage, unless that
 * scope has no budget; then an operator decides.
 */
function allowedOf(end: string, field: string, damage: string): number[] {
  if (end === 'decision of an operator') {
    return [200, 404];
  }
  const another =
    field === 'ws' &&
    ['missing', 'junk', 'scalar', 'negative', 'digits', 'infinite', 'entry'].includes(damage);
  return end === 'release by an operator' || (end === 'release' && !another)
    ? [200, 409, 410]
    : [200, 409, 410, 503];
}

/** Checks remaining = allocated - spent - reserved - debt, and that no other figure is negative. */
async function expectBooks(tenant: TestTenant): Promise<void> {
  for (const below of ['', '/workspace:prod']) {
    const names = ['remaining', 'allocated', 'spent', 'reserved', 'debt'];
    const figures = (await on.stored.redis.hmget(on.stored.budgetKey(tenant.id, below), ...names)).map(
      Number,
    );
    const [remaining, allocated, spent, reserved, debt] = figures as [number, number, number, number, number];
    expect(remaining).toBe(allocated - spent - reserved - debt);
    expect(Math.min(spent, reserved, debt)).toBeGreaterThanOrEqual(0);
  }
}

describe.each(Object.keys(FORMS))('a %s reservation', (name) => {
  const form = FORMS[name] as (typeof FORMS)[string];

  async function damagedHold(tenant: TestTenant, field: string, damage: string): Promise<Damaged> {
    const held = await hold(tenant);
    await form.make(held);
    await damageHold(on.stored.redis, held.key, field, DAMAGES[damage]);
    return { ...held, field };
  }

  async function end(held: Damaged, way: string, damage: string, seen: Seen): Promise<void> {
    const { tenant, id, key, field } = held;
    const answer = await (ENDS[way] as (typeof ENDS)[string])(held);
    seen(held, way, answer, ...allowedOf(way, field, damage));
    if (answer.status === 200 && way !== 'extend' && way !== 'commit') {
      const after = await on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key });
      seen(held, `GET after the ${way}`, after, 200, 410);
      expect(['RELEASED', 'COMMITTED', undefined]).toContain(after.body.status);
      if (field !== 'qa' && field !== 'qr') {
        expect(await on.stored.redis.hmget(key, 'qa', 'qr')).toEqual([null, null]);
      }
      expect(await on.stored.redis.hexists(quarantineKey(on.stored.tagOf(tenant.id)), id)).toBe(0);
    }
  }

  /**
   * Reads and ends reservations that are damaged in one field each. Returns the responses that are not
   * allowed.
   */
  async function endAll(
    pair: Pair,
    fields: readonly string[],
    damage: string,
    ways: readonly string[],
  ): Promise<string[]> {
    const problems: string[] = [];
    const seen: Seen = ({ field }, what, { status, text }, ...allowed) => {
      if (!allowed.includes(status)) {
        problems.push(`${field}: ${what} is ${status} ${text.slice(0, 200)}`);
      }
    };
    for (const way of ways) {
      const damaged = await Promise.all(fields.map((field) => damagedHold(pair.tenant, field, damage)));
      if (way === ways[0]) {
        for (const held of damaged) {
          await readOne(held, seen);
        }
        await readLists(pair, damaged);
      }
      await Promise.all(damaged.map((held) => end(held, way, damage, seen)));
    }
    return problems;
  }

  test.each(name === 'live' ? Object.keys(DAMAGES) : FEWER)(
    'with any field %s can be read, listed and ended, and harms no other',
    async (damage) => {
      const ends = name === 'live' ? Object.keys(ENDS) : ['release'];
      const pairs: Pair[] = [];
      const problems: string[] = [];
      for (let first = 0; first < form.fields.length; first += FIELDS_OF_TENANT) {
        const tenant = await newTenant();
        const pair = { tenant, neighbour: await hold(tenant) };
        pairs.push(pair);
        const fields = form.fields.slice(first, first + FIELDS_OF_TENANT);
        problems.push(...(await endAll(pair, fields, damage, ends)));
      }
      expect(problems).toEqual([]);
      for (const { tenant } of pairs) {
        await expectBooks(tenant);
      }
      await on.holdfast.app.get(ExpiryService).sweep();
      await on.holdfast.app.get(Reconciler).reconcile();
      await on.holdfast.app.get(RecordJanitor).pack(Infinity);
      await on.holdfast.app.get(RecordJanitor).trim(Infinity);
      for (const { tenant, neighbour } of pairs) {
        await expectBooks(tenant);
        expect((await on.holdfast.admin('GET', `/ops/verify?tenant=${tenant.id}`)).status).toBe(200);
        const expirations = await on.holdfast.admin('GET', `/ops/expirations?tenant_id=${tenant.id}`);
        expect(expirations.status).toBe(200);
        expect((await on.holdfast.commit(tenant, neighbour.id, 10)).status).toBe(200);
        const closed = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, {
          status: 'CLOSED',
        });
        expect(closed.status).toBe(200);
        await expectBooks(tenant);
      }
    },
  );
});
