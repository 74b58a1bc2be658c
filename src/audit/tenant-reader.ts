import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import {
  budgetIndexKey,
  RedisService,
  reservationIndexKey,
  type ScriptReply,
  tagOfTenant,
} from '../redis/index.js';

/**
 * Decides whether a budget's `reserved` equals the sum of its live reservations, while both keep changing.
 *
 * First the budgets are read several times, each time at an instant T by the time of Redis. Then the tenant's reservations are walked
 * in batches while traffic continues. What was live at T can still be determined: records of ended reservations stay, with the instants
 * of their creation and end, and amounts never change. The only uncertainty is about reservations created or ended in the same
 * millisecond as T: the budget that was read may or may not include them. After Redis' clock has stepped back, that holds for all that
 * were created or ended since the first reading, as far as their instants tell. So each reading gives a range for the drift, from all of them
 * included to none. The true drift is in the ranges of all readings. If all ranges include 0, no drift is proven and none is reported.
 */
export interface Reading {
  readonly atMs: number;
  /** Undefined where the budget's record has no valid figure. */
  readonly figures: Readonly<Record<Figure, bigint | undefined>>;
  readonly status: string;
  /** What is wrong with the budget's period, as lua/audit/verify_budgets.lua names it. */
  readonly periodDefect?: string | undefined;
  /** Likewise with its credits. */
  readonly creditDefect?: string | undefined;
}

export const FIGURES = ['remaining', 'reserved', 'spent', 'allocated', 'debt'] as const;
export type Figure = (typeof FIGURES)[number];

/** A reservation created or ended since the first reading of the budgets. */
export interface MovingHold {
  readonly bornMs: number;
  /** Undefined while it lives. */
  readonly endedMs: number | undefined;
  readonly amount: bigint;
}

export interface Holds {
  /** The sum of the holds that were live during all readings. */
  readonly steady: bigint;
  readonly moving: readonly MovingHold[];
  /** Whether the instants of `moving` cannot be trusted, because Redis' clock has stepped back. */
  readonly isUntimed?: boolean;
}

export interface Drift {
  readonly kind: 'RESERVED' | 'INVARIANT' | 'UNREADABLE_BUDGET' | 'MISSING_BUDGET' | 'PERIOD' | 'CREDITS';
  readonly stored?: Reading;
  /** RESERVED: the sum of the live reservations. INVARIANT: what `remaining` should be. */
  readonly expected?: bigint;
}

/** What is wrong with one budget. */
export function driftOf(readings: readonly Reading[], holds: Holds): Drift | undefined {
  const last = readings.at(-1);
  if (last === undefined) {
    return { kind: 'MISSING_BUDGET', expected: holds.steady };
  }
  const unreadable = readings.find(({ figures }) => FIGURES.some((name) => figures[name] === undefined));
  if (unreadable !== undefined) {
    return { kind: 'UNREADABLE_BUDGET', stored: unreadable };
  }
  const unbalanced = readings.find((reading) => figure(reading, 'remaining') !== remainingOf(reading));
  if (unbalanced !== undefined) {
    return { kind: 'INVARIANT', stored: unbalanced, expected: remainingOf(unbalanced) };
  }
  let [low, high]: [bigint | undefined, bigint | undefined] = [undefined, undefined];
  for (const reading of readings) {
    const [certain, possible] = liveAt(reading.atMs, holds);
    const drift = figure(reading, 'reserved') - certain;
    high = high === undefined || drift < high ? drift : high;
    low = low === undefined || drift - possible > low ? drift - possible : low;
  }
  const [least, most] = [low as bigint, high as bigint];
  if (least <= 0n && most >= 0n) {
    if (last.periodDefect !== undefined) {
      return { kind: 'PERIOD', stored: last };
    }
    return last.creditDefect === undefined ? undefined : { kind: 'CREDITS', stored: last };
  }
  return { kind: 'RESERVED', stored: last, expected: figure(last, 'reserved') - (least > 0n ? least : most) };
}

/** The sum of holds that were certainly live at an instant, and of those that may have been. */
function liveAt(
  atMs: number,
  { steady, moving, isUntimed = false }: Holds,
): [certain: bigint, possible: bigint] {
  let [certain, possible] = [steady, 0n];
  for (const { bornMs, endedMs = Infinity, amount } of moving) {
    if (isUntimed) {
      possible += amount;
    } else if (bornMs < atMs && endedMs > atMs) {
      certain += amount;
    } else if (bornMs <= atMs && endedMs >= atMs) {
      possible += amount;
    }
  }
  return [certain, possible];
}

function figure({ figures }: Reading, name: Figure): bigint {
  return figures[name] as bigint;
}

function remainingOf(reading: Reading): bigint {
  return (
    figure(reading, 'allocated') -
    figure(reading, 'spent') -
    figure(reading, 'reserved') -
    figure(reading, 'debt')
  );
}

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
  /** The instant of the first reading. */
  readonly firstMs: number;
}

/** The result of walking a tenant's reservations; see verify.service.ts. */
export interface WalkedHolds {
  /** Whether Redis' clock has stepped back from instants that are still to come. */
  hasStepped: boolean;
  readonly steady: Map<BudgetName, bigint>;
  readonly moving: Map<BudgetName, MovingHold[]>;
  /** Live reservations of the budgets requested by name. */
  readonly named: Map<BudgetName, NamedHold[]>;
  readonly unreadable: UnreadableHold[];
  /** The reservations that ended after `passedMs`, by id, and when. */
  readonly ended: Map<string, number>;
}

/** Reads a tenant's budgets and reservations in small steps, so that other requests are not blocked. Changes nothing. */
@Injectable()
export class TenantReader {
  constructor(private readonly redis: RedisService) {}

  /** Reads every budget of the tenant `rounds` times. */
  async readBudgets(tenantId: string, rounds: number): Promise<BudgetReadings> {
    const readings = new Map<BudgetName, Reading[]>();
    let firstMs = Infinity;
    for (let round = 0; round < rounds; round += 1) {
      if (round > 0) {
        await delay(PAUSE_MS);
      }
      firstMs = Math.min(firstMs, await this.readOnce(tenantId, readings));
    }
    for (const { atMs } of [...readings.values()].flat()) {
      firstMs = Math.min(firstMs, atMs);
    }
    return { readings, firstMs };
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
      for (const { budget, status = '', periodDefect, creditDefect, ...stored } of budgets) {
        const [scope, unit = ''] = budget.split(' ');
        const figures = Object.fromEntries(
          FIGURES.map((name) => [name, amountOf(stored[name])]),
        ) as Reading['figures'];
        put(readings, `${unit} ${scope}`, { atMs, figures, status, periodDefect, creditDefect });
      }
      after = next ?? '';
    } while (after !== '');
    return atMs;
  }

  /**
   * Walks all reservations of the tenant and sums up what was live during the readings, which began at `firstMs`. Lists those that ended
   * after `passedMs`.
   */
  async walkHolds(
    tenantId: string,
    firstMs: number,
    passedMs: number,
    names: readonly BudgetName[],
  ): Promise<WalkedHolds> {
    const index = reservationIndexKey(tagOfTenant(tenantId, this.redis.partitions), tenantId);
    const found: WalkedHolds = {
      hasStepped: false,
      steady: new Map(),
      moving: new Map(),
      named: new Map(),
      unreadable: [],
      ended: new Map(),
    };
    let [walkedMs, walkedId] = ['', ''];
    do {
      const run = await this.redis.queries.call(
        'verify_holds',
        { reservationIndex: index },
        { walkedMs, walkedId, examine: EXAMINED_A_RUN, firstMs, passedMs, rest: names },
      );
      [walkedMs, walkedId] = [run.walkedMs ?? '', run.walkedId ?? ''];
      addRun(run, found);
    } while (walkedMs !== '');
    return found;
  }
}

function amountOf(text: string | undefined): bigint | undefined {
  return text !== undefined && AMOUNT.test(text) ? BigInt(text) : undefined;
}

function addRun(run: ScriptReply<'verify_holds'>, found: WalkedHolds): void {
  found.hasStepped ||= run.hasStepped;
  for (const { budget, amount } of run.sums) {
    found.steady.set(budget, (found.steady.get(budget) ?? 0n) + BigInt(amount));
  }
  for (const { bornMs, endedMs, amount, budgets } of run.moving) {
    const hold = { bornMs, endedMs, amount: BigInt(amount) };
    budgets.forEach((budget) => put(found.moving, budget, hold));
  }
  found.unreadable.push(...run.unreadable);
  run.ended.forEach(({ reservationId, endedMs }) => found.ended.set(reservationId, endedMs));
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
