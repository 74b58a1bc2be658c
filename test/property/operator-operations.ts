import fc from 'fast-check';
import { type ModelPeriod, ROLLOVER_POLICIES } from './model-records.js';

/**
 * What operators do to budgets through the scripts, and the job that plans windows. Instants are in hours
 * after the start of the play.
 */
export type OperatorOperation =
  | {
      kind: 'update';
      client: number;
      budget: number;
      overdraftLimit: bigint;
      hours: number | undefined;
      policy: ModelPeriod['policy'];
    }
  | {
      kind: 'recurrence';
      client: number;
      budget: number;
      hours: readonly number[];
      policy: ModelPeriod['policy'];
    }
  | { kind: 'windows'; client: number; budget: number; windows: readonly WindowPlan[] }
  | {
      kind: 'planWindow';
      client: number;
      budget: number;
      name: string;
      isOld: boolean;
      hours: readonly number[];
    };

export interface WindowPlan {
  readonly name: string;
  readonly limit: bigint;
  /** The lengths of the current window and of future ones. */
  readonly hours: readonly number[];
}

const NAMES = ['day', 'week', 'month'];
const lengths = (minLength: number, maxLength: number): fc.Arbitrary<number[]> =>
  fc.array(fc.integer({ min: 1, max: 24 * 31 }), { minLength, maxLength });

/** Windows with different names, or none. */
export function windowPlans(limit: fc.Arbitrary<bigint>): fc.Arbitrary<WindowPlan[]> {
  return fc.uniqueArray(fc.record({ name: fc.constantFrom(...NAMES), limit, hours: lengths(2, 9) }), {
    selector: ({ name }) => name,
    maxLength: 3,
  });
}

export function operatorOperation(
  client: fc.Arbitrary<number>,
  budget: fc.Arbitrary<number>,
  amount: fc.Arbitrary<bigint>,
): fc.Arbitrary<OperatorOperation> {
  const policy = fc.constantFrom(...ROLLOVER_POLICIES);
  return fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('update' as const),
        client,
        budget,
        overdraftLimit: fc.oneof(fc.constant(0n), amount),
        hours: fc.option(fc.integer({ min: 1, max: 24 * 31 }), { nil: undefined }),
        policy,
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('recurrence' as const),
        client,
        budget,
        hours: fc.oneof({ weight: 1, arbitrary: fc.constant([]) }, { weight: 3, arbitrary: lengths(2, 12) }),
        policy,
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('windows' as const),
        client,
        budget,
        windows: windowPlans(amount),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant('planWindow' as const),
        client,
        budget,
        name: fc.constantFrom(...NAMES),
        isOld: fc.nat(4).map((die) => die === 0),
        hours: lengths(0, 12),
      }),
    },
  );
}
