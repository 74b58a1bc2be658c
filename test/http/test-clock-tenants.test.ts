import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { ClockAdvance } from '../../src/clocks/clock-advance.js';
import { TenantsService } from '../../src/governance/tenants/tenants.service.js';
import { Refusal } from '../../src/ledger/refusal.js';
import {
  clockCleanupKey,
  clockDeadlinesKey,
  clockPeriodsKey,
  clockPlansKey,
  quarantineKey,
  reservationKey,
  tenantKey,
  testClockTenantsKey,
} from '../../src/redis/keyspace.js';
import { damageHold } from '../support/hold-record.js';
import { type Answer, expectRefusal, expectStatus, newTenantId } from '../support/holdfast.js';
import { HOUR_MS, TestClock } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { HOLDFAST_TEST_CLOCKS: 'true' });
let clock: TestClock;
let id: string;
let tenants: TenantsService;
let create: TenantsService['create'];
beforeEach(async () => {
  clock = await TestClock.create(on.holdfast);
  id = newTenantId();
  tenants = on.holdfast.app.get(TenantsService, { strict: false });
  create = tenants.create.bind(tenants);
});
afterEach(() => {
  jest.restoreAllMocks();
});

const add = (): Promise<Answer> =>
  on.holdfast.admin('POST', `${clock.path}/tenants`, { tenant_id: id, name: id });
const remove = (): Promise<Answer> => on.holdfast.admin('DELETE', clock.path);
const members = (): string => testClockTenantsKey(on.stored.tagOf('__system__'), clock.id);

/** A promise, and the function that fulfils it. */
function signal(): { readonly given: Promise<void>; readonly give: () => void } {
  let give = (): void => undefined;
  const given = new Promise<void>((resolve) => {
    give = resolve;
  });
  return { given, give };
}

describe('a tenant that is created with a test clock', () => {
  test('has the time of an advance that missed it and ends after its creation', async () => {
    const [joined, passedOver] = [signal(), signal()];
    jest.spyOn(tenants, 'create').mockImplementationOnce(async (...request) => {
      joined.give();
      await passedOver.given;
      return create(...request);
    });
    const adding = add();
    await joined.given;
    const advances = on.holdfast.app.get(ClockAdvance, { strict: false });
    const passAll = advances.passAll.bind(advances);
    jest.spyOn(advances, 'passAll').mockImplementationOnce(async (...request) => {
      const complete = await passAll(...request);
      passedOver.give();
      await adding;
      return complete;
    });
    expect(await clock.advance(HOUR_MS)).toMatchObject({ status: 'READY', tenants: [id] });
    expectStatus(await adding, 201);
    const record = tenantKey(on.stored.tagOf(id), id);
    expect(await on.stored.redis.hget(record, 'clock_now')).toBe(String(TestClock.msAt(HOUR_MS)));
  });

  test('keeps its clock from being deleted, even before it exists', async () => {
    let refused: Answer | undefined;
    jest.spyOn(tenants, 'create').mockImplementationOnce(async (...request) => {
      refused = await remove();
      return create(...request);
    });
    expectStatus(await add(), 201);
    expectRefusal(refused as Answer, 400, 'INVALID_REQUEST');
    expect(expectStatus(await on.holdfast.admin('GET', clock.path), 200).tenants).toEqual([id]);
  });

  test('stays on the clock if a request of the same tenant fails meanwhile', async () => {
    const [second, firstFailed] = [signal(), signal()];
    jest
      .spyOn(tenants, 'create')
      .mockImplementationOnce(async () => {
        await second.given;
        throw new Refusal('INVALID_REQUEST', 'a request that fails');
      })
      .mockImplementationOnce(async (...request) => {
        second.give();
        await firstFailed.given;
        return create(...request);
      });
    const failing = add();
    const adding = add();
    expectRefusal(await failing, 400, 'INVALID_REQUEST');
    firstFailed.give();
    expectStatus(await adding, 201);
    expect(expectStatus(await on.holdfast.admin('GET', clock.path), 200).tenants).toEqual([id]);
  });

  test('is reported to be behind if there is more to do than one request may do', async () => {
    const advances = on.holdfast.app.get(ClockAdvance, { strict: false });
    jest.spyOn(advances, 'passAll').mockResolvedValueOnce(false);
    expectRefusal(await add(), 429, 'LIMIT_EXCEEDED');
    expectStatus(await add(), 200);
    expect(expectStatus(await on.holdfast.admin('GET', clock.path), 200).tenants).toEqual([id]);
  });

  test('that was never created does not keep its clock from being deleted', async () => {
    await on.stored.redis.zadd(members(), 1, id);
    expectStatus(await remove(), 204);
    expect(await on.stored.redis.exists(members())).toBe(0);
  });
});

test('a tenant with a test clock leaves no index behind when it is closed', async () => {
  const tenant = await clock.tenant(10);
  const tag = on.stored.tagOf(tenant.id);
  const query = `scope=tenant:${tenant.id}&unit=TOKENS`;
  const rule = { every: 'day', time_zone: 'UTC' };
  expectStatus(await on.holdfast.admin('PUT', `/ops/budgets/recurrence?${query}`, rule), 200);
  await clock.hold(tenant, HOUR_MS);
  const lost = (await clock.hold(tenant, HOUR_MS)).reservation_id as string;
  await damageHold(on.stored.redis, reservationKey(tag, lost), 'tn');
  const closed = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' });
  expectStatus(closed, 200);
  for (const key of [clockDeadlinesKey, clockCleanupKey, clockPeriodsKey, clockPlansKey]) {
    expect(await on.stored.redis.exists(key(tag, tenant.id))).toBe(0);
  }
  expect(await on.stored.redis.hexists(quarantineKey(tag), lost)).toBe(1);
  expectStatus(await remove(), 204);
});
