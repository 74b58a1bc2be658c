import { expect, test } from '@jest/globals';
import { reservationIndexKey, tenantIndexKey } from '../../src/redis/keyspace.js';
import { RETENTION_MS, type LedgerClient } from '../support/ledger-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

interface Pass {
  readonly runs: number;
  readonly examined: number;
  readonly removed: number;
}

/** From the first tenant to the end, as the janitor does it. */
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

/** Holds of the tenant, oldest first, all created so long ago. */
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

test('entries whose records are gone leave the index, and those of records that are there stay', async () => {
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

test('survivors at the head of an index do not hide what is gone behind them', async () => {
  const ledger = await newLedger();
  const [tenant] = (await tenants(ledger, 1)) as [string];
  const old = await oldHolds(ledger, tenant, 12, RETENTION_MS + 60_000);
  await ledger.redis.del(ledger.reservationKeyOf(old[11] as string));
  expect(await trimAll(ledger, 3)).toMatchObject({ examined: 12, removed: 1 });
});

test('entries that cannot be gone yet are not examined, except the first of each tenant', async () => {
  const ledger = await newLedger();
  const names = await tenants(ledger, 2);
  for (const name of names) {
    await oldHolds(ledger, name, 10, 60_000);
  }
  expect((await trimAll(ledger, 4)).examined).toBeLessThan(20);
});

test('a retention that was shorter once is followed', async () => {
  const ledger = await newLedger();
  const [tenant] = (await tenants(ledger, 1)) as [string];
  const young = await oldHolds(ledger, tenant, 10, 60_000);
  await ledger.redis.del(...young.slice(0, 8).map((id) => ledger.reservationKeyOf(id)));
  expect((await trimAll(ledger, 3)).removed).toBe(8);
  expect(await indexed(ledger, tenant)).toEqual(young.slice(8));
});
