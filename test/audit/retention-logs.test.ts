import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { LogJanitor } from '../../src/retention/log-janitor.js';
import {
  auditLogKey,
  correlatedEventsKey,
  eventLogKey,
  tagOf,
  tenantEventsKey,
} from '../../src/redis/keyspace.js';
import { Worker } from '../../src/worker/worker.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json } from '../support/holdfast.js';
import { connectTo, startStore, type Store, type StoreClient } from '../support/store.js';

const DAY_MS = 86_400_000;
/** Of the jobs that trim logs. */
const LONGEST_INTERVAL_MS = 60_000;

let server: Store;
let redis: StoreClient;
let holdfast: Holdfast;
let janitor: LogJanitor;
let partitions = 0;

beforeAll(async () => {
  server = await startStore();
  redis = connectTo(server.url);
  holdfast = await Holdfast.start({ REDIS_URL: server.url });
  janitor = holdfast.app.get(LogJanitor);
});

afterAll(async () => {
  await redis.quit();
  await holdfast.stop();
  await server.stop();
});

/** The tag of a partition that no other test has used. */
function freshTag(): string {
  partitions += 1;
  return tagOf(partitions.toString(16).padStart(2, '0'));
}

async function nowMs(): Promise<number> {
  const [seconds] = await redis.time();
  return Number(seconds) * 1000;
}

/** Events of these ages in days, oldest first, with their entries in the indexes. */
async function pastEvents(tag: string, ...ageDays: readonly number[]): Promise<string[]> {
  const now = await nowMs();
  const ids: string[] = [];
  for (const age of ageDays) {
    const id = (await redis.xadd(
      eventLogKey(tag),
      `${now - age * DAY_MS}-*`,
      'ty',
      'budget.created',
      'tn',
      'old',
      'ac',
      'admin',
      'co',
      'c',
    )) as string;
    await redis.xadd(tenantEventsKey(tag, 'old'), id, 'y', 'budget.created');
    await redis.xadd(correlatedEventsKey(tag, 'c'), id, 'y', 'budget.created');
    ids.push(id);
  }
  return ids;
}

/** Reads the first events of the log as the dispatcher does, and acknowledges the first of these. */
async function dispatched(tag: string, read: number, acknowledged: number): Promise<void> {
  const log = eventLogKey(tag);
  await redis.xgroup('CREATE', log, 'dispatcher', '0');
  const reply = await redis.xreadgroup(
    'GROUP',
    'dispatcher',
    'dispatcher',
    'COUNT',
    read,
    'STREAMS',
    log,
    '>',
  );
  const entries = reply?.[0]?.[1] ?? [];
  for (const [id] of entries.slice(0, acknowledged)) {
    await redis.xack(log, 'dispatcher', id);
  }
}

async function idsOf(key: string): Promise<string[]> {
  return (await redis.xrange(key, '-', '+')).map(([id]) => id);
}

const heldLogs = (): Promise<number> => holdfast.metric('holdfast_event_logs_held');
const trimmed = (): Promise<number> => holdfast.metric('holdfast_events_trimmed_total');

test('events are removed after 90 days, from the indexes too, and are counted', async () => {
  shows('event retention');
  const tag = freshTag();
  const ids = await pastEvents(tag, 92, 91, 89, 1);
  await dispatched(tag, 4, 4);
  const before = await trimmed();
  await janitor.trimEvents(Infinity);
  for (const key of [eventLogKey(tag), tenantEventsKey(tag, 'old'), correlatedEventsKey(tag, 'c')]) {
    expect(await idsOf(key)).toEqual(ids.slice(2));
  }
  expect(await trimmed()).toBe(before + 2);
  expect(await heldLogs()).toBe(0);
});

test('an empty index has no key, and is created again by the next event', async () => {
  const tag = freshTag();
  await pastEvents(tag, 92, 91);
  await dispatched(tag, 2, 2);
  await janitor.trimEvents(Infinity);
  expect(await redis.exists(tenantEventsKey(tag, 'old'), correlatedEventsKey(tag, 'c'))).toBe(0);
  expect(await idsOf(eventLogKey(tag))).toEqual([]);
  const [id] = await pastEvents(tag, 0);
  expect(await idsOf(tenantEventsKey(tag, 'old'))).toEqual([id]);
});

test('an event that the dispatcher read and did not acknowledge stays, and so do those after it', async () => {
  shows('event retention');
  const tag = freshTag();
  const ids = await pastEvents(tag, 95, 94, 93, 92);
  await dispatched(tag, 3, 1);
  await janitor.trimEvents(Infinity);
  expect(await idsOf(eventLogKey(tag))).toEqual(ids.slice(1));
  expect(await idsOf(tenantEventsKey(tag, 'old'))).toEqual(ids.slice(1));
  expect(await heldLogs()).toBe(1);
  await redis.xack(eventLogKey(tag), 'dispatcher', ...ids);
  await janitor.trimEvents(Infinity);
  expect(await idsOf(eventLogKey(tag))).toEqual(ids.slice(3));
  await redis.xreadgroup('GROUP', 'dispatcher', 'dispatcher', 'STREAMS', eventLogKey(tag), '>');
  await redis.xack(eventLogKey(tag), 'dispatcher', ...ids);
  await janitor.trimEvents(Infinity);
  expect(await idsOf(eventLogKey(tag))).toEqual([]);
  expect(await heldLogs()).toBe(0);
});

test('without any dispatcher, events stay twice as long, and no longer', async () => {
  shows('event retention');
  const tag = freshTag();
  const ids = await pastEvents(tag, 182, 181, 179, 91);
  await janitor.trimEvents(Infinity);
  expect(await idsOf(eventLogKey(tag))).toEqual(ids.slice(2));
  expect(await heldLogs()).toBe(1);
  await redis.del(eventLogKey(tag));
});

test('events about the end of reservations stay as long as the reservations, regardless of their own retention', async () => {
  const other = await startStore();
  const [own, tag] = [connectTo(other.url), tagOf('00')];
  const long = await Holdfast.start({
    REDIS_URL: other.url,
    EVENT_RETENTION_DAYS: '1',
    AUDIT_RETENTION_DAYS: '30',
  });
  for (const age of [31, 29]) {
    await own.xadd(
      eventLogKey(tag),
      `${(await nowMs()) - age * DAY_MS}-0`,
      'ty',
      'reservation.expired',
      'tn',
      'old',
    );
  }
  await own.xgroup('CREATE', eventLogKey(tag), 'dispatcher', '$');
  await long.app.get(LogJanitor).trimEvents(Infinity);
  expect(await own.xlen(eventLogKey(tag))).toBe(1);
  await long.stop();
  await own.quit();
  await other.stop();
});

test('a pass that runs out of time is counted and continues where it stopped', async () => {
  const tag = freshTag();
  const now = await nowMs();
  const pipeline = redis.pipeline();
  for (let row = 0; row < 600; row += 1) {
    pipeline.xadd(eventLogKey(tag), `${now - 200 * DAY_MS}-${row}`, 'ty', 'budget.created', 'tn', `t${row}`);
    pipeline.xadd(auditLogKey(tag), `${now - 401 * DAY_MS}-${row}`, 'op', 'createBudget');
  }
  pipeline.xadd(auditLogKey(tag), `${now - 399 * DAY_MS}-0`, 'op', 'createBudget');
  await pipeline.exec();
  await janitor.trimEvents(-1);
  await janitor.trimAuditLog(-1);
  expect([await redis.xlen(eventLogKey(tag)), await redis.xlen(auditLogKey(tag))]).toEqual([600, 601]);
  for (const job of ['event_retention', 'audit_log_retention']) {
    expect(await holdfast.metric('holdfast_maintenance_cut_total', { job })).toBe(1);
  }
  const before = await trimmed();
  await janitor.trimEvents(Infinity);
  await janitor.trimAuditLog(Infinity);
  expect(await trimmed()).toBe(before + 600);
  expect(await holdfast.metric('holdfast_audit_rows_trimmed_total')).toBe(600);
  expect([await redis.xlen(eventLogKey(tag)), await redis.xlen(auditLogKey(tag))]).toEqual([0, 1]);
});

test('trimmed entries are no longer listed, and recent ones are', async () => {
  const tenant = await holdfast.createTenant();
  await janitor.trimEvents(Infinity);
  const { events } = expectStatus(
    await holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}`),
    200,
  );
  expect(events.map(({ event_type: type }: Json) => type)).toEqual(['api_key.created', 'tenant.created']);
});

test('only an instance with the role trims by itself', async () => {
  const working = await Holdfast.start({ REDIS_URL: server.url, HOLDFAST_ROLES: 'janitor' });
  const now = performance.now.bind(performance);
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + 2 * LONGEST_INTERVAL_MS);
  for (const instance of [working, holdfast]) {
    instance.app.get(Worker).beat();
  }
  clock.mockRestore();
  const runs = (instance: Holdfast, job: string): Promise<number> =>
    instance.metric('cycles_maintenance_runs_total', { job, outcome: 'success' });
  for (const job of ['event_retention', 'audit_log_retention', 'api_key_expiry']) {
    await eventually(`a run of ${job}`, async () => (await runs(working, job)) > 0);
    expect(await runs(holdfast, job)).toBe(0);
  }
  await working.stop();
});
