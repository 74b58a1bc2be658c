import fc from 'fast-check';
import { FUNDINGS, type Funding } from './model-funding.js';
import { ROLLOVER_POLICIES, type ModelPeriod } from './model-records.js';

/**
 * What time, operators and the job for idle budgets do to budgets with periods. Budgets are named by number,
 * modulo the existing ones.
 */
export type PeriodOperation =
  /** Time passes over this many boundaries of one budget, or of all. */
  | { kind: 'pass'; budget: number | 'all'; boundaries: number }
  | { kind: 'idle'; client: number; limit: number }
  | { kind: 'plan'; client: number; budget: number; isOld: boolean; hours: readonly number[] }
  | {
      kind: 'fund';
      client: number;
      budget: number;
      operation: Funding;
      amount: bigint;
      spent: bigint | undefined;
    };

export interface PeriodPlan {
  readonly policy: ModelPeriod['policy'];
  readonly hours: number;
  /** The lengths of the next periods if they follow a recurrence. */
  readonly recurrence: readonly number[] | undefined;
}

const hours = fc.integer({ min: 1, max: 24 * 31 });

export const periodPlan: fc.Arbitrary<PeriodPlan> = fc.record({
  policy: fc.constantFrom(...ROLLOVER_POLICIES),
  hours,
  recurrence: fc.option(fc.array(hours, { maxLength: 14 }), { nil: undefined, freq: 2 }),
});

export function periodOperation(
  client: fc.Arbitrary<number>,
  budget: fc.Arbitrary<number>,
  amount: fc.Arbitrary<bigint>,
): fc.Arbitrary<PeriodOperation> {
  return fc.oneof(
    {
      weight: 16,
      arbitrary: fc.record({
        kind: fc.constant('pass' as const),
        budget: fc.oneof(fc.constant('all' as const), budget),
        boundaries: fc.oneof(
          { weight: 4, arbitrary: fc.integer({ min: 1, max: 2 }) },
          { weight: 1, arbitrary: fc.integer({ min: 7, max: 20 }) },
        ),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constant('idle' as const), client, limit: fc.constantFrom(1, 2, 20) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('plan' as const),
        client,
        budget,
        isOld: fc.nat(4).map((die) => die === 0),
        hours: fc.array(hours, { maxLength: 12 }),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant('fund' as const),
        client,
        budget,
        operation: fc.constantFrom(...FUNDINGS),
        amount,
        spent: fc.option(amount, { nil: undefined }),
      }),
    },
  );
}
