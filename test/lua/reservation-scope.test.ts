import { expect, test } from '@jest/globals';
import { journalKey } from '../../src/redis/keyspace.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const SUBJECT = { workspace: 'Prod', agent: 'bot' };

function scopeOf(ledger: LedgerClient, id: string): Promise<string[]> {
  return ledger.scripts.run('reservation_scope', [ledger.reservationKeyOf(id)], []);
}

test('a reservation shows its scope while it is live, once it has ended, and once its record is packed', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold({ subject: SUBJECT });
  const found = ['SCOPE', `tenant:${ledger.tenant}/workspace:prod/agent:bot`];
  expect(await scopeOf(ledger, id)).toEqual(found);
  await ledger.release(id);
  expect(await scopeOf(ledger, id)).toEqual(found);
  await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
  expect(await ledger.redis.hexists(ledger.reservationKeyOf(id), '0')).toBe(1);
  expect(await scopeOf(ledger, id)).toEqual(found);
});

test('a record without its tenant has no scope, and neither has a key of another type, nor a missing one', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold({ subject: SUBJECT });
  await ledger.redis.hdel(ledger.reservationKeyOf(id), 'su');
  expect(await scopeOf(ledger, id)).toEqual(['UNKNOWN']);
  await ledger.redis.del(ledger.reservationKeyOf(id));
  expect(await scopeOf(ledger, id)).toEqual(['NOT_FOUND']);
  await ledger.redis.set(ledger.reservationKeyOf(id), 'text');
  expect(await scopeOf(ledger, id)).toEqual(['UNKNOWN']);
});
