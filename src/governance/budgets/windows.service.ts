import { Injectable } from '@nestjs/common';
import { ArrayMaxSize, ArrayMinSize } from 'class-validator';
import type { Caller } from '../../auth/index.js';
import { invalidField, parseAmount, type Unit } from '../../ledger/index.js';
import { budgetKey, Records, RedisService } from '../../redis/index.js';
import { type Fields, Matches, Nested, NestedArray, type Origin, timeOf } from '../../wire/index.js';
import { AmountDto, type BudgetLookupQueryDto } from './budget.dto.js';
import { budgetOf, budgetRefusal, ownedScope, requireUnit, type UnitAmount } from './budget.js';
import {
  type RecurrenceMembers,
  recurrenceMembers,
  recurrenceOf,
  WindowRecurrenceDto,
} from './recurrence.dto.js';
import { parseRecurrence, type Recurrence, recurrenceText } from './recurrence.js';
import { nextBoundaries, RecurrenceService } from './recurrence.service.js';

/** Each request that charges a budget reads and writes all of its windows. */
export const MOST_WINDOWS = 4;

/** One window of a budget, such as its day: what may be used in it, and when the next one begins. */
export class BudgetWindowDto extends WindowRecurrenceDto {
  @Matches(/^[a-z0-9][a-z0-9_-]{0,31}$/)
  name!: string;

  @Nested(() => AmountDto)
  limit!: AmountDto;
}

export class BudgetWindowsDto {
  @ArrayMinSize(1)
  @ArrayMaxSize(MOST_WINDOWS)
  @NestedArray(() => BudgetWindowDto)
  windows!: BudgetWindowDto[];
}

/** One window of a budget, as /ops/budgets/windows shows it. The rule is absent if its time zone is not known any more. */
export interface BudgetWindow extends Partial<RecurrenceMembers> {
  readonly name: string;
  readonly limit: UnitAmount;
  readonly spent: UnitAmount;
  /** limit - spent - what the budget holds. */
  readonly remaining: UnitAmount;
  readonly starts_at: string;
  readonly ends_at: string;
  readonly next_boundaries: readonly string[];
}

export interface BudgetWindows {
  readonly scope: string;
  readonly unit: Unit;
  readonly windows: readonly BudgetWindow[];
}

/**
 * The rules of a budget's windows.
 * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH
 */
export function windowRules(windows: readonly BudgetWindowDto[], unit: Unit): Recurrence[] {
  if (new Set(windows.map(({ name }) => name)).size < windows.length) {
    throw invalidField('windows', 'each window needs a name of its own');
  }
  return windows.map((window, index) => {
    requireUnit(unit, `windows[${index}].limit`, window.limit);
    return recurrenceOf(window, `windows[${index}].`);
  });
}

/** Further limits of a budget, each for a window of the calendar. lua/lib/window_record.lua says how they count. */
@Injectable()
export class WindowsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly recurrences: RecurrenceService,
  ) {}

  /** @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND. */
  async read(caller: Caller, { scope: scopeText, unit }: BudgetLookupQueryDto): Promise<BudgetWindows> {
    const { scope, tenantId } = ownedScope(caller, scopeText);
    const key = budgetKey(this.records.tagOfTenant(tenantId), unit, scope);
    const reply = await this.redis.scripts.call('get_budget', { budget: key }, { scope });
    if (reply.status !== 'FOUND') {
      throw budgetRefusal(reply.status, scope, unit);
    }
    return windowsOf(reply.record, scope, unit);
  }

  /**
   * Replaces the windows of a budget. One whose name stays keeps what is spent in it.
   * @throws Refusal INVALID_REQUEST, UNIT_MISMATCH, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED.
   */
  async set(
    caller: Caller,
    query: BudgetLookupQueryDto,
    { windows }: BudgetWindowsDto,
    origin: Origin,
  ): Promise<BudgetWindows> {
    const rules = windowRules(windows, query.unit);
    const plans = await this.recurrences.plan(rules);
    const rest = windows.flatMap(({ name, limit }, index) => [
      name,
      limit.amount.toString(),
      recurrenceText(rules[index] as Recurrence),
      String(plans[index]),
    ]);
    return this.change(caller, query, origin, rest);
  }

  /** @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED. */
  remove(caller: Caller, query: BudgetLookupQueryDto, origin: Origin): Promise<BudgetWindows> {
    return this.change(caller, query, origin, []);
  }

  private async change(
    caller: Caller,
    { scope: scopeText, unit }: BudgetLookupQueryDto,
    origin: Origin,
    rest: readonly string[],
  ): Promise<BudgetWindows> {
    const { scope, tenantId } = ownedScope(caller, scopeText);
    const reply = await this.redis.scripts.call(
      'set_windows',
      { budget: budgetKey(this.records.tagOfTenant(tenantId), unit, scope) },
      { tenantId, scope, unit, ...origin, rest },
    );
    if (reply.status !== 'CHANGED') {
      throw budgetRefusal(reply.status, scope, unit);
    }
    return windowsOf(reply.record, scope, unit);
  }
}

/** @throws Error when the record is corrupt. */
function windowsOf(fields: Fields, scope: string, unit: Unit): BudgetWindows {
  const reserved = budgetOf(fields, scope, unit).reserved.amount;
  const rules = (fields.get('window_rules') ?? '').split('|');
  const stored = fields.get('windows')?.split(' ') ?? [];
  return {
    scope,
    unit,
    windows: stored.map((text, index) => {
      const [name = '', limitText, spentText, starts = '', ends = ''] = text.split(',');
      const [limit, spent] = [parseAmount(limitText), parseAmount(spentText)];
      const rule = parseRecurrence(rules[index] ?? '');
      return {
        name,
        limit: { unit, amount: limit },
        spent: { unit, amount: spent },
        remaining: { unit, amount: limit - spent - reserved },
        ...(rule !== undefined && recurrenceMembers(rule)),
        starts_at: timeOf(starts),
        ends_at: timeOf(ends),
        next_boundaries: rule === undefined ? [timeOf(ends)] : nextBoundaries(rule, Number(ends)),
      };
    }),
  };
}
