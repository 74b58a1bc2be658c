import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { ShutdownState } from '../../src/telemetry/health.js';
import { waitersKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  HoldfastClient,
  newKey,
  reserveBody,
  type TestTenant,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { waitersPerTenant: 200 });
let other: Holdfast;
beforeAll(async () => {
  buildService();
  other = await Holdfast.start({ REDIS_URL: on.redis.url, waitersPerTenant: 200 });
}, 120_000);
afterAll(() => other.stop());

function reserve(tenant: TestTenant, amount: number, at: HoldfastClient = on.holdfast): Promise<Answer> {
  return at.call('POST', '/v1/reservations', {
    key: tenant.key,
    body: reserveBody(tenant, amount),
    headers: { 'x-holdfast-wait-ms': '30000' },
  });
}

async function idOf(answer: Promise<Answer>): Promise<string> {
  return expectStatus(await answer, 200).reservation_id as string;
}

async function saturated(): Promise<[TestTenant, string]> {
  const tenant = await on.holdfast.fundedTenant(100);
  return [tenant, await idOf(on.holdfast.reserve(tenant, 100))];
}

/** Resolves when this many of the tenant's reserves have a place that has not lapsed. */
async function untilWaiting(tenant: TestTenant, count: number): Promise<void> {
  const key = waitersKey(on.stored.tagOf(tenant.id), tenant.id);
  await eventually(
    `${count} wait`,
    async () => (await on.stored.redis.zcount(key, Date.now(), '+inf')) === count,
  );
}

/** Commits, and repeats the request while Redis is unreachable. */
async function commit(tenant: TestTenant, id: string, amount: number, at: HoldfastClient): Promise<void> {
  const body = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount } };
  await eventually('the commit succeeds', async () => {
    const answer = await at.settle(tenant, 'commit', id, body);
    return answer.status === 503 ? false : expectStatus(answer, 200) !== undefined;
  });
}

const wokenBy = async (by: string): Promise<number> =>
  (await on.holdfast.metric('holdfast_reserve_wake_ups_total', { by })) +
  (await other.metric('holdfast_reserve_wake_ups_total', { by }));

test('the place of an instance that is killed lapses, and no longer delays the others', async () => {
  const dead = await startService({
    REDIS_URL: on.redis.url,
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY,
    HOLDFAST_ROLES: 'api',
  });
  const [tenant, held] = await saturated();
  const lost = reserve(tenant, 100, new HoldfastClient(dead.url)).catch(() => 'no answer');
  await untilWaiting(tenant, 1);
  const next = reserve(tenant, 60);
  await untilWaiting(tenant, 2);
  const renewals = await wokenBy('renewal');
  expectStatus(await on.holdfast.commit(tenant, held, 40), 200);
  dead.child.kill('SIGKILL');
  await dead.ended;
  expect(await lost).toBe('no answer');
  await idOf(next);
  expect(await wokenBy('renewal')).toBe(renewals + 1);
  expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '0 60 40 0' });
});

test('an instance that shuts down responds to its waiters, and accepts no new ones', async () => {
  const leaving = await Holdfast.start({ REDIS_URL: on.redis.url, waitersPerTenant: 1 });
  const [tenant] = await saturated();
  const waits = (outcome: string) => leaving.metric('holdfast_reserve_waits_total', { outcome });
  const answer = reserve(tenant, 1, leaving);
  await untilWaiting(tenant, 1);
  expectRefusal(await reserve(tenant, 1, leaving), 409, 'BUDGET_EXCEEDED');
  expect(await waits('not_queued')).toBe(1);
  leaving.app.get(ShutdownState).beginShutdown();
  expectRefusal(await answer, 409, 'BUDGET_EXCEEDED');
  expect(await waits('drained')).toBe(1);
  await untilWaiting(tenant, 0);
  expectRefusal(await reserve(tenant, 1, leaving), 409, 'BUDGET_EXCEEDED');
  expect(await waits('drained')).toBe(2);
  await leaving.stop();
});

test('a wake-up whose message arrives before the reply to a renewal is not counted as lost', async () => {
  const { scripts } = on.holdfast.app.get(RedisService);
  const [tenant, held] = await saturated();
  const [freed, renewals] = [await wokenBy('freed'), await wokenBy('renewal')];
  const waiting = reserve(tenant, 60);
  await untilWaiting(tenant, 1);
  const call = scripts.call.bind(scripts);
  let run: () => void = () => undefined;
  const mayRun = new Promise<void>((resolve) => (run = resolve));
  const spy = jest.spyOn(scripts, 'call');
  let hasRenewed = false;
  const answered = new Promise<void>((resolve) => {
    spy.mockImplementation(async (name, keys, args) => {
      const isRenewal: boolean = name === 'renew_waiters' && !hasRenewed;
      if (isRenewal) {
        hasRenewed = true;
        await commit(tenant, held, 40, on.holdfast);
        await eventually('the message has come', async () => (await wokenBy('freed')) > freed);
      } else if (name === 'reserve') {
        await mayRun;
      }
      const reply = await call(name, keys, args);
      if (isRenewal) {
        resolve();
      }
      return reply;
    });
  });
  await answered;
  // Longer than a renewal waits for a message. The waiter is still running.
  await delay(400);
  spy.mockRestore();
  run();
  await idOf(waiting);
  expect(await wokenBy('renewal')).toBe(renewals);
});

test('a turn that comes while the subscriptions are lost is found', async () => {
  const [tenant, first] = await saturated();
  let held = first;
  for (let round = 0; round < 4; round += 1) {
    const answer = reserve(tenant, 100, round % 2 === 0 ? on.holdfast : other);
    await untilWaiting(tenant, 1);
    const [, settled] = await Promise.all([
      on.stored.redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
      on.holdfast.commit(tenant, held, 0),
    ]);
    expectStatus(settled, 200);
    held = await idOf(answer);
  }
});

test('waiters outlast lost connections to Redis, each with its reservation', async () => {
  const [tenant, held] = await saturated();
  const answers = Array.from({ length: 10 }, (_, i) =>
    reserve(tenant, 10, i % 2 === 0 ? on.holdfast : other),
  );
  await untilWaiting(tenant, 10);
  const killing = (async () => {
    for (let i = 0; i < 5; i += 1) {
      await on.stored.redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await delay(50);
    }
  })();
  await commit(tenant, held, 0, on.holdfast);
  const ids = await Promise.all(answers.map(idOf));
  await killing;
  expect(new Set(ids).size).toBe(10);
  await untilWaiting(tenant, 0);
  expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '0 100 0 0' });
});

test('200 clients of a saturated budget are all served, with a few runs each and nothing overspent', async () => {
  const [tenant, held] = await saturated();
  const runs = async (): Promise<number> =>
    (await on.holdfast.metric('holdfast_script_group_size_sum', { script: 'reserve' })) +
    (await other.metric('holdfast_script_group_size_sum', { script: 'reserve' }));
  const [before, freed, renewals] = [await runs(), await wokenBy('freed'), await wokenBy('renewal')];
  const clients = Array.from({ length: 200 }, async (_, i) => {
    const at = i % 2 === 0 ? on.holdfast : other;
    await commit(tenant, await idOf(reserve(tenant, 1 + ((i * 7) % 50), at)), 0, at);
  });
  await untilWaiting(tenant, 200);
  await commit(tenant, held, 0, on.holdfast);
  await Promise.all(clients);
  expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '100 0 0 0' });
  expect(await runs()).toBeLessThan(before + 200 * 4);
  // On a busy machine, a message may arrive after the renewal that notices the same turn.
  expect(4 * ((await wokenBy('renewal')) - renewals)).toBeLessThan((await wokenBy('freed')) - freed);
  await untilWaiting(tenant, 0);
});
