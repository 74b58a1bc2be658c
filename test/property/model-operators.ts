import { BudgetModel } from './model-budgets.js';
import { isOver, type ModelBudget, type ModelPeriod } from './model-records.js';
import { type ModelWindow, planAtOf, windowAt } from './model-windows.js';

/**
 * What an operator requests: an overdraft limit, and possibly the end of a period with its rollover policy.
 */
export interface UpdateRequest {
  readonly overdraftLimit: bigint;
  readonly ends: number | undefined;
  readonly policy: ModelPeriod['policy'];
}

/** A window that an operator sets, with its future boundaries. */
export type WindowRequest = Pick<ModelWindow, 'name' | 'limit'> & { readonly ends: readonly number[] };

/** The changes that operators make to budgets through the scripts. */
export class OperatedModel extends BudgetModel {
  update(budget: ModelBudget, { overdraftLimit, ends, policy }: UpdateRequest, now: number): string[] {
    const refusal = this.governed(budget, now);
    if (refusal !== undefined) {
      return refusal;
    }
    if (ends !== undefined && budget.period?.plan !== undefined) {
      return ['INVALID_PERIOD', 'RECURRING'];
    }
    const wasOver = isOver(budget);
    // The mark of a capped charge stays until there are funds; for debt, only the new limit counts.
    const byDebt = budget.overdraftLimit > 0n && budget.debt > budget.overdraftLimit;
    const isCapped = budget.marked && !byDebt && this.remainingOf(budget) <= 0n;
    const reclaimed = isCapped && this.reservedOf(budget) > 0n ? this.reclaimed(now) : undefined;
    if (reclaimed !== undefined) {
      return reclaimed;
    }
    budget.marked = isCapped;
    budget.overdraftLimit = overdraftLimit;
    budget.marked = isOver(budget);
    if (ends !== undefined) {
      const { starts = now, allocation = budget.allocated } = budget.period ?? {};
      budget.period = { starts, ends, policy, allocation, plan: undefined };
      budget.isIndexed = true;
    }
    this.changed(budget, wasOver);
    return ['CHANGED'];
  }

  /** Sets the rule's future boundaries; without any, all periods end. */
  setRecurrence(
    budget: ModelBudget,
    instants: readonly number[],
    policy: ModelPeriod['policy'],
    now: number,
  ): string[] {
    const refusal = this.governed(budget, now);
    if (refusal !== undefined) {
      return refusal;
    }
    const [ends, ...plan] = instants.filter((instant) => instant > now);
    const { starts = now, allocation = budget.allocated } = budget.period ?? {};
    delete budget.period;
    if (ends !== undefined) {
      budget.period = { starts, ends, policy, allocation, plan, planAt: planAtOf(plan) };
    }
    budget.isIndexed = ends !== undefined;
    this.changed(budget, isOver(budget));
    return ['CHANGED'];
  }

  setWindows(budget: ModelBudget, requests: readonly WindowRequest[], now: number): string[] {
    const refusal = this.governed(budget, now);
    if (refusal !== undefined) {
      return refusal;
    }
    const former = (budget.windows ?? []).map((window) => windowAt(window, now));
    if (requests.length === 0 && former.length === 0) {
      return ['UNCHANGED'];
    }
    budget.windows = requests.map(({ name, limit, ends: instants }) => {
      const [ends = 0, ...plan] = instants.filter((instant) => instant > now);
      const { spent = 0n, starts = now } = former.find((window) => window.name === name) ?? {};
      return { name, limit, spent, starts, ends, plan, planAt: planAtOf(plan) };
    });
    this.changed(budget, isOver(budget));
    return ['CHANGED'];
  }

  planWindow(budget: ModelBudget, name: string, instants: readonly number[], isOld: boolean): string[] {
    const window = budget.windows?.find((one) => one.name === name);
    if (window !== undefined && budget.status !== 'CLOSED' && isOld) {
      return ['SKIP'];
    }
    const plan = instants.filter((instant) => instant > (window?.ends ?? Infinity));
    const isPlanned = window !== undefined && budget.status !== 'CLOSED' && plan.length > 0;
    this.touched ||= window?.planAt !== undefined || isPlanned;
    const change = isPlanned ? { plan, planAt: planAtOf(plan) } : { planAt: undefined };
    budget.windows = (budget.windows ?? []).map((one) => (one === window ? { ...one, ...change } : one));
    return [isPlanned ? 'PLANNED' : 'SKIP'];
  }

  /** The refusal of an operator's change; if there is none, starts the budget's due period. */
  private governed(budget: ModelBudget, now: number): string[] | undefined {
    const owner = budget.scope.split('/')[0]?.slice('tenant:'.length) as string;
    if (this.tenants.get(owner)?.status === 'CLOSED') {
      return ['TENANT_CLOSED'];
    }
    if (budget.status === 'CLOSED') {
      return ['BUDGET_CLOSED'];
    }
    this.begun([budget], now);
    return undefined;
  }

  private changed(budget: ModelBudget, wasOver: boolean): void {
    const owner = budget.scope.split('/')[0]?.slice('tenant:'.length) as string;
    this.touched = true;
    this.events.push(`budget.updated ${owner} ${budget.scope} -`);
    if (wasOver !== isOver(budget)) {
      this.events.push(
        `budget.over_limit_${isOver(budget) ? 'entered' : 'exited'} ${owner} ${budget.scope} -`,
      );
    }
  }
}
