import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../support/eventually.js';
import type { Holdfast } from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvents,
  deliveries,
  endedDeliveries,
  startDispatcher,
  subscribe,
} from '../webhooks/dispatching.js';

const POLICY = {
  retry_policy: { max_retries: 10, initial_delay_ms: 1000, backoff_multiplier: 1, max_delay_ms: 1000 },
};

let server: RedisServer;
let redis: Redis;
let holdfast: Holdfast;
let receiver: WebhookReceiver;

beforeEach(async () => {
  server = await startRedis({ maxmemory: '100mb' });
  redis = new Redis(server.url);
  holdfast = await startDispatcher({ REDIS_URL: server.url });
  receiver = await WebhookReceiver.start();
  await allowLoopback(holdfast);
});

afterEach(async () => {
  await holdfast.stop();
  await receiver.stop();
  redis.disconnect();
  await server.stop();
});

test('while Redis is full first attempts continue, and a failed one stays first in its queue until its retry can be stored', async () => {
  const [refusing, accepting] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
  const waiting: (() => void)[] = [];
  receiver.react = (response, { path }) =>
    void waiting.push(() => response.writeHead(path === '/refusing' ? 500 : 200).end());
  const refused = await subscribe(holdfast, refusing, `${receiver.url}/refusing`, POLICY);
  const accepted = await subscribe(holdfast, accepting, `${receiver.url}/accepting`);
  const requestIds = await causeEvents(holdfast, refusing, 3);
  await causeEvents(holdfast, accepting, 3);
  const queuedOf = async (id: string): Promise<number> => (await deliveries(holdfast, id)).length;
  await eventually(
    'all are queued, and the first attempts have started',
    async () => (await queuedOf(refused)) + (await queuedOf(accepted)) === 6 && waiting.length === 2,
  );

  await redis.config('SET', 'maxmemory', '1mb');
  receiver.react = (response, { path }) => void response.writeHead(path === '/refusing' ? 500 : 200).end();
  for (const answer of waiting) {
    answer();
  }
  expect((await endedDeliveries(holdfast, accepted, 3)).map(({ status }) => status)).toEqual([
    'SUCCESS',
    'SUCCESS',
    'SUCCESS',
  ]);
  const sentTo = (path: string): (string | undefined)[] =>
    receiver.received.filter((one) => one.path === path).map(({ headers }) => headers['x-request-id']);
  await eventually('the first one is attempted again', () => sentTo('/refusing').length >= 3);
  expect(new Set(sentTo('/refusing'))).toEqual(new Set([requestIds[0]]));
  expect((await deliveries(holdfast, refused)).map(({ status }) => status)).toEqual([
    'PENDING',
    'PENDING',
    'PENDING',
  ]);
  expect(await holdfast.metric('holdfast_webhook_retries_not_stored_total')).toBeGreaterThan(0);

  await redis.config('SET', 'maxmemory', '100mb');
  await eventually('the others have their turn', () => new Set(sentTo('/refusing')).size === 3);
  receiver.react = (response) => void response.writeHead(200).end();
  expect((await endedDeliveries(holdfast, refused, 3)).map(({ status }) => status)).toEqual([
    'SUCCESS',
    'SUCCESS',
    'SUCCESS',
  ]);
  expect([...new Set(sentTo('/refusing'))]).toEqual(requestIds);
}, 60_000);
