import { describe, expect, test } from '@jest/globals';
import {
  cleanupIndexKey,
  closingKey,
  journalKey,
  ownedKey,
  quarantineKey,
  reservationIndexKey,
  runCountersKey,
  tenantKey,
  ttlIndexKey,
  waiterQueueKey,
  waitersKey,
} from '../../src/redis/keyspace.js';
import { debit, decide as decideOn, makePolicy } from '../support/admission-client.js';
import { fund } from '../support/governance-client.js';
import { DEFAULT_UNIT, type LedgerClient, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import { journalOf } from '../support/journal.js';
import { faultsOf, readLedger } from '../support/ledger-state.js';
import { ONE, toldOf, TWO } from '../support/told-places.js';
import { useLedger } from '../support/use-ledger.js';

/**
 * Ways in which a hold ends, times what a reserve takes: each way gives back each thing, and wakes who waits for it. The ways that are
 * expiries charge what the hold costs then, and the others do not.
 */

const newLedger = useLedger();
const RUN = 'run-1';
const FACTS = `side_effect|${RUN}|||`;
const LONG = 'n'.repeat(100);

interface Way {
  readonly end: (ledger: LedgerClient, id: string) => Promise<string[]>;
  readonly answer: string;
  readonly tenant?: Readonly<Record<string, string>>;
  /** A commit has used the run's quota. */
  readonly keepsQuota?: boolean;
  readonly isExpiry?: true;
}

const decide = (ledger: LedgerClient, id: string, action: string): Promise<string[]> =>
  ledger.scripts.run(
    'decide_quarantined',
    [ledger.reservationKeyOf(id)],
    [id, action, '', RETENTION_MS, 'req_decide', TRACE, ''],
  );

async function quarantined(ledger: LedgerClient, id: string): Promise<void> {
  await ledger.makeOverdue(id);
  await ledger.redis.hset(ledger.reservationKeyOf(id), 'gr', 'junk');
  expect((await ledger.expire(id)).slice(0, 2)).toEqual(['QUARANTINED', 'INVALID_EXPIRY']);
}

async function closing(ledger: LedgerClient): Promise<string[]> {
  const key = tenantKey(ledger.tag, ledger.tenant);
  await ledger.redis.hset(key, 'status', 'CLOSED');
  await ledger.redis.hset(closingKey(ledger.tag), ledger.tenant, 'admin||req|trace|ACTIVE');
  let reply: string[] = ['STEP', 'holds', ''];
  while (reply[0] === 'STEP' && reply[1] !== 'budgets') {
    const [, phase, cursor] = reply as [string, string, string];
    reply = await ledger.scripts.run(
      'close_tenant',
      [key],
      [ledger.tenant, phase, cursor, 10, RETENTION_MS, 'channel'],
    );
  }
  return reply;
}

const overdue =
  (end: Way['end']): Way['end'] =>
  async (ledger, id) => {
    await ledger.makeOverdue(id);
    return end(ledger, id);
  };
const MANUAL = { reservation_expiry_policy: 'MANUAL_CLEANUP' };

/** More than any budget has: what is due is reclaimed before it is refused. */
const TOO_MUCH = '9000000000000000000';

const WAYS: Record<string, Way> = {
  commit: { end: (ledger, id) => ledger.commit(id, 0), answer: 'COMMITTED', keepsQuota: true },
  'a release by its tenant': { end: (ledger, id) => ledger.release(id), answer: 'RELEASED' },
  'a release by an operator': {
    end: (ledger, id) => ledger.release(id, { tenant: '' }),
    answer: 'RELEASED',
  },
  'a release that awaits cleanup': {
    end: overdue((ledger, id) => ledger.release(id)),
    answer: 'RELEASED',
    tenant: MANUAL,
  },
  'an expiry by the sweeper': {
    end: overdue(async (ledger, id) => (await ledger.expirePage([id])).slice(2)),
    answer: 'EXPIRED',
    isExpiry: true,
  },
  'an expiry of one hold': {
    end: overdue((ledger, id) => ledger.expire(id)),
    answer: 'EXPIRED',
    isExpiry: true,
  },
  'an expiry by a commit': {
    end: overdue((ledger, id) => ledger.commit(id, 1)),
    answer: 'RESERVATION_EXPIRED',
    isExpiry: true,
  },
  'an expiry by a release': {
    end: overdue((ledger, id) => ledger.release(id)),
    answer: 'RESERVATION_EXPIRED',
    isExpiry: true,
  },
  'an expiry by an extension': {
    end: overdue((ledger, id) => ledger.extend(id, 1000)),
    answer: 'RESERVATION_EXPIRED',
    isExpiry: true,
  },
  'an expiry by a read': {
    end: overdue((ledger, id) => ledger.get(id)),
    answer: 'RESERVATION_EXPIRED',
    isExpiry: true,
  },
  'an expiry by a reserve': {
    end: overdue((ledger) => ledger.reserve({ amount: TOO_MUCH, facts: FACTS })),
    answer: 'RECLAIMED',
    isExpiry: true,
  },
  'an expiry by a decision': {
    end: overdue((ledger) => decideOn(ledger, { amount: TOO_MUCH, facts: FACTS })),
    answer: 'RECLAIMED',
    isExpiry: true,
  },
  'an expiry by a direct debit': {
    end: overdue((ledger) => debit(ledger, { amount: TOO_MUCH, policy: 'REJECT' })),
    answer: 'RECLAIMED',
    isExpiry: true,
  },
  'an expiry by an operator who takes funds': {
    end: overdue((ledger) => fund(ledger, TOO_MUCH, { operation: 'DEBIT' })),
    answer: 'RECLAIMED',
    isExpiry: true,
  },
  'an expiry by a list': {
    end: overdue(async (ledger) => {
      const index = reservationIndexKey(ledger.tag, ledger.tenant);
      const reply = await ledger.scripts.run(
        'list_reservations',
        [index],
        [ledger.tenant, 'desc', '-inf', '+inf', '', '', 10, 10, RETENTION_MS, 'req_list', TRACE],
      );
      return reply.slice(reply.findIndex((text) => text === 'EXPIRED' || text === 'CHARGED'));
    }),
    answer: 'EXPIRED',
    isExpiry: true,
  },
  "an expiry by an operator's look": {
    end: overdue(async (ledger, id) => {
      const key = ledger.reservationKeyOf(id);
      return (
        await ledger.scripts.run('inspect_reservation', [key], [id, RETENTION_MS, 'req_look', TRACE])
      ).slice(5);
    }),
    answer: 'EXPIRED',
    isExpiry: true,
  },
  'a cleanup': {
    end: overdue(async (ledger) => (await ledger.cleanup()).slice(6)),
    answer: 'EXPIRED',
    tenant: MANUAL,
    isExpiry: true,
  },
  "its tenant's closing": { end: closing, answer: 'STEP' },
  "its tenant's closing, when it is due": { end: overdue(closing), answer: 'STEP', isExpiry: true },
  "its tenant's closing, when it awaits cleanup": { end: overdue(closing), answer: 'STEP', tenant: MANUAL },
  'a release from quarantine': {
    end: async (ledger, id) => {
      await quarantined(ledger, id);
      return decide(ledger, id, 'release');
    },
    answer: 'RELEASED',
  },
  "an operator's release of a damaged hold": {
    end: async (ledger, id) => {
      await quarantined(ledger, id);
      return ledger.release(id, { tenant: '' });
    },
    answer: 'RELEASED',
  },
  "its tenant's release of a damaged hold": {
    end: async (ledger, id) => {
      await quarantined(ledger, id);
      return ledger.release(id);
    },
    answer: 'RELEASED',
  },
  'another try in quarantine': {
    end: async (ledger, id) => {
      await quarantined(ledger, id);
      await ledger.redis.hset(ledger.reservationKeyOf(id), 'gr', '0');
      return (await decide(ledger, id, 'retry')).slice(2);
    },
    answer: 'EXPIRED',
    isExpiry: true,
  },
};

const PLACES = {
  root: {},
  workspace: { workspace: 'dev' },
  agent: { workspace: 'dev', agent: 'bot' },
} as const;
type Level = keyof typeof PLACES;
const LEVELS = Object.keys(PLACES) as Level[];

/** What a reserve takes. */
async function taken(ledger: LedgerClient): Promise<Record<string, string>> {
  const { redis, tag, tenant } = ledger;
  const counters = await redis.hgetall(runCountersKey(tag, tenant, RUN));
  const sets = {
    'deadlines of the sweeper': ttlIndexKey(tag),
    'deadlines of cleanups': cleanupIndexKey(tag),
    'places of the tenant': waitersKey(tag, tenant),
    ...Object.fromEntries(
      LEVELS.map((level) => [
        `queue of ${level}`,
        waiterQueueKey(tag, DEFAULT_UNIT, ledger.scope(PLACES[level])),
      ]),
    ),
  };
  const members = Object.entries(sets).map(
    async ([name, key]) => [name, (await redis.zrange(key, '0', '-1')).join()] as const,
  );
  const figures = LEVELS.map(
    async (level) => [`budget of ${level}`, await ledger.figures(ledger.scope(PLACES[level]))] as const,
  );
  return {
    ...Object.fromEntries(await Promise.all([...members, ...figures])),
    live: (await redis.hget(ownedKey(tag, tenant), 'live')) ?? '0',
    quarantine: (await redis.hkeys(quarantineKey(tag))).join(),
    // Of each counter, how often the run has used it.
    quota: Object.values(counters)
      .map((text) => text.split('|')[1])
      .join(),
  };
}

interface Made {
  readonly ledger: LedgerClient;
  /** Before the hold. */
  readonly before: Record<string, string>;
  readonly id: string;
}

/** A hold of all that the budget at a level has; the others have room for more. It had waited for its funds there. */
async function madeAt(
  level: Level,
  amount: string,
  tenant: Way['tenant'] = {},
  charge?: string,
): Promise<Made> {
  const ledger = await newLedger();
  await ledger.makeTenant(tenant);
  for (const one of LEVELS) {
    const allocated = one === level ? amount : String(BigInt(amount) * 5n);
    await ledger.makeBudget({ scope: ledger.scope(PLACES[one]), allocated });
  }
  const quota = { action_kind: 'llm', max_calls: 9, window: 'per_run' };
  await makePolicy(ledger, ledger.scope(), { sets: { action_quotas: JSON.stringify([quota]) } });
  const fields = { me: LONG, ...(charge !== undefined && { ce: charge }) };
  const options = { subject: PLACES.agent, facts: FACTS, fields };
  const other = await ledger.hold({ ...options, amount });
  const place = `${ONE}.1.${amount}`;
  const key = 'waits';
  const waits = await ledger.reserve({ ...options, key, amount, waiter: `9 9000 ${place} - -` });
  expect(waits.slice(0, 1)).toEqual(['WAITING']);
  await ledger.release(other.id);
  const before = { ...(await taken(ledger)), 'places of the tenant': '', [`queue of ${level}`]: '' };
  const [, number, scope] = waits as [string, string, string];
  const waiter = `9 9000 ${place} ${number} ${scope}`;
  const { id } = await ledger.hold({ ...options, key, amount, waiter });
  const during = await taken(ledger);
  const index = tenant === MANUAL ? 'deadlines of cleanups' : 'deadlines of the sweeper';
  expect(Object.keys(before).filter((thing) => before[thing] !== during[thing])).toEqual([
    index,
    ...LEVELS.map((one) => `budget of ${one}`),
    'live',
    'quota',
  ]);
  return { ledger, before, id };
}

/** A reserve that waits for the budget at a level. */
async function waitAt(ledger: LedgerClient, level: Level): Promise<string> {
  const place = `${TWO}.2.1`;
  const reply = await ledger.reserve({
    amount: 1,
    subject: PLACES[level],
    facts: FACTS,
    waiter: `9 9000 ${place} - -`,
  });
  expect(reply.slice(0, 3)).toEqual(['WAITING', '2', ledger.scope(PLACES[level])]);
  return place;
}

const CASES = Object.keys(WAYS).flatMap((name) =>
  LEVELS.flatMap((level) => ['100', '9007199254740993'].map((amount) => [name, level, amount] as const)),
);

test.each(Object.keys(WAYS))('a journal that is not a stream lets nothing end by %s', async (name) => {
  const way = WAYS[name] as Way;
  const { ledger, id } = await madeAt('root', '9', way.tenant);
  const figures = (): Promise<string[]> =>
    Promise.all(LEVELS.map((level) => ledger.figures(ledger.scope(PLACES[level]))));
  const before = await figures();
  await ledger.redis.set(journalKey(ledger.tag), 'damaged');
  await expect(way.end(ledger, id)).rejects.toThrow('WRONGTYPE');
  expect(await figures()).toEqual(before);
  expect(await ledger.record(id)).toMatchObject({ st: 'ACTIVE' });
  expect(await ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'live')).toBe('1');
});

describe('everything that a reserve takes is given back', () => {
  test.each(CASES)('by %s, with the budget of %s at its end and %s held', async (name, level, amount) => {
    const way = WAYS[name] as Way;
    const { ledger, before, id } = await madeAt(level, amount, way.tenant);
    expect((await way.end(ledger, id))[0]).toBe(way.answer);
    expect(await taken(ledger)).toEqual({ ...before, ...(way.keepsQuota === true && { quota: '1' }) });
    const { redis, tag, tenant } = ledger;
    // The record waits to be packed, and is listed until its retention is over.
    expect((await journalOf(ledger)).slice(1)).toEqual([{ id, ch: '0' }]);
    expect(await redis.zscore(reservationIndexKey(tag, tenant), id)).not.toBeNull();
    expect(await redis.pttl(ledger.reservationKeyOf(id))).toBeGreaterThan(0);
    const faults = faultsOf(await readLedger(ledger));
    expect(faults.filter((fault) => !fault.includes('1 events custom.reservation.quarantined'))).toEqual([]);
  });
});

describe('who waits for a budget is told', () => {
  test.each(CASES)('by %s, at the budget of %s with %s held', async (name, level, amount) => {
    const way = WAYS[name] as Way;
    const { ledger, id } = await madeAt(level, amount, way.tenant);
    const place = await waitAt(ledger, level);
    expect(await toldOf(ledger, () => way.end(ledger, id))).toEqual([place]);
  });
});

describe('only an expiry charges what the hold costs then', () => {
  const AMOUNTS = [
    ['100', '1'],
    ['100', '100'],
    ['9007199254740993', '9007199254740991'],
    ['9007199254740993', '0'],
  ] as const;
  const cases = Object.keys(WAYS).flatMap((name) =>
    AMOUNTS.map(([amount, charge]) => [name, amount, charge] as const),
  );

  test.each(cases)('by %s, with %s held and a charge of %s', async (name, amount, charge) => {
    const way = WAYS[name] as Way;
    const { ledger, before, id } = await madeAt('workspace', amount, way.tenant, charge);
    const charged = way.isExpiry === true ? BigInt(charge) : 0n;
    const reply = await way.end(ledger, id);
    if (way.answer === 'RESERVATION_EXPIRED') {
      expect(reply.slice(0, 2)).toEqual([way.answer, charged > 0n ? 'charged' : 'now']);
    } else {
      expect(reply[0]).toBe(way.answer === 'EXPIRED' && charged > 0n ? 'CHARGED' : way.answer);
    }
    const expected = { ...before };
    for (const level of LEVELS) {
      const [remaining, reserved, spent, ...rest] = (before[`budget of ${level}`] as string).split(',');
      expected[`budget of ${level}`] = [
        BigInt(remaining as string) - charged,
        reserved,
        BigInt(spent as string) + charged,
        ...rest,
      ].join();
    }
    if (way.keepsQuota === true || charged > 0n) {
      expected['quota'] = '1';
    }
    expect(await taken(ledger)).toEqual(expected);
    expect((await journalOf(ledger)).slice(1)).toEqual([{ id, ch: String(charged) }]);
    const faults = faultsOf(await readLedger(ledger));
    expect(faults.filter((fault) => !fault.includes('1 events custom.reservation.quarantined'))).toEqual([]);
  });
});
