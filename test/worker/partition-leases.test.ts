import { Writable } from 'node:stream';
import { afterAll, afterEach, expect, test } from '@jest/globals';
import { createLogger } from '../../src/telemetry/index.js';
import type { RedisService } from '../../src/redis/redis.service.js';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { type LeaseReply, PartitionLeases } from '../../src/worker/partition-leases.js';
import { eventually } from '../support/eventually.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { startRedisService, stopAllRedisServices } from '../support/redis-service.js';

afterEach(stopAllRedisServices);
afterAll(stopAllRedis);

const TERMS = {
  work: 'swept',
  leaseMs: 60_000,
  instancesKey: '{holdfast}instances',
  reportsKey: '{holdfast}reports',
  leaseKey: (tag: string) => `${tag}lease`,
  partition: (number: number) => ({ number, code: String(number), tag: `{p${number}}` }),
  beatMs: 0,
};

test('an outage in which an instance cannot announce itself is logged when it begins and when it ends', async () => {
  const redis = await startRedis();
  const { service } = await startRedisService({ REDIS_URL: redis.url });
  const log: Record<string, unknown>[] = [];
  const destination = new Writable({
    write(line: Buffer, _encoding, done) {
      log.push(JSON.parse(line.toString()) as Record<string, unknown>);
      done();
    },
  });
  let failures = 0;
  const leases = new PartitionLeases(service, createLogger('warn', destination), {
    ...TERMS,
    ask: () => Promise.resolve({ status: 'FREE' }),
    mayLeave: () => true,
    changed: () => undefined,
    announcementFailed: () => (failures += 1),
  });
  const beats = async (): Promise<boolean> => {
    leases.nextBeatAt = 0;
    return (await leases.beatWhenDue(() => '{}', { goesOn: () => true }))?.nowMs !== undefined;
  };
  expect(await beats()).toBe(true);
  await redis.kill();
  for (let beat = 0; beat < 3; beat += 1) {
    expect(await beats()).toBe(false);
  }
  await redis.restart();
  await eventually('it announces itself', beats);
  expect(log).toMatchObject([
    {
      msg: 'this instance could not announce itself; it keeps its partitions',
      work: 'swept',
      reason: expect.stringContaining('the store'),
    },
    {
      msg: 'this instance can announce itself again',
      work: 'swept',
      failures,
      lasted_ms: expect.any(Number),
    },
  ]);
  expect(log[0]).not.toHaveProperty('err');
});

interface Place {
  readonly number: number;
  readonly code: string;
  readonly tag: string;
}

type Asked = (partition: Place) => Promise<LeaseReply>;

/** Leases of two partitions whose script is `ask`, which a test holds back. */
async function leasesOf(
  ask: Asked,
  mayLeave = (): boolean => true,
): Promise<{
  service: RedisService;
  leases: PartitionLeases<Place>;
  changes: string[];
  beat: (goesOn?: () => boolean) => Promise<unknown>;
}> {
  const redis = await startRedis();
  const { service } = await startRedisService({ REDIS_URL: redis.url, PARTITIONS: '2' });
  const changes: string[] = [];
  const leases = new PartitionLeases<Place>(service, createLogger('fatal'), {
    ...TERMS,
    ask,
    mayLeave,
    changed: (change, { code }) => changes.push(`${change} ${code}`),
    announcementFailed: () => undefined,
  });
  return {
    service,
    leases,
    changes,
    beat: (goesOn = () => true) => {
      leases.nextBeatAt = 0;
      return leases.beatWhenDue(() => '{}', { goesOn });
    },
  };
}

/** What a test opens when it wants what waits for it to go on. */
function barrier<T>(): { passed: Promise<T>; open: (value: T) => void } {
  let open: (value: T) => void = () => undefined;
  const passed = new Promise<T>((resolve) => (open = resolve));
  return { passed, open };
}

const held = (lease: string): LeaseReply => ({ status: 'HELD', lease });

test('a renewal without an answer keeps the partition, and the next one asks again', async () => {
  const answers: (LeaseReply | Error)[] = [held('taken'), held('taken')];
  const { leases, changes, beat } = await leasesOf(() => {
    const answer = answers.shift() ?? held('renewed');
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  });
  await beat();
  expect([...leases.held.keys()].sort()).toEqual([0, 1]);
  answers.push(new StoreUnavailable('timeout'), held('renewed'));
  expect(await beat()).toMatchObject({ failed: 1 });
  expect([...leases.held.keys()].sort()).toEqual([0, 1]);
  expect(await beat()).toMatchObject({ failed: 0 });
  expect(changes).toEqual(['taken 0', 'taken 1']);
});

test('a renewal that says that the partition is another’s does not lose the one that was taken again meanwhile', async () => {
  const renewal = barrier<LeaseReply>();
  const replies: Promise<LeaseReply>[] = [held('taken'), held('taken')].map((reply) =>
    Promise.resolve(reply),
  );
  const { leases, changes, beat } = await leasesOf(() => replies.shift() ?? Promise.resolve(held('renewed')));
  await beat();
  const [first] = leases.held.values();
  replies.push(renewal.passed);
  const beating = beat();
  // Its work finds the lease lost, and somebody takes the partition again, before the renewal is answered.
  leases.lose(first as Place);
  const again = { ...(first as Place) };
  leases.held.set(again.number, again);
  renewal.open({ status: 'OTHER', lapsesInMs: 60_000 });
  await beating;
  expect(leases.held.get(again.number)).toBe(again);
  expect(changes).toEqual(['taken 0', 'taken 1', 'lost 0']);
});

test('a beat that a shutdown overtakes takes nothing more', async () => {
  const renewal = barrier<LeaseReply>();
  const asked: string[] = [];
  const replies: Promise<LeaseReply>[] = [
    Promise.resolve(held('taken')),
    Promise.resolve({ status: 'OTHER', lapsesInMs: 60_000 }),
  ];
  const { leases, beat } = await leasesOf(({ code }) => {
    asked.push(code);
    return replies.shift() ?? Promise.resolve(held('taken'));
  });
  await beat();
  expect([[...leases.held.keys()], asked]).toEqual([[0], ['0', '1']]);
  replies.push(renewal.passed);
  let goesOn = true;
  const beating = beat(() => goesOn);
  goesOn = false;
  renewal.open(held('renewed'));
  await beating;
  expect(asked).toEqual(['0', '1', '0']);
});

test('a partition with work in flight is given to another instance only when the work has ended', async () => {
  let isBusy = true;
  const { service, leases, changes, beat } = await leasesOf(
    () => Promise.resolve(held('taken')),
    () => !isBusy,
  );
  await beat();
  await service.client.zadd(TERMS.instancesKey, Date.now() + 600_000, 'another');
  await beat();
  expect(leases.held.size).toBe(2);
  isBusy = false;
  await beat();
  expect(leases.held.size).toBe(1);
  expect(changes.filter((change) => change.startsWith('released'))).toHaveLength(1);
});
