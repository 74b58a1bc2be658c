import { expect } from '@jest/globals';
import { VERIFIED, verifyLedger } from '../../src/cli/verify.js';
import { tagOfTenant } from '../../src/redis/keyspace.js';
import { eventually } from './eventually.js';
import { ADMIN_API_KEY } from './holdfast.js';
import { ALLOCATED, type Entry, type JournaledLoad } from './journaled-load.js';
import { LedgerClient } from './ledger-client.js';
import { faultsOf, readLedger, type LedgerEvent, type LedgerState } from './ledger-state.js';
import type { StoreClient } from './store.js';

const PARTITIONS = 64;
/** Events of setting up the tenant, and of rates; no entry of the load causes them. */
const NOT_OF_ENTRIES = new Set([
  'tenant.created',
  'budget.created',
  'budget.updated',
  'api_key.created',
  'reservation.expiry_rate_spike',
]);

/** What the partition of the load's tenant holds. */
export function storedFor(load: JournaledLoad, redis: StoreClient): Promise<LedgerState> {
  const tag = tagOfTenant(load.tenant.id, PARTITIONS);
  return readLedger(new LedgerClient(redis, tag, load.tenant.id));
}

/** The events of the load's tenant. */
export function eventsFor(load: JournaledLoad, state: LedgerState): LedgerEvent[] {
  return state.events.filter(({ fields }) => fields['tn'] === load.tenant.id);
}

/**
 * Everything that was acknowledged is stored exactly once, and nothing else is: reservations, their states
 * and leases, every event, every balance. The indexes and sums of the ledger agree, and repeating the
 * requests returns the same responses. Needs a running sweeper, because the load abandons holds.
 */
export async function expectExactlyOnce(load: JournaledLoad, redis: StoreClient): Promise<void> {
  expect(await load.replay()).toEqual([]);
  await eventually('abandoned holds expire', async () => {
    const { holds } = await storedFor(load, redis);
    return load.abandoned.every(({ answer }) => holds.get(answer.reservation_id)?.['st'] === 'EXPIRED');
  });
  await expectStored(load, redis);
}

/** The second half of `expectExactlyOnce`: it only sends queries. */
export async function expectStored(load: JournaledLoad, redis: StoreClient): Promise<void> {
  const state = await storedFor(load, redis);
  expect(faultsOf(state)).toEqual([]);
  const own = [...state.holds].filter(([, record]) => record['tn'] === load.tenant.id);
  expect(Object.fromEntries(own.map(([id, record]) => [id, leaseOf(record)]))).toEqual(expectedHolds(load));
  const told = eventsFor(load, state).filter(({ fields }) => !NOT_OF_ENTRIES.has(fields['ty'] as string));
  expect(
    told
      .filter((event) => !isRollover(event))
      .map(nameOf)
      .sort(),
  ).toEqual(expectedEvents(load).sort());
  // After a restart of Redis, the connection for queries recovers some time after the ledger's.
  const balances = await eventually('queries succeed', () => load.client.balances(load.tenant));
  expect(withoutRollovers(balances, told)).toEqual(load.expectedBalances());
  const lines: string[] = [];
  const verified = await verifyLedger({
    baseUrl: load.client.url,
    adminKey: ADMIN_API_KEY,
    tenant: load.tenant.id,
    print: (line) => lines.push(line),
  });
  expect({ verified, lines }).toMatchObject({ verified: VERIFIED.sound });
}

/** Whether the event reports a rollover, the end of a budget's period. */
export function isRollover({ fields }: LedgerEvent): boolean {
  return fields['rollover_policy'] !== undefined;
}

/**
 * The balances as if no period had ended. Each rollover carries everything over, adds a new allocation and
 * resets what was spent.
 * @param balances by scope path, each `remaining reserved spent debt`
 */
function withoutRollovers(
  balances: Readonly<Record<string, string>>,
  events: readonly LedgerEvent[],
): Record<string, string> {
  const rollovers = events.filter(isRollover);
  const figures = Object.entries(balances).map(([scope, text]): [string, string] => {
    const [remaining = 0, reserved, spent = 0, debt] = text.split(' ').map(Number);
    const own = rollovers.filter(({ fields }) => fields['sc'] === scope);
    const spentBefore = own.reduce((sum, { fields }) => sum + Number(fields['previous_spent']), 0);
    const allocated = own.length * ALLOCATED;
    return [scope, `${remaining - allocated} ${reserved} ${spent + spentBefore} ${debt}`];
  });
  return Object.fromEntries(figures);
}

function nameOf({ fields }: LedgerEvent): string {
  return `${fields['ty']} ${fields['reservation_id'] ?? fields['event_id'] ?? fields['new_allocated']}`;
}

function leaseOf(record: Readonly<Record<string, string>>): string {
  return `${record['st']} ${record['am']} until ${record['ex']}`;
}

function expectedHolds(load: JournaledLoad): Record<string, string> {
  const holds = new Map<Entry, { state: string; until: number }>();
  const abandoned = new Set(load.abandoned);
  for (const entry of load.acknowledged) {
    if (entry.kind === 'reserve') {
      holds.set(entry, {
        state: abandoned.has(entry) ? 'EXPIRED' : 'ACTIVE',
        until: entry.answer.expires_at_ms,
      });
    }
    const told = entry.hold === undefined ? undefined : holds.get(entry.hold);
    if (told !== undefined && entry.kind === 'extend') {
      told.until = entry.answer.expires_at_ms;
    } else if (told !== undefined) {
      told.state = entry.kind === 'commit' ? 'COMMITTED' : 'RELEASED';
    }
  }
  const pairs = [...holds].map(([{ answer, body }, { state, until }]) => [
    answer.reservation_id,
    `${state} ${body.estimate.amount} until ${until}`,
  ]);
  return Object.fromEntries(pairs) as Record<string, string>;
}

function expectedEvents(load: JournaledLoad): string[] {
  const abandoned = new Set(load.abandoned);
  return load.acknowledged.flatMap((entry) => {
    const { kind, body, hold, answer } = entry;
    switch (kind) {
      case 'debit':
        return [`custom.direct_debit.applied ${answer.event_id}`];
      case 'fund':
        return [`budget.funded ${answer.new_allocated.amount}`];
      case 'commit':
        return body.actual.amount > hold?.body.estimate.amount
          ? [`reservation.commit_overage ${hold?.answer.reservation_id}`]
          : [];
      case 'reserve':
        return abandoned.has(entry) ? [`reservation.expired ${answer.reservation_id}`] : [];
      default:
        return [];
    }
  });
}
