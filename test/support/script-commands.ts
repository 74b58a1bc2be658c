import { once } from 'node:events';
import { Cluster } from 'ioredis';
import { randomText } from './ledger-client.js';
import type { StoreClient } from './store.js';

/**
 * The commands that scripts ran meanwhile, name first, of those that name `about` in a key. What a run looks at can so be asserted
 * exactly, where its time could not.
 */
export async function commandsOf(redis: StoreClient, about: string, act: () => Promise<unknown>): Promise<string[][]> {
  if (redis instanceof Cluster) {
    throw new Error('only one Redis can be watched');
  }
  const monitor = await redis.monitor();
  const commands: string[][] = [];
  const end = randomText(12);
  const isOver = new Promise<void>((resolve) => {
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      if (args.includes(end)) {
        resolve();
      } else if (source.includes('lua') && args.some((arg) => arg.includes(about))) {
        commands.push([(args[0] as string).toUpperCase(), ...args.slice(1)]);
      }
    });
  });
  try {
    await act();
    await redis.echo(end);
    await isOver;
  } finally {
    monitor.disconnect();
    await once(monitor, 'end').catch(() => undefined);
  }
  return commands;
}
