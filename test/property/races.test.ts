import { describe, expect, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { shows } from '../compatibility/shows.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants } from '../support/ledger-state.js';
import { useConnections, useLedger } from '../support/use-ledger.js';

/** Decides the order in which the rivals start. */
const random = randomFrom(seedFrom('RACES_SEED', 'races'));
const CONNECTIONS = 10;
const newLedger = useLedger();
const connections = useConnections(CONNECTIONS);

/** The same partition through each connection, as several clients see it. */
async function rivals(): Promise<[LedgerClient, LedgerClient, LedgerClient, ...LedgerClient[]]> {
  const ledger = await newLedger();
  const [one, two, ...others] = connections().map((connection) => ledger.over(connection)) as [
    LedgerClient,
    LedgerClient,
  ];
  return [ledger, one, two, ...others];
}

function atRandom<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, order: random() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
}

/** Whether this reply belongs to the call that ended the hold. */
function endedIt(reply: readonly string[]): boolean {
  const [word, second] = reply;
  return (
    word === 'EXPIRED' ||
    ((word === 'COMMITTED' || word === 'RELEASED') && second === 'fresh') ||
    (word === 'RESERVATION_EXPIRED' && second === 'now')
  );
}

const STATE_AFTER: Record<string, string> = {
  COMMITTED: 'COMMITTED',
  RELEASED: 'RELEASED',
  EXPIRED: 'EXPIRED',
  RESERVATION_EXPIRED: 'EXPIRED',
};

/** There is exactly one winner, the record agrees with it, and all figures match that one outcome. */
async function expectOneEnd(ledger: LedgerClient, id: string, replies: readonly string[][]): Promise<void> {
  const winners = replies.filter(endedIt);
  expect(winners).toHaveLength(1);
  const word = winners[0]?.[0] as string;
  const { holds, budgets, events } = await assertInvariants(ledger);
  expect(holds.get(id)?.['st']).toBe(STATE_AFTER[word]);
  const spent = word === 'COMMITTED' ? '60' : '0';
  for (const budget of budgets.values()) {
    expect(budget).toMatchObject({ spent, reserved: '0', remaining: String(1000 - Number(spent)) });
  }
  expect(events).toHaveLength(STATE_AFTER[word] === 'EXPIRED' ? 1 : 0);
}

describe('one hold has one end', () => {
  const losers = ['RESERVATION_FINALIZED', 'RESERVATION_EXPIRED', 'SKIP'];

  test('commit, release and sweep at the very edge of the grace, over and over', async () => {
    for (let round = 0; round < 60; round += 1) {
      const [ledger, ...clients] = await rivals();
      await ledger.makeBudget();
      await ledger.makeBudget({ scope: ledger.scope({ agent: 'bot' }) });
      const { id } = await ledger.hold({ subject: { agent: 'bot' }, amount: 100, graceMs: 0 });
      // The deadline passes while the requests are on their way: some rounds are decided before it, some
      // after, some in between.
      await ledger.setExpiry(id, (await ledger.serverTime()) + (round % 4));
      const attempts = clients.map((client, index) => {
        const acts = [
          () => client.commit(id, 60),
          () => client.release(id),
          () => client.expire(id),
          () => client.get(id),
        ];
        return acts[index % acts.length] as () => Promise<string[]>;
      });
      const replies = await Promise.all(atRandom(attempts).map((attempt) => attempt()));
      await expectOneEnd(ledger, id, replies);
      expect(
        replies
          .filter((reply) => !endedIt(reply) && reply[0] !== 'FOUND')
          .every(([word]) => losers.includes(word as string)),
      ).toBe(true);
    }
  });

  test.each(['GRACE_ONLY', 'MANUAL_CLEANUP'])(
    'commit, release, sweep and cleanup at the very edge of the grace under %s',
    async (policy) => {
      for (let round = 0; round < 40; round += 1) {
        const [ledger, ...clients] = await rivals();
        await ledger.makeBudget();
        await ledger.makeTenant({ reservation_expiry_policy: policy });
        const { id } = await ledger.hold({ amount: 100, graceMs: 0 });
        await ledger.setExpiry(id, (await ledger.serverTime()) + (round % 4));
        const cleanup = async (client: LedgerClient): Promise<string[]> => (await client.cleanup()).slice(6);
        const attempts = clients.map((client, index) => {
          const acts = [
            () => client.commit(id, 60),
            () => client.release(id),
            () => client.expire(id),
            () => cleanup(client),
          ];
          return acts[index % acts.length] as () => Promise<string[]>;
        });
        const replies = await Promise.all(atRandom(attempts).map((attempt) => attempt()));
        await expectOneEnd(ledger, id, replies);
      }
    },
  );

  test('several commits with different keys: one is charged, the others get RESERVATION_FINALIZED', async () => {
    const [ledger, ...clients] = await rivals();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 100 });
    const replies = await Promise.all(clients.map((client) => client.commit(id, 60)));
    expect(replies.filter(([word]) => word === 'RESERVATION_FINALIZED')).toHaveLength(CONNECTIONS - 1);
    await expectOneEnd(ledger, id, replies);
  });

  test('a release by an operator against a commit by the owner', async () => {
    for (let round = 0; round < 20; round += 1) {
      const [ledger, one, two] = await rivals();
      await ledger.makeBudget();
      const { id } = await ledger.hold({ amount: 100 });
      const attempts = [() => one.commit(id, 60), () => two.release(id, { tenant: '' })];
      const replies = await Promise.all(atRandom(attempts).map((attempt) => attempt()));
      expect(replies.filter(([word]) => word === 'RESERVATION_FINALIZED')).toHaveLength(1);
      await expectOneEnd(ledger, id, replies);
    }
  });

  test('many sweepers on one overdue hold: it is refunded once with one event', async () => {
    const [ledger, ...clients] = await rivals();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ amount: 100 });
    await ledger.makeOverdue(id);
    const replies = await Promise.all(clients.map((client) => client.expire(id)));
    expect(replies.filter((reply) => reply.join(' ') === 'SKIP EXPIRED')).toHaveLength(CONNECTIONS - 1);
    await expectOneEnd(ledger, id, replies);
  });
});

describe('the last of a budget', () => {
  test('50 parallel reserves of 10 against 100: exactly 10 are granted, and no figure is ever wrong', async () => {
    const [ledger, ...clients] = await rivals();
    const scope = await ledger.makeBudget({ allocated: 100 });
    await ledger.makeBudget({ scope: ledger.scope({ agent: 'bot' }), allocated: 1000 });
    const requests = Array.from({ length: 50 }, (_, index) => clients[index % CONNECTIONS] as LedgerClient);
    const settled = Promise.all(
      requests.map((client) => client.reserve({ subject: { agent: 'bot' }, amount: 10, policy: 'REJECT' })),
    );
    let done = false;
    void settled
      .catch(() => undefined)
      .finally(() => {
        done = true;
      });
    while (!done) {
      await assertInvariants(ledger);
    }
    const replies = await settled;
    expect(replies.filter(([word]) => word === 'ALLOW')).toHaveLength(10);
    expect(replies.filter((reply) => reply.join(' ') === `BUDGET_EXCEEDED ${scope} 0`)).toHaveLength(40);
    expect(await ledger.figures()).toBe('0,100,0,100,0,0,0');
    await assertInvariants(ledger);
  });

  test('held by overdue holds: parallel reserves reclaim them once and are granted as far as the budget goes', async () => {
    const [ledger, ...clients] = await rivals();
    await ledger.makeBudget({ allocated: 100 });
    for (let count = 0; count < 10; count += 1) {
      await ledger.makeOverdue((await ledger.hold({ amount: 10 })).id);
    }
    const replies = await Promise.all(
      [...clients, ...clients].map((client) => client.reserveToTheEnd({ amount: 10 })),
    );
    expect(replies.filter(([word]) => word === 'ALLOW')).toHaveLength(10);
    expect(replies.filter(([word]) => word === 'BUDGET_EXCEEDED')).toHaveLength(10);
    const { events } = await assertInvariants(ledger);
    expect(events.filter(({ fields }) => fields['ty'] === 'reservation.expired')).toHaveLength(10);
  });
});

describe('the same key in parallel has one outcome', () => {
  test('of a reserve: one hold, and every caller gets its id', async () => {
    const [ledger, ...clients] = await rivals();
    await ledger.makeBudget();
    const replies = await Promise.all(clients.map((client) => client.reserve({ key: 'same', amount: 10 })));
    expect(replies.filter((reply) => reply[1] === 'fresh')).toHaveLength(1);
    expect(
      new Set(replies.map((reply) => [reply[0], reply[2], reply[3], ...reply.slice(5)].join(' '))).size,
    ).toBe(1);
    expect((await assertInvariants(ledger)).holds.size).toBe(1);
  });

  test('of a reserve with two payloads: one hold, and the other payload is a mismatch', async () => {
    const [ledger, ...clients] = await rivals();
    await ledger.makeBudget();
    const replies = await Promise.all(
      clients.map((client, index) => client.reserve({ key: 'same', amount: 10 + (index % 2) })),
    );
    expect(replies.filter(([word]) => word === 'IDEMPOTENCY_MISMATCH')).toHaveLength(CONNECTIONS / 2);
    expect(replies.filter((reply) => reply[1] === 'fresh')).toHaveLength(1);
    expect((await assertInvariants(ledger)).holds.size).toBe(1);
  });

  test.each(['commit', 'release', 'extend'] as const)(
    'of a %s: it takes effect once, and every caller gets the same reply',
    async (verb) => {
      const [ledger, ...clients] = await rivals();
      await ledger.makeBudget();
      const { id, expiresAt } = await ledger.hold({ amount: 100 });
      const act = {
        commit: (client: LedgerClient) => client.commit(id, 60, { key: 'same' }),
        release: (client: LedgerClient) => client.release(id, { key: 'same' }),
        extend: (client: LedgerClient) => client.extend(id, 1000, { key: 'same' }),
      }[verb];
      const replies = await Promise.all(clients.map(act));
      expect(replies.filter((reply) => reply[1] === 'fresh')).toHaveLength(1);
      expect(replies.filter((reply) => reply[1] === 'replay')).toHaveLength(CONNECTIONS - 1);
      const answers = replies.map((reply) =>
        [reply[0], ...reply.slice(2, verb === 'extend' ? 3 : undefined)].join(' '),
      );
      expect(new Set(answers).size).toBe(1);
      const { holds } = await assertInvariants(ledger);
      expect(holds.get(id)?.['ex']).toBe(String(expiresAt + (verb === 'extend' ? 1000 : 0)));
    },
  );

  test('of parallel extensions with different keys: each moves the expiry once', async () => {
    shows('concurrent extensions');
    const [ledger, ...clients] = await rivals();
    await ledger.makeBudget();
    const { id, expiresAt } = await ledger.hold();
    const replies = await Promise.all([...clients, ...clients].map((client) => client.extend(id, 1000)));
    expect(replies.filter(([word]) => word === 'ACTIVE')).toHaveLength(10);
    expect(replies.filter((reply) => reply.join(' ') === 'MAX_EXTENSIONS_EXCEEDED 10')).toHaveLength(10);
    expect((await ledger.record(id))['ex']).toBe(String(expiresAt + 10_000));
    await assertInvariants(ledger);
  });
});
