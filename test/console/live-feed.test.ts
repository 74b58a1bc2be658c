import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { activityKey, SYSTEM_OWNER, tagOfTenant } from '../../src/redis/keyspace.js';
import { ShutdownState } from '../../src/telemetry/health.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { LiveFigures } from '../../src/console/live-figures.js';
import { ConsoleClient, LiveReader } from '../support/console-client.js';
import { eventually } from '../support/eventually.js';
import { HeldReplies } from '../support/held-replies.js';
import { expectStatus, Holdfast } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const logged: Record<string, unknown>[] = [];
const logger = createLogger('warn', { write: (line: string) => void logged.push(JSON.parse(line)) });
const on = useGovernance({ logger }, { RECORD_ACTIVITY: 'true' });
const computed = (): Promise<number> => on.holdfast.metric('holdfast_console_snapshots_total');
const viewers = (): Promise<number> => on.holdfast.metric('holdfast_console_viewers');

test('twenty viewers need one computation, and without viewers there is none', async () => {
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn();
  expect([await computed(), await viewers()]).toEqual([0, 0]);
  const readers = Array.from({ length: 20 }, () => new LiveReader(page.url, page.cookie));
  await eventually('all have two snapshots', () => readers.every(({ events }) => events.length >= 2));
  expect(await viewers()).toBe(20);
  const most = Math.max(...readers.map(({ events }) => events.length));
  const count = await computed();
  expect(count).toBeGreaterThanOrEqual(2);
  // Each reader gets every snapshot that was computed since it connected, and none is computed for a single
  // reader.
  expect(count).toBeLessThanOrEqual(most + 2);
  await Promise.all(readers.map((reader) => reader.close()));
  await eventually('nobody looks', async () => (await viewers()) === 0);
  const atRest = await computed();
  const late = new LiveReader(page.url, page.cookie);
  await eventually('a snapshot arrives', () => late.events.length > 0);
  expect((await computed()) - atRest).toBeLessThanOrEqual(2);
  await late.close();
});

test('figures that are computed when the last viewer leaves are shown to nobody later', async () => {
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn();
  const figures = on.holdfast.app.get(LiveFigures, { strict: false });
  const held = new HeldReplies(figures, 'compute');
  const leaving = new LiveReader(page.url, page.cookie);
  await held.have(1);
  const before = await computed();
  await leaving.close();
  await eventually('nobody looks', async () => (await viewers()) === 0);
  held.open();
  await eventually('the figures have been computed', async () => (await computed()) === before + 1);
  const next = new HeldReplies(figures, 'compute');
  const late = new LiveReader(page.url, page.cookie);
  await next.have(1);
  expect(late.events).toEqual([]);
  next.open();
  await eventually('a snapshot arrives', () => late.events.length > 0);
  await late.close();
});

test('a viewer whose session ends while figures are computed gets none of them', async () => {
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn();
  const held = new HeldReplies(on.holdfast.app.get(LiveFigures, { strict: false }), 'compute');
  const reader = new LiveReader(page.url, page.cookie);
  await held.have(1);
  expect((await page.send('POST', '/console/api/logout')).status).toBeLessThan(300);
  const before = await computed();
  held.open();
  await eventually('the figures have been computed', async () => (await computed()) === before + 1);
  await reader.ended;
  expect(reader.events).toEqual([{ name: 'ended', data: 'session' }]);
});

test("a snapshot has the ledger's activity, the readiness, and the sweeper's leases", async () => {
  const tenant = await on.holdfast.fundedTenant(100);
  const held = expectStatus(await on.holdfast.reserve(tenant, 10), 200);
  expectStatus(await on.holdfast.reserve(tenant, 20), 200);
  expectStatus(await on.holdfast.commit(tenant, held.reservation_id as string, 5), 200);
  expectStatus(await on.holdfast.reserve(tenant, 1000), 409);
  // Dry runs neither hold nor deny anything.
  expectStatus(await on.holdfast.reserve(tenant, 10, { dry_run: true }), 200);
  expectStatus(await on.holdfast.reserve(tenant, 1000, { dry_run: true }), 200);
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn();
  const live = new LiveReader(page.url, page.cookie);
  const snapshot = await eventually('the figures have arrived', () => {
    const latest = JSON.parse(live.events.at(-1)?.data ?? '{}');
    // Immediately, not at the end of their slot of ten seconds.
    return latest.sweeper?.holds === 1 && latest.activity?.last_hour.denials === 1 && latest;
  });
  expect(snapshot.readiness.details.redis.status).toBe('up');
  expect(snapshot.activity.last_hour).toEqual({ reserves: 2, commits: 1, denials: 1, expirations: 0 });
  expect(snapshot.activity.slots.reserves).toHaveLength(360);
  const redis = new Redis(on.redis.url);
  const fields = await eventually('all that was done is stored', async () => {
    // There is one hash per hour.
    const hours = await Promise.all((await redis.keys('{p*}activity:*')).map((key) => redis.hgetall(key)));
    const stored = hours.flatMap((hour) => Object.entries(hour));
    const sum = (name: string): number =>
      stored
        .filter(([field]) => field.endsWith(`:${name}`))
        .reduce((all, [, count]) => all + Number(count), 0);
    const sums = { reserves: sum('reserves'), commits: sum('commits'), denials: sum('denials') };
    // It may be stored in parts, once a second.
    return sums.reserves + sums.commits + sums.denials >= 4 && sums;
  });
  expect(fields).toEqual({ reserves: 2, commits: 1, denials: 1 });
  await Promise.all([live.close(), redis.quit()]);
});

test('figures that cannot be read are reported once with their cause, and seconds that cannot be stored are counted', async () => {
  const tag = tagOfTenant(SYSTEM_OWNER, 64);
  const thisHour = Math.floor(new Date().getTime() / 3_600_000);
  const keys = [thisHour - 1, thisHour, thisHour + 1].map((hour) => activityKey(tag, hour));
  const redis = new Redis(on.redis.url);
  const lost = (): Promise<number> => on.holdfast.metric('holdfast_activity_flushes_lost_total');
  const reported = (): Promise<number> => on.holdfast.metric('holdfast_unexpected_errors_total');
  const linesWith = (message: string): unknown[] => logged.filter(({ msg }) => msg === message);
  await redis.del(keys);
  const before = { lost: await lost(), reported: await reported() };
  for (const key of keys) {
    await redis.set(key, 'not a hash');
  }
  const tenant = await on.holdfast.fundedTenant(100);
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn();
  const live = new LiveReader(page.url, page.cookie);
  await eventually('two seconds were lost', async () => {
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    return (await lost()) >= before.lost + 2;
  });
  await eventually('three snapshots failed', () => live.events.length >= 3);
  expect(JSON.parse(live.events.at(-1)?.data ?? '{}')).toMatchObject({
    readiness: { details: { errors: { status: 'up', unexpected: before.reported + 1 } } },
    records_activity: true,
    memory: [],
  });
  expect(await reported()).toBe(before.reported + 1);
  const cause = { err: { message: expect.stringContaining('WRONGTYPE') } };
  expect(linesWith("the console's live figures cannot be read")).toMatchObject([cause]);
  expect(linesWith("seconds are missing in the console's graphs")).toMatchObject([cause]);

  await redis.del(keys);
  await eventually('the figures are back', () => live.events.at(-1)?.data.includes('"activity"'));
  await Promise.all([live.close(), redis.quit()]);
});

test('an instance that records nothing says so, and shows no zeros', async () => {
  const other = await Holdfast.start({ REDIS_URL: on.redis.url });
  const page = new ConsoleClient(other.url);
  await page.logIn();
  const live = new LiveReader(page.url, page.cookie);
  const snapshot = await eventually('the figures have arrived', () => {
    const latest = JSON.parse(live.events.at(-1)?.data ?? '{}');
    return latest.sweeper !== undefined && latest;
  });
  expect(snapshot).toMatchObject({ records_activity: false, memory: [] });
  expect(snapshot).not.toHaveProperty('activity');
  await live.close();
  await other.stop();
});

test('a shutdown ends the stream with a message, and the stream needs a session or the admin key', async () => {
  expect((await fetch(`${on.holdfast.url}/console/api/stream`)).status).toBe(401);
  const other = await Holdfast.start({ REDIS_URL: on.redis.url });
  const page = new ConsoleClient(other.url);
  await page.logIn();
  const live = new LiveReader(page.url, page.cookie);
  await eventually('a snapshot arrives', () => live.events.length > 0);
  other.app.get(ShutdownState).beginShutdown();
  await live.ended;
  expect(live.events.at(-1)).toEqual({ name: 'ended', data: 'shutdown' });
  await other.stop();
});
