import { expect, test } from '@jest/globals';
import { deliveryIndexKey, dispatchLeaseKey, eventLogKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { TRACE, randomText, type LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const RETENTION_MS = 86_400_000;

async function logDenial({ redis, tag, tenant }: LedgerClient): Promise<string> {
  const fields = ['ty', 'reservation.denied', 'tn', tenant, 'ac', 'system'];
  return (await redis.xadd(eventLogKey(tag), '*', ...fields)) as string;
}

async function queueOne(ledger: LedgerClient, subscription: string): Promise<Reply> {
  const { redis, scripts, tag, tenant } = ledger;
  const [lease, log] = [dispatchLeaseKey(tag), eventLogKey(tag)];
  await redis.set(lease, 'mine');
  const entryId = await logDenial(ledger);
  return scripts.run(
    'queue_deliveries',
    [lease, log],
    ['mine', RETENTION_MS, 1, entryId, entryId, subscription, tenant, 'reservation.denied', TRACE],
  );
}

async function replayOne(ledger: LedgerClient, subscription: string): Promise<Reply> {
  const log = eventLogKey(ledger.tag);
  const entryId = await logDenial(ledger);
  return ledger.scripts.run('replay_events', [log], [subscription, 'rpl_1', RETENTION_MS, entryId]);
}

test.each([
  ['delivery', queueOne, 3],
  ['replay', replayOne, 1],
])(
  'a %s removes index entries that outlived their records, a bounded number of the oldest at a time, returns how many, and keeps the others',
  async (_what, add, told) => {
    const ledger = await newLedger();
    const { redis, tag } = ledger;
    const subscription = `whsub_${tag.slice(2, 4)}${randomText(16)}`;
    const index = deliveryIndexKey(tag, subscription);
    const [seconds] = await redis.time();
    const nowMs = Number(seconds) * 1000;
    const old = Array.from({ length: 15 }, (_, number) => [
      nowMs - RETENTION_MS - 100_000 + number,
      `gone-${number}`,
    ]);
    await redis.zadd(index, ...old.flat(), nowMs - RETENTION_MS + 60_000, 'kept');
    const first = await add(ledger, subscription);
    expect([first[0], first[told]]).toEqual(['QUEUED', '10']);
    expect(await redis.zrange(index, '0', '0')).toEqual(['gone-10']);
    expect((await add(ledger, subscription))[told]).toBe('5');
    const left = await redis.zrange(index, '0', '-1');
    expect(left).toHaveLength(3);
    expect(left[0]).toBe('kept');
  },
);

test('the index of a subscription without new deliveries is deleted with the last record', async () => {
  const ledger = await newLedger();
  const subscription = `whsub_${ledger.tag.slice(2, 4)}${randomText(16)}`;
  await queueOne(ledger, subscription);
  const lifeMs = await ledger.redis.pttl(deliveryIndexKey(ledger.tag, subscription));
  expect(lifeMs).toBeGreaterThan(RETENTION_MS - 60_000);
  expect(lifeMs).toBeLessThanOrEqual(RETENTION_MS);
});
