import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import type { Caller } from '../../auth/index.js';
import type { Unit } from '../../ledger/index.js';
import { budgetKey, Records, RedisService } from '../../redis/index.js';
import { fieldOf, type Fields, type Origin, timeOf } from '../../wire/index.js';
import type { BudgetLookupQueryDto } from './budget.dto.js';
import { budgetOf, budgetRefusal, ownedScope } from './budget.js';
import { type BudgetRecurrenceDto, recurrenceMembers, recurrenceOf } from './recurrence.dto.js';
import { boundariesAfter, parseRecurrence, type Recurrence, recurrenceText } from './recurrence.js';

const MARGIN_MS = 60_000;
const SHOWN = 5;

/** What /ops/budgets/recurrence shows. Everything but scope and unit is absent where a budget has no recurrence. */
export type BudgetRecurrence = Answer<'BudgetRecurrence'>;

@Injectable()
export class RecurrenceService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
  ) {}

  /** @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND. */
  async read(caller: Caller, { scope: scopeText, unit }: BudgetLookupQueryDto): Promise<BudgetRecurrence> {
    const { scope, tenantId } = ownedScope(caller, scopeText);
    const key = budgetKey(this.records.tagOfTenant(tenantId), unit, scope);
    const reply = await this.redis.scripts.call('get_budget', { budget: key }, { scope });
    if (reply.status !== 'FOUND') {
      throw budgetRefusal(reply.status, scope, unit);
    }
    return budgetRecurrenceOf(reply.record, scope, unit);
  }

  /**
   * Lets the budget's periods follow a calendar from the next boundary on. The current period ends there, and its figures do not change.
   * @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED.
   */
  async set(
    caller: Caller,
    query: BudgetLookupQueryDto,
    request: BudgetRecurrenceDto,
    origin: Origin,
  ): Promise<BudgetRecurrence> {
    const rule = recurrenceOf(request);
    const [plan = []] = await this.plan([rule]);
    return this.change(caller, query, origin, {
      recurrence: recurrenceText(rule),
      rolloverPolicy: request.rollover_policy ?? '',
      rest: plan.map(String),
    });
  }

  /**
   * Ends the periods of the budget: it keeps its figures, and does not roll over any more.
   * @throws Refusal INVALID_REQUEST, BUDGET_NOT_FOUND, TENANT_CLOSED, BUDGET_CLOSED.
   */
  remove(caller: Caller, query: BudgetLookupQueryDto, origin: Origin): Promise<BudgetRecurrence> {
    return this.change(caller, query, origin, { recurrence: '', rolloverPolicy: '', rest: [] });
  }

  /** The boundaries to come of each rule, from shortly before now, since a script decides which of them are to come. */
  async plan(rules: readonly Recurrence[]): Promise<number[][]> {
    const from = (await this.redis.clock.readLedgerMs()) - MARGIN_MS;
    return rules.map((rule) => boundariesAfter(rule, from));
  }

  private async change(
    caller: Caller,
    { scope: scopeText, unit }: BudgetLookupQueryDto,
    origin: Origin,
    recurrence: {
      readonly recurrence: string;
      readonly rolloverPolicy: string;
      readonly rest: readonly string[];
    },
  ): Promise<BudgetRecurrence> {
    const { scope, tenantId } = ownedScope(caller, scopeText);
    const reply = await this.redis.scripts.call(
      'set_recurrence',
      { budget: budgetKey(this.records.tagOfTenant(tenantId), unit, scope) },
      { tenantId, scope, unit, ...origin, ...recurrence },
    );
    if (reply.status !== 'CHANGED') {
      throw budgetRefusal(reply.status, scope, unit);
    }
    return budgetRecurrenceOf(reply.record, scope, unit);
  }
}

/** @throws Error when the record is corrupt. */
function budgetRecurrenceOf(fields: Fields, scope: string, unit: Unit): BudgetRecurrence {
  const { rollover_policy: policy, allocated, ...budget } = budgetOf(fields, scope, unit);
  const shown = { scope, unit, rollover_policy: policy };
  const rule = parseRecurrence(fields.get('recurrence') ?? '');
  if (rule === undefined) {
    return { ...shown, next_boundaries: [] };
  }
  const endMs = Number(fieldOf(fields, 'period_end'));
  return {
    ...shown,
    ...recurrenceMembers(rule),
    ...(budget.period_start !== undefined && { period_start: budget.period_start }),
    ...(budget.period_end !== undefined && { period_end: budget.period_end }),
    period_allocated: { unit, amount: BigInt(fields.get('period_allocated') ?? allocated.amount) },
    next_boundaries: nextBoundaries(rule, endMs),
  };
}

/** The end of the current period or window, and those after it. */
export function nextBoundaries(rule: Recurrence, endMs: number): string[] {
  return [endMs, ...boundariesAfter(rule, endMs, SHOWN - 1)].map((ms) => timeOf(String(ms)));
}
