import { describe, expect, test } from '@jest/globals';
import { cleanupIndexKey, eventLogKey, idempotencyKey, ttlIndexKey } from '../../src/redis/keyspace.js';
import { recordedValues } from '../support/idempotency-record.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

/** What each operation does to a live hold. All of them would write if they could. */
const OPERATIONS: Record<string, (ledger: LedgerClient, id: string) => Promise<unknown>> = {
  reserve: (ledger) => ledger.reserve({ amount: 900 }),
  commit: (ledger, id) => ledger.commit(id, 150),
  release: (ledger, id) => ledger.release(id),
  extend: (ledger, id) => ledger.extend(id, 1000),
};

async function ledgerWithHold(): Promise<[LedgerClient, string]> {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold({ amount: 100 });
  return [ledger, id];
}

async function failsWithoutATrace(
  ledger: LedgerClient,
  operation: () => Promise<unknown>,
  error = 'WRONGTYPE',
): Promise<void> {
  const before = await snapshot(ledger);
  await expect(operation()).rejects.toThrow(error);
  expect(await snapshot(ledger)).toEqual(before);
}

describe('a TTL index that is not a sorted set', () => {
  test.each(Object.keys(OPERATIONS))('fails a %s before anything is written', async (name) => {
    const [ledger, id] = await ledgerWithHold();
    await ledger.redis.set(ttlIndexKey(ledger.tag), 'broken');
    await failsWithoutATrace(ledger, () => (OPERATIONS[name] as (typeof OPERATIONS)[string])(ledger, id));
  });

  test('fails an expiry before anything is written', async () => {
    const [ledger, id] = await ledgerWithHold();
    await ledger.makeOverdue(id);
    await ledger.redis.set(ttlIndexKey(ledger.tag), 'broken');
    await failsWithoutATrace(ledger, () => ledger.expire(id));
  });
});

test('a cleanup index that is not a sorted set fails the quarantine of a damaged hold before it has left the TTL index', async () => {
  const [ledger, id] = await ledgerWithHold();
  await ledger.makeOverdue(id);
  await ledger.redis.hset(ledger.reservationKeyOf(id), 'am', 'many');
  await ledger.redis.set(cleanupIndexKey(ledger.tag), 'broken');
  await failsWithoutATrace(ledger, () => ledger.expire(id));
});

test.each<[string, (fingerprint: string) => string | Buffer]>([
  [
    'without an outcome',
    (fingerprint) => Buffer.concat([Buffer.of(0xa0 + fingerprint.length), Buffer.from(fingerprint)]),
  ],
  [
    'that ends in the middle of a value',
    (fingerprint) => Buffer.concat([Buffer.of(0xa0 + fingerprint.length + 1), Buffer.from(fingerprint)]),
  ],
  [
    'with a balance of two figures',
    (fingerprint) =>
      Buffer.concat([Buffer.of(0xa0 + fingerprint.length), Buffer.from(fingerprint), Buffer.of(0x92, 1, 2)]),
  ],
])('an idempotency record %s fails the call, which may have taken effect before', async (_, damaged) => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  await ledger.reserve({ key: 'k' });
  const record = idempotencyKey.reserve(ledger.tag, ledger.tenant, 'k');
  const [fingerprint] = await recordedValues(ledger.redis, record);
  await ledger.redis.set(record, damaged(String(fingerprint)), 'KEEPTTL');
  await failsWithoutATrace(ledger, () => ledger.reserve({ key: 'k' }), 'corrupt idempotency record');
});

describe('an event log that is not a stream', () => {
  test.each(['reserve', 'commit'])(
    'fails a %s that would emit an event before anything is written',
    async (name) => {
      const [ledger, id] = await ledgerWithHold();
      await ledger.redis.set(eventLogKey(ledger.tag), 'broken');
      await failsWithoutATrace(ledger, () => (OPERATIONS[name] as (typeof OPERATIONS)[string])(ledger, id));
    },
  );

  test('fails an expiry, and the quarantine of a damaged hold, before anything is written', async () => {
    const [ledger, id] = await ledgerWithHold();
    await ledger.makeOverdue(id);
    await ledger.redis.set(eventLogKey(ledger.tag), 'broken');
    await failsWithoutATrace(ledger, () => ledger.expire(id));
    await ledger.redis.hset(ledger.reservationKeyOf(id), 'am', 'many');
    await failsWithoutATrace(ledger, () => ledger.expire(id));
  });
});
