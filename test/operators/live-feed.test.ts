import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { ShutdownState } from '../../src/telemetry/health.js';
import { ConsoleClient, LiveReader } from '../support/console-client.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance({}, { RECORD_ACTIVITY: 'true' });
const computed = (): Promise<number> => on.holdfast.metric('holdfast_console_snapshots_total');
const viewers = (): Promise<number> => on.holdfast.metric('holdfast_console_viewers');

test('twenty viewers cost one computation, and no viewer costs none', async () => {
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn();
  expect([await computed(), await viewers()]).toEqual([0, 0]);
  const readers = Array.from({ length: 20 }, () => new LiveReader(page.url, page.cookie));
  await eventually('all have two snapshots', () => readers.every(({ events }) => events.length >= 2));
  expect(await viewers()).toBe(20);
  const most = Math.max(...readers.map(({ events }) => events.length));
  const count = await computed();
  expect(count).toBeGreaterThanOrEqual(2);
  // Each reader gets every snapshot that was computed since it came, and none is computed for one reader.
  expect(count).toBeLessThanOrEqual(most + 2);
  await Promise.all(readers.map((reader) => reader.close()));
  await eventually('nobody looks', async () => (await viewers()) === 0);
  const atRest = await computed();
  const late = new LiveReader(page.url, page.cookie);
  await eventually('a snapshot arrives', () => late.events.length > 0);
  expect((await computed()) - atRest).toBeLessThanOrEqual(2);
  await late.close();
});

test('a snapshot has what the ledger did, whether it is ready, and what the sweeper holds', async () => {
  const tenant = await on.holdfast.createTenant();
  await on.holdfast.createBudget(tenant, '', 100);
  const held = expectStatus(await on.holdfast.reserve(tenant, 10), 200);
  expectStatus(await on.holdfast.reserve(tenant, 20), 200);
  expectStatus(await on.holdfast.commit(tenant, held.reservation_id as string, 5), 200);
  expectStatus(await on.holdfast.reserve(tenant, 1000), 409);
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn();
  const live = new LiveReader(page.url, page.cookie);
  const snapshot = await eventually('the figures have arrived', () => {
    const latest = JSON.parse(live.events.at(-1)?.data ?? '{}');
    return latest.sweeper?.holds === 1 && latest.activity !== undefined && latest;
  });
  expect(snapshot.readiness.details.redis.status).toBe('up');
  expect(snapshot.activity.slots.reserves).toHaveLength(360);
  const redis = new Redis(on.redis.url);
  const fields = await eventually('the second was stored', async () => {
    const [key] = await redis.keys('{p*}activity:*');
    const stored = Object.entries(await redis.hgetall(key ?? ''));
    const sum = (name: string): number =>
      stored
        .filter(([field]) => field.endsWith(`:${name}`))
        .reduce((all, [, count]) => all + Number(count), 0);
    return (
      sum('reserves') > 0 && { reserves: sum('reserves'), commits: sum('commits'), denials: sum('denials') }
    );
  });
  expect(fields).toEqual({ reserves: 2, commits: 1, denials: 1 });
  await Promise.all([live.close(), redis.quit()]);
});

test('a shutdown ends the stream and says so, and the stream needs a session or the admin key', async () => {
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
