import { afterEach, expect, jest, test } from '@jest/globals';
import { ExpiryService } from '../../src/expiry/expiry.service.js';
import { type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { makeDue, makeTenants, stateOf } from './instances.js';

const HOUR_MS = 3_600_000;
const on = useGovernance();

afterEach(() => {
  jest.restoreAllMocks();
});

test.each([
  ['an hour fast', HOUR_MS],
  ['an hour slow', -HOUR_MS],
])(
  'a clock of the process that is %s changes nothing: due holds expire, and no others',
  async (_, skewMs) => {
    const real = Date.now.bind(Date);
    jest.spyOn(Date, 'now').mockImplementation(() => real() + skewMs);
    const [tenant] = (await makeTenants(on.holdfast, 1)) as [TestTenant];
    const [due] = (await makeDue(on.holdfast, on.holds, tenant, 1, 1)) as [string];
    const live = await on.holdfast.hold(tenant, 10, { ttl_ms: 60_000, grace_period_ms: 0 });
    const inGrace = await on.holdfast.hold(tenant, 10, { grace_period_ms: 60_000 });
    await on.holds.expireIn(inGrace, -1);
    expect(await on.holdfast.app.get(ExpiryService).sweep()).toMatchObject({ judged: 1, expired: 1 });
    expect(await Promise.all([due, live, inGrace].map((id) => stateOf(on.holds, id)))).toEqual([
      'EXPIRED',
      'ACTIVE',
      'ACTIVE',
    ]);
    const record = await on.holds.record(due);
    const [seconds] = await on.holds.redis.time();
    expect(Math.abs(Number(record['fa']) - Number(seconds) * 1000)).toBeLessThan(HOUR_MS / 2);
  },
);
