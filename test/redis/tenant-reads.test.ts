import { expect, test } from '@jest/globals';
import { tenantKey, testClockKey } from '../../src/redis/keyspace.js';
import { expectStatus } from '../support/holdfast.js';
import { commandsOf } from '../support/script-commands.js';
import { useGovernance } from '../support/use-governance.js';

const HOUR_MS = 3_600_000;
const on = useGovernance();

test('without a test clock, each reserve, commit and release reads the record of its tenant once, and no clock', async () => {
  const tenant = await on.holdfast.fundedTenant(1000);
  const at = `?scope=tenant:${tenant.id}&unit=TOKENS`;
  const period = { period_end: new Date(Date.now() + HOUR_MS).toISOString() };
  expectStatus(await on.holdfast.admin('PATCH', `/ops/budgets/period${at}`, period), 200);
  const hold = async (): Promise<string> => await on.holdfast.hold(tenant, 10);
  const [used, unused] = [await hold(), await hold()];
  const record = tenantKey(on.stored.tagOf(tenant.id), tenant.id);
  for (const act of [
    hold,
    () => on.holdfast.commit(tenant, used, 1),
    () => on.holdfast.settle(tenant, 'release', unused),
  ]) {
    // On a busy machine, its key may have to be looked up once more meanwhile, and its tenant with it.
    const lookUps = (): Promise<number> => on.holdfast.metric('holdfast_auth_cache_misses_total');
    const before = await lookUps();
    const commands = await commandsOf(on.stored.redis, tenant.id, act);
    const more = (await lookUps()) - before;
    expect(commands.filter(([, key]) => key === record).map(([name]) => name)).toEqual(
      Array.from({ length: 1 + more }, () => 'HMGET'),
    );
    expect(commands.filter(([, key]) => key === testClockKey())).toEqual([]);
  }
});
