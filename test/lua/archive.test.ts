import { expect, test } from '@jest/globals';
import { archiveLeaseKey, eventLogKey, journalPlacesKey } from '../../src/redis/keyspace.js';
import { clockAt } from '../support/fixed-clock.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const NOW = Date.UTC(2100, 0, 1);
const SETTLE_MS = 5000;

test('a page ends where entries are as old as the settle age, to the millisecond', async () => {
  const ledger = await newLedger();
  const [lease, stream] = [archiveLeaseKey(ledger.tag), eventLogKey(ledger.tag)];
  await ledger.redis.set(lease, 'me');
  await ledger.redis.hset(journalPlacesKey(ledger.tag), 'events-cursor', '0-0');
  const older = `${NOW - SETTLE_MS - 1}-0`;
  await ledger.redis.xadd(stream, older, 'ty', 'x');
  await ledger.redis.xadd(stream, `${NOW - SETTLE_MS}-0`, 'ty', 'x');
  const page = (stopMs: number | ''): Promise<string[]> =>
    clockAt(ledger, NOW).scripts.run(
      'archive_page',
      [lease, stream],
      ['me', 'events', '0-0', '0-0', stopMs, SETTLE_MS, 9, 1],
    );
  const upper = String(NOW - SETTLE_MS - 1);
  expect((await page('')).slice(0, 5)).toEqual(['READ', String(NOW), upper, '0', older]);
  expect((await page(NOW)).filter((text) => text.endsWith('-0'))).toEqual([older]);
  expect((await page(NOW - SETTLE_MS - 1)).slice(2)).toEqual([String(NOW - SETTLE_MS - 2), '0']);
});

test.each([
  ['1001', '1001'],
  ['1000', '1000'],
  ['999', '1000'],
  ['', '1000'],
])('what is archived through 1000 is so through %j: %s', async (throughMs, noted) => {
  const ledger = await newLedger();
  const places = journalPlacesKey(ledger.tag);
  await ledger.redis.hset(places, { 'events-cursor': '5-0', 'events-through': '1000' });
  const advance = (last: string): Promise<string[]> =>
    ledger.scripts.run('archive_advance', [eventLogKey(ledger.tag)], ['events', '5-0', last, '1', throughMs]);
  expect(await advance('4-9')).toEqual(['MOVED', '5-0']);
  expect(await ledger.redis.hget(places, 'events-through')).toBe('1000');
  expect(await advance('5-0')).toEqual(['ADVANCED']);
  expect(await ledger.redis.hget(places, 'events-through')).toBe(noted);
  expect(await advance('6-0')).toEqual(['ADVANCED']);
  expect(await advance('7-0')).toEqual(['MOVED', '6-0']);
});
