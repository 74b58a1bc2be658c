import type { Unit } from '../ledger/index.js';
import {
  partitionOfTenant,
  type RecordKind,
  type RedisService,
  type ScriptReply,
  SkippedNames,
  type SkippedRecords,
  SYSTEM_OWNER,
  tagOfPartition,
  tenantIndexKey,
} from '../redis/index.js';

/** Records per run of the script: about a millisecond of Redis time. */
const RECORDS_A_RUN = 250;
/** Partitions counted concurrently. Only a cluster runs several queries at a time. */
const PARTITIONS_AT_ONCE = 4;

type Counted = ScriptReply<'census'>;
export type NotableBudget = Counted['budgets'][number];
export type FailingWebhook = Counted['webhooks'][number];
export type UsedQuota = Counted['quotas'][number];

/** What the topmost budgets of a tenant have in a unit: those below them have the same charges and holds again. */
export interface Sums {
  readonly allocated: bigint;
  readonly spent: bigint;
  readonly reserved: bigint;
  readonly debt: bigint;
}

/** Everything that the overview counts, and the budgets and subscriptions that need attention, the worst first. */
export interface Census {
  /** The time of Redis at its start. */
  readonly atMs: number;
  /** How many records were counted. */
  readonly examined: number;
  /** By the names in lua/overview/census.lua. */
  readonly counts: ReadonlyMap<string, number>;
  /** Of the topmost budgets, by tenant and unit. */
  readonly sums: ReadonlyMap<string, ReadonlyMap<Unit, Sums>>;
  readonly overLimit: readonly NotableBudget[];
  readonly indebted: readonly NotableBudget[];
  readonly failing: readonly FailingWebhook[];
  /** The counters of quotas that are used most in proportion to their limit. */
  readonly quotas: readonly UsedQuota[];
  /** The damaged records that it could not count as what they are. */
  readonly skipped: SkippedNames;
}

/** Keeps the first few of many in an order. */
class Top<T> {
  private rows: T[] = [];

  constructor(
    private readonly size: number,
    private readonly compare: (one: T, other: T) => number,
  ) {}

  offer(rows: readonly T[]): void {
    if (rows.length > 0) {
      this.rows = [...this.rows, ...rows].sort(this.compare).slice(0, this.size);
    }
  }

  get all(): readonly T[] {
    return this.rows;
  }
}

const byText = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

/** The highest debt first, without regard to units. */
function byDebt(one: NotableBudget, other: NotableBudget): number {
  const difference = BigInt(other.debt) - BigInt(one.debt);
  return difference === 0n
    ? byText(`${one.scope} ${one.unit}`, `${other.scope} ${other.unit}`)
    : difference > 0n
      ? 1
      : -1;
}

const byFailures = (one: FailingWebhook, other: FailingWebhook): number =>
  other.failures - one.failures || byText(one.subscriptionId, other.subscriptionId);

export const utilizationOf = ({ used, limit }: UsedQuota): number => used / Math.max(limit, 1);

const byUtilization = (one: UsedQuota, other: UsedQuota): number =>
  utilizationOf(other) - utilizationOf(one) ||
  byText(
    `${one.scope} ${one.actionKind} ${one.window}`,
    `${other.scope} ${other.actionKind} ${other.window}`,
  );

/** Counts all records of all partitions, in short runs. @throws StoreUnavailable */
export async function takeCensus(
  redis: RedisService,
  skipped: SkippedRecords,
  listed: number,
): Promise<Census> {
  const names = new SkippedNames();
  const counts = new Map<string, number>();
  const sums = new Map<string, Map<Unit, Sums>>();
  const overLimit = new Top<NotableBudget>(listed, byDebt);
  const indebted = new Top<NotableBudget>(listed, byDebt);
  const failing = new Top<FailingWebhook>(listed, byFailures);
  const quotas = new Top<UsedQuota>(listed, byUtilization);
  let [atMs, examined, next] = [Number.POSITIVE_INFINITY, 0, 0];
  const add = (reply: Counted): void => {
    for (const [name, number] of reply.counts) {
      counts.set(name, (counts.get(name) ?? 0) + Number(number));
    }
    for (const row of reply.sums) {
      const ofTenant = sums.get(row.tenantId) ?? new Map<Unit, Sums>();
      ofTenant.set(row.unit as Unit, sumOf(ofTenant.get(row.unit as Unit), row));
      sums.set(row.tenantId, ofTenant);
    }
    overLimit.offer(reply.budgets.filter(({ over }) => over));
    indebted.offer(reply.budgets.filter(({ debt }) => debt !== '0'));
    failing.offer(reply.webhooks);
    quotas.offer(reply.quotas);
    for (const { kind, record } of reply.damaged) {
      skipped.skip(kind as RecordKind, record);
      names.add(kind as RecordKind, record);
    }
    atMs = Math.min(atMs, reply.nowMs);
    examined += reply.examined;
  };
  const takeTurns = async (): Promise<void> => {
    while (next < redis.partitions) {
      const partition = next;
      next += 1;
      await countPartition(redis, partition, add);
    }
  };
  await Promise.all(Array.from({ length: PARTITIONS_AT_ONCE }, takeTurns));
  return {
    atMs,
    examined,
    counts,
    sums,
    overLimit: overLimit.all,
    indebted: indebted.all,
    failing: failing.all,
    quotas: quotas.all,
    skipped: names,
  };
}

function sumOf(sum: Sums | undefined, row: Counted['sums'][number]): Sums {
  const { allocated = 0n, spent = 0n, reserved = 0n, debt = 0n } = sum ?? {};
  return {
    allocated: allocated + BigInt(row.allocated),
    spent: spent + BigInt(row.spent),
    reserved: reserved + BigInt(row.reserved),
    debt: debt + BigInt(row.debt),
  };
}

async function countPartition(
  redis: RedisService,
  partition: number,
  add: (reply: Counted) => void,
): Promise<void> {
  const withSystem = partition === partitionOfTenant(SYSTEM_OWNER, redis.partitions) ? 1 : 0;
  const keys = { tenantIndex: tenantIndexKey(tagOfPartition(partition)) };
  let place = { tenant: '', kind: '', after: '' };
  do {
    const reply = await redis.queries.call('census', keys, { ...place, limit: RECORDS_A_RUN, withSystem });
    add(reply);
    const { nextTenant = '', nextKind = '', nextAfter = '' } = reply;
    place = { tenant: nextTenant, kind: nextKind, after: nextAfter };
  } while (place.tenant !== '');
}
