import { expect, test } from '@jest/globals';
import {
  eventLogKey,
  ratesCursorKey,
  ratesDueKey,
  rateCountKey,
  reservationIndexKey,
} from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { clockAt } from '../support/fixed-clock.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const DAY_MS = 86_400_000;
/** The start of a slot of either length. */
const START_MS = 300_000 * 5_900_000;

const count = ({ scripts, tag }: LedgerClient, examine = 100): Promise<readonly string[]> =>
  scripts.run(
    'count_rates',
    [eventLogKey(tag), ratesCursorKey(tag), ratesDueKey(tag)],
    [examine, DAY_MS, 10],
  );

const check = ({ scripts, tag, tenant }: LedgerClient, ...thresholds: string[]): Promise<readonly string[]> =>
  scripts.run(
    'check_rates',
    [eventLogKey(tag), reservationIndexKey(tag, tenant), ratesDueKey(tag)],
    [tenant, 1, ...thresholds],
  );

/** Appends a denial with this time, as reserve writes it. */
const denied = async ({ redis, tag, tenant }: LedgerClient, ms: number, ...more: string[]): Promise<void> => {
  await redis.xadd(
    eventLogKey(tag),
    `${ms}-*`,
    'ty',
    'reservation.denied',
    'tn',
    tenant,
    'ac',
    'system',
    ...more,
  );
};

/** A ledger whose partition has no events yet. */
async function emptyLedger(): Promise<LedgerClient> {
  const ledger = await newLedger();
  const { redis, tag } = ledger;
  await redis.del(eventLogKey(tag), ratesCursorKey(tag), ratesDueKey(tag));
  return ledger;
}

test.each([
  ['a minute', '60', 10_000],
  ['an hour', '3600', 10_000],
  ['longer than an hour', '3610', 300_000],
  ['a day', '86400', 300_000],
])('a window of %s counts events since its first whole slot', async (_, window, slotMs) => {
  shows('rate spikes');
  const ledger = await emptyLedger();
  const windowMs = Number(window) * 1000;
  const end = START_MS + DAY_MS + slotMs - 1;
  const first = (Math.floor((end - windowMs) / slotMs) + 1) * slotMs;
  const now = clockAt(ledger, end);
  await denied(ledger, first - 1);
  await count(now);
  expect(await check(now, 'denial_rate', '0.5', window)).toEqual(['CHECKED']);
  await denied(ledger, first);
  await count(now);
  expect(await check(now, 'denial_rate', '0.5', window)).toEqual(['CHECKED', 'denial_rate', '0.5', window]);
  expect(await check(now, 'denial_rate', '0.5', window)).toEqual(['CHECKED']);
  const [[, figures]] = (await ledger.redis.xrevrange(eventLogKey(ledger.tag), '+', '-', 'COUNT', 1)) as [
    [string, string[]],
  ];
  expect(figures.slice(-4)).toEqual(['sample_count', '1', 'current_fraction', '1.0000']);
});

test('each entry is counted once, in runs of any size, and only denials within the window', async () => {
  shows('rate spikes');
  const ledger = await emptyLedger();
  const now = clockAt(ledger, START_MS + DAY_MS);
  await denied(ledger, START_MS - 1);
  await denied(ledger, START_MS + 1, 'va', '1');
  for (let ms = 2; ms < 7; ms += 1) {
    await denied(ledger, START_MS + ms);
  }
  await ledger.redis.xadd(
    eventLogKey(ledger.tag),
    `${START_MS + 8}-0`,
    'ty',
    'tenant.updated',
    'tn',
    ledger.tenant,
  );
  let [counted, more] = [0, '1'];
  while (more === '1') {
    const [next = '0', number, ...due] = await count(now, 2);
    [counted, more] = [counted + Number(number), next];
    expect(due.every((tenant) => tenant === ledger.tenant)).toBe(true);
  }
  expect(counted).toBe(5);
  expect((await count(now)).slice(0, 2)).toEqual(['0', '0']);
  await check(now);
  expect((await count(now)).slice(2)).toEqual([]);
});

test('a damaged counter neither stops the count nor is counted', async () => {
  const ledger = await emptyLedger();
  const { redis, tag, tenant } = ledger;
  await redis.set(rateCountKey(tag, tenant, 'denied', 10, START_MS / 10_000), 'junk');
  await denied(ledger, START_MS);
  const now = clockAt(ledger, START_MS + 1);
  expect((await count(now))[1]).toBe('1');
  expect(await check(now, 'denial_rate', '0.5', '60')).toEqual(['CHECKED']);
  expect(await check(now, 'denial_rate', '0.5', '7200')).toHaveLength(4);
});
