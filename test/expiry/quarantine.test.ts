import { describe, expect, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import {
  auditLogKey,
  budgetKey,
  eventLogKey,
  quarantineKey,
  reservationKey,
  tagOfReservationId,
  tenantKey,
} from '../../src/redis/keyspace.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { makeDue, makeTenants, stateOf } from './instances.js';

const on = useGovernance();

const tagOf = (id: string): string => tagOfReservationId(id, 64) as string;
const inspect = (id: string): Promise<Answer> => on.holdfast.admin('GET', `/ops/quarantine/${id}`);
const decide = (id: string, action: string, more = {}): Promise<Answer> =>
  on.holdfast.admin('POST', `/ops/quarantine/${id}/decide`, { action, ...more });

async function quarantined(fields: Record<string, string>): Promise<{ tenant: TestTenant; id: string }> {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const [id] = (await makeDue(on.holdfast, on.holds, tenant, 1)) as [string];
  await on.holds.set(id, fields);
  await on.holdfast.app.get(ExpiryService).sweep();
  return { tenant, id };
}

async function lastEntry(log: (tag: string) => string, id: string): Promise<Record<string, string>> {
  const [[, flat]] = (await on.holds.redis.xrevrange(log(tagOf(id)), '+', '-', 'COUNT', 1)) as [
    [string, string[]],
  ];
  return Object.fromEntries(
    flat.flatMap((name, index) => (index % 2 === 0 ? [[name, flat[index + 1] as string]] : [])),
  );
}

async function isQuarantined(id: string): Promise<boolean> {
  return (await on.holds.redis.hexists(quarantineKey(tagOf(id)), id)) === 1;
}

describe('the list', () => {
  test('shows what is in quarantine, newest first, paged, by reason', async () => {
    const ids: string[] = [];
    for (let index = 0; index < 3; index += 1) {
      ids.push((await quarantined({ am: 'many' })).id);
    }
    const { id: other } = await quarantined({ gr: 'long' });
    const walk: Json[] = [];
    let cursor = '';
    do {
      const page = expectStatus(
        await on.holdfast.admin('GET', `/ops/quarantine?limit=2&cursor=${cursor}`),
        200,
      );
      walk.push(...page.entries);
      expect(page.has_more).toBe(page.next_cursor !== undefined);
      cursor = page.next_cursor ?? '';
    } while (cursor !== '');
    const seen = walk.map(({ reservation_id: id }) => id).filter((id) => [...ids, other].includes(id));
    expect([...seen].sort()).toEqual([...ids, other].sort());
    const times = walk.map(({ quarantined_at_ms: at }) => at);
    expect(times).toEqual([...times].sort((a, b) => b - a));
    const byReason = expectStatus(
      await on.holdfast.admin('GET', '/ops/quarantine?reason=INVALID_EXPIRY'),
      200,
    ).entries;
    expect(byReason).toEqual([
      { reservation_id: other, reason: 'INVALID_EXPIRY', quarantined_at_ms: expect.any(Number) },
    ]);
    expectRefusal(await on.holdfast.admin('GET', '/ops/quarantine?cursor=x'), 400, 'INVALID_REQUEST');
    expectRefusal(await on.holdfast.call('GET', '/ops/quarantine', { key: 'none' }), 401, 'UNAUTHORIZED');
  });
});

describe('one reservation', () => {
  test('is shown with its record, what is wrong with it, and what a release would return', async () => {
    const { tenant, id } = await quarantined({ gr: 'long' });
    const body = expectStatus(await inspect(id), 200);
    const scope = `tenant:${tenant.id}`;
    expect(body).toMatchObject({
      reservation_id: id,
      reason: 'INVALID_EXPIRY',
      defect: 'INVALID_EXPIRY',
      returns: [{ scope, unit: 'TOKENS', amount: 10 }],
      keeps: [],
      record: { st: 'ACTIVE', tn: tenant.id, am: '10', gr: 'long', qr: 'INVALID_EXPIRY' },
    });
    await on.holds.set(id, { gr: '0' });
    expect(expectStatus(await inspect(id), 200)).not.toHaveProperty('defect');
    expectStatus(await decide(id, 'retry'), 200);
  });

  test('that is not in quarantine, or has a foreign id, is not found', async () => {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const id = await on.holdfast.hold(tenant, 1);
    for (const one of [id, 'rsv_nothing']) {
      expectRefusal(await inspect(one), 404, 'NOT_FOUND');
      expectRefusal(await decide(one, 'retry'), 404, 'NOT_FOUND');
    }
    expectRefusal(await decide(id, 'forget'), 400, 'INVALID_REQUEST');
  });
});

describe('a retry', () => {
  test('expires a repaired reservation, once, and names the operator', async () => {
    const { tenant, id } = await quarantined({ am: 'many' });
    await on.holds.set(id, { am: '10' });
    const before = await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id });
    const answer = await decide(id, 'retry', { reason: 'amount repaired' });
    expect(expectStatus(answer, 200)).toEqual({
      reservation_id: id,
      action: 'retry',
      outcome: 'EXPIRED',
      decided_at_ms: expect.any(Number),
      returns: [],
      keeps: [],
    });
    expect(await stateOf(on.holds, id)).toBe('EXPIRED');
    expect(await isQuarantined(id)).toBe(false);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
    expect(await on.holdfast.metric('cycles_reservations_expired_total', { tenant: tenant.id })).toBe(
      before + 1,
    );
    expect(
      await on.holdfast.metric('holdfast_quarantine_decisions_total', {
        action: 'retry',
        outcome: 'EXPIRED',
      }),
    ).toBeGreaterThanOrEqual(1);
    expect(await lastEntry(eventLogKey, id)).toMatchObject({
      ty: 'custom.reservation.quarantine_decided',
      tn: tenant.id,
      ac: 'admin',
      reservation_id: id,
      action: 'retry',
      outcome: 'EXPIRED',
      quarantine_reason: 'INVALID_ESTIMATE',
      reason: 'amount repaired',
      rq: answer.headers.get('x-request-id'),
    });
    expect(await lastEntry(auditLogKey, id)).toMatchObject({
      op: 'decideQuarantined',
      tn: '__admin__',
      ow: tenant.id,
      ri: id,
      st: '200',
    });
    expectRefusal(await decide(id, 'retry'), 404, 'NOT_FOUND');
  });

  test('of one that is live after all hands it back to the sweeper', async () => {
    const { tenant, id } = await quarantined({ am: 'many' });
    await on.holds.set(id, {
      am: '10',
      ex: String(Number((await on.holds.redis.time())[0]) * 1000 + 600_000),
    });
    expect(expectStatus(await decide(id, 'retry'), 200)).toMatchObject({
      outcome: 'SKIP',
      detail: 'in_grace_period',
    });
    expect(await isQuarantined(id)).toBe(false);
    expect(await on.holds.isIndexed(id)).toBe(true);
    expectStatus(await on.holdfast.commit(tenant, id, 4), 200);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '999996 0 4 0' });
  });

  test('of one that is still damaged leaves it in quarantine', async () => {
    const { id } = await quarantined({ am: 'many' });
    expect(expectStatus(await decide(id, 'retry'), 200)).toMatchObject({
      outcome: 'QUARANTINED',
      detail: 'INVALID_ESTIMATE',
    });
    expect(await isQuarantined(id)).toBe(true);
    expect(await on.holds.isIndexed(id)).toBe(false);
  });
});

describe('a release', () => {
  test('returns what can be returned, for each budget separately, and ends the reservation', async () => {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    await on.holdfast.createBudget(tenant, '/agent:bot', 100);
    const subject = { tenant: tenant.id, agent: 'bot' };
    const id = await on.holdfast.hold(tenant, 60, { subject, grace_period_ms: 0 });
    await on.holds.expireIn(id, -1000);
    await on.holds.redis.del(budgetKey(tagOf(id), 'TOKENS', `tenant:${tenant.id}/agent:bot`));
    await on.holdfast.app.get(ExpiryService).sweep();
    expect(expectStatus(await decide(id, 'release'), 200)).toEqual({
      reservation_id: id,
      action: 'release',
      outcome: 'RELEASED',
      decided_at_ms: expect.any(Number),
      returns: [{ scope: `tenant:${tenant.id}`, unit: 'TOKENS', amount: 60 }],
      keeps: [{ scope: `tenant:${tenant.id}/agent:bot`, reason: 'MISSING_BUDGET' }],
    });
    expect((await on.holds.record(id))['st']).toBe('RELEASED');
    expect(await isQuarantined(id)).toBe(false);
    expect(await on.holds.redis.pttl(reservationKey(tagOf(id), id))).toBeGreaterThan(0);
    const [remaining, reserved] = await on.holds.redis.hmget(
      budgetKey(tagOf(id), 'TOKENS', `tenant:${tenant.id}`),
      'remaining',
      'reserved',
    );
    expect([remaining, reserved]).toEqual(['1000000', '0']);
  });

  test('of one without a sound amount returns nothing, and is not done twice', async () => {
    const { tenant, id } = await quarantined({ am: 'many' });
    expect(expectStatus(await decide(id, 'release'), 200)).toMatchObject({
      outcome: 'RELEASED',
      returns: [],
      keeps: [],
    });
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '999990 10 0 0' });
    expectRefusal(await decide(id, 'release'), 404, 'NOT_FOUND');
  });

  test('of one that has lost its unit works while amounts of a unit are watched', async () => {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const [damaged] = (await makeDue(on.holdfast, on.holds, tenant, 1)) as [string];
    await on.holds.redis.hset(tenantKey(tagOf(damaged), tenant.id), 'th', '0.8,0.95,1,TOKENS:5');
    const damagedKey = reservationKey(tagOf(damaged), damaged);
    const subject = (await on.holds.redis.hget(damagedKey, 'su')) as string;
    await on.holds.redis.hset(damagedKey, 'su', subject.replace('TOKENS', 'PEBBLES'));
    await on.holdfast.app.get(ExpiryService).sweep();
    expect(expectStatus(await decide(damaged, 'release'), 200)).toMatchObject({
      outcome: 'RELEASED',
      returns: [],
    });
    expect(await isQuarantined(damaged)).toBe(false);
    expect((await on.holds.record(damaged))['st']).toBe('RELEASED');
  });

  test('of one whose key is not a record removes the entry and keeps the key', async () => {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const [id] = (await makeDue(on.holdfast, on.holds, tenant, 1)) as [string];
    const key = reservationKey(tagOf(id), id);
    await on.holds.redis.del(key);
    await on.holds.redis.set(key, 'what is this');
    await on.holdfast.app.get(ExpiryService).sweep();
    expect(expectStatus(await inspect(id), 200)).toMatchObject({
      reason: 'NOT_A_RECORD',
      defect: 'NOT_A_RECORD',
      record: {},
      returns: [],
    });
    expectStatus(await decide(id, 'release'), 200);
    expect(await isQuarantined(id)).toBe(false);
    expect(await on.holds.redis.get(key)).toBe('what is this');
  });
});

test('a reservation that was repaired and settled by its client leaves the quarantine', async () => {
  const { tenant, id } = await quarantined({ am: 'many' });
  await on.holds.set(id, { am: '10', ex: String(Number((await on.holds.redis.time())[0]) * 1000 + 600_000) });
  expectStatus(await on.holdfast.commit(tenant, id, 10), 200);
  expect(await isQuarantined(id)).toBe(false);
});

describe('reservations in quarantine can still be read, listed and released', () => {
  const read = (tenant: TestTenant, id: string): Promise<Answer> =>
    on.holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key });
  const rowOf = async (tenant: TestTenant, id: string): Promise<Json> =>
    expectStatus(
      await on.holdfast.call('GET', '/v1/reservations', { key: tenant.key }),
      200,
    ).reservations.find((row: Json) => row.reservation_id === id);

  test('and are afterwards as if they had never been damaged: by a decision of an operator', async () => {
    const { tenant, id } = await quarantined({ gr: 'long' });
    for (const shown of [expectStatus(await read(tenant, id), 200), await rowOf(tenant, id)]) {
      expect(shown).toMatchObject({
        reservation_id: id,
        status: 'ACTIVE',
        reserved: { unit: 'TOKENS', amount: 10 },
      });
    }
    expectStatus(await decide(id, 'release', { reason: 'stuck' }), 200);
    for (const shown of [expectStatus(await read(tenant, id), 200), await rowOf(tenant, id)]) {
      expect(shown).toMatchObject({
        reservation_id: id,
        status: 'RELEASED',
        finalized_at_ms: expect.any(Number),
      });
    }
    const history = expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
    expect(history).toMatchObject({
      state: 'RELEASED',
      end: { how: 'RELEASED', by: { type: 'admin' }, reason: 'stuck', returned: [{ amount: 10 }] },
    });
    expect(history).not.toHaveProperty('defect');
    expect(history).not.toHaveProperty('quarantine');
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '1000000 0 0 0' });
  });

  test.each(['its tenant', 'an operator'])(
    'by a release of %s, which is counted, emits an event, and is audited if an operator did it',
    async (who) => {
      const { tenant, id } = await quarantined({ gr: 'long' });
      const body = { idempotency_key: newKey(), reason: 'stuck' };
      const release = (): Promise<Answer> =>
        who === 'its tenant'
          ? on.holdfast.settle(tenant, 'release', id, body)
          : on.holdfast.admin('POST', `/v1/reservations/${id}/release`, body);
      const first = await release();
      expect(expectStatus(first, 200)).toMatchObject({
        status: 'RELEASED',
        released: { unit: 'TOKENS', amount: 10 },
        balances: [{ remaining: { amount: 1_000_000 } }],
      });
      expect((await release()).text).toBe(first.text);
      expect(await isQuarantined(id)).toBe(false);
      expect(expectStatus(await read(tenant, id), 200)).toMatchObject({ status: 'RELEASED' });
      expect(await lastEntry(eventLogKey, id)).toMatchObject({
        ty: 'custom.reservation.quarantine_decided',
        tn: tenant.id,
        ac: who === 'its tenant' ? 'api_key' : 'admin_on_behalf_of',
        action: 'release',
        outcome: 'RELEASED',
        quarantine_reason: 'INVALID_EXPIRY',
        reason: 'stuck',
        returned_amount: '10',
      });
      if (who === 'an operator') {
        expect(await lastEntry(auditLogKey, id)).toMatchObject({
          op: 'releaseReservation',
          ri: id,
          amount: '10',
          quarantine_reason: 'INVALID_EXPIRY',
        });
      }
      expect(
        await on.holdfast.metric('cycles_reservations_release_total', {
          tenant: tenant.id,
          decision: 'RELEASED',
          reason: 'OK',
        }),
      ).toBe(1);
    },
  );

  test('a commit waits for the operator: 503 with Retry-After, and its charge follows after the repair', async () => {
    const { tenant, id } = await quarantined({ gr: 'long' });
    const commit = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 4 } };
    const refused = await on.holdfast.settle(tenant, 'commit', id, commit);
    expectRefusal(refused, 503, 'INTERNAL_ERROR');
    expect([refused.headers.get('retry-after'), refused.body.details]).toEqual([
      '60',
      { reason: 'quarantine' },
    ]);
    expect(
      await on.holdfast.metric('cycles_reservations_commit_total', {
        tenant: tenant.id,
        reason: 'QUARANTINED',
      }),
    ).toBe(1);
    await on.holds.set(id, {
      gr: '0',
      ex: String(Number((await on.holds.redis.time())[0]) * 1000 + 600_000),
    });
    expect(expectStatus(await decide(id, 'retry'), 200)).toMatchObject({
      outcome: 'SKIP',
      detail: 'in_grace_period',
    });
    expect(Object.keys(await on.holds.record(id)).filter((name) => name === 'qa' || name === 'qr')).toEqual(
      [],
    );
    expectStatus(await on.holdfast.settle(tenant, 'commit', id, commit), 200);
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '999996 0 4 0' });
  });

  test('damage that a read finds before the sweeper is counted and presented to an operator, once', async () => {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const id = await on.holdfast.hold(tenant, 10);
    await on.holds.set(id, { am: 'many', dm: '{"a"', at: '7' });
    const unreadable = (reason: string): Promise<number> =>
      on.holdfast.metric('holdfast_reservations_unreadable_total', { reason });
    const before = [await unreadable('INVALID_ESTIMATE'), await unreadable('INVALID_JSON')] as [
      number,
      number,
    ];
    for (let time = 0; time < 3; time += 1) {
      expect(await rowOf(tenant, id)).toMatchObject({
        status: 'ACTIVE',
        reserved: { amount: 0 },
        action: { kind: 'llm.completion' },
      });
    }
    expect([await unreadable('INVALID_ESTIMATE'), await unreadable('INVALID_JSON')]).toEqual([
      before[0] + 3,
      before[1] + 6,
    ]);
    expect(
      await on.holdfast.metric('cycles_reservations_quarantined_total', {
        tenant: tenant.id,
        reason: 'INVALID_ESTIMATE',
      }),
    ).toBe(1);
    const { entries } = expectStatus(
      await on.holdfast.admin('GET', '/ops/quarantine?reason=INVALID_ESTIMATE&limit=200'),
      200,
    );
    expect(entries.map(({ reservation_id: one }: Json) => one)).toContain(id);
  });

  test('a key that is not a record is 404, and hides no other in a list', async () => {
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const id = await on.holdfast.hold(tenant, 10);
    const sound = await on.holdfast.hold(tenant, 10);
    const key = reservationKey(tagOf(id), id);
    await on.holds.redis.del(key);
    await on.holds.redis.set(key, 'what is this');
    const before = await on.holdfast.metric('holdfast_reservations_unreadable_total', {
      reason: 'NOT_A_RECORD',
    });
    expectRefusal(await read(tenant, id), 404, 'NOT_FOUND');
    expectRefusal(await on.holdfast.settle(tenant, 'release', id), 404, 'NOT_FOUND');
    const rows = expectStatus(
      await on.holdfast.call('GET', '/v1/reservations', { key: tenant.key }),
      200,
    ).reservations;
    expect(rows.map(({ reservation_id: one }: Json) => one)).toEqual([sound]);
    expect(
      await on.holdfast.metric('holdfast_reservations_unreadable_total', { reason: 'NOT_A_RECORD' }),
    ).toBe(before + 3);
  });
});
