import { describe, expect, test } from '@jest/globals';
import {
  apiKeyHashKey,
  apiKeyIndexKey,
  apiKeyKey,
  auditLogKey,
  budgetKey,
  closingKey,
  eventLogKey,
  keyRevokedChannel,
  quarantineKey,
  tenantKey,
  ttlIndexKey,
  webhookIndexKey,
  webhookKey,
} from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { makeHolds } from '../support/bulk-holds.js';
import { RETENTION_MS, TRACE, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot, type LedgerState } from '../support/ledger-state.js';
import { useConnections, useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

function update(ledger: LedgerClient, status: string, fields: readonly string[] = []): Promise<Reply> {
  const key = tenantKey(ledger.tag, ledger.tenant);
  return ledger.scripts.run(
    'update_tenant',
    [key],
    [ledger.tenant, status, 'admin', '', 'req_close', TRACE, ...fields],
  );
}

function step(ledger: LedgerClient, phase: string, cursor = '', limit = 100): Promise<Reply> {
  const key = tenantKey(ledger.tag, ledger.tenant);
  return ledger.scripts.run(
    'close_tenant',
    [key],
    [ledger.tenant, phase, cursor, limit, RETENTION_MS, keyRevokedChannel()],
  );
}

/** Takes steps until the closing is complete, as the service does, and returns their number. */
async function carryThrough(ledger: LedgerClient, limit = 100): Promise<number> {
  let [steps, phase, cursor] = [0, 'holds', ''];
  for (;;) {
    const reply = await step(ledger, phase, cursor, limit);
    steps += 1;
    if (reply[0] !== 'STEP') {
      return steps;
    }
    [phase, cursor] = [reply[1] as string, reply[2] as string];
  }
}

async function makeKey(ledger: LedgerClient, id: string): Promise<void> {
  const { tag, tenant } = ledger;
  await ledger.scripts.run(
    'create_api_key',
    [
      apiKeyKey(tag, id),
      apiKeyHashKey(tag, `hash-of-${id}`),
      apiKeyIndexKey(tag, tenant),
      tenantKey(tag, tenant),
    ],
    [
      tenant,
      id,
      `hash-of-${id}`,
      'a key',
      '[]',
      '[]',
      '',
      60_000,
      'admin',
      '',
      'req_1',
      TRACE,
      0,
      'key_prefix',
      'cyc',
    ],
  );
}

const types = ({ events }: LedgerState): (string | undefined)[] => events.map(({ fields }) => fields['ty']);
const ofType = (state: LedgerState, type: string): LedgerState['events'] =>
  state.events.filter(({ fields }) => fields['ty'] === type);
const auditOf = async (ledger: LedgerClient): Promise<string[]> =>
  (await ledger.redis.xrange(auditLogKey(ledger.tag), '-', '+')).map(
    ([, flat]) => flat[flat.indexOf('op') + 1] as string,
  );

/** A tenant with two budgets, three holds and a key. */
async function furnished(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated: 1000 });
  await ledger.makeBudget({ scope: ledger.scope({ agent: 'a' }), allocated: 500 });
  await ledger.redis.hset(budgetKey(ledger.tag, 'TOKENS', ledger.scope()), 'ledger_id', 'ldg_root');
  await ledger.hold({ amount: 10 });
  await ledger.hold({ amount: 20, subject: { agent: 'a' } });
  await ledger.hold({ amount: 30, subject: { agent: 'a' } });
  await makeKey(ledger, 'key_a');
  return ledger;
}

/** Creates holds that end at the same instant, this long from now. Returns their ids. */
async function withOneDeadline(ledger: LedgerClient, count: number, endsInMs: number): Promise<string[]> {
  await ledger.redis.hincrby(ledger.budgetKeyOf(), 'allocated', 2000);
  await ledger.redis.hincrby(ledger.budgetKeyOf(), 'remaining', 2000);
  const ids = await makeHolds(
    ledger.redis,
    ledger.tag,
    ledger.tenant,
    Array.from({ length: count }, () => ({})),
  );
  const endsAt = (await ledger.serverTime()) + endsInMs;
  const ending = ledger.redis.pipeline();
  for (const id of ids) {
    ending.hset(ledger.reservationKeyOf(id), 'gr', 0, 'ex', endsAt).zadd(ttlIndexKey(ledger.tag), endsAt, id);
  }
  await ending.exec();
  return ids;
}

describe('the flip to CLOSED', () => {
  test('guards every mutation immediately, changes nothing the tenant owns, and marks the tenant as closing', async () => {
    shows('close guard', 'updateTenant');
    const ledger = await furnished();
    const held = await ledger.hold({ amount: 1 });
    expect((await update(ledger, 'CLOSED'))[0]).toBe('CLOSING');
    expect(await ledger.figures()).toBe('939,61,0,1000,0,0,0');
    expect((await ledger.reserve())[0]).toBe('TENANT_CLOSED');
    expect(await ledger.commit(held.id, 1)).toEqual(['TENANT_CLOSED']);
    expect(await ledger.release(held.id)).toEqual(['TENANT_CLOSED']);
    expect(await ledger.extend(held.id, 1000)).toEqual(['TENANT_CLOSED']);
    expect(await ledger.redis.hexists(closingKey(ledger.tag), ledger.tenant)).toBe(1);
    expect(types(await readLedger(ledger))).not.toContain('tenant.closed');
  });

  test('is final: no other status, no other change', async () => {
    const ledger = await furnished();
    await update(ledger, 'CLOSED');
    const before = await snapshot(ledger);
    expect(await update(ledger, 'ACTIVE')).toEqual(['IRREVERSIBLE']);
    expect(await update(ledger, '', ['name', 'x'])).toEqual(['TENANT_CLOSED']);
    expect(await update(ledger, 'CLOSED', ['name', 'x'])).toEqual(['TENANT_CLOSED']);
    expect((await update(ledger, 'CLOSED'))[0]).toBe('CLOSING');
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe('the cascade', () => {
  test('returns holds, closes budgets, revokes keys, emits one event for each, and tenant.closed last', async () => {
    shows('close cascade');
    const ledger = await furnished();
    await update(ledger, 'CLOSED');
    await carryThrough(ledger);
    const state = await assertInvariants(ledger);
    expect([...state.holds.values()].map(({ st, rr, eb }) => [st, rr, eb])).toEqual(
      Array(3).fill(['RELEASED', 'tenant_closed', 'system']),
    );
    expect(state.ttl.size).toBe(0);
    expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
    for (const budget of state.budgets.values()) {
      expect(budget).toMatchObject({ status: 'CLOSED', closed_at: expect.any(String) });
      expect(budget).not.toHaveProperty('cascade_released');
    }
    expect(await ledger.redis.hmget(apiKeyKey(ledger.tag, 'key_a'), 'status', 'revoked_reason')).toEqual([
      'REVOKED',
      'tenant_closed',
    ]);
    const cascade = state.events.slice(-6);
    expect(cascade.map(({ fields }) => fields['ty'])).toEqual([
      'reservation.released_via_tenant_cascade',
      'budget.closed_via_tenant_cascade',
      'reservation.released_via_tenant_cascade',
      'budget.closed_via_tenant_cascade',
      'api_key.revoked_via_tenant_cascade',
      'tenant.closed',
    ]);
    expect(
      new Set(cascade.map(({ fields }) => `${fields['co']} ${fields['rq']} ${fields['tr']} ${fields['ac']}`))
        .size,
    ).toBe(1);
    expect(cascade[0]?.fields).toMatchObject({
      ledger_id: 'ldg_root',
      released_amount: '60',
      unit: 'TOKENS',
      cascade_reason: 'tenant_closed',
    });
    expect(cascade[2]?.fields).toMatchObject({ released_amount: '50', scope: ledger.scope({ agent: 'a' }) });
    expect(cascade[5]?.fields).toMatchObject({ previous_status: 'ACTIVE', new_status: 'CLOSED' });
    expect(await auditOf(ledger)).toEqual(
      expect.arrayContaining([
        'updateTenant',
        'budget.closed_via_tenant_cascade',
        'api_key.revoked_via_tenant_cascade',
      ]),
    );
    expect(await ledger.redis.exists(closingKey(ledger.tag))).toBe(0);
  });

  test('may be interrupted after any step and start over: everything happens once', async () => {
    shows('close again');
    const ledger = await furnished();
    const other = `${ledger.tenant}-other`;
    await ledger.makeBudget({ scope: ledger.scope({}, other) });
    const survivor = await ledger.hold({ tenant: other, amount: 5 });
    await update(ledger, 'CLOSED');
    const steps = await carryThrough(
      await furnished().then(async (twin) => (await update(twin, 'CLOSED'), twin)),
      1,
    );
    for (let lived = 1; lived < steps; lived += 1) {
      let [phase, cursor] = ['holds', ''];
      for (let done = 0; done < lived && phase !== ''; done += 1) {
        const reply = await step(ledger, phase, cursor, 1);
        [phase, cursor] = reply[0] === 'STEP' ? [reply[1] as string, reply[2] as string] : ['', ''];
        await assertInvariants(ledger);
      }
    }
    await carryThrough(ledger, 1);
    const state = await assertInvariants(ledger);
    expect(ofType(state, 'budget.closed_via_tenant_cascade')).toHaveLength(2);
    expect(
      ofType(state, 'reservation.released_via_tenant_cascade').map(({ fields }) => fields['released_amount']),
    ).toEqual(['60', '50']);
    expect(ofType(state, 'api_key.revoked_via_tenant_cascade')).toHaveLength(1);
    expect(ofType(state, 'tenant.closed')).toHaveLength(1);
    expect(state.holds.get(survivor.id)).toMatchObject({ st: 'ACTIVE' });
    expect(await ledger.figures(ledger.scope({}, other))).toBe('995,5,0,1000,0,0,0');
  });

  test('releases all holds that end in the same millisecond, and no step examines more of them than requested', async () => {
    const ledger = await furnished();
    const ids = await withOneDeadline(ledger, 250, 600_000);
    const other = `${ledger.tenant}-other`;
    await ledger.makeBudget({ scope: ledger.scope({}, other) });
    const survivor = await ledger.hold({ tenant: other, amount: 5 });
    await ledger.setExpiry(survivor.id, (await ledger.serverTime()) + 600_000);
    await update(ledger, 'CLOSED');
    const live = async (): Promise<number> => ledger.redis.zcard(ttlIndexKey(ledger.tag));
    let [phase, cursor, steps, before] = ['holds', '', 0, await live()];
    while (phase === 'holds') {
      const reply = await step(ledger, phase, cursor, 40);
      [phase, cursor, steps] = [reply[1] as string, reply[2] as string, steps + 1];
      const after = await live();
      expect(before - after).toBeLessThanOrEqual(40);
      expect(Number(reply[4])).toBe(before - after);
      before = after;
    }
    expect(steps).toBe(Math.ceil((ids.length + 4) / 40));
    await carryThrough(ledger, 40);
    expect([...(await assertInvariants(ledger)).ttl.keys()]).toEqual([survivor.id]);
    expect(await ledger.figures()).toBe('3000,0,0,3000,0,0,0');
  });

  test('continues after a missing hold, and neither skips nor repeats one of the same deadline', async () => {
    const ledger = await furnished();
    const ids = [...(await withOneDeadline(ledger, 30, 600_000))].sort();
    await update(ledger, 'CLOSED');
    const first = await step(ledger, 'holds', '', 10);
    // The hold that was named has already left the index in its own step.
    expect(first[2]?.split(' ')[1]).toBe(ids[9]);
    await ledger.redis.zrem(ttlIndexKey(ledger.tag), ids[12] as string);
    const second = await step(ledger, 'holds', first[2], 10);
    expect(second[4]).toBe('10');
    expect(second[2]?.split(' ')[1]).toBe(ids[20]);
    await carryThrough(ledger, 10);
    expect(await ledger.redis.hget(ledger.reservationKeyOf(ids[12] as string), 'st')).toBe('ACTIVE');
    const ended = await Promise.all(ids.map((id) => ledger.redis.hget(ledger.reservationKeyOf(id), 'st')));
    expect(ended.filter((state) => state === 'RELEASED')).toHaveLength(29);
  });

  test('expires a hold that was already overdue, and its own share is not counted as released', async () => {
    const ledger = await furnished();
    const dead = await ledger.hold({ amount: 7 });
    await ledger.makeOverdue(dead.id);
    await update(ledger, 'CLOSED');
    const reply = await step(ledger, 'holds');
    expect(reply.slice(5, 7)).toEqual(['EXPIRED', ledger.tenant]);
    await carryThrough(ledger);
    const state = await assertInvariants(ledger);
    expect(state.holds.get(dead.id)).toMatchObject({ st: 'EXPIRED' });
    expect(ofType(state, 'reservation.released_via_tenant_cascade')[0]?.fields['released_amount']).toBe('60');
  });

  test('expires holds that were already overdue and end in the same millisecond, and names each once', async () => {
    const ledger = await furnished();
    const ids = await withOneDeadline(ledger, 250, -60_000);
    await update(ledger, 'CLOSED');
    const named: string[] = [];
    let [phase, cursor] = ['holds', ''];
    while (phase === 'holds') {
      const reply = await step(ledger, phase, cursor);
      named.push(...reply.slice(5).filter((part) => part === 'EXPIRED'));
      [phase, cursor] = [reply[1] as string, reply[2] as string];
    }
    expect(named).toHaveLength(ids.length);
    await carryThrough(ledger);
    const state = await assertInvariants(ledger);
    expect(state.ttl.size).toBe(0);
    expect(ofType(state, 'reservation.expired')).toHaveLength(ids.length);
  });

  test('quarantines a hold that cannot be returned, and its share returns when the budget closes', async () => {
    const ledger = await furnished();
    const broken = await ledger.hold({ amount: 7 });
    await ledger.redis.hset(ledger.reservationKeyOf(broken.id), 'am', 'x');
    await update(ledger, 'CLOSED');
    await carryThrough(ledger);
    expect(await ledger.redis.hexists(quarantineKey(ledger.tag), broken.id)).toBe(1);
    expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
    expect(
      ofType(await readLedger(ledger), 'reservation.released_via_tenant_cascade')[0]?.fields[
        'released_amount'
      ],
    ).toBe('67');
  });

  test('names a record that cannot be trusted, and continues with the others', async () => {
    const ledger = await furnished();
    const bad = budgetKey(ledger.tag, 'TOKENS', ledger.scope({ agent: 'z' }));
    await ledger.makeBudget({ scope: ledger.scope({ agent: 'z' }) });
    await ledger.redis.hset(bad, 'spent', 'much');
    await update(ledger, 'CLOSED');
    const reply = await step(ledger, 'budgets');
    expect(reply.slice(4)).toEqual(['2', 'FAILED', 'budget', `${ledger.scope({ agent: 'z' })} TOKENS`]);
    expect(await ledger.redis.hget(bad, 'status')).toBe('ACTIVE');
  });

  test('of a tenant that is not closing does nothing', async () => {
    const ledger = await furnished();
    const before = await snapshot(ledger);
    for (const phase of ['holds', 'budgets', 'keys', 'end']) {
      expect(await step(ledger, phase)).toEqual(['NOT_CLOSING']);
    }
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('closes only what is left when a closed tenant is closed again, and does not emit tenant.closed again', async () => {
    const ledger = await furnished();
    await update(ledger, 'CLOSED');
    await carryThrough(ledger);
    const told = (await readLedger(ledger)).events.length;
    await ledger.redis.hset(ledger.budgetKeyOf(), 'status', 'FROZEN');
    await update(ledger, 'CLOSED');
    await carryThrough(ledger);
    const { events } = await assertInvariants(ledger);
    expect(events.slice(told).map(({ fields }) => [fields['ty'], fields['prior_status']])).toEqual([
      ['budget.closed_via_tenant_cascade', 'FROZEN'],
    ]);
  });
});

describe('the cascade, concurrent with other calls', () => {
  const connections = useConnections(3);

  test('by three closers at once closes everything once', async () => {
    const ledger = await furnished();
    for (let count = 0; count < 60; count += 1) {
      await ledger.hold({ amount: 1, subject: { agent: 'a' } });
    }
    await update(ledger, 'CLOSED');
    await Promise.all(connections().map((redis) => carryThrough(ledger.over(redis), 7)));
    const state = await assertInvariants(ledger);
    expect(ofType(state, 'tenant.closed')).toHaveLength(1);
    expect(
      ofType(state, 'reservation.released_via_tenant_cascade').map(({ fields }) => fields['released_amount']),
    ).toEqual(['120', '110']);
    expect(ofType(state, 'budget.closed_via_tenant_cascade')).toHaveLength(2);
  });

  test('and reserves, commits and a sweep leaves nothing held', async () => {
    const ledger = await furnished();
    const [first, second, third] = connections().map((redis) => ledger.over(redis)) as [
      LedgerClient,
      LedgerClient,
      LedgerClient,
    ];
    const holds = await Promise.all(Array.from({ length: 20 }, () => ledger.hold({ amount: 1 })));
    for (const { id } of holds.slice(0, 5)) {
      await ledger.makeOverdue(id);
    }
    const work = [
      ...holds.map(({ id }, index) => (index % 2 === 0 ? first.expire(id) : first.commit(id, 1))),
      update(second, 'CLOSED').then(() => carryThrough(second, 3)),
      ...Array.from({ length: 30 }, () => third.reserve({ amount: 1 })),
    ];
    await Promise.all(work);
    const state = await assertInvariants(ledger);
    expect([...state.holds.values()].filter(({ st }) => st === 'ACTIVE')).toEqual([]);
    expect([...state.budgets.values()].map(({ reserved, status }) => [reserved, status])).toEqual([
      ['0', 'CLOSED'],
      ['0', 'CLOSED'],
    ]);
  });
});

describe('logs that are not streams', () => {
  test.each([
    ['audit log', auditLogKey],
    ['event log', eventLogKey],
  ])('a broken %s fails the flip and each step before anything is written', async (_what, keyOf) => {
    const ledger = await furnished();
    const away = async <T>(act: () => Promise<T>): Promise<void> => {
      const key = keyOf(ledger.tag);
      await ledger.redis.rename(key, `${key}-away`);
      await ledger.redis.set(key, 'broken');
      const before = await snapshot(ledger);
      await expect(act()).rejects.toThrow('WRONGTYPE');
      expect(await snapshot(ledger)).toEqual(before);
      await ledger.redis.rename(`${key}-away`, key);
    };
    await away(() => update(ledger, 'CLOSED'));
    await update(ledger, 'CLOSED');
    for (const phase of ['holds', 'budgets', 'keys', 'end']) {
      await away(() => step(ledger, phase));
    }
    await carryThrough(ledger);
    expect(ofType(await assertInvariants(ledger), 'tenant.closed')).toHaveLength(1);
  });
});

describe('the closing of webhook subscriptions', () => {
  async function subscribed(ledger: LedgerClient, id: string): Promise<string> {
    const { tag, tenant } = ledger;
    const key = webhookKey(tag, id);
    const reply = await ledger.scripts.run(
      'create_webhook',
      [key, webhookIndexKey(tag, tenant), tenantKey(tag, tenant)],
      [
        tenant,
        id,
        'tenant.updated',
        '',
        'createTenantWebhook',
        'api_key',
        'key_1',
        'req_1',
        TRACE,
        0,
        'ur',
        'https://a.example',
        'se',
        's',
        'rp',
        '1',
        'df',
        '1',
      ],
    );
    expect(reply[0]).toBe('CREATED');
    return key;
  }

  test('disables webhook subscriptions once, and skips one that cannot be read', async () => {
    shows('close disables webhooks');
    const ledger = await newLedger();
    await ledger.makeTenant();
    const keys = await Promise.all(
      ['whsub_a', 'whsub_b', 'whsub_c', 'whsub_d'].map((id) => subscribed(ledger, id)),
    );
    await ledger.redis.hset(keys[1] as string, 'st', 'RESTING');
    await ledger.redis.hset(keys[2] as string, 'st', 'DISABLED');
    expect((await update(ledger, 'CLOSED'))[0]).toBe('CLOSING');

    const first = await step(ledger, 'webhooks', '', 3);
    expect(first.slice(0, 3)).toEqual(['STEP', 'webhooks', 'whsub_c']);
    expect(first.slice(4)).toEqual(['1', 'FAILED', 'webhook', 'whsub_b']);
    expect((await step(ledger, 'webhooks', 'whsub_c', 3)).slice(1, 3)).toEqual(['keys', '']);
    await ledger.redis.hset(keys[1] as string, 'st', 'PAUSED');
    await carryThrough(ledger, 2);
    const state = await readLedger(ledger);
    expect(
      ofType(state, 'webhook.disabled_via_tenant_cascade').map(({ fields }) => [
        fields['subscription_id'],
        fields['prior_status'],
      ]),
    ).toEqual([
      ['whsub_a', 'ACTIVE'],
      ['whsub_d', 'ACTIVE'],
      ['whsub_b', 'PAUSED'],
    ]);
    expect(types(state).at(-1)).toBe('tenant.closed');
    expect(await Promise.all(keys.map((key) => ledger.redis.hget(key, 'st')))).toEqual(
      Array(4).fill('DISABLED'),
    );
  });
});
