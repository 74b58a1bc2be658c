import { describe, expect, test } from '@jest/globals';
import {
  reservationIndexKey,
  runCounterIndexKey,
  runCountersKey,
  runIndexKey,
  tenantIndexKey,
} from '../../src/redis/keyspace.js';
import { makePolicy } from '../support/admission-client.js';
import { RETENTION_MS, type LedgerClient } from '../support/ledger-client.js';
import { useClockedLedgers } from '../support/clocked-ledger.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const clocked = useClockedLedgers();

interface Pass {
  readonly runs: number;
  readonly examined: number;
  readonly removed: number;
}

/** From the first tenant to the last, as the janitor does it. */
async function trimAll(ledger: LedgerClient, examine: number, retentionMs = RETENTION_MS): Promise<Pass> {
  let [tenant, ms, id] = ['', '', ''];
  const pass = { runs: 0, examined: 0, removed: 0 };
  do {
    const reply = await ledger.scripts.run(
      'trim_reservation_index',
      [tenantIndexKey(ledger.tag)],
      [tenant, ms, id, examine, retentionMs],
    );
    [, tenant, ms, id] = reply as [string, string, string, string];
    pass.runs += 1;
    pass.examined += Number(reply[4]);
    pass.removed += Number(reply[5]);
    expect(Number(reply[4])).toBeLessThanOrEqual(examine);
  } while (tenant !== '');
  return pass;
}

async function tenants(ledger: LedgerClient, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `${ledger.tenant}-${index}`);
  await ledger.redis.zadd(
    tenantIndexKey(ledger.tag),
    ...names.flatMap((name, index) => [String(index), name]),
  );
  return names;
}

async function indexed(ledger: LedgerClient, tenant: string): Promise<string[]> {
  return ledger.redis.zrange(reservationIndexKey(ledger.tag, tenant), 0, '-1');
}

/** Holds of the tenant, oldest first, created this long ago. */
async function oldHolds(
  ledger: LedgerClient,
  tenant: string,
  count: number,
  ageMs: number,
): Promise<string[]> {
  await ledger.makeBudget({ scope: ledger.scope({}, tenant), allocated: 1_000_000 });
  const now = await ledger.serverTime();
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { id } = await ledger.hold({ tenant, amount: 1 });
    await ledger.redis.zadd(reservationIndexKey(ledger.tag, tenant), String(now - ageMs + index), id);
    ids.push(id);
  }
  return ids;
}

test('entries whose records are gone leave the index, and those of existing records stay', async () => {
  const ledger = await newLedger();
  const [first, second, third] = (await tenants(ledger, 3)) as [string, string, string];
  const old = await oldHolds(ledger, first, 7, RETENTION_MS + 60_000);
  const others = await oldHolds(ledger, third, 3, RETENTION_MS + 60_000);
  await ledger.redis.del(
    ...[old[0], old[3], old[6], ...others].map((id) => ledger.reservationKeyOf(id as string)),
  );
  for (const examine of [2, 500]) {
    expect((await trimAll(ledger, examine)).removed).toBe(examine === 2 ? 6 : 0);
  }
  expect(await indexed(ledger, first)).toEqual([old[1], old[2], old[4], old[5]]);
  expect(await indexed(ledger, second)).toEqual([]);
  expect(await ledger.redis.exists(reservationIndexKey(ledger.tag, third))).toBe(0);
});

test('survivors at the head of an index do not hide missing records behind them', async () => {
  const ledger = await newLedger();
  const [tenant] = (await tenants(ledger, 1)) as [string];
  const old = await oldHolds(ledger, tenant, 12, RETENTION_MS + 60_000);
  await ledger.redis.del(ledger.reservationKeyOf(old[11] as string));
  expect(await trimAll(ledger, 3)).toMatchObject({ examined: 12, removed: 1 });
});

test('entries whose records cannot have expired yet are not examined, except the first of each tenant', async () => {
  const ledger = await newLedger();
  const names = await tenants(ledger, 2);
  for (const name of names) {
    await oldHolds(ledger, name, 10, 60_000);
  }
  expect((await trimAll(ledger, 4)).examined).toBeLessThan(20);
});

test('a retention that used to be shorter is respected', async () => {
  const ledger = await newLedger();
  const [tenant] = (await tenants(ledger, 1)) as [string];
  const young = await oldHolds(ledger, tenant, 10, 60_000);
  await ledger.redis.del(...young.slice(0, 8).map((id) => ledger.reservationKeyOf(id)));
  expect((await trimAll(ledger, 3)).removed).toBe(8);
  expect(await indexed(ledger, tenant)).toEqual(young.slice(8));
});

describe('runs whose counters have lapsed', () => {
  const QUOTA = { action_kind: 'llm', max_calls: 9, window: 'per_run', per_run_counter_ttl_ms: 60_000 };
  const inRun = (run: string): { facts: string } => ({ facts: `side_effect|${run}|||` });

  /** A tenant with a hold in each run. */
  async function withRuns(runs: readonly string[], make = newLedger): Promise<LedgerClient> {
    const ledger = await make();
    await ledger.makeTenant();
    await ledger.redis.zadd(tenantIndexKey(ledger.tag), '0', ledger.tenant);
    await ledger.makeBudget();
    await makePolicy(ledger, ledger.scope(), { sets: { action_quotas: JSON.stringify([QUOTA]) } });
    for (const run of runs) {
      await ledger.hold(inRun(run));
    }
    return ledger;
  }

  const runsOf = ({ redis, tag, tenant }: LedgerClient): Promise<string[]> =>
    redis.zrange(runIndexKey(tag, tenant), '0', '-1');

  /** As if their entries were due and their counters gone. */
  async function lapse(ledger: LedgerClient, runs: readonly string[]): Promise<void> {
    const { redis, tag, tenant } = ledger;
    const past = String((await ledger.serverTime()) - 1);
    await redis.zadd(runIndexKey(tag, tenant), ...runs.flatMap((run) => [past, run]));
    await redis.del(...runs.map((run) => runCountersKey(tag, tenant, run)));
  }

  test('leave the indexes, although no other run begins, and others stay', async () => {
    const ledger = await withRuns(['a', 'b', 'c', 'counts', 'extended']);
    const { redis, tag, tenant } = ledger;
    await lapse(ledger, ['a', 'b', 'c']);
    await redis.zadd(runIndexKey(tag, tenant), '1', 'extended');
    expect(await trimAll(ledger, 500)).toEqual({ runs: 1, examined: 12, removed: 6 });
    expect(await runsOf(ledger)).toEqual(['counts', 'extended']);
    expect(await redis.zrange(runCounterIndexKey(tag, tenant), '0', '-1')).toEqual(
      ['counts', 'extended'].map((run) => `${run}|${ledger.scope()}|r|llm`),
    );
    const lapsesAt = await redis.pexpiretime(runCountersKey(tag, tenant, 'extended'));
    expect(await redis.zscore(runIndexKey(tag, tenant), 'extended')).toBe(String(lapsesAt));
    expect((await trimAll(ledger, 500)).removed).toBe(0);
  });

  test('leave them a few at a time', async () => {
    const runs = Array.from({ length: 6 }, (_, place) => `run${place}`);
    const ledger = await withRuns(runs);
    await lapse(ledger, runs);
    const [, tenant, , , examined] = await ledger.scripts.run(
      'trim_reservation_index',
      [tenantIndexKey(ledger.tag)],
      ['', '', '', 4, RETENTION_MS],
    );
    expect([tenant, examined]).toEqual([ledger.tenant, '4']);
    expect(await runsOf(ledger)).toEqual(runs.slice(2));
    expect(await trimAll(ledger, 4)).toMatchObject({ removed: 8 });
    expect(await runsOf(ledger)).toEqual([]);
  });

  test("that have lapsed by a test clock, but not by Redis' clock, do not hold up the walk", async () => {
    const startMs = Date.parse('2150-01-01T00:00:00Z');
    await clocked.stand(startMs);
    const ledger = await withRuns(['a', 'b', 'c'], clocked.make);
    await clocked.stand(startMs + 3_600_000);
    expect((await trimAll(ledger, 20)).removed).toBe(0);
    expect(await runsOf(ledger)).toEqual(['a', 'b', 'c']);
    await ledger.redis.del(runCountersKey(ledger.tag, ledger.tenant, 'a'));
    await clocked.stand(startMs + 3_600_001);
    expect((await trimAll(ledger, 20)).removed).toBe(2);
    expect(await runsOf(ledger)).toEqual(['b', 'c']);
  });
});
