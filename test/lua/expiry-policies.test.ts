import { describe, expect, test } from '@jest/globals';
import {
  cleanupIndexKey,
  closingKey,
  ownedKey,
  quarantineKey,
  reservationIndexKey,
  reservationKey,
  tenantKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { clockAt } from '../support/fixed-clock.js';
import { takeSubjectApart } from '../support/hold-record.js';
import { RETENTION_MS, TRACE, type Hold, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const GRACE_MS = 5000;
/** Records with longer texts are read without these where many are read. */
const LONG_METADATA = JSON.stringify({ note: 'm'.repeat(1100) });

type Policy = 'AUTO_RELEASE' | 'GRACE_ONLY' | 'MANUAL_CLEANUP';
type When = 'in the lease' | 'at its end' | 'in the grace' | 'at its very end' | 'after the grace';
const POLICIES: readonly Policy[] = ['AUTO_RELEASE', 'GRACE_ONLY', 'MANUAL_CLEANUP'];

async function heldUnder(
  policy: Policy | undefined,
  options = {},
): Promise<{ ledger: LedgerClient; hold: Hold }> {
  const ledger = await newLedger();
  await ledger.makeBudget();
  await ledger.makeTenant(policy === undefined ? {} : { reservation_expiry_policy: policy });
  return { ledger, hold: await ledger.hold({ amount: 100, graceMs: GRACE_MS, ...options }) };
}

function at({ expiresAt }: Hold, when: When): number {
  const offsets = {
    'in the lease': -1,
    'at its end': 0,
    'in the grace': 1,
    'at its very end': GRACE_MS,
    'after the grace': GRACE_MS + 1,
  };
  return expiresAt + offsets[when];
}

const HELD = '900,100,0,1000,0,0,0';
const RETURNED = '1000,0,0,1000,0,0,0';
const WHENS: readonly When[] = [
  'in the lease',
  'at its end',
  'in the grace',
  'at its very end',
  'after the grace',
];

type Operation =
  | 'commit'
  | 'release'
  | 'extend'
  | 'get'
  | 'list'
  | 'inspect'
  | 'expire'
  | 'sweep'
  | 'cleanup'
  | 'denial'
  | 'quarantine retry'
  | 'close';

/** Closes the tenant, from the first step to the last. */
async function close(ledger: LedgerClient): Promise<string[]> {
  await ledger.makeTenant({ status: 'CLOSED' });
  await ledger.redis.hset(closingKey(ledger.tag), ledger.tenant, 'admin||req|trace|ACTIVE');
  let [reply, phase, cursor]: [string[], string, string] = [[], 'holds', ''];
  while (reply[0] !== 'DONE') {
    reply = await ledger.scripts.run(
      'close_tenant',
      [tenantKey(ledger.tag, ledger.tenant)],
      [ledger.tenant, phase, cursor, 10, RETENTION_MS, 'channel'],
    );
    [, phase = '', cursor = ''] = reply;
  }
  return reply;
}

const OPERATIONS: Record<Operation, (ledger: LedgerClient, id: string) => Promise<string[]>> = {
  commit: (ledger, id) => ledger.commit(id, 40),
  release: (ledger, id) => ledger.release(id),
  extend: (ledger, id) => ledger.extend(id, 1000),
  get: (ledger, id) => ledger.get(id),
  expire: (ledger, id) => ledger.expire(id),
  sweep: async (ledger, id) => (await ledger.expirePage([id])).slice(2),
  cleanup: async (ledger) => (await ledger.cleanup()).slice(6),
  denial: (ledger) => ledger.reserve({ amount: 950 }),
  close,
  list: async (ledger) => {
    const index = reservationIndexKey(ledger.tag, ledger.tenant);
    const reply = await ledger.scripts.run(
      'list_reservations',
      [index],
      [ledger.tenant, 'desc', '-inf', '+inf', '', '', 10, 10, RETENTION_MS, 'req_list', TRACE],
    );
    // A row starts with the id, followed by the state.
    return [reply[reply.findIndex((part) => part.startsWith('rsv_')) + 1] as string];
  },
  inspect: async (ledger, id) => {
    const reply = await ledger.scripts.run(
      'inspect_reservation',
      [ledger.reservationKeyOf(id)],
      [id, RETENTION_MS, 'req_inspect', TRACE],
    );
    return [reply[reply.lastIndexOf('st') + 1] as string];
  },
  'quarantine retry': async (ledger, id) => {
    await ledger.redis.hset(quarantineKey(ledger.tag), id, 'INVALID_ESTIMATE 1');
    await ledger.redis.zrem(await ledger.deadlineIndexKey(id), id);
    return (
      await ledger.scripts.run(
        'decide_quarantined',
        [ledger.reservationKeyOf(id)],
        [id, 'retry', '', RETENTION_MS, 'req_decide', TRACE, ''],
      )
    ).slice(2);
  },
};

/** The reply, the state afterwards, and the budget's remaining and reserved amounts. */
const rows: [Operation, Policy | 'any', When, string, string, string][] = [
  ...WHENS.slice(0, 4).flatMap((when): typeof rows => [
    ['commit', 'any', when, 'COMMITTED', 'COMMITTED', '960,0'],
    ['release', 'any', when, 'RELEASED', 'RELEASED', '1000,0'],
    ['get', 'any', when, 'FOUND', 'ACTIVE', '900,100'],
    ['expire', 'any', when, 'SKIP in_grace_period', 'ACTIVE', '900,100'],
    ['sweep', 'any', when, 'SKIP in_grace_period', 'ACTIVE', '900,100'],
    ['cleanup', 'any', when, '', 'ACTIVE', '900,100'],
    ['denial', 'any', when, 'BUDGET_EXCEEDED', 'ACTIVE', '900,100'],
    ['list', 'any', when, 'ACTIVE', 'ACTIVE', '900,100'],
    ['inspect', 'any', when, 'ACTIVE', 'ACTIVE', '900,100'],
    ['quarantine retry', 'any', when, 'SKIP in_grace_period', 'ACTIVE', '900,100'],
    ['close', 'any', when, 'DONE', 'RELEASED', '1000,0'],
  ]),
  ['extend', 'any', 'in the lease', 'ACTIVE', 'ACTIVE', '900,100'],
  ['extend', 'any', 'at its end', 'ACTIVE', 'ACTIVE', '900,100'],
  ['extend', 'any', 'in the grace', 'RESERVATION_EXPIRED', 'ACTIVE', '900,100'],
  ['extend', 'any', 'at its very end', 'RESERVATION_EXPIRED', 'ACTIVE', '900,100'],
  ...(['AUTO_RELEASE', 'GRACE_ONLY'] as const).flatMap((policy): typeof rows => [
    ['commit', policy, 'after the grace', 'RESERVATION_EXPIRED now', 'EXPIRED', '1000,0'],
    ['release', policy, 'after the grace', 'RESERVATION_EXPIRED now', 'EXPIRED', '1000,0'],
    ['extend', policy, 'after the grace', 'RESERVATION_EXPIRED now', 'EXPIRED', '1000,0'],
    ['get', policy, 'after the grace', 'RESERVATION_EXPIRED now', 'EXPIRED', '1000,0'],
    ['expire', policy, 'after the grace', 'EXPIRED', 'EXPIRED', '1000,0'],
    ['sweep', policy, 'after the grace', 'EXPIRED', 'EXPIRED', '1000,0'],
    ['cleanup', policy, 'after the grace', '', 'ACTIVE', '900,100'],
    ['denial', policy, 'after the grace', 'RECLAIMED', 'EXPIRED', '1000,0'],
    ['list', policy, 'after the grace', 'EXPIRED', 'EXPIRED', '1000,0'],
    ['inspect', policy, 'after the grace', 'EXPIRED', 'EXPIRED', '1000,0'],
    ['quarantine retry', policy, 'after the grace', 'EXPIRED', 'EXPIRED', '1000,0'],
    ['close', policy, 'after the grace', 'DONE', 'EXPIRED', '1000,0'],
  ]),
  ['commit', 'MANUAL_CLEANUP', 'after the grace', 'RESERVATION_EXPIRED', 'ACTIVE', '900,100'],
  ['release', 'MANUAL_CLEANUP', 'after the grace', 'RELEASED', 'RELEASED', '1000,0'],
  ['extend', 'MANUAL_CLEANUP', 'after the grace', 'RESERVATION_EXPIRED', 'ACTIVE', '900,100'],
  ['get', 'MANUAL_CLEANUP', 'after the grace', 'FOUND', 'ACTIVE', '900,100'],
  ['expire', 'MANUAL_CLEANUP', 'after the grace', 'SKIP awaiting_cleanup', 'ACTIVE', '900,100'],
  ['sweep', 'MANUAL_CLEANUP', 'after the grace', 'SKIP awaiting_cleanup', 'ACTIVE', '900,100'],
  ['cleanup', 'MANUAL_CLEANUP', 'after the grace', 'EXPIRED', 'EXPIRED', '1000,0'],
  ['denial', 'MANUAL_CLEANUP', 'after the grace', 'BUDGET_EXCEEDED', 'ACTIVE', '900,100'],
  ['list', 'MANUAL_CLEANUP', 'after the grace', 'ACTIVE', 'ACTIVE', '900,100'],
  ['inspect', 'MANUAL_CLEANUP', 'after the grace', 'ACTIVE', 'ACTIVE', '900,100'],
  ['quarantine retry', 'MANUAL_CLEANUP', 'after the grace', 'SKIP awaiting_cleanup', 'ACTIVE', '900,100'],
  ['close', 'MANUAL_CLEANUP', 'after the grace', 'DONE', 'RELEASED', '1000,0'],
];

describe('each expiry policy at each instant', () => {
  const cases = rows.flatMap(([operation, policy, ...row]) =>
    (policy === 'any' ? POLICIES : [policy]).map((one) => [operation, one, ...row] as const),
  );
  test.each(cases)(
    '%s under %s, %s: %s, and the reservation is %s (%s)',
    async (operation, policy, when, answer, state, figures) => {
      shows('expiry policies');
      const { ledger, hold } = await heldUnder(policy);
      const reply = await OPERATIONS[operation](clockAt(ledger, at(hold, when)), hold.id);
      expect(reply.join(' ').startsWith(answer)).toBe(true);
      expect(reply.length > 0).toBe(answer !== '');
      expect((await ledger.record(hold.id))['st']).toBe(state);
      expect((await ledger.figures()).split(',').slice(0, 2).join()).toBe(figures);
      const { events } = await assertInvariants(ledger);
      expect(events.filter(({ fields }) => fields['ty'] === 'reservation.expired')).toHaveLength(
        state === 'EXPIRED' ? 1 : 0,
      );
    },
  );
});

describe('the policy', () => {
  test('adds nothing to a record if it is AUTO_RELEASE, and a letter otherwise; the record stays compact', async () => {
    for (const [policy, letter] of [
      [undefined, undefined],
      ['AUTO_RELEASE', undefined],
      ['GRACE_ONLY', 'g'],
      ['MANUAL_CLEANUP', 'm'],
    ] as const) {
      const { ledger, hold } = await heldUnder(policy);
      expect((await ledger.record(hold.id))['xp']).toBe(letter);
      expect(await ledger.redis.object('ENCODING', reservationKey(ledger.tag, hold.id))).toBe('listpack');
    }
  });

  test("is that of the hold's creation: a later change of the tenant changes no live hold", async () => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP');
    await ledger.makeTenant({ reservation_expiry_policy: 'AUTO_RELEASE' });
    const later = await ledger.hold({ amount: 10 });
    const [deadline] = [await ledger.makeOverdue(hold.id), await ledger.makeOverdue(later.id)];
    expect(await ledger.expire(hold.id)).toEqual(['SKIP', 'awaiting_cleanup', String(deadline)]);
    expect((await ledger.expire(later.id))[0]).toBe('EXPIRED');
    await ledger.makeTenant({ reservation_expiry_policy: 'MANUAL_CLEANUP' });
    expect((await ledger.cleanup()).slice(5, 7)).toEqual([hold.id, 'EXPIRED']);
    await assertInvariants(ledger);
  });

  test.each([
    ['short', {}],
    ['long', { fields: { md: LONG_METADATA } }],
  ])('is read in each form of a %s record', async (_length, more) => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP', more);
    await takeSubjectApart(ledger.redis, reservationKey(ledger.tag, hold.id));
    await ledger.makeOverdue(hold.id);
    expect((await ledger.expire(hold.id)).slice(0, 2)).toEqual(['SKIP', 'awaiting_cleanup']);
    expect((await ledger.cleanup()).slice(5, 7)).toEqual([hold.id, 'EXPIRED']);
    await ledger.scripts.run('pack_records', [`${ledger.tag}journal`], [10]);
    expect(await ledger.redis.hget(reservationKey(ledger.tag, hold.id), '0')).not.toBeNull();
    expect((await ledger.record(hold.id))['xp']).toBe('m');
  });

  test('that is unknown stops a reserve before anything is held, and puts a hold into quarantine', async () => {
    const { ledger, hold } = await heldUnder(undefined);
    await ledger.makeTenant({ reservation_expiry_policy: 'SOMEDAY' });
    const before = await snapshot(ledger);
    await expect(ledger.reserve()).rejects.toThrow('corrupt tenant record');
    expect(await snapshot(ledger)).toEqual(before);
    await ledger.makeOverdue(hold.id);
    await ledger.redis.hset(reservationKey(ledger.tag, hold.id), 'xp', 'z');
    expect((await ledger.expire(hold.id)).slice(0, 2)).toEqual(['QUARANTINED', 'INVALID_EXPIRY']);
  });
});

describe('a hold under MANUAL_CLEANUP', () => {
  test("never is in the sweeper's index, however it is extended, and leaves its own index when it ends", async () => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP');
    expect([await ledger.ttlScore(hold.id), await ledger.cleanupScore(hold.id)]).toEqual([
      null,
      String(hold.expiresAt + GRACE_MS),
    ]);
    const [, , expiresAt] = await ledger.extend(hold.id, 60_000);
    expect([await ledger.ttlScore(hold.id), await ledger.cleanupScore(hold.id)]).toEqual([
      null,
      String(Number(expiresAt) + GRACE_MS),
    ]);
    await ledger.commit(hold.id, 1);
    expect(await ledger.cleanupScore(hold.id)).toBeNull();
    await assertInvariants(ledger);
  });

  test('that awaits cleanup keeps its budget through any number of denied reserves', async () => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP');
    await ledger.makeOverdue(hold.id);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      expect((await ledger.reserveToTheEnd({ amount: 950 }))[0]).toBe('BUDGET_EXCEEDED');
    }
    expect(await ledger.figures()).toBe(HELD);
    expect((await ledger.release(hold.id))[0]).toBe('RELEASED');
    expect(await ledger.figures()).toBe(RETURNED);
    await assertInvariants(ledger);
  });

  test('that awaits cleanup is released by an operator, with an audit row', async () => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP');
    await ledger.makeOverdue(hold.id);
    expect((await ledger.release(hold.id, { tenant: '', by: '' }))[0]).toBe('RELEASED');
    expect(await ledger.redis.xlen(`${ledger.tag}audit`)).toBe(1);
    await assertInvariants(ledger);
  });

  test("that is in the sweeper's index nevertheless is moved to its own, and is not found there again", async () => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP');
    const deadline = String(await ledger.makeOverdue(hold.id));
    await ledger.redis.zrem(cleanupIndexKey(ledger.tag), hold.id);
    await ledger.redis.zadd(ttlIndexKey(ledger.tag), deadline, hold.id);
    expect(await ledger.reserve({ amount: 950 })).toEqual([
      'RECLAIMED',
      expect.any(String),
      'SKIP',
      'awaiting_cleanup',
      deadline,
    ]);
    expect((await ledger.reserve({ amount: 950 }))[0]).toBe('BUDGET_EXCEEDED');
    await assertInvariants(ledger);
  });

  test("that was edited and is now the sweeper's leaves both indexes when its tenant is closed", async () => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP');
    await ledger.makeOverdue(hold.id);
    await ledger.redis.hdel(reservationKey(ledger.tag, hold.id), 'xp');
    await close(ledger);
    expect((await ledger.record(hold.id))['st']).toBe('EXPIRED');
    expect([await ledger.ttlScore(hold.id), await ledger.cleanupScore(hold.id)]).toEqual([null, null]);
  });

  test('in quarantine is out of both indexes; a retry puts it back to await cleanup', async () => {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP');
    const deadline = String(await ledger.makeOverdue(hold.id));
    await ledger.redis.hset(reservationKey(ledger.tag, hold.id), 'am', 'many');
    expect((await ledger.cleanup()).slice(5)).toEqual([
      hold.id,
      'QUARANTINED',
      'INVALID_ESTIMATE',
      ledger.tenant,
    ]);
    expect([await ledger.ttlScore(hold.id), await ledger.cleanupScore(hold.id)]).toEqual([null, null]);
    await ledger.redis.hset(reservationKey(ledger.tag, hold.id), 'am', '100');
    const decide = (action: string): Promise<string[]> =>
      ledger.scripts.run(
        'decide_quarantined',
        [reservationKey(ledger.tag, hold.id)],
        [hold.id, action, '', 1000, 'req_1', 'trace', ''],
      );
    expect((await decide('retry')).slice(2)).toEqual(['SKIP', 'awaiting_cleanup', deadline]);
    expect(await ledger.redis.hlen(quarantineKey(ledger.tag))).toBe(0);
    expect(await ledger.record(hold.id)).not.toHaveProperty('qr');
    expect(await ledger.cleanupScore(hold.id)).toBe(deadline);
    expect(await ledger.figures()).toBe(HELD);
  });
});

describe('a cleanup', () => {
  async function waiting(count: number): Promise<{ ledger: LedgerClient; ids: string[] }> {
    const { ledger, hold } = await heldUnder('MANUAL_CLEANUP', { amount: 1 });
    const ids = [hold.id];
    while (ids.length < count) {
      ids.push((await ledger.hold({ amount: 1 })).id);
    }
    for (const [index, id] of ids.entries()) {
      await ledger.makeOverdue(id, 100_000 - 10_000 * index);
    }
    return { ledger, ids };
  }

  test('emits reservation.expired once for each, by an operator, and writes an audit row for each', async () => {
    const { ledger, ids } = await waiting(2);
    const [, now] = await ledger.cleanup({ reason: 'INC-7' });
    expect((await ledger.cleanup()).slice(2)).toEqual(['', '', '0']);
    const { events, holds } = await assertInvariants(ledger);
    expect(events.map(({ fields }) => fields)).toEqual(
      ids.map((id) =>
        expect.objectContaining({
          ty: 'reservation.expired',
          reservation_id: id,
          ac: 'admin',
          rq: 'req_cleanup',
          expired_at: now,
        }),
      ),
    );
    expect(holds.get(ids[0] as string)).toMatchObject({
      st: 'EXPIRED',
      eb: 'admin',
      fa: now,
      ev: events[0]?.id,
    });
    const rows = await ledger.redis.xrange(`${ledger.tag}audit`, '-', '+');
    expect(rows).toHaveLength(2);
    expect(rows[0]?.[1]).toEqual(
      expect.arrayContaining([
        'cleanupReservations',
        '__admin__',
        ledger.tenant,
        'admin',
        'reservation',
        ids[0],
        'INC-7',
      ]),
    );
    expect(await ledger.redis.pttl(reservationKey(ledger.tag, ids[0] as string))).toBeGreaterThan(0);
  });

  test('takes the oldest first, up to its limit, and continues where it ended or starts over', async () => {
    const { ledger, ids } = await waiting(5);
    const first = await ledger.cleanup({ limit: 2 });
    expect([first[5], first[9], first.length]).toEqual([ids[0], ids[1], 13]);
    const [, , walkedMs = '', walkedId = ''] = first;
    expect(walkedId).toBe(ids[1]);
    const second = await ledger.cleanup({ limit: 2, walkedMs, walkedId });
    expect([second[5], second[9]]).toEqual([ids[2], ids[3]]);
    expect((await ledger.cleanup({ limit: 2 })).slice(2, 6)).toEqual(['', '', '1', ids[4]]);
    await assertInvariants(ledger);
  });

  test('skips holds that have not waited long enough, are in their grace, or belong to another tenant', async () => {
    const { ledger, ids } = await waiting(3);
    const other = 'globex-1';
    await ledger.makeTenant({ reservation_expiry_policy: 'MANUAL_CLEANUP' }, other);
    await ledger.makeBudget({ scope: `tenant:${other}` });
    const foreign = await ledger.hold({ tenant: other });
    await ledger.makeOverdue(foreign.id, 200_000);
    await ledger.hold({ amount: 1 });
    expect((await ledger.cleanup({ overdueForMs: 85_000 })).slice(4)).toEqual([
      '3',
      ids[0],
      'EXPIRED',
      ledger.tenant,
      expect.any(String),
      ids[1],
      'EXPIRED',
      ledger.tenant,
      expect.any(String),
    ]);
    expect((await ledger.cleanup({ tenant: '' })).slice(4, 7)).toEqual(['2', foreign.id, 'EXPIRED']);
    await assertInvariants(ledger);
  });

  test('reads no more entries than it may, even if none belongs to its tenant', async () => {
    const { ledger, ids } = await waiting(5);
    const reply = await ledger.cleanup({ tenant: 'globex-1', examine: 2 });
    expect(reply.slice(2)).toEqual([expect.any(String), ids[1], '2']);
    expect(
      (
        await ledger.cleanup({
          tenant: 'globex-1',
          examine: 4,
          walkedMs: reply[2] as string,
          walkedId: reply[3] as string,
        })
      ).slice(2),
    ).toEqual(['', '', '3']);
  });

  test('changes nothing in a dry run', async () => {
    const { ledger, ids } = await waiting(1);
    const before = await snapshot(ledger);
    const deadline = await ledger.cleanupScore(ids[0] as string);
    expect((await ledger.cleanup({ dryRun: true })).slice(4)).toEqual([
      '1',
      ids[0],
      'WOULD_EXPIRE',
      ledger.tenant,
      deadline,
    ]);
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('removes an entry without a record, and hands over to the sweeper what belongs to it', async () => {
    const {
      ledger,
      ids: [gone = '', settled = '', swept = ''],
    } = await waiting(3);
    await ledger.redis.del(reservationKey(ledger.tag, gone));
    await ledger.redis.zrem(`${ledger.tag}rc:${ledger.tenant}`, gone);
    await ledger.redis.hset(ledger.budgetKeyOf(), { remaining: '998', reserved: '2' });
    await ledger.redis.hincrby(ownedKey(ledger.tag, ledger.tenant), 'live', -1);
    const score = await ledger.cleanupScore(settled);
    await ledger.release(settled);
    await ledger.redis.zadd(cleanupIndexKey(ledger.tag), score as string, settled);
    await ledger.redis.hdel(reservationKey(ledger.tag, swept), 'xp');
    expect((await ledger.cleanup()).slice(5)).toEqual([
      gone,
      'NOT_FOUND',
      '',
      '',
      settled,
      'SKIP',
      'RELEASED',
      '',
      swept,
      'SKIP',
      'left_to_sweep',
      expect.any(String),
    ]);
    await assertInvariants(ledger);
    expect((await ledger.expire(swept))[0]).toBe('EXPIRED');
  });

  test.each([
    ['audit log', 'audit'],
    ['event log', 'events'],
  ])('changes nothing where the %s is damaged', async (_, name) => {
    const { ledger } = await waiting(1);
    await ledger.redis.set(`${ledger.tag}${name}`, 'broken');
    const before = await snapshot(ledger);
    await expect(ledger.cleanup()).rejects.toThrow('WRONGTYPE');
    expect(await snapshot(ledger)).toEqual(before);
  });
});
