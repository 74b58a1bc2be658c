import { Redis } from 'ioredis';
import { wakeChannel } from '../../src/redis/keyspace.js';
import { type LedgerClient, randomText } from './ledger-client.js';
import { sharedStoreUrl } from './store.js';

/** Instances whose reserves wait. Each test file has its own, because files that run side by side share a store and so its channels. */
export const [ONE, TWO] = [randomText(12), randomText(12)];

/** The places of the waiting reserves of these instances that are told of their turn while `act` runs, in order. */
export async function toldOf(ledger: LedgerClient, act: () => Promise<unknown>): Promise<string[]> {
  const subscriber = new Redis(sharedStoreUrl());
  const places: string[] = [];
  try {
    subscriber.on('message', (_, message: string) => places.push(message.split(' ')[0] as string));
    await subscriber.subscribe(wakeChannel(ONE), wakeChannel(TWO));
    await act();
    // Messages published earlier have arrived once this one has.
    await ledger.redis.publish(wakeChannel(ONE), 'end');
    while (places.at(-1) !== 'end') {
      await subscriber.ping();
    }
  } finally {
    subscriber.disconnect();
  }
  return places.slice(0, -1);
}
