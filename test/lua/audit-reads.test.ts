import { describe, expect, test } from '@jest/globals';
import {
  budgetIndexKey,
  journalKey,
  eventLogKey,
  quarantineKey,
  reservationIndexKey,
  reservationKey,
} from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { damageHold } from '../support/hold-record.js';
import { RETENTION_MS, TRACE, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

async function expired(ledger: LedgerClient, amount: number): Promise<string> {
  const { id } = await ledger.hold({ amount });
  await ledger.makeOverdue(id);
  await ledger.expire(id);
  return id;
}

function expirations(
  ledger: LedgerClient,
  start: string,
  examine: number,
  limit: number,
  tenants = '',
): Promise<string[]> {
  return ledger.scripts.run(
    'expirations',
    [eventLogKey(ledger.tag)],
    [start, '+', examine, limit, '-inf', '+inf', '', tenants, '', 'EXPIRED'],
  );
}

function countExpirations(
  ledger: LedgerClient,
  start: string,
  examine: number,
  toMs: number,
): Promise<string[]> {
  return ledger.scripts.run(
    'count_expirations',
    [eventLogKey(ledger.tag)],
    [start, '+', examine, 0, toMs, 100_000_000_000_000, '', '', '', 'EXPIRED'],
  );
}

function inspect(ledger: LedgerClient, id: string): Promise<string[]> {
  return ledger.scripts.run(
    'inspect_reservation',
    [reservationKey(ledger.tag, id)],
    [id, RETENTION_MS, 'req_ops', TRACE],
  );
}

describe('expirations', () => {
  test('is bounded by what it reads and by what it returns, and continues after either', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const ids = [await expired(ledger, 1), await expired(ledger, 2), await expired(ledger, 3)];
    for (const [examine, limit] of [
      [1, 10],
      [2, 10],
      [100, 1],
      [100, 2],
      [100, 100],
    ] as const) {
      const found: string[] = [];
      let start = '-';
      do {
        const [next, ...rest] = (await expirations(ledger, start, examine, limit)) as [string, ...string[]];
        const told = rest.filter((text) => ids.includes(text));
        expect(told.length).toBeLessThanOrEqual(Math.min(examine, limit));
        found.push(...told);
        start = next;
      } while (start !== '');
      expect(found).toEqual(ids);
    }
  });

  test('are counted by slot, a bounded stretch at a time, up to the end of the window', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await expired(ledger, 1);
    await expired(ledger, 2);
    const ms = (await ledger.serverTime()) + 1;
    await eventually('the next one is later', async () => (await ledger.serverTime()) > ms);
    await expired(ledger, 3);
    for (const [examine, to, wanted] of [
      [1, ms + 60_000, 3],
      [100, ms + 60_000, 3],
      [2, ms, 2],
    ] as const) {
      let [start, sum] = ['-', 0];
      do {
        const [next = '', examined, ...counts] = await countExpirations(ledger, start, examine, to);
        expect(Number(examined)).toBeLessThanOrEqual(examine);
        expect(counts.filter((_text, index) => index % 2 === 0)).toEqual(counts.length > 0 ? ['0'] : []);
        sum += Number(counts[1] ?? 0);
        start = next;
      } while (start !== '');
      expect(sum).toBe(wanted);
    }
  });

  test('without a tenant are for operators of the whole deployment only', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const id = await expired(ledger, 1);
    await ledger.redis.xadd(
      eventLogKey(ledger.tag),
      '*',
      'ty',
      'reservation.expired',
      'reservation_id',
      'lost',
    );
    const told = async (tenants: string): Promise<string[]> =>
      (await expirations(ledger, '-', 10, 10, tenants)).filter((text) => [id, 'lost'].includes(text));
    expect(await told('')).toEqual([id, 'lost']);
    for (const own of [ledger.tenant, `${ledger.tenant.slice(0, 2)}*`, `other ${ledger.tenant}`]) {
      expect(await told(own)).toEqual([id]);
    }
    expect(await told('other ot*')).toEqual([]);
  });

  test('of a missing log is empty', async () => {
    const ledger = await newLedger();
    expect(await expirations(ledger, '-', 10, 10)).toEqual(['']);
    expect(await countExpirations(ledger, '-', 10, 10)).toEqual(['', '0']);
  });
});

describe('verify', () => {
  test('reads without changing a byte, packed records too, with the same result in portions of any size', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 1000 });
    await ledger.makeBudget({ scope: ledger.scope({ agent: 'a' }), allocated: 1000 });
    const live = [
      await ledger.hold({ amount: 10, subject: { agent: 'a' } }),
      await ledger.hold({ amount: 20 }),
    ];
    await ledger.release((await ledger.hold({ amount: 40 })).id);
    await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
    const broken = await ledger.hold({ amount: 80 });
    await damageHold(ledger.redis, ledger.reservationKeyOf(broken.id), 'bm', '2');
    const before = await snapshot(ledger);
    const now = (await ledger.serverTime()) + 10;
    const name = `TOKENS ${ledger.scope()}`;
    for (const examine of [1, 2, 100]) {
      let [ms, id] = ['', ''];
      const [sums, named, unreadable] = [new Map<string, bigint>(), [] as string[], [] as string[]];
      do {
        const reply = await ledger.scripts.run(
          'verify_holds',
          [reservationIndexKey(ledger.tag, ledger.tenant)],
          [ms, id, examine, now, now, name],
        );
        [ms, id] = reply as [string, string];
        expect(reply[2]).toBe('0');
        let at = 4;
        for (let left = Number(reply[3]); left > 0; left -= 1, at += 3) {
          sums.set(
            reply[at] as string,
            (sums.get(reply[at] as string) ?? 0n) + BigInt(reply[at + 2] as string),
          );
        }
        expect(reply[at]).toBe('0');
        unreadable.push(...reply.slice(at + 2).filter((text) => text === broken.id));
        named.push(...reply.slice(at).filter((text) => live.some((hold) => hold.id === text)));
      } while (ms !== '');
      expect(Object.fromEntries(sums)).toEqual({ [name]: 30n, [`${name}/agent:a`]: 10n });
      expect(named.sort()).toEqual(live.map((hold) => hold.id).sort());
      expect(unreadable).toEqual([broken.id]);
    }
    const [, next, ...budgets] = await ledger.scripts.run(
      'verify_budgets',
      [budgetIndexKey(ledger.tag, ledger.tenant)],
      ['', 1],
    );
    expect([next, ...budgets]).toEqual([
      `${ledger.scope()} TOKENS`,
      `${ledger.scope()} TOKENS`,
      '890',
      '110',
      '0',
      '1000',
      '0',
      'ACTIVE',
      '',
      '',
    ]);
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe('inspect_reservation', () => {
  test('expires what is overdue, once, and changes nothing else', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    const before = await snapshot(ledger);
    expect((await inspect(ledger, id)).slice(0, 8)).toEqual([
      'FOUND',
      expect.any(String),
      '',
      '',
      '',
      '',
      '',
      '',
    ]);
    expect(await snapshot(ledger)).toEqual(before);
    const deadline = await ledger.makeOverdue(id);
    expect((await inspect(ledger, id)).slice(5, 8)).toEqual(['EXPIRED', ledger.tenant, String(deadline)]);
    const ended = await snapshot(ledger);
    expect((await inspect(ledger, id)).slice(5, 8)).toEqual(['', '', '']);
    expect(await snapshot(ledger)).toEqual(ended);
    await assertInvariants(ledger);
    expect(await inspect(ledger, ledger.newId())).toEqual(['NOT_FOUND']);
  });

  test('shows keys that are not records, and leaves quarantine to operators', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.makeOverdue(id);
    await ledger.redis.hset(quarantineKey(ledger.tag), id, 'INVALID_BUDGET 1763722222222');
    expect((await inspect(ledger, id)).slice(3, 6)).toEqual(['INVALID_BUDGET 1763722222222', '', '']);
    const odd = ledger.newId();
    await ledger.redis.set(ledger.reservationKeyOf(odd), 'text');
    expect(await inspect(ledger, odd)).toEqual([
      'FOUND',
      expect.any(String),
      '',
      '',
      'NOT_A_RECORD',
      '',
      '',
      '',
      '0',
    ]);
  });
});
