import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { loadConfig } from '../../src/config/config.js';
import { wakeChannel } from '../../src/redis/keyspace.js';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { FundsWaiters } from '../../src/reservations/reserve/funds-waiters.js';
import { MetricsRegistry, ShutdownState } from '../../src/telemetry/index.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { eventually } from '../support/eventually.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';
import { sharedStoreUrl, storeSettings } from '../support/store.js';

/** What happens to a waiting reserve while a run of it is in flight. The runs are the test's own, so each waits for what it needs. */

const SCOPE = 'tenant:acme';
let running: RunningService;
let waiters: FundsWaiters;

beforeAll(async () => {
  const env = storeSettings({ REDIS_URL: sharedStoreUrl() });
  running = await startRedisService(env);
  const config = loadConfig({
    ADMIN_API_KEY: 'an-admin-key-for-tests',
    WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
    ...env,
  });
  waiters = new FundsWaiters(
    running.service,
    new MetricsRegistry(config),
    new ShutdownState(),
    config,
    createLogger('fatal'),
  );
});
const ends: AbortController[] = [];
afterEach(() => ends.splice(0).forEach((end) => end.abort()));
afterAll(stopAllRedisServices);

type Reply = { status: 'WAITING'; number: string; scope: string } | { status: 'ALLOW'; answer: 'fresh' };
const WAITING: Reply = { status: 'WAITING', number: '1', scope: SCOPE };
const ALLOW: Reply = { status: 'ALLOW', answer: 'fresh' };

/** Tells a place of its turn, and returns when the instance has heard it. */
async function tell(text: string): Promise<void> {
  const place = text.split(' ')[2] as string;
  const channel = wakeChannel(place.split('.')[0] as string);
  await eventually('the instance listens', async () => {
    return (await running.service.client.publish(channel, `${place} TOKENS ${SCOPE}`)) > 0;
  });
}

/** Lets a reserve wait whose runs are these, in order. @returns how many were made */
async function waitWith(...runs: ((text: string) => Promise<Reply>)[]): Promise<number> {
  const gone = new AbortController();
  ends.push(gone);
  let made = 0;
  const patience = {
    waitMs: 30_000,
    gone: gone.signal,
    waitedMs: 0,
    readmit: () => Promise.reject(new Error('the service judges the caller')),
  };
  const wanted = {
    ...{ tenantId: 'acme', unit: 'TOKENS', amount: 1, idempotencyKey: 'key', patience },
    readmit: () => Promise.resolve(),
  };
  const reply = await waiters.untilDecided<Reply>(wanted, (text) => {
    const run = runs[made] ?? ((): Promise<Reply> => Promise.resolve(ALLOW));
    made += 1;
    return run(text);
  });
  expect(reply).toEqual(ALLOW);
  return made;
}

test('a push that overtakes the reply which says that it waits is not lost', async () => {
  const made = await waitWith(async (text) => {
    await tell(text);
    return WAITING;
  });
  expect(made).toBe(2);
});

test('a push that comes while it is being run again is not lost', async () => {
  const made = await waitWith(
    async (text) => {
      await tell(text);
      return WAITING;
    },
    async (text) => {
      await tell(text);
      return WAITING;
    },
  );
  expect(made).toBe(3);
});

test('a run without an answer is made again', async () => {
  const made = await waitWith(
    async (text) => {
      await tell(text);
      return WAITING;
    },
    () => Promise.reject(new StoreUnavailable('timeout')),
  );
  expect(made).toBe(3);
});
