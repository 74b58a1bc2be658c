import { describe, expect, test } from '@jest/globals';
import {
  ownedKey,
  quarantineKey,
  reservationIndexKey,
  reservationKey,
  tenantEventsKey,
  tenantIndexKey,
  tenantKey,
} from '../../src/redis/keyspace.js';
import { RETENTION_MS, TRACE, type LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { useConnections, useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const connections = useConnections(4);

const live = (ledger: LedgerClient): Promise<string | null> =>
  ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'live');

async function funded(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated: 100_000 });
  return ledger;
}

describe('the count of live reservations', () => {
  test('follows every transition to and from ACTIVE, and nothing else', async () => {
    const ledger = await funded();
    const holds = [
      await ledger.hold(),
      await ledger.hold(),
      await ledger.hold(),
      await ledger.hold(),
      await ledger.hold(),
    ];
    const [a, b, c, d, e] = holds.map(({ id }) => id) as [string, string, string, string, string];
    expect(await live(ledger)).toBe('5');
    await ledger.reserve({ dryRun: true });
    await ledger.reserve({ amount: 1_000_000 });
    await ledger.reserve({ key: holds[0]?.key as string });
    await ledger.extend(a, 1000);
    expect(await live(ledger)).toBe('5');
    await ledger.commit(a, 1, { key: 'once' });
    await ledger.commit(a, 1, { key: 'once' });
    await ledger.commit(a, 1, { key: 'twice' });
    expect(await live(ledger)).toBe('4');
    await ledger.release(b);
    expect(await live(ledger)).toBe('3');
    await ledger.makeOverdue(c);
    await ledger.expire(c);
    await ledger.expire(c);
    expect(await live(ledger)).toBe('2');
    await ledger.makeOverdue(d);
    expect((await ledger.commit(d, 1))[0]).toBe('RESERVATION_EXPIRED');
    expect(await live(ledger)).toBe('1');
    expect((await ledger.get(e))[0]).not.toBe('NOT_FOUND');
    await ledger.makeOverdue(e);
    await ledger.get(e);
    expect(await live(ledger)).toBe('0');
  });

  test('is reduced once per page, for each of its tenants', async () => {
    const ledger = await funded();
    const other = `${ledger.tenant}-2`;
    await ledger.makeTenant({}, other);
    await ledger.makeBudget({ scope: `tenant:${other}` });
    const ids: string[] = [];
    for (let made = 0; made < 6; made += 1) {
      const { id } = await ledger.hold(made % 3 === 0 ? { tenant: other } : {});
      await ledger.makeOverdue(id);
      ids.push(id);
    }
    await ledger.expirePage(ids.slice(0, 5));
    expect(await live(ledger)).toBe('1');
    expect(await ledger.redis.hget(ownedKey(ledger.tag, other), 'live')).toBe('0');
  });

  test('keeps a hold in quarantine, until an operator releases it', async () => {
    const ledger = await funded();
    const { id } = await ledger.hold();
    await ledger.redis.hset(reservationKey(ledger.tag, id), 'am', 'lost');
    await ledger.makeOverdue(id);
    expect((await ledger.expire(id))[0]).toBe('QUARANTINED');
    expect(await live(ledger)).toBe('1');
    const decided = await ledger.scripts.run(
      'decide_quarantined',
      [reservationKey(ledger.tag, id)],
      [id, 'release', '', RETENTION_MS, 'req_1', TRACE, ''],
    );
    expect(decided[0]).toBe('RELEASED');
    expect(await live(ledger)).toBe('0');
    expect(await ledger.redis.hexists(quarantineKey(ledger.tag), id)).toBe(0);
  });

  test('keeps a hold whose state is damaged, through a recount, until it is released', async () => {
    const ledger = await funded();
    await ledger.redis.zadd(tenantIndexKey(ledger.tag), 1, ledger.tenant);
    for (const recounted of [false, true]) {
      const { id } = await ledger.hold();
      await ledger.redis.hdel(reservationKey(ledger.tag, id), 'st');
      if (recounted) {
        const reply = await ledger.scripts.run(
          'reconcile',
          [tenantIndexKey(ledger.tag)],
          ['', '', '', '', 100, RETENTION_MS, TRACE],
        );
        expect(reply[7]).toBe('0');
      }
      expect(await live(ledger)).toBe('1');
      expect((await ledger.release(id))[0]).toBe('RELEASED');
      expect(await live(ledger)).toBe('0');
    }
  });

  test('does not miss holds that end before it is complete, is shown as 0 until then, and a damaged count does not block others', async () => {
    const ledger = await funded();
    const [first, second, third] = [await ledger.hold(), await ledger.hold(), await ledger.hold()];
    const key = ownedKey(ledger.tag, ledger.tenant);
    await ledger.redis.del(key);
    expect((await ledger.release(first.id))[0]).toBe('RELEASED');
    expect(await live(ledger)).toBe('-1');
    const shown = await ledger.scripts.run(
      'inspect_limits',
      [tenantKey(ledger.tag, ledger.tenant), key],
      [ledger.tenant],
    );
    expect(shown.slice(1, 3)).toEqual(['live_reservations', '0']);
    await ledger.redis.hset(key, 'live', 'many');
    expect((await ledger.commit(second.id, 1))[0]).toBe('COMMITTED');
    expect((await ledger.reserve({ maxLive: 1 }))[0]).toBe('ALLOW');
    await ledger.redis.del(key);
    await ledger.redis.set(key, 'damaged');
    expect((await ledger.commit(third.id, 1))[0]).toBe('COMMITTED');
    expect((await ledger.reserve({ maxLive: 1 }))[0]).toBe('ALLOW');
  });
});

describe('the limit on live reservations', () => {
  test('is exact among parallel reserves, and settling makes room', async () => {
    const ledger = await funded();
    for (let made = 0; made < 5; made += 1) {
      await ledger.hold();
    }
    const clients = connections().map((redis) => ledger.over(redis));
    const replies = await Promise.all(
      Array.from({ length: 40 }, (_, index) => (clients[index % 4] as LedgerClient).reserve({ maxLive: 12 })),
    );
    const made = replies.filter(([word]) => word === 'ALLOW');
    expect(made).toHaveLength(7);
    expect(replies.filter(([word]) => word === 'LIMIT_EXCEEDED')).toHaveLength(33);
    expect(await live(ledger)).toBe('12');
    await ledger.commit(made[0]?.[2] as string, 1);
    await ledger.release(made[1]?.[2] as string);
    const again = await Promise.all(Array.from({ length: 5 }, () => ledger.reserve({ maxLive: 12 })));
    expect(again.map(([word]) => word).sort()).toEqual([
      'ALLOW',
      'ALLOW',
      'LIMIT_EXCEEDED',
      'LIMIT_EXCEEDED',
      'LIMIT_EXCEEDED',
    ]);
  });

  test('refuses without a write, and emits no denial', async () => {
    const ledger = await funded();
    await ledger.hold();
    const before = await snapshot(ledger);
    expect(await ledger.reserve({ maxLive: 1 })).toEqual(['LIMIT_EXCEEDED', 'live_reservations', '1', '1']);
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('is checked after the budgets, and after replays', async () => {
    const ledger = await funded();
    const { key, id } = await ledger.hold();
    expect((await ledger.reserve({ key, maxLive: 1 })).slice(0, 3)).toEqual(['ALLOW', 'replay', id]);
    expect((await ledger.reserve({ amount: 1_000_000, maxLive: 1 }))[0]).toBe('BUDGET_EXCEEDED');
  });

  test('is never reached because of overdue holds', async () => {
    const ledger = await funded();
    const { id } = await ledger.hold();
    await ledger.makeOverdue(id);
    expect((await ledger.reserve({ maxLive: 1 }))[0]).toBe('RECLAIMED');
    expect((await ledger.reserve({ maxLive: 1 }))[0]).toBe('ALLOW');
    expect((await ledger.reserve({ maxLive: 1 }))[0]).toBe('LIMIT_EXCEEDED');
  });

  test('denies a dry run as it would a live one, which then replays, and holds nothing for it', async () => {
    const ledger = await funded();
    await ledger.hold();
    const events = await ledger.redis.xlen(tenantEventsKey(ledger.tag, ledger.tenant));
    expect(await ledger.reserve({ dryRun: true, maxLive: 1, key: 'dry' })).toEqual([
      'DENY',
      'fresh',
      'LIMIT_EXCEEDED',
    ]);
    expect(await ledger.reserve({ dryRun: true, maxLive: 1, key: 'dry' })).toEqual([
      'DENY',
      'replay',
      'LIMIT_EXCEEDED',
    ]);
    expect(await ledger.redis.xlen(tenantEventsKey(ledger.tag, ledger.tenant))).toBe(events);
    expect((await ledger.reserve({ dryRun: true, maxLive: 2 }))[0]).toBe('ALLOW_DRY_RUN');
    expect(await live(ledger)).toBe('1');
  });

  test("is the tenant's own if it has one, and 0 means no limit", async () => {
    const ledger = await funded();
    const key = ownedKey(ledger.tag, ledger.tenant);
    await ledger.hold();
    await ledger.redis.hset(key, 'max:live_reservations', 2);
    expect((await ledger.reserve({ maxLive: 1 }))[0]).toBe('ALLOW');
    expect(await ledger.reserve({ maxLive: 100 })).toEqual(['LIMIT_EXCEEDED', 'live_reservations', '2', '2']);
    await ledger.redis.hset(key, 'max:live_reservations', 0);
    expect((await ledger.reserve({ maxLive: 1 }))[0]).toBe('ALLOW');
  });
});

describe('the limit on stored bytes', () => {
  const text = { md: JSON.stringify({ text: 'x'.repeat(10_000) }) };

  test('counts records, events and long texts, and refuses what would exceed it', async () => {
    const ledger = await funded();
    const limit = { maxStored: 50_000, fields: text };
    const words: (string | undefined)[] = [];
    for (let made = 0; made < 6; made += 1) {
      words.push((await ledger.reserve(limit))[0]);
    }
    expect(words).toEqual(['ALLOW', 'ALLOW', 'ALLOW', 'ALLOW', 'LIMIT_EXCEEDED', 'LIMIT_EXCEEDED']);
    const [word, name, allowed, used] = await ledger.reserve(limit);
    expect([word, name, allowed]).toEqual(['LIMIT_EXCEEDED', 'stored_bytes', '50000']);
    expect(Number(used)).toBeGreaterThan(50_000);
    expect((await ledger.reserve({ maxStored: 50_000 }))[0]).toBe('ALLOW');
    expect((await ledger.reserve({ ...limit, dryRun: true })).slice(0, 3)).toEqual([
      'DENY',
      'fresh',
      'LIMIT_EXCEEDED',
    ]);
  });

  test('falls when reservations are removed after their retention, so that there is room again', async () => {
    const ledger = await funded();
    await ledger.redis.zadd(tenantIndexKey(ledger.tag), 1, ledger.tenant);
    const limit = { maxStored: 50_000, fields: text };
    const ids: string[] = [];
    for (let reply = await ledger.reserve(limit); reply[0] === 'ALLOW'; reply = await ledger.reserve(limit)) {
      ids.push(reply[2] as string);
    }
    await ledger.redis.del(...ids.slice(0, 3).map((id) => reservationKey(ledger.tag, id)));
    expect((await ledger.reserve(limit))[0]).toBe('LIMIT_EXCEEDED');
    const trimmed = await ledger.scripts.run(
      'trim_reservation_index',
      [tenantIndexKey(ledger.tag)],
      ['', '', '', 100, -60_000],
    );
    expect(trimmed.at(-1)).toBe('3');
    expect(Number(await ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'text'))).toBe(text.md.length);
    expect((await ledger.reserve(limit))[0]).toBe('ALLOW');
    await ledger.redis.del(...(await ledger.redis.keys(`${ledger.tag}r:*`)));
    await ledger.scripts.run(
      'trim_reservation_index',
      [tenantIndexKey(ledger.tag)],
      ['', '', '', 100, -60_000],
    );
    expect(await ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'text')).toBe('0');
  });

  test('also falls when a list is the first to notice that reservations are gone', async () => {
    const ledger = await funded();
    const ids: string[] = [];
    for (let made = 0; made < 4; made += 1) {
      ids.push((await ledger.reserve({ fields: text }))[2] as string);
    }
    await ledger.redis.del(...ids.slice(0, 3).map((id) => reservationKey(ledger.tag, id)));
    const index = reservationIndexKey(ledger.tag, ledger.tenant);
    await ledger.scripts.run(
      'list_reservations',
      [index],
      [ledger.tenant, 'desc', '-inf', '+inf', '', '', 10, 10, RETENTION_MS, 'req_list', TRACE],
    );
    expect(await ledger.redis.zcard(index)).toBe(1);
    expect(await ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'text')).toBe(String(text.md.length));
  });

  test('counts the metadata of a commit, which it never refuses', async () => {
    const ledger = await funded();
    const { id } = await ledger.hold();
    expect((await ledger.commit(id, 1, { metadata: text.md }))[0]).toBe('COMMITTED');
    expect(await ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'text')).toBe(String(text.md.length));
  });
});
