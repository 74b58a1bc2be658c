import { INT64_MAX, INT64_MIN } from '../../src/ledger/amount.js';
import { atLeastZero, isOver, smaller, type ModelBudget, type ModelPeriod } from './model-records.js';

/** How many rollovers of one run have their own event. The last of them covers all remaining boundaries. */
const MOST_TOLD = 8;

/** A budget after a rollover across this many boundaries. */
interface Rollover {
  readonly budget: ModelBudget;
  readonly periods: number;
}

/** The periods that have begun since the budget's own, oldest first. */
function periodsUntil(period: ModelPeriod, now: number): ModelPeriod[] {
  const found: ModelPeriod[] = [];
  let last = period;
  while (last.ends <= now) {
    const { starts, ends, plan } = last;
    const next = plan === undefined ? ends + (ends - starts) : plan[0];
    if (next === undefined) {
      break;
    }
    last = { ...last, starts: ends, ends: next, plan: plan?.slice(1) };
    found.push(last);
  }
  return found;
}

/** The table of docs/budgets.md, limited to int64. */
function allocationOf({ policy, allocation }: ModelPeriod, unspent: bigint): bigint {
  const carried = { NONE: 0n, CARRY_FORWARD: unspent, CAP_AT_ALLOCATED: smaller(unspent, allocation) }[
    policy
  ];
  return smaller(allocation + carried, INT64_MAX);
}

/** The budget at the start of the given period. */
function startOf(period: ModelPeriod, budget: ModelBudget, reserved: bigint): ModelBudget {
  const unspent = budget.allocated - budget.spent;
  const remaining = unspent - reserved - budget.debt;
  const planned = allocationOf(period, atLeastZero(unspent));
  // An allocation that would exceed int64 is not made; everything unspent is kept.
  const allocated = planned - reserved - budget.debt < INT64_MIN ? unspent : planned;
  const left = allocated - reserved - budget.debt;
  const isFunded = left > 0n || left > remaining;
  const next = { ...budget, period, allocated, spent: 0n, marked: budget.marked && !isFunded };
  return { ...next, marked: isOver(next) };
}

/**
 * The states of a budget after each rollover up to now, oldest first. A due rollover is made by the first
 * script that needs the budget.
 */
export function rolloversUntil(budget: ModelBudget, reserved: bigint, now: number): Rollover[] {
  if (budget.period === undefined || budget.status === 'CLOSED') {
    return [];
  }
  const rollovers: Rollover[] = [];
  let [state, passed] = [budget, 0];
  const periods = periodsUntil(budget.period, now);
  for (const [index, period] of periods.entries()) {
    [state, passed] = [startOf(period, state, reserved), passed + 1];
    if (index < MOST_TOLD - 1 || index === periods.length - 1) {
      rollovers.push({ budget: state, periods: passed });
      passed = 0;
    }
  }
  return rollovers;
}

export const isRollover = (event: string): boolean => /^budget\.reset_spent \S+ \S+ \S+ \d/.test(event);

/** The events of a rollover, in the form of readings.ts. */
export function rolloverEvents(
  former: ModelBudget,
  { budget, periods }: Rollover,
  reserved: bigint,
): string[] {
  const { scope, unit, period } = budget;
  const owner = scope.split('/')[0]?.slice('tenant:'.length) as string;
  const remainingOf = ({ allocated, spent, debt }: ModelBudget): bigint =>
    allocated - spent - reserved - debt;
  const figuresOf = (state: ModelBudget): string =>
    [state.allocated, remainingOf(state), state.spent, state.debt, reserved].join();
  const events = [
    `budget.reset_spent ${owner} ${scope} ${unit} ${figuresOf(former)} ${figuresOf(budget)} ` +
      `${former.period?.starts} ${former.period?.ends} ${period?.starts} ${period?.ends} ${period?.policy} ${periods}`,
  ];
  if (isOver(former) !== isOver(budget)) {
    events.push(`budget.over_limit_${isOver(budget) ? 'entered' : 'exited'} ${owner} ${scope} -`);
  }
  if (remainingOf(former) > 0n && remainingOf(budget) <= 0n) {
    events.push(`budget.exhausted ${owner} ${scope} -`);
  }
  return events;
}
