import { expect, test } from '@jest/globals';
import { ttlIndexKey } from '../../src/redis/keyspace.js';
import { eventually } from '../support/eventually.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { leasesOf, makeDue, makeTenants, startSweeper } from './instances.js';

const on = useGovernance();

const state = async (): Promise<Json> => expectStatus(await on.holdfast.admin('GET', '/ops/sweeper'), 200);

test('without a sweeper, GET /ops/sweeper shows what is due, and that no instance sweeps', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const tag = on.holds.tagOfTenant(tenant.id);
  await makeDue(on.holdfast, on.holds, tenant, 2, 5000);
  const damaged = tag === '{p00}' ? '{p01}' : '{p00}';
  await on.holds.redis.set(ttlIndexKey(damaged), 'damaged');
  const body = await state();
  expect(body).toMatchObject({ instances: [], backlog: 2, unreadable: [damaged.slice(2, 4)] });
  expect(body.unheld).toHaveLength(63);
  expect(body.lateness_ms).toBeGreaterThanOrEqual(4000);
  expect(body.partitions.find(({ partition }: Json) => partition === tag.slice(2, 4))).toMatchObject({
    due: 2,
    indexed: 2,
    oldest_due_at_ms: expect.any(Number),
  });
  await on.holds.redis.del(ttlIndexKey(damaged));
  expectRefusal(await on.holdfast.call('GET', '/ops/sweeper'), 401, 'UNAUTHORIZED');
});

test('with two, any instance shows what each holds and how its last ticks went', async () => {
  const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
  const sweepers = [
    await startSweeper({ REDIS_URL: on.redis.url }),
    await startSweeper({ REDIS_URL: on.redis.url }),
  ];
  try {
    await makeDue(on.holdfast, on.holds, tenant, 3);
    const body = await eventually('everything is reported', async () => {
      const now = await state();
      const judged = now.instances
        .flatMap(({ last_ticks: ticks }: Json) => ticks ?? [])
        .reduce((sum: number, tick: Json) => sum + tick.expired, 0);
      return (
        now.backlog === 0 &&
        now.unheld.length === 0 &&
        judged >= 3 &&
        now.instances.every(({ holds }: Json) => holds.length === 32) &&
        now
      );
    });
    expect(body.instances.map(({ instance }: Json) => instance).sort()).toEqual(
      sweepers.map((one) => leasesOf(one).instance).sort(),
    );
    expect(body.instances.flatMap(({ holds }: Json) => holds).sort()).toEqual(
      body.partitions.map(({ partition }: Json) => partition),
    );
    expect(body.instances[0]).toMatchObject({
      backlog: 0,
      quarantined: 0,
      last_success_age_ms: expect.any(Number),
      ticks: expect.any(Number),
    });
  } finally {
    await Promise.all(sweepers.map((one) => one.stop()));
  }
});
