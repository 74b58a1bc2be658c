import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { isPortTaken, startRedis } from '../support/redis-server.js';

test('the output of a failed start is read to its end, so that a port that is taken is recognized', async () => {
  const endsBeforeItPrints = ['sh', '-c', '(sleep 0.2; echo bind: Address already in use) & exit 1', 'sh'];
  const error = await startRedis({ port: 1, launcher: endsBeforeItPrints }).catch(
    (reason: unknown) => reason,
  );
  expect(isPortTaken(error)).toBe(true);
});

test('a client that lost its server lets its process end before jest kills it', () => {
  const client = new Redis({ lazyConnect: true });
  expect(client.options.disconnectTimeout).toBeLessThan(500);
  client.disconnect();
});
