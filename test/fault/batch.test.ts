import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { commitOf, eventOf, type Operation, releaseOf, reserveOf, resultsOf } from '../support/batches.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';

let server: RedisServer;
let redis: Redis;
let holdfast: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  await redis.set('{test}ballast', 'x'.repeat(2_000_000));
  holdfast = await Holdfast.start({ REDIS_URL: server.url });
});
afterAll(async () => {
  await holdfast.stop();
  await redis.quit();
  await server.stop();
});

async function tenantOf(): Promise<TestTenant> {
  const tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1000);
  return tenant;
}

async function hold(tenant: TestTenant): Promise<string> {
  return expectStatus(await holdfast.reserve(tenant, 10), 200).reservation_id as string;
}

const only = async (tenant: TestTenant): Promise<string | undefined> =>
  Object.values(await holdfast.balances(tenant))[0];

test('on a full Redis, the reserves and events of a batch are refused, and its settlements are not', async () => {
  const tenant = await tenantOf();
  const operations = [
    reserveOf(tenant, 1),
    commitOf(await hold(tenant), 7),
    reserveOf(tenant, 1),
    releaseOf(await hold(tenant)),
    eventOf(tenant, 1),
    commitOf(await hold(tenant), 8),
  ];
  await redis.config('SET', 'maxmemory', '1mb');
  const results = await resultsOf(holdfast, tenant, operations);
  expect(results.map(({ status }) => status as number)).toEqual([503, 200, 503, 200, 503, 200]);
  expect(results[0]).toMatchObject({
    body: { error: 'INTERNAL_ERROR', details: { reason: 'memory' } },
    retry_after_s: expect.any(Number) as unknown,
  });
  await redis.config('SET', 'maxmemory', '0');
  expect(await only(tenant)).toBe('985 0 15 0');
  const again = await resultsOf(holdfast, tenant, operations);
  expect(again.map(({ status }) => status as number)).toEqual([200, 200, 200, 200, 201, 200]);
  expect(await only(tenant)).toBe('982 2 16 0');
});

/** The bytes of a request that sends a batch. */
function requestOf({ key }: TestTenant, operations: readonly Operation[]): Buffer {
  const body = JSON.stringify({ operations });
  return Buffer.from(
    `POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Cycles-API-Key: ${key}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

async function opened(): Promise<Socket> {
  const socket = connect(Number(new URL(holdfast.url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

const BREAKS: readonly [name: string, send: (socket: Socket, bytes: Buffer) => Promise<void>][] = [
  [
    'in the middle of the request',
    async (socket, bytes) => {
      await new Promise((resolve) => socket.write(bytes.subarray(0, bytes.length / 2), resolve));
    },
  ],
  [
    'when the request has been sent',
    async (socket, bytes) => {
      await new Promise((resolve) => socket.write(bytes, resolve));
    },
  ],
  [
    'when a part of the batch has happened',
    async (socket, bytes) => {
      const runs = (): Promise<number> =>
        holdfast.metric('holdfast_script_group_size_count', { script: 'reserve' });
      const before = await runs();
      socket.write(bytes);
      await eventually('a run has ended', async () => (await runs()) > before);
    },
  ],
  [
    'when the answer begins',
    async (socket, bytes) => {
      socket.write(bytes);
      await once(socket, 'data');
    },
  ],
];

test.each(BREAKS)(
  'a batch whose connection breaks %s is sent again, and charges nothing twice',
  async (_, send) => {
    const tenant = await tenantOf();
    const held = await Promise.all(Array.from({ length: 20 }, () => hold(tenant)));
    const operations = [
      ...held.map((id, index) => (index % 2 === 0 ? commitOf(id, 4) : releaseOf(id))),
      ...Array.from({ length: 20 }, () => reserveOf(tenant, 3)),
      ...Array.from({ length: 10 }, () => eventOf(tenant, 5)),
    ];
    for (let time = 0; time < 3; time += 1) {
      const socket = await opened();
      await send(socket, requestOf(tenant, operations));
      socket.destroy();
    }
    const results = await resultsOf(holdfast, tenant, operations);
    expect(results.map(({ status }) => status as number)).toEqual(
      operations.map(({ op }) => (op === 'event' ? 201 : 200)),
    );
    // What the broken requests had begun may still be under way: it can only be a replay now.
    expect(await only(tenant)).toBe('850 60 90 0');
    expect((await resultsOf(holdfast, tenant, operations)).map(({ body }) => body.reservation_id)).toEqual(
      results.map(({ body }) => body.reservation_id),
    );
    expect(await only(tenant)).toBe('850 60 90 0');
  },
);
