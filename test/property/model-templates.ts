import type { ModelBudget } from './model-records.js';

/** A template that makes budgets, as an operator has set it. */
export interface ModelTemplate {
  readonly tenant: string;
  readonly id: string;
  /** The levels of the scopes that it matches, and below the tenant the value of each, or `*`. */
  readonly pattern: string;
  readonly unit: string;
  readonly allocated: bigint;
  readonly overdraftLimit: bigint;
  readonly policy: string | undefined;
}

const segmentsOf = (scope: string): string[][] => scope.split('/').map((segment) => segment.split(':'));

/** How many segments of the scope the pattern names, or -1 if it does not match. */
function literalIn(pattern: string, scope: string): number {
  const [wanted, given] = [segmentsOf(pattern), segmentsOf(scope)];
  const matches =
    wanted.length === given.length &&
    wanted.every(([level, value], index) => {
      const [givenLevel, givenValue] = given[index] as [string, string];
      return level === givenLevel && (value === '*' || value === givenValue);
    });
  return matches ? wanted.filter(([, value]) => value !== '*').length : -1;
}

/** The budget that the templates, oldest first, would make at a scope. */
export function unbornAt(
  templates: readonly ModelTemplate[],
  scope: string,
  unit: string,
): ModelBudget | undefined {
  const [best] = templates
    .filter((template) => template.unit === unit && literalIn(template.pattern, scope) > 0)
    .toSorted((one, other) => literalIn(other.pattern, scope) - literalIn(one.pattern, scope));
  return (
    best && {
      scope,
      unit,
      allocated: best.allocated,
      spent: 0n,
      debt: 0n,
      overdraftLimit: best.overdraftLimit,
      marked: false,
      status: 'ACTIVE',
      ...(best.policy !== undefined && { policy: best.policy }),
      windows: [],
    }
  );
}
