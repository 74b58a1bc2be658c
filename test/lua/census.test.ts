import { expect, test } from '@jest/globals';
import { treeOrder } from '../../src/ledger/scopes.js';
import {
  actionCountersKey,
  budgetIndexKey,
  budgetKey,
  eventLogKey,
  policyIndexKey,
  policyKey,
  runCountersKey,
  runIndexKey,
  tenantIndexKey,
  tenantKey,
  webhookIndexKey,
  webhookKey,
} from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { commandsOf } from '../support/script-commands.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

/**
 * Replaces the partition's tenants by tenants with this many budgets and subscriptions each. Operators get
 * three subscriptions of their own.
 */
async function populate({ tag, redis }: LedgerClient, owned: readonly [budgets: number, webhooks: number][]) {
  await redis.del(tenantIndexKey(tag), webhookIndexKey(tag, '__system__'));
  const webhook = async (owner: string, id: string): Promise<void> => {
    await redis.hset(webhookKey(tag, id), { st: 'ACTIVE', cf: '1', ur: 'https://a.example' });
    await redis.zadd(webhookIndexKey(tag, owner), 0, id);
  };
  for (const [place, [budgets, webhooks]] of owned.entries()) {
    const tenant = `census-${tag.slice(2, 4)}-${place}`;
    await redis.hset(tenantKey(tag, tenant), { status: place % 2 === 0 ? 'ACTIVE' : 'CLOSED' });
    await redis.zadd(tenantIndexKey(tag), place, tenant);
    await redis.del(budgetIndexKey(tag, tenant), webhookIndexKey(tag, tenant));
    for (let index = 0; index < budgets; index += 1) {
      const scope = `tenant:${tenant}/app:${index}`;
      const figures = {
        allocated: '9',
        spent: '2',
        remaining: '3',
        reserved: '3',
        debt: '1',
        overdraft_limit: '9',
      };
      await redis.hset(budgetKey(tag, 'TOKENS', scope), { status: 'ACTIVE', is_over_limit: '0', ...figures });
      await redis.zadd(budgetIndexKey(tag, tenant), 0, treeOrder(`${scope} TOKENS`));
    }
    for (let index = 0; index < webhooks; index += 1) {
      await webhook(tenant, `whsub_${place}_${index}`);
    }
  }
  for (let index = 0; index < 3; index += 1) {
    await webhook('__system__', `whsub_system_${index}`);
  }
}

/** Tenant, unit, and what is allocated, spent, reserved and owed. */
function sumsOf(reply: readonly string[]): string[][] {
  const at = 6 + Number(reply[5]);
  return Array.from({ length: Number(reply[at]) }, (_, row) =>
    reply.slice(at + 1 + 6 * row, at + 7 + 6 * row),
  );
}

test.each([1, 2, 3, 5, 7, 1000])(
  'a census in runs of %i records counts each record once, and no run reads more',
  async (limit) => {
    shows('overview counts', 'overview cheap');
    const ledger = await newLedger();
    await populate(ledger, [
      [4, 0],
      [0, 0],
      [7, 5],
      [0, 2],
      [1, 1],
    ]);
    const totals = new Map<string, number>();
    const names: string[] = [];
    const sums = new Map<string, number[]>();
    let place = ['', '', ''];
    let runs = 0;
    do {
      const reply = await ledger.scripts.run('census', [tenantIndexKey(ledger.tag)], [
        ...place,
        limit,
        1,
      ] as never);
      expect(Number(reply[4])).toBeLessThanOrEqual(limit);
      const texts = Number(reply[5]);
      for (let index = 6; index < 6 + texts; index += 2) {
        const name = reply[index] as string;
        totals.set(name, (totals.get(name) ?? 0) + Number(reply[index + 1]));
      }
      for (const [tenant, unit, ...amounts] of sumsOf(reply)) {
        const name = `${tenant} ${unit}`;
        sums.set(
          name,
          amounts.map((amount, index) => Number(amount) + (sums.get(name)?.[index] ?? 0)),
        );
      }
      names.push(
        ...reply
          .slice(7 + texts + 6 * Number(reply[6 + texts]))
          .filter((text) => /^(tenant:|whsub_)/.test(text)),
      );
      place = reply.slice(1, 4);
      runs += 1;
    } while (place[0] !== '' && runs < 100);
    expect(Object.fromEntries(totals)).toEqual({
      tenants: 5,
      'tenants.ACTIVE': 3,
      'tenants.CLOSED': 2,
      budgets: 12,
      'budgets.ACTIVE': 12,
      'budgets.with_debt': 12,
      'unit.TOKENS': 12,
      webhooks: 11,
      'webhooks.ACTIVE': 11,
      'webhooks.with_failures': 11,
    });
    const ofTenant = (place: number, budgets: number): [string, number[]] => [
      `census-${ledger.tag.slice(2, 4)}-${place} TOKENS`,
      [9, 2, 3, 1].map((figure) => figure * budgets),
    ];
    expect([...sums].sort()).toEqual([ofTenant(0, 4), ofTenant(2, 7), ofTenant(4, 1)]);
    expect(names).toHaveLength(12 + 11);
    expect(new Set(names).size).toBe(names.length);
  },
);

test.each([3, 50, 5000])(
  'a census in runs of %i records counts every policy and counter once, and lists the ten most used',
  async (limit) => {
    shows('overview of extensions');
    const ledger = await newLedger();
    const { tag, redis } = ledger;
    await populate(ledger, [
      [2, 0],
      [1, 1],
    ]);
    const [limited, idle] = [0, 1].map((place) => `census-${tag.slice(2, 4)}-${place}`) as [string, string];
    await redis.hset(tenantKey(tag, limited), { policies: '1', observe_mode: 'OBSERVE' });
    await redis.hset(tenantKey(tag, idle), { observe_mode: 'ENFORCE' });
    for (let index = 0; index < 8; index += 1) {
      const lists = index < 2 ? { rules: 'x', denied_action_kinds: '["a"]' } : { name: 'none' };
      await redis.hset(
        policyKey(tag, `pol_${index}`),
        index === 2 ? { rules: 'x', allowed_action_kinds: '[]' } : lists,
      );
      await redis.zadd(policyIndexKey(tag, limited), 1000 + index, `pol_${index}`);
    }
    const now = await ledger.serverTime();
    const day = Math.floor(now / 86_400_000);
    // More than fit into a compact hash, so that a scan takes several steps.
    const counter = (bucket: number, used: number): string => `${bucket}|${used}|${now}|100|pol_0||90000`;
    const fields = Array.from({ length: 700 }, (_, used) => [
      `tenant:${limited}|d|k${used}`,
      counter(day, used % 101),
    ]);
    await redis.hset(actionCountersKey(tag, limited, day), Object.fromEntries(fields));
    await redis.hset(actionCountersKey(tag, limited, day), {
      [`tenant:${limited}|d|yesterday`]: counter(day - 1, 100),
      [`tenant:${limited}|d|damaged`]: 'odd',
      odd: counter(day, 100),
    });
    // Without policies nothing is looked up.
    await redis.hset(actionCountersKey(tag, idle, day), { [`tenant:${idle}|d|k`]: counter(day, 100) });
    for (const run of ['one', 'two']) {
      await redis.hset(runCountersKey(tag, limited, run), { [`tenant:${limited}|r|k`]: counter(now, 130) });
      await redis.zadd(runIndexKey(tag, limited), now + 90_000, run);
    }
    const totals = new Map<string, number>();
    let [worst, place, runs]: [string[], string[], number] = [[], ['', '', ''], 0];
    do {
      const reply = await ledger.scripts.run('census', [tenantIndexKey(tag)], [...place, limit, 0] as never);
      expect(Number(reply[4])).toBeLessThanOrEqual(limit);
      const texts = Number(reply[5]);
      for (let index = 6; index < 6 + texts; index += 2) {
        const name = reply[index] as string;
        totals.set(name, (totals.get(name) ?? 0) + Number(reply[index + 1]));
      }
      const budgetsAt = 7 + texts + 6 * Number(reply[6 + texts]);
      const webhooksAt = budgetsAt + 1 + 7 * Number(reply[budgetsAt]);
      const damagedAt = webhooksAt + 1 + 4 * Number(reply[webhooksAt]);
      const quotas = reply.slice(damagedAt + 1 + 2 * Number(reply[damagedAt]));
      expect(quotas.length).toBeLessThanOrEqual(50);
      worst = worst.concat(quotas.filter((_, index) => index % 5 === 3));
      place = reply.slice(1, 4);
      runs += 1;
    } while (place[0] !== '' && runs < 1000);
    const used = Array.from({ length: 700 }, (_, index) => index % 101).concat(130, 130);
    expect(Object.fromEntries(totals)).toMatchObject({
      'tenants.observe_mode': 1,
      'policies.allowed': 1,
      'policies.denied': 2,
      'quotas.above_80pct': used.filter((count) => count >= 80).length,
      'quotas.at_limit': used.filter((count) => count >= 100).length,
    });
    expect(
      worst
        .map(Number)
        .sort((one, other) => other - one)
        .slice(0, 8),
    ).toEqual([130, 130, 100, 100, 100, 100, 100, 100]);
  },
);

test('a census adds up amounts once, in as many rows as int64 needs, and skips what it cannot read', async () => {
  const ledger = await newLedger();
  const { tag, redis } = ledger;
  await populate(ledger, [[6, 0]]);
  const scope = `tenant:census-${tag.slice(2, 4)}-0/app:`;
  const most = '9223372036854775807';
  await redis.hset(budgetKey(tag, 'TOKENS', `${scope}0`), { reserved: most });
  await redis.hset(budgetKey(tag, 'TOKENS', `${scope}1`), { reserved: most });
  await redis.hset(budgetKey(tag, 'TOKENS', `${scope}2`), { reserved: 'many' });
  await redis.hdel(budgetKey(tag, 'TOKENS', `${scope}3`), 'reserved');
  const below = `${scope}4/agent:a`;
  await redis.hset(budgetKey(tag, 'TOKENS', below), { status: 'ACTIVE', reserved: '2' });
  await redis.zadd(budgetIndexKey(tag, `census-${tag.slice(2, 4)}-0`), 0, treeOrder(`${below} TOKENS`));
  const reply = await ledger.scripts.run('census', [tenantIndexKey(tag)], ['', '', '', 100, 0]);
  const rows = sumsOf(reply);
  expect(rows.length).toBeGreaterThan(1);
  const sumOf = (figure: number): bigint =>
    rows.reduce((sum, row) => sum + BigInt(row[figure] as string), 0n);
  // Of two of the six, nothing can be read.
  expect([2, 3, 4, 5].map(sumOf)).toEqual([4n * 9n, 4n * 2n, 2n * BigInt(most) + 2n * 3n, 4n]);
});

test('a census of many records sends a bounded number of commands', async () => {
  shows('overview cheap');
  const ledger = await newLedger();
  await populate(ledger, [
    [60, 0],
    [60, 0],
  ]);
  const commands = await commandsOf(ledger.redis, 'census-', () =>
    ledger.scripts.run('census', [tenantIndexKey(ledger.tag)], ['', '', '', 20, 0]),
  );
  expect(commands.length).toBeLessThanOrEqual(30);
});

test('events are counted by slot, type and reason, a bounded stretch at a time, and the newest are named', async () => {
  shows('overview events', 'overview cheap');
  const { tag, redis, scripts } = await newLedger();
  await redis.del(eventLogKey(tag));
  for (let index = 0; index < 30; index += 1) {
    const type = index % 3 === 0 ? 'reservation.denied' : 'budget.funded';
    await redis.xadd(
      eventLogKey(tag),
      `${1000 + index}-0`,
      'ty',
      type,
      'reason_code',
      index % 2 === 0 ? 'A' : 'B',
    );
  }
  const counted = new Map<string, number>();
  const named: string[] = [];
  let start = '+';
  let runs = 0;
  while (start !== '' && runs < 20) {
    const reply = await scripts.run('count_events', [eventLogKey(tag)], [start, '1005', 7, 10, 1]);
    const [next, , examined, groups] = reply;
    expect(Number(examined)).toBeLessThanOrEqual(7);
    for (let index = 0; index < Number(groups); index += 1) {
      const [slot, type, reason, events] = reply.slice(4 + 4 * index, 8 + 4 * index) as [
        string,
        string,
        string,
        string,
      ];
      const name = `${slot} ${type} ${reason}`;
      counted.set(name, (counted.get(name) ?? 0) + Number(events));
    }
    const recent = reply.slice(4 + 4 * Number(groups));
    expect(recent.length).toBeLessThanOrEqual(2);
    named.push(...recent);
    start = next as string;
    runs += 1;
  }
  expect(Object.fromEntries(counted)).toEqual({
    '100 budget.funded ': 3,
    '100 reservation.denied A': 1,
    '100 reservation.denied B': 1,
    '101 budget.funded ': 7,
    '101 reservation.denied A': 2,
    '101 reservation.denied B': 1,
    '102 budget.funded ': 7,
    '102 reservation.denied A': 1,
    '102 reservation.denied B': 2,
  });
  expect(named[0]).toBe('1027-0');
});
