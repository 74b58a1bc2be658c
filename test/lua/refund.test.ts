import { describe, expect, test } from '@jest/globals';
import { auditLogKey, budgetKey, journalKey, waiterQueueKey, waitersKey } from '../../src/redis/keyspace.js';
import { debit } from '../support/admission-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { createBudget, fund, setFrozen, setWindows } from '../support/governance-client.js';
import { journalOf } from '../support/journal.js';
import { type LedgerClient, RETENTION_MS } from '../support/ledger-client.js';
import { assertInvariants, chargedBy, isCrossing, readLedger, snapshot } from '../support/ledger-state.js';
import { ONE, toldOf } from '../support/told-places.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { agent: 'bot' };
const MAX = '9223372036854775807';
const DAY_MS = 86_400_000;
const STARTS = Date.UTC(2100, 0, 1);

async function committed(
  ledger: LedgerClient,
  held: number | string,
  actual = held,
  more: { policy?: string; subject?: { agent: string } } = {},
): Promise<string> {
  const { id } = await ledger.hold({ amount: held, policy: 'ALLOW_WITH_OVERDRAFT', ...more });
  expect((await ledger.commit(id, actual))[0]).toBe('COMMITTED');
  return id;
}

async function withBudget(options: Parameters<LedgerClient['makeBudget']>[0] = {}): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await ledger.makeBudget(options);
  return ledger;
}

async function refused(ledger: LedgerClient, id: string, amount: number | string, options = {}) {
  const before = await snapshot(ledger);
  const reply = await ledger.refund(id, amount, options);
  expect(await snapshot(ledger)).toEqual(before);
  return reply;
}

/** The types of the events, without crossings of thresholds. */
const told = async (ledger: LedgerClient): Promise<string[]> =>
  (await assertInvariants(ledger)).events
    .filter((event) => !isCrossing(event))
    .map(({ fields }) => fields['ty'] as string);

/** By how much each scope grew, as the reply of a refund says. */
const returnedBy = (reply: readonly string[]): string[] =>
  reply.slice(4).filter((_, index) => index % 3 === 2);

/** Applies a debit and returns its id. */
async function debited(ledger: LedgerClient, amount: number | string, more = {}): Promise<string> {
  const reply = await debit(ledger, { amount, id: `evn_${ledger.tag.slice(2, 4)}abcdefghi`, ...more });
  expect(reply[0]).toBe('APPLIED');
  return reply[2] as string;
}

describe('a refund of a reservation', () => {
  test('lowers what every charged scope has spent, in parts, and is told each time', async () => {
    const ledger = await withBudget();
    const [root, leaf] = [
      ledger.scope(),
      await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 100 }),
    ];
    const id = await committed(ledger, 100, 80, { subject: AGENT });
    expect(await ledger.refund(id, 30, { reason: 'billed less', metadata: '{"a":1}' })).toEqual([
      ...['REFUNDED', 'fresh', ledger.tenant, '30'],
      ...[root, '950,0,50,1000,0,0,0', '30'],
      ...[leaf, '50,0,50,100,0,0,0', '30'],
    ]);
    expect((await ledger.refund(id, 50)).slice(0, 4)).toEqual(['REFUNDED', 'fresh', ledger.tenant, '80']);
    expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
    const state = await assertInvariants(ledger);
    expect(state.holds.get(id)).toMatchObject({ st: 'COMMITTED', ch: '80', rf: '80' });
    const events = state.events.filter(({ fields }) => fields['ty'] === 'custom.reservation.refunded');
    expect(events.map(({ fields }) => [fields['refunded'], fields['refunded_total']])).toEqual([
      ['30', '30'],
      ['50', '80'],
    ]);
    expect(events[0]?.fields).toMatchObject({
      ...{ tn: ledger.tenant, sc: leaf, ac: 'api_key', ki: 'key_1', rq: 'req_refund', reservation_id: id },
      ...{ unit: 'TOKENS', charged: '80', reason: 'billed less', metadata: '{"a":1}' },
    });
    expect((await journalOf(ledger)).slice(1)).toEqual([
      { id, ch: '-30', rf: '30', fa: expect.stringMatching(/^\d{13}$/), eb: 'key_1', rr: 'billed less' },
      { id, ch: '-50', rf: '80', fa: expect.stringMatching(/^\d{13}$/), eb: 'key_1' },
    ]);
    expect(chargedBy(state)).toEqual([]);
  });

  test('of more than is left of the charge is refused with the figures, and so is one of what is not charged', async () => {
    const ledger = await withBudget();
    const id = await committed(ledger, 100, 80);
    expect(await refused(ledger, id, 81)).toEqual(['REFUND_EXCEEDED', 'COMMITTED', '80', '0']);
    await ledger.refund(id, 79);
    expect(await refused(ledger, id, 2)).toEqual(['REFUND_EXCEEDED', 'COMMITTED', '80', '79']);
    expect((await ledger.refund(id, 1))[3]).toBe('80');
    const live = await ledger.hold();
    expect(await refused(ledger, live.id, 1)).toEqual(['REFUND_EXCEEDED', 'ACTIVE', '0', '0']);
    await ledger.release(live.id);
    expect(await refused(ledger, live.id, 1)).toEqual(['REFUND_EXCEEDED', 'RELEASED', '0', '0']);
    expect(await refused(ledger, id, 1, { unit: 'CREDITS' })).toEqual([
      'UNIT_MISMATCH',
      'TOKENS',
      ledger.scope(),
    ]);
    expect(await refused(ledger, id, 1, { tenant: 'other' })).toEqual(['FORBIDDEN']);
    expect(await refused(ledger, ledger.newId(), 1)).toEqual(['NOT_FOUND']);
  });

  test('repays debt first, clears the mark of a scope and tells that it is within its limit again', async () => {
    const ledger = await withBudget({ allocated: 100, overdraftLimit: 60 });
    const id = await committed(ledger, 50, 150);
    await ledger.redis.hset(ledger.budgetKeyOf(), { overdraft_limit: '40', is_over_limit: '1' });
    expect(await ledger.figures()).toBe('-50,0,100,100,50,40,1');
    expect(returnedBy(await ledger.refund(id, 5))).toEqual(['5']);
    expect(await ledger.figures()).toBe('-45,0,100,100,45,40,1');
    expect(returnedBy(await ledger.refund(id, 70))).toEqual(['70']);
    expect(await ledger.figures()).toBe('25,0,75,100,0,40,0');
    expect((await told(ledger)).slice(-3)).toEqual([
      'custom.reservation.refunded',
      'budget.over_limit_exited',
      'custom.reservation.refunded',
    ]);
  });

  test('clears the mark of a capped charge, tells thresholds that use fell below, and nothing where none is', async () => {
    const ledger = await withBudget({ allocated: 100 });
    const id = await committed(ledger, 50, 150, { policy: 'ALLOW_IF_AVAILABLE' });
    expect(await ledger.figures()).toBe('0,0,100,100,0,0,1');
    await ledger.refund(id, 15);
    expect(await ledger.figures()).toBe('15,0,85,100,0,0,0');
    const { events } = await assertInvariants(ledger);
    expect(
      events
        .filter((event) => isCrossing(event) && event.fields['direction'] === 'falling')
        .map(({ fields }) => [fields['threshold'], fields['utilization']]),
    ).toEqual([
      ['0.95', '0.8500'],
      ['1', '0.8500'],
    ]);
  });

  test('is exact beyond 2^53', async () => {
    const ledger = await withBudget({ allocated: MAX });
    const id = await committed(ledger, MAX);
    expect((await ledger.refund(id, '9007199254740993'))[3]).toBe('9007199254740993');
    expect(await ledger.figures()).toBe(`9007199254740993,0,9214364837600034814,${MAX},0,0,0`);
    expect(await refused(ledger, id, MAX)).toEqual(['REFUND_EXCEEDED', 'COMMITTED', MAX, '9007199254740993']);
    expect((await ledger.refund(id, '9214364837600034814'))[3]).toBe(MAX);
    expect(await ledger.figures()).toBe(`${MAX},0,0,${MAX},0,0,0`);
    await assertInvariants(ledger);
  });

  test('goes to frozen and closed budgets; only a closed tenant stops it', async () => {
    const ledger = await withBudget();
    const id = await committed(ledger, 100);
    for (const [status, left] of [
      ['FROZEN', '910,0,90,1000,0,0,0'],
      ['CLOSED', '920,0,80,1000,0,0,0'],
    ] as const) {
      await ledger.redis.hset(ledger.budgetKeyOf(), 'status', status);
      expect((await ledger.refund(id, 10))[0]).toBe('REFUNDED');
      expect(await ledger.figures()).toBe(left);
    }
    await ledger.makeTenant({ status: 'SUSPENDED' });
    expect((await ledger.refund(id, 10))[0]).toBe('REFUNDED');
    await ledger.makeTenant({ status: 'CLOSED' });
    expect(await refused(ledger, id, 10)).toEqual(['TENANT_CLOSED']);
    expect(await refused(ledger, id, 10, { tenant: '' })).toEqual(['TENANT_CLOSED']);
  });

  test('repeated returns its own balances, and another payload is a mismatch', async () => {
    const ledger = await withBudget();
    const id = await committed(ledger, 100);
    const first = await ledger.refund(id, 10, { key: 'k' });
    await ledger.refund(id, 10);
    await ledger.makeTenant({ status: 'CLOSED' });
    const before = await snapshot(ledger);
    expect(await ledger.refund(id, 10, { key: 'k' })).toEqual(['REFUNDED', 'replay', ...first.slice(2)]);
    expect(await ledger.refund(id, 11, { key: 'k' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await snapshot(ledger)).toEqual(before);
    await ledger.redis.del(ledger.reservationKeyOf(id));
    expect((await ledger.refund(id, 10, { key: 'k' })).slice(2)).toEqual(first.slice(2));
  });

  test('of all of it twice at once is made once', async () => {
    const ledger = await withBudget();
    const id = await committed(ledger, 100);
    const words = (await Promise.all([ledger.refund(id, 100), ledger.refund(id, 100)])).map(([word]) => word);
    expect(words.sort()).toEqual(['REFUNDED', 'REFUND_EXCEEDED']);
    expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
    await assertInvariants(ledger);
  });

  test('finds what a packed record was charged, and the record stays as long as one that ended now', async () => {
    const ledger = await withBudget();
    const id = await committed(ledger, 100, 80);
    const key = ledger.reservationKeyOf(id);
    await ledger.refund(id, 10);
    await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
    expect(await ledger.redis.hexists(key, '0')).toBe(1);
    await ledger.redis.pexpire(key, 60_000);
    expect((await ledger.refund(id, 20))[3]).toBe('30');
    expect(await ledger.redis.pttl(key)).toBeGreaterThan(RETENTION_MS - 60_000);
    expect((await readLedger(ledger)).holds.get(id)).toMatchObject({ ch: '80', rf: '30', am: '100' });
    expect(await refused(ledger, id, 51)).toEqual(['REFUND_EXCEEDED', 'COMMITTED', '80', '30']);
  });

  test('takes back what an expired hold cost, and lets an overdue one expire first', async () => {
    const ledger = await withBudget();
    const { id } = await ledger.hold({ amount: 50, fields: { ce: '20' } });
    await ledger.makeOverdue(id);
    expect((await ledger.refund(id, 5)).slice(0, 3)).toEqual([
      'RESERVATION_EXPIRED',
      'charged',
      ledger.tenant,
    ]);
    expect(await ledger.figures()).toBe('980,0,20,1000,0,0,0');
    expect((await ledger.refund(id, 5))[3]).toBe('5');
    expect(await refused(ledger, id, 16)).toEqual(['REFUND_EXCEEDED', 'EXPIRED', '20', '5']);
    const free = await ledger.hold({ amount: 50 });
    await ledger.makeOverdue(free.id);
    await ledger.expire(free.id);
    expect(await refused(ledger, free.id, 1)).toEqual(['REFUND_EXCEEDED', 'EXPIRED', '0', '0']);
    await assertInvariants(ledger);
  });

  test('by an operator needs no tenant and leaves an audit row in the same run', async () => {
    const ledger = await withBudget();
    const id = await committed(ledger, 100);
    expect((await ledger.refund(id, 10, { tenant: '', by: '', reason: 'goodwill' })).slice(2, 4)).toEqual([
      ledger.tenant,
      '10',
    ]);
    const [[, row] = [], ...others] = await ledger.redis.xrange(auditLogKey(ledger.tag), '-', '+');
    expect(others).toEqual([]);
    expect(row).toEqual(expect.arrayContaining(['refundReservation', ledger.tenant, id, 'goodwill']));
    expect((await journalOf(ledger)).at(-1)).toMatchObject({ eb: 'admin' });
  });

  test('wakes the reserve that waits for the funds', async () => {
    const ledger = await withBudget({ allocated: 100 });
    const id = await committed(ledger, 100);
    const place = `${ONE}.1.40`;
    const until = (await ledger.serverTime()) + 60_000;
    await ledger.redis.hset(ledger.budgetKeyOf(), { waiting: '1', extras: '1' });
    await ledger.redis.zadd(waiterQueueKey(ledger.tag, 'TOKENS', ledger.scope()), 1, place);
    await ledger.redis.zadd(waitersKey(ledger.tag, ledger.tenant), until, place);
    expect(await toldOf(ledger, () => ledger.refund(id, 39))).toEqual([]);
    expect(await toldOf(ledger, () => ledger.refund(id, 1))).toEqual([place]);
  });

  test('stops at a budget or a record that cannot be trusted, and changes no byte', async () => {
    const ledger = await withBudget();
    const id = await committed(ledger, 100);
    await ledger.redis.hset(ledger.budgetKeyOf(), 'spent', '99');
    const before = await snapshot(ledger);
    await expect(ledger.refund(id, 1)).rejects.toThrow('corrupt budget record');
    expect(await snapshot(ledger)).toEqual(before);
    await ledger.redis.hset(ledger.budgetKeyOf(), 'spent', '100');
    await ledger.redis.rename(journalKey(ledger.tag), `${ledger.tag}kept`);
    await ledger.redis.set(journalKey(ledger.tag), 'damaged');
    const damaged = await snapshot(ledger);
    await expect(ledger.refund(id, 1)).rejects.toThrow('WRONGTYPE');
    expect(await snapshot(ledger)).toEqual(damaged);
    await ledger.redis.rename(`${ledger.tag}kept`, journalKey(ledger.tag));
    await ledger.redis.hset(ledger.reservationKeyOf(id), 'ch', 'x');
    expect(await refused(ledger, id, 1)).toEqual(['NOT_FOUND', 'INVALID_CHARGE']);
  });
});

describe('what has ended since the charge is not reopened', () => {
  /** A budget of 100 a day at the tenant, in the year 2100, and one of 1,000 without a period at its agent. */
  async function inPeriod(policy = 'NONE', more: Record<string, string> = {}): Promise<LedgerClient> {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const within = clockAt(ledger, STARTS + 1000);
    const period = { starts: String(STARTS), ends: String(STARTS + DAY_MS), policy };
    expect((await createBudget(within, '100', period))[0]).toBe('CREATED');
    await ledger.redis.hset(ledger.budgetKeyOf(), { overdraft_limit: '0', ...more });
    await ledger.makeBudget({ scope: ledger.scope(AGENT), overdraftLimit: 100 });
    return within;
  }

  test('a period: nothing of the charge stands in it, but other budgets get all of it', async () => {
    const within = await inPeriod();
    const id = await committed(within, 60, 60, { subject: AGENT });
    expect(returnedBy(await within.refund(id, 10))).toEqual(['10', '10']);
    const next = clockAt(within, STARTS + DAY_MS);
    const other = await committed(next, 30, 30, { subject: AGENT });
    expect(returnedBy(await next.refund(id, 20))).toEqual(['0', '20']);
    expect(await next.figures()).toBe('70,0,30,100,0,0,0');
    expect(returnedBy(await next.refund(other, 30))).toEqual(['30', '30']);
    expect(await next.figures()).toBe('100,0,0,100,0,0,0');
    await assertInvariants(next);
  });

  test('a period whose rollover is due: the budget is rolled over first', async () => {
    const within = await inPeriod('CARRY_FORWARD');
    const id = await committed(within, 60, 60, { subject: AGENT });
    const next = clockAt(within, STARTS + DAY_MS);
    expect(returnedBy(await next.refund(id, 60))).toEqual(['0', '60']);
    expect(await next.figures()).toBe('140,0,0,140,0,0,0');
  });

  test('debt outlives its period, and is repaid', async () => {
    const within = await inPeriod('NONE', { overdraft_limit: '50' });
    const id = await committed(within, 60, 130, { subject: AGENT });
    const next = clockAt(within, STARTS + DAY_MS);
    expect(returnedBy(await next.refund(id, 40))).toEqual(['30', '40']);
    expect(await next.figures()).toBe('100,0,0,100,0,50,0');
  });

  test('a reset: no more comes back than is spent', async () => {
    const ledger = await withBudget({ allocated: 100 });
    const id = await committed(ledger, 60);
    await fund(ledger, 100, { operation: 'RESET_SPENT' });
    await committed(ledger, 5);
    expect(returnedBy(await ledger.refund(id, 60))).toEqual(['5']);
    expect(await ledger.figures()).toBe('100,0,0,100,0,0,0');
    expect(await refused(ledger, id, 1)).toEqual(['REFUND_EXCEEDED', 'COMMITTED', '60', '60']);
  });

  test('a budget that is gone: the others get their share', async () => {
    const ledger = await withBudget();
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT) });
    const id = await committed(ledger, 60, 60, { subject: AGENT });
    await ledger.redis.del(budgetKey(ledger.tag, 'TOKENS', leaf));
    expect((await ledger.refund(id, 60)).slice(4)).toEqual([ledger.scope(), '1000,0,0,1000,0,0,0', '60']);
  });

  test('a window: one that has ended, or began after the charge, is left as it is', async () => {
    const ledger = await newLedger();
    await ledger.makeTenant();
    const within = clockAt(ledger, STARTS + 1000);
    await createBudget(within, '1000');
    await ledger.redis.hset(ledger.budgetKeyOf(), 'overdraft_limit', '0');
    const days = Array.from({ length: 9 }, (_, day) => STARTS + (day + 1) * DAY_MS);
    const weeks = days.map((_, week) => STARTS + (week + 1) * 7 * DAY_MS);
    const [day, week] = [
      { name: 'day', limit: 100, ends: days },
      { name: 'week', limit: 500, ends: weeks },
    ];
    expect((await setWindows(within, [day, week]))[0]).toBe('CHANGED');
    const spentIn = async (): Promise<string> =>
      String(await ledger.redis.hget(ledger.budgetKeyOf(), 'windows')).replaceAll(/,\d+,\d+(?= |$)/g, '');
    const id = await committed(within, 60);
    expect(returnedBy(await within.refund(id, 10))).toEqual(['10']);
    expect(await spentIn()).toBe('day,100,50 week,500,50');
    const next = clockAt(ledger, STARTS + DAY_MS);
    await committed(next, 30);
    expect(returnedBy(await next.refund(id, 20))).toEqual(['20']);
    expect(await spentIn()).toBe('day,100,30 week,500,60');
    expect(await next.figures()).toBe('940,0,60,1000,0,0,0');
    await setWindows(next, [week]);
    await setWindows(next, [day, week]);
    await next.refund(id, 30);
    expect(await spentIn()).toBe('day,100,0 week,500,30');
  });
});

describe('a refund of a direct debit', () => {
  test('finds it by its id alone, adds up, and is told', async () => {
    const ledger = await withBudget();
    const leaf = await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: 100 });
    await debited(ledger, 7);
    const id = await debited(ledger, 50, {
      subject: AGENT,
      fields: { ag: 'bot' },
      id: `evn_${ledger.tag.slice(2, 4)}123456789`,
    });
    expect(returnedBy(await ledger.refund(id, 20, { reason: 'twice' }))).toEqual(['20', '20']);
    expect(await refused(ledger, id, 31)).toEqual(['REFUND_EXCEEDED', 'APPLIED', '50', '20']);
    expect((await ledger.refund(id, 30))[3]).toBe('50');
    expect(await ledger.figures(leaf)).toBe('100,0,0,100,0,0,0');
    const state = await assertInvariants(ledger);
    expect(
      state.events.filter(({ fields }) => fields['ty'] === 'custom.direct_debit.refunded'),
    ).toMatchObject([
      { fields: { event_id: id, co: id, sc: leaf, refunded: '20', refunded_total: '20', reason: 'twice' } },
      { fields: { event_id: id, co: id, refunded: '30', refunded_total: '50', charged: '50' } },
    ]);
    expect(chargedBy(state)).toEqual([`TOKENS:${ledger.scope()} 7`]);
  });

  test('leaves alone what was not charged, even if it has a budget now', async () => {
    const ledger = await withBudget();
    const subject = { ...AGENT, toolset: 'web' };
    const id = await debited(ledger, 50, { subject });
    const later = await ledger.makeBudget({ scope: ledger.scope(subject), spent: 9 });
    expect((await ledger.refund(id, 20)).slice(4)).toEqual([ledger.scope(), '970,0,30,1000,0,0,0', '20']);
    expect(await ledger.figures(later)).toBe('991,0,9,1000,0,0,0');
  });

  test('is refused for another tenant, another unit, an unknown debit and a closed tenant', async () => {
    const ledger = await withBudget();
    const id = await debited(ledger, 50);
    expect(await refused(ledger, id, 1, { tenant: 'other' })).toEqual(['FORBIDDEN']);
    expect(await refused(ledger, id, 1, { unit: 'CREDITS' })).toEqual([
      'UNIT_MISMATCH',
      'TOKENS',
      ledger.scope(),
    ]);
    expect(await refused(ledger, id.replace('abc', 'xyz'), 1)).toEqual(['NOT_FOUND']);
    await ledger.makeTenant({ status: 'CLOSED' });
    expect(await refused(ledger, id, 1)).toEqual(['TENANT_CLOSED']);
  });

  test('that was capped takes back no more than the charge, and an operator needs no tenant', async () => {
    const ledger = await withBudget({ allocated: 30 });
    const id = await debited(ledger, 50, { policy: 'ALLOW_IF_AVAILABLE' });
    expect(await refused(ledger, id, 31)).toEqual(['REFUND_EXCEEDED', 'APPLIED', '30', '0']);
    expect((await ledger.refund(id, 30, { tenant: '', by: '' }))[2]).toBe(ledger.tenant);
    expect(await ledger.figures()).toBe('30,0,0,30,0,0,0');
    const rows = await ledger.redis.xrange(auditLogKey(ledger.tag), '-', '+');
    expect(rows.map(([, row]) => row)).toEqual([expect.arrayContaining(['refundEvent', id])]);
  });

  test('with debt repays it first', async () => {
    const ledger = await withBudget({ allocated: 30, overdraftLimit: 100 });
    const id = await debited(ledger, 50, { policy: 'ALLOW_WITH_OVERDRAFT' });
    expect(await ledger.figures()).toBe('-20,0,30,30,20,100,0');
    expect(returnedBy(await ledger.refund(id, 25))).toEqual(['25']);
    expect(await ledger.figures()).toBe('5,0,25,30,0,100,0');
    await setFrozen(ledger, true);
    expect((await ledger.refund(id, 25))[0]).toBe('REFUNDED');
  });
});
