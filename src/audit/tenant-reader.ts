import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import {
  budgetIndexKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  type Reply,
  reservationIndexKey,
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

/** Reads a tenant's budgets and reservations in small steps that block nobody, and changes nothing. */
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
      const [nowMs, next = '', ...rows] = await this.redis.queries.run(
        'verify_budgets',
        [index],
        [after, BUDGETS_A_RUN],
      );
      atMs = Number(nowMs);
      for (let start = 0; start < rows.length; start += FIGURES.length + 2) {
        const [member = '', ...values] = rows.slice(start, start + FIGURES.length + 2);
        const [scope, unit] = member.split(' ');
        const figures = Object.fromEntries(
          FIGURES.map((name, place) => [name, amountOf(values[place])]),
        ) as Reading['figures'];
        const reading = { atMs, figures, status: values[FIGURES.length] ?? '' };
        put(readings, `${unit} ${scope}`, reading);
      }
      after = next;
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
      const reply = await this.redis.queries.run(
        'verify_holds',
        [index],
        [walkedMs, walkedId, EXAMINED_A_RUN, firstMs, lastMs, ...names],
      );
      [walkedMs, walkedId] = [reply[0] ?? '', reply[1] ?? ''];
      take(reply, found);
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

/** Adds one run's reply: its form stands in lua/verify_holds.lua. */
function take(reply: Reply, found: WalkedHolds): void {
  let at = 2;
  const next = (): string => reply[at++] as string;
  for (let left = Number(next()); left > 0; left -= 1) {
    const budget = next();
    at += 1;
    found.steady.set(budget, (found.steady.get(budget) ?? 0n) + BigInt(next()));
  }
  for (let left = Number(next()); left > 0; left -= 1) {
    at += 1;
    const [born, ended, amount] = [next(), next(), next()];
    const hold = {
      bornMs: Number(born),
      endedMs: ended === '' ? undefined : Number(ended),
      amount: BigInt(amount),
    };
    for (let budgets = Number(next()); budgets > 0; budgets -= 1) {
      put(found.moving, next(), hold);
    }
  }
  for (let left = Number(next()); left > 0; left -= 1) {
    found.unreadable.push({ reservationId: next(), reason: next(), quarantined: next() === '1' });
  }
  for (let left = Number(next()); left > 0; left -= 1) {
    const hold = { reservationId: next(), amount: BigInt(next()), quarantined: next() === '1' };
    put(found.named, next(), hold);
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
