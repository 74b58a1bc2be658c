import type { LedgerState } from '../support/ledger-state.js';
import type { LedgerModel } from './model.js';

/** A line if what is stored, or was answered, is not what the model says. */
export function differences(what: string, actual: readonly string[], expected: readonly string[]): string[] {
  return actual.join('\n') === expected.join('\n')
    ? []
    : [`${what}: got [${actual.join(', ')}], the model says [${expected.join(', ')}]`];
}

const FIGURES = ['remaining', 'reserved', 'spent', 'allocated', 'debt', 'overdraft_limit', 'is_over_limit'];

/** Compares all budgets and holds. @param counts whether a stored hold is compared; the model may have forgotten it */
export function stateDifferences(
  model: LedgerModel,
  state: LedgerState,
  counts: (id: string, status: string | undefined) => boolean = () => true,
): string[] {
  const summary = (id: string, status: unknown, expiresAt: unknown): string =>
    [id, status, expiresAt].join(' ');
  const stored = [...state.holds]
    .filter(([id, hold]) => counts(id, hold['st']))
    .map(([id, hold]) => summary(id, hold['st'], hold['ex']));
  const modelled = [...model.holds.values()].map((hold) => summary(hold.id, hold.state, hold.expiresAt));
  return [
    ...model.budgets.flatMap((budget) => {
      const record = state.budgets.get(`${budget.unit}:${budget.scope}`);
      const figures = FIGURES.map((name) => record?.[name]).join();
      return differences(budget.scope, [figures], [model.figures(budget)]);
    }),
    ...differences('holds', stored.sort(), modelled.sort()),
  ];
}
