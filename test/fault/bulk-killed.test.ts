import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { tenantIndexKey, testClockKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { BlackholeProxy } from '../support/blackhole-proxy.js';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, HoldfastClient, newKey, type Json } from '../support/holdfast.js';
import { eventsOf } from '../support/test-clock.js';
import { useGovernance } from '../support/use-governance.js';

/** As many as a bulk action accepts, so that there is time to kill the process between two of them. */
const TENANTS = 500;
const PATH = '/v1/admin/tenants/bulk-action';
const MINUTE_MS = 60_000;

const on = useGovernance({}, { HOLDFAST_ROLES: 'api', HOLDFAST_TEST_CLOCK: 'true' });
let ids: string[] = [];

beforeAll(buildService, 120_000);
beforeAll(async () => {
  const { id } = await on.holdfast.createTenant();
  const record = await on.stored.redis.hgetall(on.stored.tenantKey(id));
  ids = Array.from({ length: TENANTS }, (_, number) => `killed-${String(number).padStart(3, '0')}`);
  await Promise.all(
    ids.flatMap((copy, number) => [
      on.stored.redis.hset(on.stored.tenantKey(copy), { ...record, tenant_id: copy, name: copy }),
      on.stored.redis.zadd(tenantIndexKey(on.stored.tagOf(copy)), number, copy),
    ]),
  );
});

/** In this process, so that the victim does not go on while this process stands still between what it sees and the kill. */
let proxy: BlackholeProxy;
beforeAll(async () => {
  const { hostname: host, port } = new URL(on.redis.url);
  proxy = await BlackholeProxy.before({ host, port: Number(port) });
});
let victim: Awaited<ReturnType<typeof startService>> | undefined;
afterAll(async () => {
  victim?.child.kill('SIGKILL');
  await victim?.ended;
  await proxy.close();
});

const statuses = (): Promise<(string | null)[]> =>
  Promise.all(ids.map((id) => on.stored.redis.hget(on.stored.tenantKey(id), 'status')));

/** Sends a request to a separate process and kills the process once the request has had an effect. */
async function killDuring(path: string, body: Json, begun: () => Promise<boolean>): Promise<void> {
  victim = await startService({
    REDIS_URL: proxy.url,
    HOLDFAST_ROLES: 'api',
    HOLDFAST_TEST_CLOCK: 'true',
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
  });
  const { child, url, ended } = victim;
  const asked = new HoldfastClient(url)
    .call('POST', path, { body, headers: { 'x-admin-api-key': ADMIN_API_KEY } })
    .catch(() => undefined);
  await eventually('the request has an effect', begun);
  child.kill('SIGKILL');
  await ended;
  await asked;
}

test('a bulk action whose process is killed between two rows continues when it is repeated, and changes each row once', async () => {
  shows('bulk idempotency');
  let request: Json = {};
  let [changed, status] = [TENANTS, 'ACTIVE'];
  // The process may have finished before the kill.
  for (let attempt = 0; changed === TENANTS && attempt < 5; attempt += 1) {
    const action = status === 'ACTIVE' ? 'SUSPEND' : 'REACTIVATE';
    status = status === 'ACTIVE' ? 'SUSPENDED' : 'ACTIVE';
    request = { action, filter: { search: 'killed-' }, idempotency_key: newKey() };
    await killDuring(PATH, request, async () => {
      const first = on.stored.tenantKey(ids[0] as string);
      return (await on.stored.redis.hget(first, 'status')) === status;
    });
    changed = (await statuses()).filter((found) => found === status).length;
  }
  expect(changed).toBeLessThan(TENANTS);

  const response = expectStatus(await on.holdfast.admin('POST', PATH, request), 200);
  expect(response).toMatchObject({ total_matched: TENANTS, failed: [], skipped: [] });
  expect(response.succeeded).toEqual(ids.map((id) => ({ id })));
  expect(new Set(await statuses())).toEqual(new Set([status]));
  expect(
    await on.holdfast.metric('holdfast_bulk_actions_total', {
      operation: 'bulkActionTenants',
      outcome: 'resumed',
    }),
  ).toBe(1);
  const told = (await Promise.all(ids.map((id) => on.stored.events(id)))).map((events) => events.at(-1));
  expect(new Set(told.map((event) => event?.fields['co'])).size).toBe(1);
  const [event] = told;
  const all = (await Promise.all(ids.map((id) => on.stored.events(id)))).flat();
  expect(all.filter(({ fields }) => fields['co'] === event?.fields['co'])).toHaveLength(TENANTS);
});

test('an advance whose process is killed continues when it is repeated, and rolls over once at each boundary', async () => {
  const path = '/ops/test-clock/advance';
  const owner = await on.holdfast.createTenant();
  const { now } = expectStatus(await on.holdfast.admin('GET', '/ops/test-clock'), 200);
  const startMs = Date.parse(now as string);
  const at = (minutes: number): string => new Date(startMs + minutes * MINUTE_MS).toISOString();
  await on.holdfast.createBudget(owner, '', 10, { period_start: at(0), period_end: at(1) });
  const rolled = async (): Promise<string[]> =>
    (await eventsOf(on.holdfast, owner, 'budget.reset_spent')).map(({ timestamp }) => timestamp as string);
  let minutes = 0;
  let status = 'READY';
  // The process may have finished before the kill.
  for (let attempt = 0; status === 'READY' && attempt < 5; attempt += 1) {
    minutes += 1000;
    const before = await on.stored.redis.hget(testClockKey(), 'stands_at');
    await killDuring(
      path,
      { to: at(minutes) },
      async () => (await on.stored.redis.hget(testClockKey(), 'stands_at')) !== before,
    );
    ({ status } = expectStatus(await on.holdfast.admin('GET', '/ops/test-clock'), 200));
  }
  expect(status).toBe('ADVANCING');
  expect((await rolled()).length).toBeLessThan(minutes);

  // A slow machine does not end it in one request.
  await eventually('it has ended', async () => {
    const answer = await on.holdfast.admin('POST', path, { to: at(minutes) });
    return expectStatus(answer, 200).status === 'READY';
  });
  expect((await rolled()).slice(0, minutes)).toEqual(
    Array.from({ length: minutes }, (_, number) => at(number + 1)),
  );
});
