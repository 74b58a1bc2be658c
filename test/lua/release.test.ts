import { describe, expect, test } from '@jest/globals';
import { auditLogKey, journalKey, reservationIndexKey, tenantIndexKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { damageHold } from '../support/hold-record.js';
import { RETENTION_MS, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, isCrossing, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { agent: 'bot' };

async function refused(ledger: LedgerClient, id: string, options = {}): Promise<string[]> {
  const before = await snapshot(ledger);
  const reply = await ledger.release(id, options);
  expect(await snapshot(ledger)).toEqual(before);
  return reply;
}

describe('a release', () => {
  test('returns the whole estimate to every budgeted scope and emits no event', async () => {
    shows('releaseReservation');
    const ledger = await newLedger();
    const root = await ledger.makeBudget();
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 100 });
    const { id } = await ledger.hold({ subject: AGENT, amount: 100 });
    expect(await ledger.release(id, { reason: 'not needed', by: 'key_2' })).toEqual([
      'RELEASED',
      'fresh',
      '100',
      'TOKENS',
      root,
      '1000,0,0,1000,0,0,0',
      leaf,
      '100,0,0,100,0,0,0',
    ]);
    const { holds, ttl, events } = await assertInvariants(ledger);
    expect(holds.get(id)).toMatchObject({
      st: 'RELEASED',
      rr: 'not needed',
      eb: 'key_2',
      fa: expect.stringMatching(/^\d{13}$/),
    });
    expect(ttl.size).toBe(0);
    expect(events.filter((event) => !isCrossing(event)).map(({ fields }) => fields['ty'])).toEqual([
      'budget.exhausted',
    ]);
    expect(await ledger.redis.pttl(ledger.reservationKeyOf(id))).toBeGreaterThan(RETENTION_MS - 60_000);
  });

  test('is stopped neither by debt nor over-limit nor a frozen or closed budget', async () => {
    shows('settles over limit');
    for (const status of ['FROZEN', 'CLOSED']) {
      const ledger = await newLedger();
      await ledger.makeBudget();
      const { id } = await ledger.hold({ amount: 100 });
      await ledger.makeBudget({ reserved: 100, debt: 50, isOverLimit: true, status });
      expect((await ledger.release(id)).slice(0, 3)).toEqual(['RELEASED', 'fresh', '100']);
      expect(await ledger.figures()).toBe('950,0,0,1000,50,0,1');
      await assertInvariants(ledger);
    }
  });

  test('is accepted in the grace, and exact beyond 2^53', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: '9223372036854775807' });
    const { id } = await ledger.hold({ amount: '9007199254740993' });
    await ledger.putInGrace(id);
    expect((await ledger.release(id)).slice(0, 3)).toEqual(['RELEASED', 'fresh', '9007199254740993']);
    expect(await ledger.figures()).toBe('9223372036854775807,0,0,9223372036854775807,0,0,0');
  });

  test('by an operator needs no tenant', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    expect((await ledger.release(id, { tenant: '' }))[0]).toBe('RELEASED');
  });

  test('repeated returns its own balances, and another payload is a mismatch', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 100 });
    const first = await ledger.release(id, { key: 'l' });
    await ledger.hold({ amount: 5 });
    await ledger.makeTenant({ status: 'CLOSED' });
    const state = await snapshot(ledger);
    expect(await ledger.release(id, { key: 'l' })).toEqual(['RELEASED', 'replay', ...first.slice(2)]);
    expect(await ledger.release(id, { key: 'l', reason: 'other' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await snapshot(ledger)).toEqual(state);
  });
});

test('a repeated release finds its scopes as long as it is remembered, though the audit retention is shorter', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  for (const tenant of [ledger.tenant, '']) {
    const { id } = await ledger.hold();
    const first = await ledger.release(id, { tenant, key: 'l', idempotencyTtlMs: 2 * RETENTION_MS });
    expect(await ledger.redis.pttl(ledger.reservationKeyOf(id))).toBeGreaterThan(2 * RETENTION_MS - 60_000);
    expect(await ledger.release(id, { tenant, key: 'l' })).toEqual(['RELEASED', 'replay', ...first.slice(2)]);
  }
});

describe('a release that is refused changes no byte', () => {
  test('with an error when its budget cannot be trusted', async () => {
    const corruptions: ((ledger: LedgerClient) => Promise<unknown>)[] = [
      (ledger) => ledger.redis.hset(ledger.budgetKeyOf(), 'reserved', '9'),
      (ledger) => ledger.redis.hset(ledger.budgetKeyOf(), 'reserved', '-10'),
      (ledger) => ledger.redis.hset(ledger.budgetKeyOf(), 'remaining', '9223372036854775807'),
    ];
    for (const corrupt of corruptions) {
      const ledger = await newLedger();
      await ledger.makeBudget();
      const { id } = await ledger.hold({ amount: 10 });
      await corrupt(ledger);
      const before = await snapshot(ledger);
      await expect(ledger.release(id)).rejects.toThrow();
      expect(await snapshot(ledger)).toEqual(before);
    }
  });
});

test('a release after the grace is refused, and the hold is returned by the usual transition', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold({ amount: 100 });
  const deadline = await ledger.makeOverdue(id);
  expect((await ledger.release(id)).slice(0, 4)).toEqual([
    'RESERVATION_EXPIRED',
    'now',
    ledger.tenant,
    String(deadline),
  ]);
  expect(await refused(ledger, id)).toEqual(['RESERVATION_EXPIRED']);
  expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
  const { events } = await assertInvariants(ledger);
  expect(events.map(({ fields }) => fields['ty'])).toEqual(['reservation.expired']);
});

test('a release that meets an overdue hold with a corrupt budget quarantines the hold', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold();
  await ledger.makeOverdue(id);
  await ledger.redis.hset(ledger.budgetKeyOf(), 'reserved', 'x');
  expect(await ledger.release(id)).toEqual(['QUARANTINED', 'INVALID_BUDGET', ledger.tenant]);
  expect((await readLedger(ledger)).holds.get(id)).toMatchObject({ st: 'ACTIVE', qr: 'INVALID_BUDGET' });
});

describe('a release of a hold whose record is damaged returns what can be returned, and leaves a sound record', () => {
  test.each([
    ['ex', 'soon', 'INVALID_EXPIRY', '10'],
    ['gr', undefined, 'INVALID_EXPIRY', '10'],
    ['st', undefined, 'INVALID_STATE', '10'],
    ['am', '', 'INVALID_ESTIMATE', '0'],
    ['bm', undefined, 'MISSING_SCOPES', '0'],
    ['tn', undefined, 'MISSING_SCOPES', '0'],
    ['un', 'odd', 'INVALID_ESTIMATE', '0'],
    ['su', 'junk', 'MISSING_SCOPES', '0'],
    ['ag', 'a b', 'MALFORMED_SCOPES', '0'],
  ])('%s is %j', async (field, value, reason, returned) => {
    for (const tenant of ['own', 'operator']) {
      const ledger = await newLedger();
      await ledger.makeBudget();
      await ledger.redis.zadd(tenantIndexKey(ledger.tag), 1, ledger.tenant);
      const { id } = await ledger.hold({ amount: 10, fields: { md: '{}' } });
      const key = ledger.reservationKeyOf(id);
      await damageHold(ledger.redis, key, field, value);
      const options = { key: 'l', reason: 'stuck', tenant: tenant === 'own' ? ledger.tenant : '' };
      const reply = await ledger.release(id, options);
      expect(reply.slice(0, 3)).toEqual(['RELEASED', 'fresh', returned]);
      expect(await ledger.figures()).toBe(returned === '0' ? '990,10,0,1000,0,0,0' : '1000,0,0,1000,0,0,0');
      expect(await ledger.release(id, options)).toEqual(['RELEASED', 'replay', ...reply.slice(2)]);
      const { holds, quarantine, ttl, events } = await readLedger(ledger);
      expect(holds.get(id)).toMatchObject({
        st: 'RELEASED',
        rr: 'stuck',
        md: '{}',
        tn: ledger.tenant,
        fa: expect.stringMatching(/^\d{13}$/),
      });
      expect([holds.get(id)?.['qa'], holds.get(id)?.['qr'], quarantine.size, ttl.size]).toEqual([
        undefined,
        undefined,
        0,
        0,
      ]);
      expect(
        events
          .slice(-2)
          .map(({ fields }) => [fields['ty'], fields['reason'] ?? fields['quarantine_reason'], fields['tn']]),
      ).toEqual([
        ['custom.reservation.quarantined', reason, ledger.tenant],
        ['custom.reservation.quarantine_decided', 'stuck', ledger.tenant],
      ]);
      expect(await ledger.redis.xlen(auditLogKey(ledger.tag))).toBe(tenant === 'own' ? 0 : 1);
      // A sound record: it can be read, packed, and finally removed.
      expect((await ledger.get(id)).slice(0, 3)).toEqual(['FOUND', '', '']);
      expect(await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10])).toEqual([
        'PACKED',
        '1',
        '1',
        '0',
        '1',
        '0',
      ]);
      expect((await ledger.get(id)).slice(0, 3)).toEqual(['FOUND', '', '']);
      expect(await ledger.release(id)).toEqual(['RESERVATION_FINALIZED', 'RELEASED']);
      expect(await ledger.redis.pttl(key)).toBeGreaterThan(RETENTION_MS - 60_000);
    }
  });

  test('if the owner is unknown, an operator ends it without naming a tenant, and a repetition gets the same reply', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 10 });
    await damageHold(ledger.redis, ledger.reservationKeyOf(id), 'tn', undefined);
    await ledger.redis.del(reservationIndexKey(ledger.tag, ledger.tenant));
    const release = (): Promise<string[]> => ledger.release(id, { tenant: '', key: 'l' });
    expect((await release()).slice(0, 3)).toEqual(['RELEASED', 'fresh', '0']);
    expect((await release()).slice(0, 3)).toEqual(['RELEASED', 'replay', '0']);
    const { holds, events } = await readLedger(ledger);
    expect(holds.get(id)).toMatchObject({ st: 'RELEASED', tn: '__system__', bm: '0' });
    expect(events.map(({ fields }) => fields['tn'])).toEqual(['__system__', '__system__']);
  });

  test('by an operator fails if the audit log is damaged, and nothing is written', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 10 });
    await damageHold(ledger.redis, ledger.reservationKeyOf(id), 'am', 'many');
    await ledger.redis.set(auditLogKey(ledger.tag), 'broken');
    const before = await snapshot(ledger);
    await expect(ledger.release(id, { tenant: '' })).rejects.toThrow('WRONGTYPE');
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('if a budget is missing, the tenant is refused and an operator returns the rest', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.makeBudget({ scope: ledger.scope(AGENT) });
    const { id } = await ledger.hold({ subject: AGENT, amount: 10 });
    await ledger.redis.del(ledger.budgetKeyOf());
    expect((await ledger.release(id)).slice(0, 2)).toEqual(['QUARANTINED', 'MISSING_BUDGET']);
    expect((await ledger.release(id, { tenant: '' })).slice(0, 3)).toEqual(['RELEASED', 'fresh', '10']);
    expect(await ledger.figures(ledger.scope(AGENT))).toBe('1000,0,0,1000,0,0,0');
  });

  test('if only a budget is damaged, only an operator can release what is in quarantine', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.makeBudget({ scope: ledger.scope(AGENT) });
    const { id } = await ledger.hold({ subject: AGENT, amount: 10 });
    await ledger.makeOverdue(id);
    await ledger.redis.hset(ledger.budgetKeyOf(), 'reserved', 'x');
    expect((await ledger.release(id)).slice(0, 2)).toEqual(['QUARANTINED', 'INVALID_BUDGET']);
    expect(await ledger.release(id)).toEqual(['QUARANTINED', 'INVALID_BUDGET', ledger.tenant, 'again']);
    const leaf = ledger.scope(AGENT);
    expect(await ledger.release(id, { tenant: '', key: 'l' })).toEqual([
      'RELEASED',
      'fresh',
      '10',
      'TOKENS',
      leaf,
      '1000,0,0,1000,0,0,0',
    ]);
    expect(await ledger.release(id, { tenant: '', key: 'l' })).toEqual([
      'RELEASED',
      'replay',
      '10',
      'TOKENS',
      leaf,
      '1000,0,0,1000,0,0,0',
    ]);
    expect((await readLedger(ledger)).holds.get(id)).toMatchObject({ st: 'RELEASED', bm: '01' });
  });
});
