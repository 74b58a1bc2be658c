import { budgetKey, periodIndexKey } from '../../../src/redis/keyspace.js';
import { isRollover } from '../exactly-once.js';
import { expectStatus, type HoldfastClient } from '../holdfast.js';
import type { LedgerEvent } from '../ledger-state.js';
import type { StoreClient } from '../store.js';

const HOUR_MS = 3_600_000;

/**
 * Gives a budget a recurrence, and moves its planned boundaries so that the next ones are seconds away.
 * @returns the boundaries, in ms of Redis' time
 */
export async function shortenPeriods(
  client: HoldfastClient,
  redis: StoreClient,
  { tag, scope }: { tag: string; scope: string },
  lengthsMs: readonly number[],
): Promise<number[]> {
  const body = { every: 'day', time_zone: 'UTC', rollover_policy: 'CARRY_FORWARD' };
  expectStatus(await client.admin('PUT', `/ops/budgets/recurrence?scope=${scope}&unit=TOKENS`, body), 200);
  const key = budgetKey(tag, 'TOKENS', scope);
  let instant = Number(await redis.hget(key, 'period_start'));
  const ends = lengthsMs.map((ms) => (instant += ms));
  const [first = 0, ...later] = ends;
  await redis.hset(key, 'period_end', first, 'boundaries', [...later, instant + HOUR_MS].join());
  await redis.zadd(periodIndexKey(tag), first, `${scope} TOKENS`);
  return ends;
}

/** The ends of periods that a budget's events report, in the order of the log. */
export function endsTold(events: readonly LedgerEvent[], scope: string): number[] {
  return events
    .filter((event) => isRollover(event) && event.fields['sc'] === scope)
    .map(({ fields }) => Number(fields['previous_period_end']));
}
