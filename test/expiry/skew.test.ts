import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';
import { makeDue, makeTenants, stateOf } from './instances.js';

const HOUR_MS = 3_600_000;
let redis: Store;
let holdfast: Holdfast;
let stored: StoredHolds;

beforeAll(async () => {
  redis = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: redis.url });
  stored = new StoredHolds(redis.url);
});
afterEach(() => {
  jest.restoreAllMocks();
});
afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await redis.stop();
});

test.each([
  ['an hour fast', HOUR_MS],
  ['an hour slow', -HOUR_MS],
])(
  'a clock of the process that is %s changes nothing: due holds expire, and no others',
  async (_, skewMs) => {
    const real = Date.now.bind(Date);
    jest.spyOn(Date, 'now').mockImplementation(() => real() + skewMs);
    const [tenant] = (await makeTenants(holdfast, 1)) as [TestTenant];
    const [due] = (await makeDue(holdfast, stored, tenant, 1, 1)) as [string];
    const { reservation_id: live } = expectStatus(
      await holdfast.reserve(tenant, 10, { ttl_ms: 60_000, grace_period_ms: 0 }),
      200,
    );
    const { reservation_id: inGrace } = expectStatus(
      await holdfast.reserve(tenant, 10, { grace_period_ms: 60_000 }),
      200,
    );
    await stored.expireIn(inGrace as string, -1);
    expect(await holdfast.app.get(ExpiryService).sweep()).toMatchObject({ judged: 1, expired: 1 });
    expect(
      await Promise.all([due, live as string, inGrace as string].map((id) => stateOf(stored, id))),
    ).toEqual(['EXPIRED', 'ACTIVE', 'ACTIVE']);
    const record = await stored.record(due);
    const [seconds] = await stored.redis.time();
    expect(Math.abs(Number(record['fa']) - Number(seconds) * 1000)).toBeLessThan(HOUR_MS / 2);
  },
);
