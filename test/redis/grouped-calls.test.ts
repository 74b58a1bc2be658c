import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { tagOfTenant } from '../../src/redis/index.js';
import { budgetKey } from '../../src/redis/keyspace.js';
import { BlackholeProxy } from '../support/blackhole-proxy.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { connectTo } from '../support/store.js';

const AT_ONCE = 100;
/** GROUP in the header of lua/ledger/reserve.lua. */
const CALLS_OF_A_RUN = 16;

let proxy: BlackholeProxy;
let holdfast: Holdfast;
let tenant: TestTenant;

beforeAll(async () => {
  proxy = await BlackholeProxy.before(await startRedis());
  holdfast = await Holdfast.start({ REDIS_URL: proxy.url });
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1_000_000);
});

afterAll(async () => {
  await holdfast.stop();
  await proxy.close();
  await stopAllRedis();
});

const sizes = (figure: 'sum' | 'count', script: string): Promise<number> =>
  holdfast.metric(`holdfast_script_group_size_${figure}`, { script });

test('concurrent requests share runs of the script, and each gets its own response', async () => {
  const reserves = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, index) => holdfast.reserve(tenant, index + 1)),
  );
  const held = reserves.map((answer) => expectStatus(answer, 200));
  expect(new Set(held.map((body) => body.reservation_id)).size).toBe(AT_ONCE);
  expect(held.map((body) => body.reserved.amount)).toEqual(reserves.map((_, index) => index + 1));
  expect(await sizes('sum', 'reserve')).toBe(AT_ONCE);
  expect(await sizes('count', 'reserve')).toBeLessThan(AT_ONCE);

  const commits = await Promise.all(
    held.map((body, index) => holdfast.commit(tenant, body.reservation_id as string, index + 1)),
  );
  expect(commits.map((answer) => expectStatus(answer, 200).charged.amount)).toEqual(
    commits.map((_, index) => index + 1),
  );
  expect(await sizes('sum', 'commit')).toBe(AT_ONCE);
  expect(await sizes('count', 'commit')).toBeLessThan(AT_ONCE);
});

test('concurrent debits share runs', async () => {
  const mine = await holdfast.fundedTenant(1_000_000);
  const debits = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, index) =>
      holdfast.call('POST', '/v1/events', {
        key: mine.key,
        body: {
          idempotency_key: `debit-${index}`,
          subject: { tenant: mine.id },
          action: { kind: 'llm.completion', name: 'gpt' },
          actual: { unit: 'TOKENS', amount: index + 1 },
        },
      }),
    ),
  );
  const spent = debits.map((answer) => expectStatus(answer, 201).balances[0].spent.amount as number);
  expect(Math.max(...spent)).toBe((AT_ONCE * (AT_ONCE + 1)) / 2);
  expect(new Set(spent).size).toBe(AT_ONCE);
  expect(await sizes('sum', 'direct_debit')).toBe(AT_ONCE);
  expect(await sizes('count', 'direct_debit')).toBeLessThan(AT_ONCE);
});

test('requests for two scripts that come at once never share a run', async () => {
  const mine = await holdfast.fundedTenant(1_000_000);
  const reserves = await Promise.all(Array.from({ length: AT_ONCE / 2 }, () => holdfast.reserve(mine, 1)));
  const ids = reserves.map((answer) => expectStatus(answer, 200).reservation_id as string);
  const before = [await sizes('count', 'reserve'), await sizes('count', 'commit')] as const;
  const answers = await Promise.all(
    ids.flatMap((id) => [holdfast.commit(mine, id, 1), holdfast.reserve(mine, 2)]),
  );
  const amounts = answers.map((answer) => {
    const { charged, reserved } = expectStatus(answer, 200);
    return [charged?.amount, reserved?.amount];
  });
  expect(amounts).toEqual(
    ids.flatMap(() => [
      [1, undefined],
      [undefined, 2],
    ]),
  );
  // Some shared a run all the same, so that the queues had something to confuse.
  for (const [index, script] of ['reserve', 'commit'].entries()) {
    expect((await sizes('count', script)) - (before[index] as number)).toBeLessThan(ids.length);
  }
});

test('a call that fails is the error of its own request, and the others of its run succeed', async () => {
  const mine = await holdfast.fundedTenant(1_000_000);
  const redis = connectTo(proxy.url);
  const tag = tagOfTenant(mine.id, 64);
  await redis.set(budgetKey(tag, 'TOKENS', `tenant:${mine.id}/agent:broken`), 'damaged');
  redis.disconnect();
  const answers = await Promise.all(
    Array.from({ length: CALLS_OF_A_RUN }, (_, index) =>
      holdfast.reserve(mine, 1, index % 2 === 0 ? {} : { subject: { tenant: mine.id, agent: 'broken' } }),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual(
    answers.map((_, index) => (index % 2 === 0 ? 200 : 500)),
  );
});

test('requests that wait for a run without a reply from Redis are refused with it, and are never sent', async () => {
  const before = await sizes('sum', 'reserve');
  proxy.cut('both');
  const reserves = await Promise.all(Array.from({ length: AT_ONCE }, () => holdfast.reserve(tenant, 1)));
  expect(new Set(reserves.map(({ status }) => status))).toEqual(new Set([503]));
  proxy.heal();
  await eventually('reserves succeed again', async () => (await holdfast.reserve(tenant, 1)).status === 200);
  expect(await sizes('sum', 'reserve')).toBe(before + 1);
  // Besides the last one, only those of the four runs in flight may have arrived late.
  const { balances } = expectStatus(
    await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key }),
    200,
  );
  const heldLate = balances[0].reserved.amount - 1;
  expect(heldLate).toBeGreaterThanOrEqual(0);
  expect(heldLate).toBeLessThanOrEqual(4 * CALLS_OF_A_RUN);
});
