import { afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { treeOrder } from '../../src/ledger/index.js';
import { RedisService } from '../../src/redis/index.js';
import { budgetIndexKey, budgetKey, tagOf } from '../../src/redis/keyspace.js';
import type { Query } from '../../src/redis/queries.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  type Json,
  newTenantId,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const PARTITIONS = 64;
const TENANTS = 50;
const BUDGETS_A_TENANT = 100;

const on = useGovernance({}, { queryQueueMs: 2000, queryTimeShare: 25 });
const held: Query[] = [];
let other: TestTenant;

/** Copies the tenant's root budget to many scopes below it. */
async function copyBudget({ id }: TestTenant): Promise<void> {
  const pipeline = on.stored.redis.pipeline();
  const tag = on.stored.tagOf(id);
  for (let number = 1; number < BUDGETS_A_TENANT; number += 1) {
    const scope = `tenant:${id}/agent:a${number}`;
    pipeline.copy(on.stored.budgetKey(id), budgetKey(tag, 'TOKENS', scope));
    pipeline.zadd(budgetIndexKey(tag, id), 0, treeOrder(`${scope} TOKENS`));
  }
  await pipeline.exec();
}

/** A tenant in the partition that lists read first, or in another one. */
async function newTenant(isFirst: boolean): Promise<TestTenant> {
  let id = newTenantId();
  while ((on.stored.tagOf(id) === tagOf('00')) !== isFirst) {
    id = newTenantId();
  }
  expectStatus(await on.holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: id, name: id }), 201);
  return { id, key: await on.holdfast.createKey(id) };
}

beforeAll(async () => {
  // A run of the script reads a hundred budgets: those of the first partition are read in the first run.
  for (let number = 0; number < TENANTS; number += 1) {
    const tenant = await newTenant(false);
    await on.holdfast.createBudget(tenant, '', 1000);
    await copyBudget(tenant);
  }
  other = await newTenant(false);
  await on.holdfast.createBudget(other, '', 1_000_000);
  // The first count has a time limit, which a busy machine may exceed.
  const overview = () => on.holdfast.admin('GET', '/v1/admin/overview');
  await eventually('all records were counted once', async () => (await overview()).status === 200);
});

afterEach(() => {
  jest.restoreAllMocks();
  held.splice(0).forEach((query) => query.end());
});

const FROZEN = '/v1/admin/budgets?status=FROZEN&sort_by=scope';
const LISTS: readonly string[] = [
  '/v1/admin/budgets?over_limit=true&sort_by=debt&sort_dir=desc',
  '/v1/admin/budgets?has_debt=true&sort_by=debt&sort_dir=desc',
  FROZEN,
  '/v1/admin/budgets?utilization_min=0.9&sort_by=utilization&sort_dir=desc',
];
/** What an operators' page asks for at once when it opens. */
const PAGE: readonly string[] = [
  ...LISTS,
  '/v1/admin/overview',
  '/v1/admin/tenants?limit=100',
  '/v1/admin/webhooks?limit=100',
  '/v1/admin/events?limit=50',
  '/v1/admin/audit/logs?limit=50',
];
/** The overview is no query: its figures are counted for all who ask. */
const QUEUED = PAGE.length - 1;

const queries = () => on.holdfast.app.get(RedisService).queries;
const waiting = (): Promise<number> => on.holdfast.metric('holdfast_queries_waiting');

/** Takes all places of a tenant, or with an empty owner those of operators, as running queries would. */
async function occupy(owner: string): Promise<void> {
  for (let place = 0; place < 4; place += 1) {
    held.push(await queries().admit(owner, new AbortController().signal));
  }
}

const listOf = ({ key }: TestTenant) => on.holdfast.call('GET', '/v1/reservations', { key });
const runsOf = (calls: jest.Spied<ReturnType<typeof queries>['call']>): number =>
  calls.mock.calls.filter(([script]) => script === 'list_budgets').length;
const askOf = (paths: readonly string[]) => Promise.all(paths.map((path) => on.holdfast.admin('GET', path)));

test('a page that asks for nine lists of 5,000 budgets at once gets all of them, and tenants go on', async () => {
  await occupy('');
  const page = askOf(PAGE);
  await eventually('its lists wait', async () => (await waiting()) === QUEUED);
  await occupy(other.id);
  // One after the other, these two wait for longer than any query of a tenant that came before them.
  for (let number = 0; number < 2; number += 1) {
    expectRefusal(await listOf(other), 429, 'LIMIT_EXCEEDED');
  }
  held.splice(0).forEach((query) => query.end());
  expectStatus(await on.holdfast.reserve(other, 1), 200);
  expectStatus(await listOf(other), 200);
  expect((await page).map(({ status }) => status)).toEqual(PAGE.map(() => 200));
});

test('lists of all budgets that are asked for at once share two walks', async () => {
  const calls = jest.spyOn(queries(), 'call');
  await occupy('');
  const lists = askOf(LISTS);
  await eventually('they wait', async () => (await waiting()) === LISTS.length);
  held.splice(0).forEach((query) => query.end());
  for (const answer of await lists) {
    expectStatus(answer, 200);
  }
  const walks = runsOf(calls);
  expect(walks).toBeGreaterThanOrEqual(PARTITIONS);
  // At most one more run in a partition whose tenants have more budgets than a run reads.
  expect(walks).toBeLessThan(2 * (PARTITIONS + (TENANTS * BUDGETS_A_TENANT) / 100 + 1));
});

/** Holds up each run of a list once it has read its records, until `goOn` is called. */
function holdUp() {
  let [begun, goOn] = [() => {}, () => {}];
  const isReading = new Promise<void>((resolve) => (begun = resolve));
  const mayGoOn = new Promise<void>((resolve) => (goOn = resolve));
  const call = queries().call.bind(queries());
  const calls = jest.spyOn(queries(), 'call').mockImplementation(async (...args) => {
    const reply = await call(...args);
    // The overview may be counting.
    if (args[0] === 'list_budgets') {
      begun();
      await mayGoOn;
    }
    return reply;
  });
  return { calls, isReading, goOn };
}

test('a list shows what was changed before it, even while another list is being read', async () => {
  const tenant = await newTenant(true);
  const { id } = tenant;
  await on.holdfast.createBudget(tenant, '', 10);
  const { isReading, goOn } = holdUp();
  const earlier = on.holdfast.admin('GET', FROZEN);
  await isReading;
  const freeze = `/v1/admin/budgets/freeze?scope=tenant:${id}&unit=TOKENS`;
  expectStatus(await on.holdfast.admin('POST', freeze, { reason: 'test' }), 200);
  const later = on.holdfast.admin('GET', FROZEN);
  goOn();
  expect(expectStatus(await earlier, 200).ledgers).toEqual([]);
  expect((expectStatus(await later, 200).ledgers as Json[]).map(({ scope }) => scope)).toEqual([
    `tenant:${id}`,
  ]);
});

test('a walk ends when all clients that wait for it have left', async () => {
  const abandoned = (): Promise<number> => on.holdfast.metric('holdfast_queries_abandoned_total');
  const before = await abandoned();
  const { calls, isReading, goOn } = holdUp();
  const leaving = new AbortController();
  const headers = { 'x-admin-api-key': ADMIN_API_KEY };
  const left = fetch(`${on.holdfast.url}${FROZEN}`, { headers, signal: leaving.signal }).catch(() => 'gone');
  await isReading;
  leaving.abort();
  expect(await left).toBe('gone');
  await eventually('it is given up', async () => (await abandoned()) === before + 1);
  goOn();
  expectStatus(await on.holdfast.admin('GET', FROZEN), 200);
  await on.holdfast.app.get(AuditedRequests, { strict: false }).settled();
  const refused = '/v1/admin/audit/logs?operation=GET:/v1/admin/budgets&status_min=400';
  expect(expectStatus(await on.holdfast.admin('GET', refused), 200).logs).toEqual([]);
  // What was under way when the client left, and one whole walk.
  expect(runsOf(calls)).toBeLessThan(2 * PARTITIONS);
});
