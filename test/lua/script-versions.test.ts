import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { eventually } from '../support/eventually.js';
import { LedgerClient } from '../support/ledger-client.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

/** What another version of the service has loaded, and somebody else. */
const OTHER_VERSION = 'holdfast_commit_0123456789ab';
const SOMEBODY_ELSE = 'another_service';

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});
afterAll(async () => {
  await redis.quit();
  await server.stop();
});

beforeEach(async () => {
  await redis.function('FLUSH');
  await new ScriptRegistry(redis).load();
  for (const name of [OTHER_VERSION, SOMEBODY_ELSE]) {
    await redis.function(
      'LOAD',
      `#!lua name=${name}\nredis.register_function('${name}', function() return 'OK' end)`,
    );
  }
});

async function libraries(): Promise<string[]> {
  return ((await redis.function('LIST')) as string[][]).map(
    (library) => library[library.indexOf('library_name') + 1] as string,
  );
}

test('a start takes away what other versions have loaded, and nothing of anybody else', async () => {
  await new ScriptRegistry(redis).load();
  expect(await libraries()).not.toContain(OTHER_VERSION);
  expect(await libraries()).toContain(SOMEBODY_ELSE);
});

test('a version whose functions were taken away gives them back and takes none of another, so that both can run', async () => {
  const ledger = await LedgerClient.make(redis);
  await ledger.makeBudget();
  const own = (await libraries()).filter((name) => name.startsWith('holdfast_') && name !== OTHER_VERSION);
  await Promise.all(own.map((name) => redis.function('DELETE', name)));
  await ledger.hold();
  await eventually('they are back', async () => (await libraries()).length === own.length + 2);
  expect(await libraries()).toEqual(expect.arrayContaining([...own, OTHER_VERSION]));
});
