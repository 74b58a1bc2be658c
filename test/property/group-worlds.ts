import fc from 'fast-check';
import { INT64_MAX, OVERAGE_POLICIES } from '../../src/ledger/amount.js';
import type { SubjectLevels } from '../../src/ledger/scopes.js';
import { type WindowPlan, windowPlans } from './operator-operations.js';
import { periodPlan, type PeriodPlan } from './period-operations.js';

/** Batches of calls of the grouped scripts, and what happens between them. Holds and requests are named by number. */
export type GroupStep =
  | { readonly kind: 'reserve'; readonly calls: readonly ReservePlan[] }
  | { readonly kind: 'commit'; readonly calls: readonly CommitPlan[] }
  | { readonly kind: 'debit'; readonly calls: readonly DebitPlan[] }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'overdue'; readonly hold: number }
  | { readonly kind: 'status'; readonly budget: number; readonly status: string }
  | { readonly kind: 'lose'; readonly budget: number };

export interface ReservePlan {
  readonly tenant: number;
  readonly subject: SubjectLevels;
  readonly amount: bigint;
  readonly policy: string;
  readonly dryRun: boolean;
  readonly observe: string;
  readonly run: string;
  readonly note: string;
  readonly ttlMs: number | '';
  /** Repeats an earlier request, perhaps with another amount. */
  readonly repeats: number | undefined;
  readonly isAltered: boolean;
  /** Whether it may wait: from its arrival on, or again after it was told that it waits. */
  readonly waits: 'no' | 'new' | 'again';
}

export interface CommitPlan {
  readonly hold: number;
  readonly base: 'zero' | 'estimate' | 'largest';
  readonly offset: bigint;
  readonly unit: string;
  readonly note: string;
  readonly repeats: number | undefined;
}

export interface DebitPlan {
  readonly tenant: number;
  readonly subject: SubjectLevels;
  readonly amount: bigint;
  readonly policy: string;
  readonly unit: string;
  /** Repeats an earlier request, perhaps with another amount. */
  readonly repeats: number | undefined;
  readonly isAltered: boolean;
}

export interface GroupBudget {
  readonly tenant: number;
  readonly subject: SubjectLevels;
  readonly allocated: bigint;
  readonly debt: bigint;
  readonly overdraftLimit: bigint;
  readonly isOverLimit: boolean;
  readonly policy: string | undefined;
  readonly windows: readonly WindowPlan[];
  readonly period: PeriodPlan | undefined;
  readonly credits: readonly CreditPlan[];
}

interface CreditPlan {
  readonly amount: bigint;
  readonly priority: number;
  readonly startsInMs: number;
  readonly lastsMs: number | undefined;
}

export interface GroupTenant {
  readonly fields: Readonly<Record<string, string>>;
  readonly limits: Readonly<Record<string, string>>;
  readonly rules: Readonly<Record<string, string>> | undefined;
}

export interface GroupWorld {
  readonly tenants: readonly GroupTenant[];
  readonly budgets: readonly GroupBudget[];
  readonly steps: readonly GroupStep[];
}

const TENANTS = 2;
const MOST_CALLS = 16;
const SUBJECTS: readonly SubjectLevels[] = [{}, { workspace: 'dev' }, { workspace: 'dev', agent: 'bot' }];
/** The last figure that a double of 15 digits keeps, and the first that needs 16. */
const SIXTEEN_DIGITS = 10n ** 15n;

const rarely = (times: number): fc.Arbitrary<boolean> => fc.nat(times).map((die) => die === 0);
const near = (middle: bigint): fc.Arbitrary<bigint> => fc.bigInt({ min: middle - 40n, max: middle + 40n });
const below = (limit: bigint): fc.Arbitrary<bigint> => fc.bigInt({ min: limit - 80n, max: limit });
const large = fc.oneof(near(SIXTEEN_DIGITS), near(2n ** 53n), below(INT64_MAX));
const funds = fc.oneof(
  { weight: 5, arbitrary: fc.bigInt({ min: 20n, max: 500n }) },
  { weight: 2, arbitrary: large },
);
const amount = fc.oneof(
  { weight: 12, arbitrary: fc.bigInt({ min: 0n, max: 40n }) },
  { weight: 1, arbitrary: large },
);
const policy = fc.constantFrom<string>('', ...OVERAGE_POLICIES);
const tenant = fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) });
const subject = fc.constantFrom(...SUBJECTS);
const number = fc.nat(1000);
const unit = fc.nat(30).map((die) => (die === 0 ? 'CREDITS' : 'TOKENS'));
const note = fc.constantFrom('', '', '', 'n'.repeat(90));

const reserveOf = (amount: fc.Arbitrary<bigint>): fc.Arbitrary<ReservePlan> =>
  fc.record({
    tenant,
    subject,
    amount,
    policy,
    dryRun: rarely(12),
    observe: fc.constantFrom('', '', '', '', '', '', '', 'OBSERVE', 'ENFORCE'),
    run: fc.constantFrom('', 'run-1', 'run-2'),
    note,
    ttlMs: fc.constantFrom<number | ''>('', 600_000),
    repeats: fc.option(number, { freq: 6, nil: undefined }),
    isAltered: rarely(3),
    waits: fc.constantFrom('no', 'no', 'new', 'new', 'new', 'again', 'again'),
  });

const debit: fc.Arbitrary<DebitPlan> = fc.record({
  tenant,
  subject,
  amount,
  policy,
  unit,
  repeats: fc.option(number, { freq: 6, nil: undefined }),
  isAltered: rarely(3),
});

const commit: fc.Arbitrary<CommitPlan> = fc.record({
  hold: number,
  base: fc.constantFrom('zero', 'estimate', 'estimate', 'estimate', 'estimate', 'largest'),
  offset: fc.bigInt({ min: -20n, max: 40n }),
  unit,
  note,
  repeats: fc.option(number, { freq: 6, nil: undefined }),
});

const calls = <Plan>(plan: fc.Arbitrary<Plan>): fc.Arbitrary<Plan[]> =>
  fc.array(plan, { minLength: 2, maxLength: MOST_CALLS, size: 'max' });

const stepWith = (plans: fc.Arbitrary<readonly ReservePlan[]>): fc.Arbitrary<GroupStep> =>
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ kind: fc.constant('reserve' as const), calls: plans }),
    },
    { weight: 8, arbitrary: fc.record({ kind: fc.constant('commit' as const), calls: calls(commit) }) },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('debit' as const), calls: calls(debit) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('pass' as const),
        ms: fc.constantFrom(400, 4000, 61_000, 3_600_000, 86_400_000),
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('overdue' as const), hold: number }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant('status' as const),
        budget: number,
        status: fc.constantFrom('ACTIVE', 'ACTIVE', 'ACTIVE', 'ACTIVE', 'FROZEN', 'CLOSED'),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const), budget: number }) },
  );

const quota = fc.record({
  action_kind: fc.constant('llm'),
  max_calls: fc.integer({ min: 1, max: 12 }),
  window: fc.constantFrom('per_run', 'per_minute_tumbling', 'per_day_tumbling', 'per_tenant_per_day'),
  threshold_pct: fc.constantFrom(0.5, 0.8),
});
const some = <Value>(name: string, value: fc.Arbitrary<Value>): fc.Arbitrary<Record<string, string>> =>
  fc.option(value, { freq: 2 }).map((given) => (given === null ? {} : { [name]: String(given) }));
const together = (...parts: fc.Arbitrary<Record<string, string>>[]): fc.Arbitrary<Record<string, string>> =>
  fc.tuple(...parts).map((all) => Object.assign({}, ...all) as Record<string, string>);

const tenantPlan: fc.Arbitrary<GroupTenant> = fc.record({
  fields: together(
    some('th', fc.constantFrom('0.5', '0.25,0.5,0.8,1', '0.8,TOKENS:40,TOKENS:200', '')),
    some('default_commit_overage_policy', fc.constantFrom(...OVERAGE_POLICIES)),
    some('reservation_expiry_policy', fc.constantFrom('AUTO_RELEASE', 'MANUAL_CLEANUP', 'GRACE_ONLY')),
  ),
  limits: together(
    some('max:live_reservations', fc.integer({ min: 4, max: 30 })),
    some('max:stored_bytes', fc.integer({ min: 4000, max: 60_000 })),
  ),
  rules: fc.option(
    together(
      some('caps', fc.constant('caps')),
      some('max_reservations_per_minute', fc.integer({ min: 3, max: 40 })),
      some('max_commits_per_minute', fc.integer({ min: 3, max: 40 })),
      some(
        'action_quotas',
        fc.array(quota, { minLength: 1, maxLength: 2 }).map((quotas) => JSON.stringify(quotas)),
      ),
    ),
    { nil: undefined, freq: 2 },
  ),
});

const credit: fc.Arbitrary<CreditPlan> = fc.record({
  amount: fc.bigInt({ min: 1n, max: 200n }),
  priority: fc.constantFrom(0, 50, 100),
  startsInMs: fc.constantFrom(0, 0, 3000),
  lastsMs: fc.constantFrom(undefined, 3500, 60_000, 3_600_000),
});

const budget = (
  place: SubjectLevels,
  owner: number,
  allocated: fc.Arbitrary<bigint>,
): fc.Arbitrary<GroupBudget> =>
  fc.record({
    tenant: fc.constant(owner),
    subject: fc.constant(place),
    allocated,
    debt: rarely(9).map((owes) => (owes ? 5n : 0n)),
    overdraftLimit: fc.constantFrom(0n, 60n, 60n, INT64_MAX),
    isOverLimit: rarely(25),
    policy: fc.option(fc.constantFrom(...OVERAGE_POLICIES), { nil: undefined }),
    windows: fc.oneof(fc.constant([]), fc.constant([]), windowPlans(fc.bigInt({ min: 10n, max: 400n }))),
    period: fc.option(periodPlan, { nil: undefined, freq: 2 }),
    credits: fc.oneof(fc.constant([]), fc.array(credit, { minLength: 1, maxLength: 4 })),
  });

const budgetsOf = (allocated: fc.Arbitrary<bigint>): fc.Arbitrary<GroupBudget[]> =>
  fc
    .tuple(
      ...Array.from({ length: TENANTS }, (_, owner) => owner).flatMap((owner) =>
        SUBJECTS.map((place) => fc.option(budget(place, owner, allocated), { nil: undefined, freq: 4 })),
      ),
    )
    .map((plans) => plans.filter((plan) => plan !== undefined));

const worldWith = (
  length: number,
  allocated: fc.Arbitrary<bigint>,
  plans: fc.Arbitrary<readonly ReservePlan[]>,
): fc.Arbitrary<GroupWorld> =>
  fc.record({
    tenants: fc.tuple(...Array.from({ length: TENANTS }, () => tenantPlan)),
    budgets: budgetsOf(allocated),
    steps: fc.array(stepWith(plans), { minLength: length, maxLength: length, size: 'max' }),
  });

/** Full runs of holds with 15 digits, whose sums need 16 and more within the run. */
const growing = fc.array(
  reserveOf(below(SIXTEEN_DIGITS)).map((plan): ReservePlan => ({
    ...plan,
    tenant: 0,
    dryRun: false,
    observe: '',
    repeats: undefined,
    waits: 'no',
  })),
  { minLength: MOST_CALLS, maxLength: MOST_CALLS },
);

/** In every fifth world, the figures of a run grow beyond what a double holds. */
export function groupWorldOf(length: number): fc.Arbitrary<GroupWorld> {
  return fc.oneof(
    { weight: 4, arbitrary: worldWith(length, funds, calls(reserveOf(amount))) },
    { weight: 1, arbitrary: worldWith(length, below(INT64_MAX), growing) },
  );
}
