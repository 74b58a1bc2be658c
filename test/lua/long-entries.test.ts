import { beforeEach, describe, expect, test } from '@jest/globals';
import { auditLogKey, dispatchLeaseKey, eventLogKey, tenantEventsKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { RETENTION_MS, type LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const ENTRIES = 30;
const KIBIBYTES_100 = 'x'.repeat(102_400);
/** What a run may read beyond 256 KiB: the last portion that it read. */
const PORTION = 4;

let ledger: LedgerClient;
let log: string;
let ids: string[];

async function makeLog(metadata: string): Promise<void> {
  ledger = await newLedger();
  log = eventLogKey(ledger.tag);
  ids = [];
  const now = (await ledger.serverTime()) - 100_000;
  for (let index = 0; index < ENTRIES; index += 1) {
    const id = `${now + index}-0`;
    ids.push(id);
    const figures = [
      'ty',
      'reservation.expired',
      'tn',
      ledger.tenant,
      'ac',
      'system',
      'expired_at',
      now + index,
      'reservation_id',
      `rsv_${index}`,
      'metadata',
      metadata,
    ];
    await ledger.redis
      .pipeline()
      .xadd(log, id, ...figures)
      .xadd(tenantEventsKey(ledger.tag, ledger.tenant), id, 'y', 'reservation.expired')
      .exec();
  }
}

interface Run {
  readonly found: string[];
  /** Where the next run starts; empty at the end. */
  readonly next: string;
}

async function listEvents(byIndex: boolean, direction: 'asc' | 'desc', start: string): Promise<Run> {
  const walked = byIndex ? tenantEventsKey(ledger.tag, ledger.tenant) : log;
  const [next = '', , ...rest] = await ledger.scripts.run(
    'list_events',
    [log, walked],
    [direction, start, direction === 'asc' ? '+' : '-', 250, 100, 'ty', 'reservation.expired'],
  );
  return { found: idsIn(rest), next };
}

async function listExpirations(start: string): Promise<Run> {
  const [next = '', ...rest] = await ledger.scripts.run(
    'expirations',
    [log],
    [start, '+', 250, 100, '-inf', '+inf', '', '', '', ''],
  );
  return { found: idsIn(rest), next };
}

/** Runs until `next` is empty. Each run must find some of the entries, and no more than it may. */
async function inRuns(run: (start: string) => Promise<Run>, start: string): Promise<string[]> {
  const all: string[] = [];
  let runs = 0;
  for (let place = start; place !== ''; runs += 1) {
    const { found, next } = await run(place);
    expect(found.length).toBeLessThanOrEqual(3 + PORTION);
    all.push(...found);
    place = next;
  }
  expect(runs).toBeGreaterThan(ENTRIES / (3 + PORTION));
  return all;
}

const idsIn = (reply: Reply): string[] => reply.filter((text) => ids.includes(text));

const EVENT_WALKS = [
  ['the log', false, 'asc'],
  ['the log', false, 'desc'],
  ["the tenant's index", true, 'asc'],
  ["the tenant's index", true, 'desc'],
] as const;

describe('a run ends after 256 KiB of entries, and continues after the last one', () => {
  // A log of a version without limits on free texts.
  beforeEach(() => makeLog(KIBIBYTES_100));

  test.each(EVENT_WALKS)('of events through %s (%s, %s)', async (_what, byIndex, direction) => {
    const found = await inRuns(
      (start) => listEvents(byIndex, direction, start),
      direction === 'asc' ? '-' : '+',
    );
    expect(found).toEqual(direction === 'asc' ? ids : [...ids].reverse());
  });

  test('of expirations', async () => {
    expect(await inRuns(listExpirations, '-')).toEqual(ids);
  });

  test('of what the dispatcher reads, the first time and again', async () => {
    const page = (take: number, after: string, limit: number): Promise<Reply> =>
      ledger.scripts.run(
        'dispatch_page',
        [dispatchLeaseKey(ledger.tag), log],
        ['mine', 10_000, take, after, limit],
      );
    await page(1, '>', 0);
    const first = await page(0, '>', 250);
    expect([idsIn(first), first[10]]).toEqual([ids.slice(0, 16), '1']);
    const second = await page(0, '>', 250);
    expect([idsIn(second), second[10]]).toEqual([ids.slice(16), '0']);
    const again = await page(0, ids[3] as string, 250);
    expect([idsIn(again), again[10]]).toEqual([ids.slice(4, 20), '1']);
  });

  test('of deliveries and their events', async () => {
    const refs = ids.map((id) => `${id}:whsub_1`);
    const reply = await ledger.scripts.run('read_deliveries', [log], refs);
    expect(refs.filter((ref) => reply.includes(ref))).toEqual(refs.slice(0, 3));
  });

  test('of events that are queued again, and says how many it took', async () => {
    const gone = ids.map((id) => id.replace('-0', '-9'));
    const entries = [gone[0] as string, ...ids];
    const reply = await ledger.scripts.run(
      'replay_events',
      [log],
      ['whsub_1', 'rpl_1', RETENTION_MS, ...entries],
    );
    expect(reply.slice(0, 3)).toEqual(['QUEUED', '0', '4']);
    expect(reply.slice(3).filter((_part, index) => index % 2 === 0)).toEqual(
      ids.slice(0, 3).map((id) => `${id}:whsub_1:rpl_1`),
    );
  });

  test('of events that are removed, each once, from the index as well', async () => {
    const trim = (): Promise<Reply> => ledger.scripts.run('trim_event_log', [log], [1000, 1000, 250]);
    const removed: number[] = [];
    for (let more = '1'; more === '1';) {
      const reply = await trim();
      removed.push(Number(reply[1]));
      more = reply[2] as string;
    }
    expect(Math.max(...removed)).toBeLessThanOrEqual(3 + PORTION);
    expect(removed.reduce((sum, count) => sum + count, 0)).toBe(ENTRIES);
    expect(await ledger.redis.exists(log, tenantEventsKey(ledger.tag, ledger.tenant))).toBe(1);
    expect(await ledger.redis.xlen(log)).toBe(0);
  });

  test('of audit rows that are removed', async () => {
    const audit = auditLogKey(ledger.tag);
    const now = await ledger.serverTime();
    for (let index = 0; index < ENTRIES; index += 1) {
      await ledger.redis.xadd(
        audit,
        `${now - 100_000 + index}-0`,
        'op',
        'freezeBudget',
        'metadata',
        KIBIBYTES_100,
      );
    }
    await ledger.redis.xadd(audit, '*', 'op', 'freezeBudget');
    const removed: number[] = [];
    for (let more = '1'; more === '1';) {
      const reply = await ledger.scripts.run('trim_audit_log', [audit], ['audit', 1000, 250]);
      removed.push(Number(reply[1]));
      more = reply[2] as string;
    }
    expect(Math.max(...removed)).toBeLessThanOrEqual(3 + PORTION);
    expect(removed.reduce((sum, count) => sum + count, 0)).toBe(ENTRIES);
    expect(await ledger.redis.xlen(audit)).toBe(1);
  });
});

// A run reads 4 entries, then 8, then 16, and so on.
describe('a run reads short entries in several portions, and each entry once', () => {
  beforeEach(() => makeLog('short'));

  test.each(EVENT_WALKS)('of events through %s (%s, %s)', async (_what, byIndex, direction) => {
    const { found, next } = await listEvents(byIndex, direction, direction === 'asc' ? '-' : '+');
    expect([found, next]).toEqual([direction === 'asc' ? ids : [...ids].reverse(), '']);
  });

  test('of expirations', async () => {
    expect(await listExpirations('-')).toEqual({ found: ids, next: '' });
  });

  test('of events that are removed, each counted once', async () => {
    const [, removed, more] = await ledger.scripts.run('trim_event_log', [log], [1000, 1000, 250]);
    expect([removed, more]).toEqual([String(ENTRIES), '0']);
  });
});
