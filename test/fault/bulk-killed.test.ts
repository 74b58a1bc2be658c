import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { tenantIndexKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, HoldfastClient, newKey, type Json } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

/** As many as a bulk action accepts, so that there is time to kill the process between two of them. */
const TENANTS = 500;
const PATH = '/v1/admin/tenants/bulk-action';
const MINUTE_MS = 60_000;

const on = useGovernance({}, { HOLDFAST_ROLES: 'api', HOLDFAST_TEST_CLOCKS: 'true' });
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

let victim: Awaited<ReturnType<typeof startService>> | undefined;
afterAll(async () => {
  victim?.child.kill('SIGKILL');
  await victim?.ended;
});

const statuses = (): Promise<(string | null)[]> =>
  Promise.all(ids.map((id) => on.stored.redis.hget(on.stored.tenantKey(id), 'status')));

/** Sends a request to a separate process and kills the process once the request has had an effect. */
async function killDuring(path: string, body: Json, begun: () => Promise<boolean>): Promise<void> {
  victim = await startService({
    REDIS_URL: on.redis.url,
    HOLDFAST_ROLES: 'api',
    HOLDFAST_TEST_CLOCKS: 'true',
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

test('an advance of a test clock whose process is killed continues when it is repeated, and rolls over once at each boundary', async () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  const at = (ms: number): string => new Date(now + ms).toISOString();
  const made = await on.holdfast.admin('POST', '/ops/test-clocks', { name: 'killed', now: at(0) });
  const path = `/ops/test-clocks/${expectStatus(made, 201).clock_id}`;
  const tenant = { tenant_id: 'clock-killed', name: 'killed' };
  expectStatus(await on.holdfast.admin('POST', `${path}/tenants`, tenant), 201);
  const owner = { id: tenant.tenant_id, key: await on.holdfast.createKey(tenant.tenant_id) };
  await on.holdfast.createBudget(owner, '', 10, { period_end: at(MINUTE_MS) });
  let minutes = 0;
  let clockNow = now;
  const reached = async (): Promise<number> =>
    Number(await on.stored.redis.hget(on.stored.tenantKey(owner.id), 'clock_now'));
  // The process may have finished before the kill.
  for (let attempt = 0; clockNow === now + minutes * MINUTE_MS && attempt < 5; attempt += 1) {
    minutes += 1000;
    const before = clockNow;
    await killDuring(
      `${path}/advance`,
      { to: at(minutes * MINUTE_MS) },
      async () => (await reached()) > before,
    );
    clockNow = await reached();
  }
  expect(clockNow).toBeLessThan(now + minutes * MINUTE_MS);
  expect(expectStatus(await on.holdfast.admin('GET', path), 200)).toMatchObject({ status: 'ADVANCING' });

  const ended = await on.holdfast.admin('POST', `${path}/advance`, { to: at(minutes * MINUTE_MS) });
  expect(expectStatus(ended, 200)).toMatchObject({ status: 'READY', now: at(minutes * MINUTE_MS) });
  const told = (await on.stored.events(owner.id)).filter(
    ({ fields }) => fields['ty'] === 'budget.reset_spent',
  );
  expect(told.map(({ fields }) => Number(fields['cl']))).toEqual(
    Array.from({ length: minutes }, (_, number) => now + (number + 1) * MINUTE_MS),
  );
});
