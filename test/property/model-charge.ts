import { INT64_MAX, INT64_MIN } from '../../src/ledger/amount.js';
import {
  atLeastZero,
  isOver,
  reservedIn,
  shortOf,
  smaller,
  type DebitRequest,
  type ModelBudget,
  type ModelHold,
} from './model-records.js';
import { chargedWindows, roomOf } from './model-windows.js';

/** What is charged: a hold, or a direct debit, which counts as a hold of 0. */
type Charged = Pick<ModelHold, 'id' | 'tenant' | 'unit' | 'amount' | 'policy' | 'budgets'>;

interface Effect {
  readonly budget: ModelBudget;
  readonly before: bigint;
  readonly after: bigint;
  readonly unfunded: bigint;
  readonly capped: boolean;
}

export interface Charge {
  /** Charged, released, unit, policy, overage and the debt over all scopes, in the order of the reply. */
  readonly figures: string[];
  readonly events: string[];
}

/**
 * The effect of a charge on each budget, before anything changes: CommitOveragePolicy of cycles-protocol-v0.
 */
function effectsOf(
  { amount, policy, budgets }: Charged,
  overage: bigint,
  actual: bigint,
  remainingOf: (budget: ModelBudget) => bigint,
): { charged: bigint; effects: Effect[] } {
  const caps = (budget: ModelBudget): boolean =>
    policy === 'ALLOW_IF_AVAILABLE' || budget.overdraftLimit === 0n;
  const short = overage > 0n ? budgets.filter((budget) => caps(budget) && remainingOf(budget) < overage) : [];
  const rooms = budgets.flatMap((budget) => {
    const reserved = reservedIn(budget, remainingOf(budget));
    return (budget.windows ?? []).map((window) => roomOf(window, reserved));
  });
  const granted = [...short.map(remainingOf), ...rooms].reduce(
    (least, room) => smaller(least, atLeastZero(room)),
    overage,
  );
  const delta = overage > 0n ? granted : actual - amount;
  const effects = budgets.map((budget) => {
    const before = remainingOf(budget);
    const unfunded = caps(budget) ? 0n : atLeastZero(granted - atLeastZero(before));
    return { budget, before, after: before - delta, unfunded, capped: short.includes(budget) };
  });
  return { charged: amount + delta, effects };
}

/**
 * Charges the budgets, or returns the refusal and changes nothing. Calls `settled` in between, after which
 * the hold no longer counts as reserved.
 */
function charge(
  item: Charged,
  actual: bigint,
  remainingOf: (budget: ModelBudget) => bigint,
  settled: () => void,
): Charge | string[] {
  const { amount, policy, tenant } = item;
  const overage = atLeastZero(actual - amount);
  const { charged, effects } = effectsOf(item, overage, actual, remainingOf);
  for (const { budget, unfunded, after } of effects) {
    if (unfunded > 0n && budget.debt + unfunded > budget.overdraftLimit) {
      return ['OVERDRAFT_LIMIT_EXCEEDED', budget.scope];
    }
    const isFull = budget.windows !== undefined && chargedWindows(budget.windows, charged) === undefined;
    if (after < INT64_MIN || after > INT64_MAX || budget.spent + charged - unfunded > INT64_MAX || isFull) {
      return ['INT64_OVERFLOW', budget.scope];
    }
  }
  settled();
  const events: string[] = [];
  for (const { budget, before, after, unfunded, capped } of effects) {
    const wasOver = isOver(budget);
    budget.spent += charged - unfunded;
    budget.charged = (budget.charged ?? 0n) + charged;
    budget.debt += unfunded;
    budget.marked ||= capped;
    budget.windows &&= chargedWindows(budget.windows, charged) ?? [];
    if (unfunded > 0n) {
      events.push(`budget.debt_incurred ${tenant} ${budget.scope} ${item.id}`);
    }
    if (!wasOver && isOver(budget)) {
      events.push(`budget.over_limit_entered ${tenant} ${budget.scope} -`);
    }
    if (before > 0n && after <= 0n) {
      events.push(`budget.exhausted ${tenant} ${budget.scope} ${item.id}`);
    }
  }
  const debt = smaller(
    effects.reduce((sum, { unfunded }) => sum + unfunded, 0n),
    INT64_MAX,
  );
  return {
    figures: [charged, atLeastZero(amount - actual), item.unit, policy, overage, debt].map(String),
    events,
  };
}

/** Commits a hold: changes it and its budgets, or returns the refusal and changes nothing. */
export function chargeHold(
  hold: ModelHold,
  actual: bigint,
  remainingOf: (budget: ModelBudget) => bigint,
): Charge | string[] {
  if (actual > hold.amount && hold.policy === 'REJECT') {
    return ['BUDGET_EXCEEDED', (hold.budgets.at(-1) as ModelBudget).scope];
  }
  const outcome = charge(hold, actual, remainingOf, () => {
    hold.state = 'COMMITTED';
  });
  if (!Array.isArray(outcome) && actual > hold.amount) {
    outcome.events.push(`reservation.commit_overage ${hold.tenant} ${hold.leaf} ${hold.id}`);
  }
  return outcome;
}

/**
 * Charges an amount that was never held. REJECT refuses unless it remains everywhere; if it does, every
 * policy charges it in full.
 */
export function chargeDebit(
  { tenant, unit, actual }: DebitRequest,
  policy: string,
  budgets: readonly ModelBudget[],
  remainingOf: (budget: ModelBudget) => bigint,
): Charge | string[] {
  const short = shortOf(budgets, actual, remainingOf);
  if (short !== undefined && policy === 'REJECT') {
    return short;
  }
  const item = {
    id: '-',
    tenant,
    unit,
    amount: 0n,
    policy: short === undefined ? 'ALLOW_IF_AVAILABLE' : policy,
    budgets,
  };
  return charge(item, actual, remainingOf, () => undefined);
}
