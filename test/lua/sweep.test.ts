import { describe, expect, test } from '@jest/globals';
import { cleanupIndexKey, quarantineKey, sweepLeaseKey, ttlIndexKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const LEASE_MS = 60_000;

interface Ask {
  readonly token?: string;
  readonly take?: 0 | 1;
  readonly skip?: number;
  readonly limit?: number;
}

function page(
  { scripts, tag }: LedgerClient,
  { token = 'mine', take = 1, skip = 0, limit = 10 }: Ask = {},
): Promise<Reply> {
  return scripts.run(
    'sweep_page',
    [sweepLeaseKey(tag), ttlIndexKey(tag)],
    [token, LEASE_MS, take, skip, limit],
  );
}

function holder({ redis, tag }: LedgerClient): Promise<string | null> {
  return redis.get(sweepLeaseKey(tag));
}

describe('the lease of a partition', () => {
  test('is granted when it is free, renewed by its owner, and refused to others, with the time until it lapses', async () => {
    const ledger = await newLedger();
    expect((await page(ledger)).slice(0, 3)).toEqual(['HELD', expect.stringMatching(/^\d{13}$/), 'taken']);
    await ledger.redis.pexpire(sweepLeaseKey(ledger.tag), 1000);
    expect((await page(ledger))[2]).toBe('renewed');
    expect(await ledger.redis.pttl(sweepLeaseKey(ledger.tag))).toBeGreaterThan(LEASE_MS - 10_000);
    const [word, , lapsesInMs] = await page(ledger, { token: 'other' });
    expect(word).toBe('OTHER');
    expect(Number(lapsesInMs)).toBeGreaterThan(LEASE_MS - 10_000);
    expect(await holder(ledger)).toBe('mine');
  });

  test('that has lapsed is not granted to a caller that only renews it, as every page does', async () => {
    const ledger = await newLedger();
    expect((await page(ledger, { take: 0 }))[0]).toBe('FREE');
    expect(await holder(ledger)).toBeNull();
  });

  test('is deleted by its owner only', async () => {
    const ledger = await newLedger();
    await page(ledger);
    const release = (token: string): Promise<Reply> =>
      ledger.scripts.run('lease_release', [sweepLeaseKey(ledger.tag)], [token]);
    expect(await release('other')).toEqual(['NOT_HELD']);
    expect(await holder(ledger)).toBe('mine');
    expect(await release('mine')).toEqual(['RELEASED']);
    expect(await holder(ledger)).toBeNull();
    expect(await release('mine')).toEqual(['NOT_HELD']);
  });

  test('is not given for a partition whose index cannot be read', async () => {
    const ledger = await newLedger();
    await ledger.redis.set(ttlIndexKey(ledger.tag), 'x');
    await expect(page(ledger)).rejects.toThrow('WRONGTYPE');
    expect(await holder(ledger)).toBeNull();
  });
});

describe('a page', () => {
  test('has the due holds, oldest first, and says how many are due and when more will be', async () => {
    const ledger = await newLedger();
    const now = await ledger.serverTime();
    await ledger.redis.zadd(
      ttlIndexKey(ledger.tag),
      now - 3000,
      'a',
      now - 2000,
      'b',
      now - 1000,
      'c',
      now + 600_000,
      'd',
    );
    await ledger.redis.hset(quarantineKey(ledger.tag), 'q', 'INVALID_ESTIMATE 1');
    await ledger.redis.zadd(
      cleanupIndexKey(ledger.tag),
      now - 9000,
      'e',
      now - 8000,
      'f',
      now + 600_000,
      'g',
    );
    const figures = ['3', String(now - 3000), String(now + 600_000), '1', '2', String(now - 9000)];
    expect((await page(ledger, { limit: 2 })).slice(3)).toEqual([...figures, 'a', 'b']);
    expect((await page(ledger, { skip: 1 })).slice(3)).toEqual([...figures, 'b', 'c']);
    expect((await page(ledger, { limit: 0 })).slice(3)).toEqual(figures);
  });

  test('of an empty index is empty, and neither a damaged quarantine nor a damaged cleanup index stops it', async () => {
    const ledger = await newLedger();
    await ledger.redis.mset(quarantineKey(ledger.tag), 'x', cleanupIndexKey(ledger.tag), 'x');
    expect((await page(ledger)).slice(2)).toEqual(['taken', '0', '', '', '0', '0', '']);
  });

  test('can be read without a lease, which neither takes one nor changes it', async () => {
    const ledger = await newLedger();
    await ledger.redis.zadd(ttlIndexKey(ledger.tag), 1, 'a');
    expect(await page(ledger, { token: '' })).toEqual([
      'HELD',
      expect.any(String),
      'none',
      '1',
      '1',
      '',
      '0',
      '0',
      '',
      'a',
    ]);
    expect(await holder(ledger)).toBeNull();
    await page(ledger);
    expect((await page(ledger, { token: '' }))[2]).toBe('none');
    expect(await holder(ledger)).toBe('mine');
  });
});

describe('the announcements', () => {
  test('count the live instances, give each a position by name, forget lapsed ones, and keep the last report of each', async () => {
    const { redis, scripts, tag } = await newLedger();
    const keys: [string, string] = [`${tag}instances`, `${tag}reports`];
    const announce = (instance: string, leaseMs: number): Promise<Reply> =>
      scripts.run('lease_announce', keys, [instance, leaseMs, `{"of":"${instance}"}`]);
    expect((await announce('b', LEASE_MS)).slice(2)).toEqual(['1', '0', '']);
    expect((await announce('c', LEASE_MS)).slice(2, 4)).toEqual(['2', '1']);
    const [word, , count, place, nextLapse] = await announce('a', LEASE_MS);
    expect([word, count, place]).toEqual(['ALIVE', '3', '0']);
    expect(Number(nextLapse)).toBeGreaterThan(LEASE_MS - 10_000);
    await redis.zadd(keys[0], 1, 'a');
    expect((await announce('c', LEASE_MS)).slice(2, 4)).toEqual(['2', '1']);
    expect(await redis.hkeys(keys[1])).toEqual(expect.not.arrayContaining(['a']));
    const [, , ...told] = await scripts.run('lease_instances', keys, []);
    expect(told.filter((_, index) => index % 3 !== 1)).toEqual(['b', '{"of":"b"}', 'c', '{"of":"c"}']);
  });
});
