import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { LIBRARY } from '../../src/redis/script-library.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { makePolicy } from '../support/admission-client.js';
import { LedgerClient } from '../support/ledger-client.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

/** The functions keep budgets and counters in memory. A run that fails before it has written must leave nothing there. */
const FAILS = 'a-run-fails';
let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  const find = 'local function write(group, tag)\n';
  const put = `${find}  if redis.call('EXISTS', '${FAILS}') == 1 then error('a run has failed') end\n`;
  await redis.function('LOAD', mutate(LIBRARY.code, { what: 'a run fails', find, put }));
});
afterAll(async () => {
  await redis.quit();
  await server.stop();
});

test('what a run has counted and moved is forgotten if it fails before it has written', async () => {
  const { tag, tenant } = await LedgerClient.make(redis);
  const ledger = new LedgerClient(redis, tag, tenant, new ScriptRegistry(redis));
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated: 100 });
  const quota = { action_kind: 'llm', max_calls: 3, window: 'per_day_tumbling' };
  await makePolicy(ledger, ledger.scope(), { sets: { action_quotas: JSON.stringify([quota]) } });
  const reserve = async (): Promise<string> =>
    (await ledger.reserve({ fields: { ak: 'llm', an: 'gpt' }, facts: '||||' }))[0] as string;
  expect(await reserve()).toBe('ALLOW');
  await redis.set(FAILS, '1');
  await expect(reserve()).rejects.toThrow('a run has failed');
  await expect(reserve()).rejects.toThrow('a run has failed');
  await redis.del(FAILS);
  expect([await reserve(), await reserve(), await reserve()]).toEqual([
    'ALLOW',
    'ALLOW',
    'ACTION_QUOTA_EXCEEDED',
  ]);
  expect(await ledger.figures()).toBe('70,30,0,100,0,0,0');
});
