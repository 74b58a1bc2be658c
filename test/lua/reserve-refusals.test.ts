import { describe, expect, test } from '@jest/globals';
import { idempotencyKey, tenantKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import {
  IDEMPOTENCY_TTL_MS,
  RETENTION_MS,
  type LedgerClient,
  type ReserveOptions,
} from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { agent: 'bot' };
const MAX = '9223372036854775807';

/** Refuses a reserve and checks that at most the denial event is new. */
async function refused(ledger: LedgerClient, options: ReserveOptions = {}): Promise<string[]> {
  const before = await snapshot(ledger, 'events');
  const told = (await readLedger(ledger)).events.length;
  const reply = await ledger.reserve({ subject: AGENT, ...options });
  expect(await snapshot(ledger, 'events')).toEqual(before);
  expect((await readLedger(ledger)).events.length - told).toBeLessThanOrEqual(1);
  return reply;
}

async function denials(ledger: LedgerClient): Promise<Readonly<Record<string, string>>[]> {
  return (await readLedger(ledger)).events
    .map(({ fields }) => fields)
    .filter(({ ty }) => ty === 'reservation.denied');
}

describe('a reserve that is refused changes no byte', () => {
  test('when one of several scopes lacks funds: none is touched', async () => {
    shows('createReservation');
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 1000 });
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 100 });
    expect(await refused(ledger, { amount: 150 })).toEqual(['BUDGET_EXCEEDED', leaf, '100']);
    expect(await denials(ledger)).toEqual([
      expect.objectContaining({
        tn: ledger.tenant,
        sc: leaf,
        unit: 'TOKENS',
        reason_code: 'BUDGET_EXCEEDED',
        requested_amount: '150',
        remaining: '100',
        ag: 'bot',
        ak: 'llm',
        an: 'gpt',
        rq: 'req_reserve',
      }),
    ]);
  });

  test('when no scope has a budget in any unit, and the denial names what was requested', async () => {
    const ledger = await newLedger();
    expect((await refused(ledger, { key: 'key-1' }))[0]).toBe('NOT_FOUND');
    expect(await denials(ledger)).toEqual([
      {
        ty: 'reservation.denied',
        tn: ledger.tenant,
        ac: 'api_key',
        sc: ledger.scope(AGENT),
        ki: 'key_1',
        rq: 'req_reserve',
        tr: expect.any(String),
        unit: 'TOKENS',
        reason_code: 'BUDGET_NOT_FOUND',
        requested_amount: '10',
        ik: 'key-1',
        ag: 'bot',
        ak: 'llm',
        an: 'gpt',
      },
    ]);
  });
});

describe('a reserve over a corrupt record ends with an error and writes nothing', () => {
  const corruptions: [string, (ledger: LedgerClient) => Promise<unknown>][] = [
    [
      'a tenant without a status',
      (ledger) => ledger.redis.hset(tenantKey(ledger.tag, ledger.tenant), 'name', 'x'),
    ],
    ['a tenant with an unknown status', (ledger) => ledger.makeTenant({ status: 'ASLEEP' })],
    [
      'a budget whose sum of figures exceeds int64',
      (ledger) => ledger.redis.hset(ledger.budgetKeyOf(), { remaining: MAX, reserved: MAX }),
    ],
    ['a budget that lost a unit', (ledger) => ledger.redis.hincrby(ledger.budgetKeyOf(), 'remaining', -1)],
    [
      'a budget of long figures that gained a unit',
      (ledger) =>
        ledger.redis.hset(ledger.budgetKeyOf(), {
          allocated: MAX,
          remaining: MAX,
          reserved: 1,
          spent: 0,
          debt: 0,
        }),
    ],
    ['a budget without a status', (ledger) => ledger.redis.hdel(ledger.budgetKeyOf(), 'status')],
    ['a budget with a figure missing', (ledger) => ledger.redis.hdel(ledger.budgetKeyOf(), 'debt')],
    [
      'a budget with a figure that is not a number',
      (ledger) => ledger.redis.hset(ledger.budgetKeyOf(), 'remaining', '1e3'),
    ],
    [
      'a budget with a figure beyond int64',
      (ledger) => ledger.redis.hset(ledger.budgetKeyOf(), 'remaining', `1${MAX}`),
    ],
    [
      'a budget of another type',
      async (ledger) => {
        await ledger.redis.del(ledger.budgetKeyOf());
        await ledger.redis.set(ledger.budgetKeyOf(), 'x');
      },
    ],
    [
      'an idempotency record of another type',
      (ledger) => ledger.redis.lpush(idempotencyKey.reserve(ledger.tag, ledger.tenant, 'k'), 'x'),
    ],
    [
      'an empty idempotency record',
      (ledger) => ledger.redis.set(idempotencyKey.reserve(ledger.tag, ledger.tenant, 'k'), ''),
    ],
  ];
  test.each(corruptions)('%s', async (_, corrupt) => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await corrupt(ledger);
    const before = await snapshot(ledger);
    await expect(ledger.reserve({ key: 'k', dryRun: true })).rejects.toThrow();
    await expect(ledger.reserve({ key: 'k' })).rejects.toThrow();
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe('a denial is never caused by an overdue hold', () => {
  test('what is due is expired first and reported, and the next run is granted', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 100 });
    const deadline = await ledger.makeOverdue(id);
    const options = { amount: 100, key: 'a' };
    const [word, now, ...outcomes] = await ledger.reserve(options);
    expect(word).toBe('RECLAIMED');
    expect(Number(now)).toBeGreaterThan(deadline);
    expect(outcomes).toEqual(['EXPIRED', ledger.tenant, String(deadline)]);
    const { holds, events } = await assertInvariants(ledger);
    expect(holds.get(id)).toMatchObject({ st: 'EXPIRED', eb: 'system' });
    expect(events.find(({ fields }) => fields['ty'] === 'reservation.expired')?.fields).toMatchObject({
      ac: 'system',
      reservation_id: id,
      rq: 'req_reserve',
    });
    expect((await ledger.reserve(options)).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
    await assertInvariants(ledger);
  });

  test('if it is denied in the end, only the last run emits a denial', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 100 });
    await ledger.makeOverdue(id);
    expect((await ledger.reserve({ amount: 101, key: 'a' }))[0]).toBe('RECLAIMED');
    expect(await denials(ledger)).toEqual([]);
    expect(await ledger.reserve({ amount: 101, key: 'a' })).toEqual(['BUDGET_EXCEEDED', scope, '100']);
    expect(await denials(ledger)).toHaveLength(1);
  });

  test('a dry run is not denied by one either', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100 });
    await ledger.makeOverdue((await ledger.hold({ amount: 100 })).id);
    expect((await ledger.reserveToTheEnd({ amount: 100, dryRun: true })).slice(0, 2)).toEqual([
      'ALLOW_DRY_RUN',
      'fresh',
    ]);
    await assertInvariants(ledger);
  });

  test('a hold in its grace still counts', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 100 });
    await ledger.putInGrace(id);
    expect(await refused(ledger, { amount: 100 })).toEqual(['BUDGET_EXCEEDED', scope, '0']);
    await assertInvariants(ledger);
  });

  test('a grant that does not need to reclaims nothing', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100 });
    const { id } = await ledger.hold({ amount: 10 });
    await ledger.makeOverdue(id);
    await ledger.hold({ amount: 10 });
    expect(await ledger.record(id)).toMatchObject({ st: 'ACTIVE' });
  });

  test('more than 100 overdue holds are reclaimed in bounded runs, and the reserve is granted when they are gone', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 250 });
    for (let count = 0; count < 250; count += 1) {
      const { id } = await ledger.hold({ amount: 1 });
      await ledger.makeOverdue(id);
    }
    const options = { amount: 250, key: 'big' };
    for (const left of [150, 50, 0]) {
      const reply = await ledger.reserve(options);
      expect(reply[0]).toBe('RECLAIMED');
      expect((reply.length - 2) / 3).toBe(Math.min(100, left === 0 ? 50 : 100));
      expect((await assertInvariants(ledger)).ttl.size).toBe(left);
    }
    expect((await ledger.reserve(options)).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
    const { ttl, events } = await assertInvariants(ledger);
    expect(ttl.size).toBe(1);
    expect(events.filter(({ fields }) => fields['ty'] === 'reservation.denied')).toEqual([]);
  });

  test('an overdue hold that cannot be refunded is quarantined and does not stop the others', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 100 });
    const broken = await ledger.hold({ amount: 0 });
    const sound = await ledger.hold({ amount: 100 });
    await ledger.makeOverdue(broken.id, 120_000);
    const deadline = await ledger.makeOverdue(sound.id);
    await ledger.redis.hset(ledger.reservationKeyOf(broken.id), 'am', 'much');
    const reply = await ledger.reserve({ amount: 100, key: 'a' });
    expect(reply.slice(2)).toEqual([
      'QUARANTINED',
      'INVALID_ESTIMATE',
      ledger.tenant,
      'EXPIRED',
      ledger.tenant,
      String(deadline),
    ]);
    expect((await ledger.reserve({ amount: 100, key: 'a' }))[0]).toBe('ALLOW');
    const { quarantine } = await readLedger(ledger);
    expect([...quarantine.keys()]).toEqual([broken.id]);
  });
});

test('a reserve is exact at both ends of int64', async () => {
  const ledger = await newLedger();
  const scope = await ledger.makeBudget({ allocated: MAX });
  const first = await ledger.reserve({ amount: '9007199254740993' });
  expect(first.slice(6)).toEqual([scope, `9214364837600034814,9007199254740993,0,${MAX},0,0,0`]);
  const second = await ledger.reserve({ amount: '9214364837600034814' });
  expect(second.slice(6)).toEqual([scope, `0,${MAX},0,${MAX},0,0,0`]);
  expect(await ledger.reserve({ amount: 1 })).toEqual(['BUDGET_EXCEEDED', scope, '0']);
  await assertInvariants(ledger);
});

test('the keys have the lifetimes that the callers request', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id, key } = await ledger.hold();
  const lifetime = await ledger.redis.pttl(idempotencyKey.reserve(ledger.tag, ledger.tenant, key));
  expect(lifetime).toBeLessThanOrEqual(IDEMPOTENCY_TTL_MS);
  expect(lifetime).toBeGreaterThan(IDEMPOTENCY_TTL_MS - 60_000);
  expect(await ledger.redis.pttl(ledger.reservationKeyOf(id))).toBe(-1);
  await ledger.release(id);
  expect(await ledger.redis.pttl(ledger.reservationKeyOf(id))).toBeGreaterThan(RETENTION_MS - 60_000);
});
