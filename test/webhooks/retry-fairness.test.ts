import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { eventLogKey, tagOf } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import type { Holdfast } from '../support/holdfast.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { allowLoopback, causeEvent, endedDeliveries, startDispatcher, subscribe } from './dispatching.js';

const EVENTS = 60;
const POLICY = {
  retry_policy: { max_retries: 2, initial_delay_ms: 100, backoff_multiplier: 1, max_delay_ms: 1000 },
};
/** How many retries one instance makes at the same time to the subscriptions of one owner. */
const PER_OWNER = 50;

let server: Store;
let redis: StoreClient;
let holdfast: Holdfast;
let receiver: WebhookReceiver;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  // All tenants are in one partition, so they share its index of retries.
  holdfast = await startDispatcher({
    REDIS_URL: server.url,
    PARTITIONS: '1',
    WEBHOOK_TIMEOUT_MS: '60000',
  });
  await allowLoopback(holdfast);
  receiver = await WebhookReceiver.start();
});

afterAll(async () => {
  await receiver.stop();
  await holdfast.stop();
  redis.disconnect();
  await server.stop();
});

test("retries to endpoints that hang take no more places than one owner may have, and delay no other owner's retries", async () => {
  const [busy, quiet] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
  const seen = new Set<string>();
  const hanging: (() => void)[] = [];
  let hangs = true;
  receiver.react = (response, { path, headers }) => {
    const name = `${path} ${headers['webhook-id']}`;
    const isFirst = !seen.has(name);
    seen.add(name);
    const answer = (): unknown => response.writeHead(isFirst ? 500 : 200).end();
    if (isFirst || path === '/quiet' || !hangs) {
      answer();
    } else {
      hanging.push(answer);
    }
  };
  const busyIds = [
    await subscribe(holdfast, busy, `${receiver.url}/one`, POLICY),
    await subscribe(holdfast, busy, `${receiver.url}/two`, POLICY),
  ];
  const quietId = await subscribe(holdfast, quiet, `${receiver.url}/quiet`, POLICY);
  const pipeline = redis.pipeline();
  for (let index = 0; index < EVENTS; index += 1) {
    pipeline.xadd(eventLogKey(tagOf('00')), '*', 'ty', 'reservation.denied', 'tn', busy.id, 'ac', 'system');
  }
  await pipeline.exec();
  // The pauses between failures take more than half of the usual limit.
  await eventually(
    'every delivery of the busy tenant has failed once',
    () => seen.size === 2 * EVENTS,
    60_000,
  );
  await eventually('its retries occupy all places that they may have', () => hanging.length === PER_OWNER);

  await causeEvent(holdfast, quiet);
  expect(await endedDeliveries(holdfast, quietId, 1)).toMatchObject([{ status: 'SUCCESS', attempts: 2 }]);
  expect(hanging).toHaveLength(PER_OWNER);

  hangs = false;
  hanging.forEach((answer) => answer());
  for (const id of busyIds) {
    const ended = await endedDeliveries(holdfast, id, EVENTS);
    expect(ended.map(({ status, attempts }) => `${status} ${attempts}`)).toEqual(
      Array.from({ length: EVENTS }, () => 'SUCCESS 2'),
    );
  }
}, 120_000);
