import { Redis } from 'ioredis';
import { wakeChannel } from '../../src/redis/keyspace.js';
import type { LedgerClient } from './ledger-client.js';
import { sharedStoreUrl } from './store.js';

/**
 * The places of the waiting reserves that are told of their turn while `act` runs, in order. Covers the
 * instances `one` and `two`.
 */
export async function toldOf(ledger: LedgerClient, act: () => Promise<unknown>): Promise<string[]> {
  const subscriber = new Redis(sharedStoreUrl());
  const places: string[] = [];
  try {
    subscriber.on('message', (_, message: string) => places.push(message.split(' ')[0] as string));
    await subscriber.subscribe(wakeChannel('one'), wakeChannel('two'));
    await act();
    // Messages published earlier have arrived once this one has.
    await ledger.redis.publish(wakeChannel('one'), 'end');
    while (places.at(-1) !== 'end') {
      await subscriber.ping();
    }
  } finally {
    subscriber.disconnect();
  }
  return places.slice(0, -1);
}
