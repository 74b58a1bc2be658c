import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import {
  budgetIndexKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  reservationIndexKey,
  type ScriptReply,
  tagOf,
} from '../redis/index.js';
import { FIGURES, type MovingHold, type Reading } from './reconciliation.js';

/** Budgets that one script reads. */
const BUDGETS_A_RUN = 200;
/** Reservations that one script examines: one or two milliseconds of Redis' time, during which every other request waits. */
const EXAMINED_A_RUN = 100;
/** Longer than a millisecond, so that two readings never have the same instant. */
const PAUSE_MS = 3;

const AMOUNT = /^-?\d{1,19}$/;

/** A budget as `unit scope`. */
export type BudgetName = string;

export interface NamedHold {
  readonly reservationId: string;
  readonly amount: bigint;
  readonly quarantined: boolean;
}

export interface UnreadableHold {
  readonly reservationId: string;
  readonly reason: string;
  readonly quarantined: boolean;
}

export interface BudgetReadings {
  readonly readings: ReadonlyMap<BudgetName, readonly Reading[]>;
  /** The instants of the first and of the last reading. */
  readonly firstMs: number;
  readonly lastMs: number;
}

/** The result of walking a tenant's reservations; see reconciliation.ts. */
export interface WalkedHolds {
  readonly steady: Map<BudgetName, bigint>;
  readonly moving: Map<BudgetName, MovingHold[]>;
  /** Live reservations of the budgets requested by name. */
  readonly named: Map<BudgetName, NamedHold[]>;
  readonly unreadable: UnreadableHold[];
}

/** Reads a tenant's budgets and reservations in small steps, so that other requests are not blocked. Changes nothing. */
@Injectable()
export class TenantReader {
  constructor(private readonly redis: RedisService) {}

  /** Reads every budget of the tenant `rounds` times. */
  async readBudgets(tenantId: string, rounds: number): Promise<BudgetReadings> {
    const readings = new Map<BudgetName, Reading[]>();
    let [firstMs, lastMs] = [Infinity, 0];
    for (let round = 0; round < rounds; round += 1) {
      if (round > 0) {
        await delay(PAUSE_MS);
      }
      lastMs = await this.readOnce(tenantId, readings);
      firstMs = Math.min(firstMs, lastMs);
    }
    for (const { atMs } of [...readings.values()].flat()) {
      firstMs = Math.min(firstMs, atMs);
    }
    return { readings, firstMs, lastMs };
  }

  private async readOnce(tenantId: string, readings: Map<BudgetName, Reading[]>): Promise<number> {
    const index = budgetIndexKey(tagOfTenant(tenantId, this.redis.partitions), tenantId);
    let [after, atMs] = ['', 0];
    do {
      const { nowMs, next, budgets } = await this.redis.queries.call(
        'verify_budgets',
        { budgetIndex: index },
        { after, limit: BUDGETS_A_RUN },
      );
      atMs = nowMs;
      for (const { budget, status = '', ...stored } of budgets) {
        const [scope, unit] = budget.split(' ');
        const figures = Object.fromEntries(
          FIGURES.map((name) => [name, amountOf(stored[name])]),
        ) as Reading['figures'];
        put(readings, `${unit} ${scope}`, { atMs, figures, status });
      }
      after = next ?? '';
    } while (after !== '');
    return atMs;
  }

  /** Walks all reservations of the tenant and sums up what was live during the readings from `firstMs` to `lastMs`. */
  async walkHolds(
    tenantId: string,
    firstMs: number,
    lastMs: number,
    names: readonly BudgetName[],
  ): Promise<WalkedHolds> {
    const index = reservationIndexKey(tagOfTenant(tenantId, this.redis.partitions), tenantId);
    const found: WalkedHolds = { steady: new Map(), moving: new Map(), named: new Map(), unreadable: [] };
    let [walkedMs, walkedId] = ['', ''];
    do {
      const run = await this.redis.queries.call(
        'verify_holds',
        { reservationIndex: index },
        { walkedMs, walkedId, examine: EXAMINED_A_RUN, firstMs, lastMs, rest: names },
      );
      [walkedMs, walkedId] = [run.walkedMs ?? '', run.walkedId ?? ''];
      addRun(run, found);
    } while (walkedMs !== '');
    return found;
  }
}

function tagOfTenant(tenantId: string, partitions: number): string {
  return tagOf(partitionCode(partitionOfTenant(tenantId, partitions)));
}

function amountOf(text: string | undefined): bigint | undefined {
  return text !== undefined && AMOUNT.test(text) ? BigInt(text) : undefined;
}

function addRun(run: ScriptReply<'verify_holds'>, found: WalkedHolds): void {
  for (const { budget, amount } of run.sums) {
    found.steady.set(budget, (found.steady.get(budget) ?? 0n) + BigInt(amount));
  }
  for (const { bornMs, endedMs, amount, budgets } of run.moving) {
    const hold = { bornMs, endedMs, amount: BigInt(amount) };
    budgets.forEach((budget) => put(found.moving, budget, hold));
  }
  found.unreadable.push(...run.unreadable);
  for (const { reservationId, amount, quarantined, budget } of run.named) {
    put(found.named, budget, { reservationId, amount: BigInt(amount), quarantined });
  }
}

function put<Value>(lists: Map<string, Value[]>, name: string, value: Value): void {
  const list = lists.get(name);
  if (list === undefined) {
    lists.set(name, [value]);
  } else {
    list.push(value);
  }
}
