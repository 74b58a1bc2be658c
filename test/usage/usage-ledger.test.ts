import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { RedisService } from '../../src/redis/index.js';
import { readArchive } from '../support/archive.js';
import {
  chargeOnExpiry,
  commitOf,
  eventOf,
  type Operation,
  releaseOf,
  reserveOf,
} from '../support/batches.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { DAY_MS, HOUR_MS, TestClock } from '../support/test-clock.js';

/*
 * A random ledger with caps, overdrafts, debits, refusals, releases and expiries that cost something, over two days around a change of
 * daylight saving. Afterwards, three things agree to the last unit: reports, balances, and the rows of the archive. The seed is printed; USAGE_SEED=<seed> plays the same again, and
 * USAGE_OPERATIONS=<n> plays more operations.
 */

jest.setTimeout(300_000);

const OPERATIONS = Number(process.env['USAGE_OPERATIONS'] ?? 2000);
const A_BATCH = 50;
const STEPS = 8;
const ZONES = ['UTC', 'America/New_York', 'Asia/Kathmandu'];
const SCOPES = ['', '/workspace:eng', '/workspace:eng/agent:bot', '/agent:solo'];
const POLICIES = ['REJECT', 'ALLOW_IF_AVAILABLE', 'ALLOW_WITH_OVERDRAFT'];

let store: Store;
let root: string;
let holdfast: Holdfast;
/** A UTC day in which New York's clocks change. */
let changeMs: number;
const clock = new TestClock(() => holdfast);
const tenants: TestTenant[] = [];

beforeAll(async () => {
  store = await startStore();
  root = mkdtempSync(join(tmpdir(), 'usage-ledger-'));
  holdfast = await Holdfast.start({
    REDIS_URL: store.url,
    ARCHIVE_DIR: root,
    HOLDFAST_ROLES: 'api,sweeper,janitor,archiver',
    HOLDFAST_TEST_CLOCK: 'true',
    archiveFlushMs: 0,
    archiveSettleMs: 0,
  });
  // Months, in one step.
  changeMs = nextChange(await clock.nowMs());
  await clock.advanceTo(changeMs - 16 * HOUR_MS);
});
afterAll(async () => {
  await holdfast.stop();
  await store.stop();
  rmSync(root, { recursive: true, force: true });
});

const random = randomFrom(seedFrom('USAGE_SEED', 'usage of a random ledger'));
const pick = (below: number): number => Math.floor(random() * below);
const oneOf = <T>(values: readonly T[]): T => values[pick(values.length)] as T;

/** The next change of New York's clocks, which is at 6 or 7 in the morning UTC. */
function nextChange(afterMs: number): number {
  const hour = (ms: number): string =>
    new Intl.DateTimeFormat('en-US', { timeZone: 'America/New_York', hour: 'numeric' }).format(ms);
  let day = Math.ceil(afterMs / DAY_MS) * DAY_MS;
  while (hour(day) === hour(day + DAY_MS)) {
    day += DAY_MS;
  }
  return day;
}

async function completeThroughMs(): Promise<number> {
  const { body } = await holdfast.admin('GET', '/ops/usage');
  return body.complete_through_ms as number;
}

/** Waits until everything that has happened so far is archived. */
async function archived(): Promise<void> {
  const nowMs = await clock.nowMs();
  await eventually('everything is archived', async () => (await completeThroughMs()) >= nowMs, 60_000, 100);
}

async function send(tenant: TestTenant, operations: readonly Operation[]): Promise<Json[]> {
  const answer = await holdfast.call('POST', '/v1/batch', { key: tenant.key, body: { operations } });
  return expectStatus(answer, 200).results as Json[];
}

function subjectOf(tenant: TestTenant): object {
  return oneOf([
    { tenant: tenant.id },
    { tenant: tenant.id, workspace: 'Eng' },
    { tenant: tenant.id, workspace: 'eng', agent: 'bot' },
    { tenant: tenant.id, agent: 'solo' },
  ]);
}

/** Reserves and debits, then what becomes of the reserves. Returns how many operations that were. */
async function playBatch(tenant: TestTenant): Promise<number> {
  const first = Array.from({ length: A_BATCH }, () => {
    const amount = 1 + pick(40);
    const more = { subject: subjectOf(tenant), overage_policy: oneOf(POLICIES) };
    return pick(6) === 0
      ? eventOf(tenant, amount, more)
      : {
          ...reserveOf(tenant, amount, { ...more, ttl_ms: 60_000, grace_period_ms: 0 }),
          ...(pick(3) === 0 && chargeOnExpiry(pick(amount + 1))),
        };
  });
  const made = (await send(tenant, first)).flatMap(({ body }) => (body?.reservation_id ?? []) as string);
  const second = made.flatMap((id) => {
    const fate = pick(10);
    return fate < 6 ? [commitOf(id, pick(60))] : fate < 8 ? [releaseOf(id)] : [];
  });
  if (second.length > 0) {
    await send(tenant, second);
  }
  return first.length + second.length;
}

async function rowsOf(parameters: Record<string, string>): Promise<Json[]> {
  const query = new URLSearchParams({ limit: '10000', ...parameters }).toString();
  const body = expectStatus(await holdfast.admin('GET', `/ops/usage?${query}`), 200);
  expect([body.has_more, body.gaps]).toEqual([false, []]);
  return body.rows as Json[];
}

test('reports, balances and files agree', async () => {
  for (let index = 0; index < 2; index += 1) {
    const { id } = await holdfast.createTenant();
    tenants.push({ id, key: await holdfast.createKey(id, { expires_at: '2199-01-01T00:00:00Z' }) });
  }
  for (const tenant of tenants) {
    for (const below of SCOPES) {
      await holdfast.createBudget(tenant, below, 2 * OPERATIONS, {
        overdraft_limit: { unit: 'TOKENS', amount: OPERATIONS },
      });
    }
  }
  let played = 0;
  for (let step = 0; step < STEPS; step += 1) {
    while (played < (OPERATIONS * (step + 1)) / STEPS) {
      played += await playBatch(oneOf(tenants));
    }
    await clock.advanceBy(5 * HOUR_MS + pick(30 * 60_000));
  }
  await archived();
  const span = { from: String(changeMs - 2 * DAY_MS), to: String(changeMs + 4 * DAY_MS) };

  // Balances.
  for (const tenant of tenants) {
    for (const [scope, figures] of Object.entries(await holdfast.balances(tenant))) {
      const [, reserved, spent, debt] = figures.split(' ').map(Number) as [number, number, number, number];
      expect({ scope, reserved }).toEqual({ scope, reserved: 0 });
      const rows = await rowsOf({ ...span, scope });
      expect({ scope, charged: rows.map((row) => row.charged) }).toEqual({ scope, charged: [spent + debt] });
    }
  }

  // Files.
  const { rows } = await readArchive(root, holdfast.app.get(RedisService));
  expect(rows.length).toBeGreaterThan(OPERATIONS / 5);
  for (const state of ['COMMITTED', 'RELEASED', 'EXPIRED', 'APPLIED']) {
    expect({ state, count: rows.filter((row) => row['state'] === state).length }).not.toEqual({
      state,
      count: 0,
    });
  }
  for (const time_zone of ZONES) {
    const hourOf = new Intl.DateTimeFormat('sv-SE', {
      timeZone: time_zone,
      dateStyle: 'short',
      timeStyle: 'long',
    });
    for (const [group, length] of [
      ['day', 10],
      ['hour', 13],
    ] as const) {
      const expected = new Map<string, number>();
      for (const row of rows) {
        const text = hourOf.format(row['recorded_at'] as Date);
        // An hour that comes twice has two names: that of the zone, such as EDT, tells them apart.
        const key = group === 'day' ? text.slice(0, length) : `${text.slice(0, length)} ${text.slice(20)}`;
        expected.set(key, (expected.get(key) ?? 0) + Number(row['charged']));
      }
      const reported = await rowsOf({ ...span, time_zone, group_by: group });
      const sums = (values: Iterable<number>): number[] => [...values].sort((one, other) => one - other);
      expect({ time_zone, group, sums: sums(reported.map((row) => row.charged as number)) }).toEqual({
        time_zone,
        group,
        sums: sums(expected.values()),
      });
      if (group === 'day') {
        expect(reported.map((row) => row.day as string)).toEqual([...expected.keys()].sort());
      }
    }
  }
});
