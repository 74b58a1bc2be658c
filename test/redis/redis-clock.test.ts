import { afterAll, afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { ReplyError } from 'ioredis';
import { eventually } from '../support/eventually.js';
import { type RunningService, startRedisService, stopAllRedisServices } from '../support/redis-service.js';
import { serverTimeMs } from '../support/server-time.js';
import { connectTo, sharedStoreUrl } from '../support/store.js';

// ioredis declares it without its constructor.
const Refused = ReplyError as new (message: string) => Error;
const HOUR_MS = 3_600_000;
/** Far less than a step, and far more than this machine may stall. */
const SLACK_MS = 60_000;

/** Unlike that of the service, its clock is never mocked. */
const redis = connectTo(sharedStoreUrl());
afterAll(() => {
  redis.disconnect();
});

let running: RunningService;
beforeEach(async () => {
  running = await startRedisService({ REDIS_URL: sharedStoreUrl() });
});
afterEach(async () => {
  jest.restoreAllMocks();
  await stopAllRedisServices();
});

/** Redis' clock as the service reads it; everything else is as usual. */
function readAs(read: (seconds: number) => Promise<[number, number]>): void {
  const { client } = running.service;
  const time = client.time.bind(client);
  jest.spyOn(client, 'time').mockImplementation(async () => read(Number((await time())[0])));
}

const offBy = async (ms: number): Promise<number> =>
  Math.abs(running.service.clock.nowMs() - ms - (await serverTimeMs(redis)));

test("is right from the start, and follows a step of Redis' clock", async () => {
  expect(await offBy(0)).toBeLessThan(SLACK_MS);
  const warned = async (): Promise<unknown[]> =>
    (await running.service.status()).warnings.filter(({ code }) => code === 'clock_differs');
  expect(await warned()).toEqual([]);
  readAs((seconds) => Promise.resolve([seconds + HOUR_MS / 1000, 0]));
  await eventually('the step is noticed', async () => (await offBy(HOUR_MS)) < SLACK_MS);
  expect(await warned()).toEqual([
    {
      code: 'clock_differs',
      message: expect.stringContaining(" ahead of the clock of this host. Redis' clock decides"),
    },
  ]);
});

test("counts on where Redis' clock cannot be read, and says so once", async () => {
  let failures = 0;
  readAs(() => {
    failures += 1;
    return Promise.reject(new Refused("ERR unknown command 'TIME'"));
  });
  await eventually('two readings have failed', () => failures >= 2);
  expect(await offBy(0)).toBeLessThan(SLACK_MS);
  const lines = running.log.filter(({ msg }) => msg.startsWith("Redis' clock cannot be read"));
  expect(lines).toMatchObject([{ level: 'error' }]);
});
