import fc from 'fast-check';
import { INT64_MAX, OVERAGE_POLICIES, type Unit } from '../../src/ledger/amount.js';
import type { SubjectLevels } from '../../src/ledger/scopes.js';
import type { ExpiryPolicy } from './model-records.js';
import {
  operatorOperation,
  type OperatorOperation,
  type WindowPlan,
  windowPlans,
} from './operator-operations.js';
import { periodOperation, type PeriodOperation, periodPlan, type PeriodPlan } from './period-operations.js';

/**
 * What the simulated clients and an operator may do. Holds are named by number, modulo the existing ones and
 * one that does not exist.
 */
export type Operation =
  | PeriodOperation
  | OperatorOperation
  | { kind: 'decide'; client: number; tenant: number; subject: SubjectLevels; unit: Unit; amount: bigint }
  | {
      kind: 'reserve';
      client: number;
      tenant: number;
      subject: SubjectLevels;
      unit: Unit;
      amount: bigint;
      policy: string;
      ttlMs: number | '';
      graceMs: number;
      dryRun: boolean;
      /** Of the amount, in percent. */
      share: bigint | undefined;
    }
  | {
      kind: 'debit';
      client: number;
      tenant: number;
      subject: SubjectLevels;
      unit: Unit;
      actual: bigint;
      policy: string;
    }
  | {
      kind: 'commit';
      client: number;
      hold: number;
      foreign: boolean;
      wrongUnit: boolean;
      base: 'zero' | 'estimate' | 'largest';
      offset: bigint;
    }
  | { kind: 'release'; client: number; hold: number; foreign: boolean }
  /** Of a hold or of a direct debit. */
  | {
      kind: 'refund';
      client: number;
      hold: number;
      foreign: boolean;
      wrongUnit: boolean;
      ofDebit: boolean;
      /** Of the charge, in percent. */
      share: bigint;
    }
  | { kind: 'get'; client: number; hold: number; foreign: boolean }
  | { kind: 'extend'; client: number; hold: number; foreign: boolean; byMs: number }
  | { kind: 'expire'; client: number; hold: number }
  | { kind: 'sweep'; client: number; holds: number[] }
  | { kind: 'cleanup'; client: number; tenant: number | 'all'; limit: number; dryRun: boolean }
  | { kind: 'expiryPolicy'; tenant: number; policy: ExpiryPolicy }
  | { kind: 'backdate'; hold: number; overdue: boolean }
  | { kind: 'repeat'; client: number; request: number; altered: boolean }
  | {
      kind: 'budget';
      budget: number;
      change: 'freeze' | 'close' | 'reopen' | 'credit' | 'limit';
      amount: bigint;
    }
  | { kind: 'tenant'; tenant: number; status: string }
  | ({ kind: 'template' } & TemplateChange)
  | { kind: 'group'; client: number; operations: readonly GroupableOperation[] }
  /** Reserves of one tenant that are granted together or not at all. */
  | { kind: 'set'; client: number; tenant: number; members: readonly SetMember[] };

type SetMember = Omit<
  Extract<Operation, { kind: 'reserve' }>,
  'kind' | 'client' | 'tenant' | 'dryRun' | 'share'
>;

/** Operations whose concurrent calls share a run. */
export type GroupableOperation = Extract<Operation, { kind: 'reserve' | 'commit' }>;

/** An operator sets a template, or ends the one of that name. */
export interface TemplateChange {
  readonly tenant: number;
  readonly id: string;
  readonly ends: boolean;
  readonly pattern: string;
  readonly unit: Unit;
  readonly allocated: bigint;
  readonly overdraftLimit: bigint;
  readonly policy: string | undefined;
}

export interface BudgetPlan {
  readonly tenant: number;
  readonly subject: SubjectLevels;
  readonly unit: Unit;
  readonly allocated: bigint;
  readonly overdraftLimit: bigint;
  readonly policy: string | undefined;
  readonly period: PeriodPlan | undefined;
  readonly windows: readonly WindowPlan[];
}

export interface TenantPlan {
  readonly expiryPolicy: ExpiryPolicy;
  readonly policy: string | undefined;
  readonly defaultTtlMs: number;
  readonly maxTtlMs: number;
  readonly maxExtensions: number;
  readonly chargePercent: number | undefined;
}

export interface World {
  readonly tenants: readonly (TenantPlan | undefined)[];
  readonly budgets: readonly BudgetPlan[];
  readonly operations: readonly Operation[];
}

export const CLIENTS = 3;
export const TENANTS = 2;
/** So many operations of a world set templates before anything else happens. */
const FIRST_TEMPLATES = 4;
const PLAYED_UNITS: readonly Unit[] = ['TOKENS', 'USD_MICROCENTS'];
const SUBJECTS: readonly SubjectLevels[] = [
  {},
  { workspace: 'Prod' },
  { workspace: 'Prod', agent: 'Bot' },
  { agent: 'Bot' },
];
/** Without budgets of their own, so that what a template makes for them is played often. */
const NEWCOMERS: readonly SubjectLevels[] = ['First', 'Second', 'Third', 'Fourth'].flatMap((agent) => [
  { agent },
  { workspace: 'Prod', agent },
]);
const HOUR_MS = 3_600_000;

/** Of scopes at these places, below the tenant's. */
const PATTERNS = [
  '',
  '/workspace:*',
  '/workspace:prod',
  '/workspace:*/agent:*',
  '/workspace:prod/agent:*',
  '/agent:*',
  '/agent:bot',
];

const client = fc.nat(CLIENTS - 1);
const tenant = fc.nat(TENANTS - 1);
const subject = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...SUBJECTS) },
  { weight: 1, arbitrary: fc.constantFrom(...NEWCOMERS) },
);
const unit = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Unit>('TOKENS') },
  { weight: 2, arbitrary: fc.constant<Unit>('USD_MICROCENTS') },
);
const policy = fc.constantFrom<string>(...OVERAGE_POLICIES);
const expiryPolicy = fc.constantFrom<ExpiryPolicy>(
  'AUTO_RELEASE',
  'AUTO_RELEASE',
  'MANUAL_CLEANUP',
  'GRACE_ONLY',
);
const hold = fc.nat(1000);
const foreign = fc.nat(19).map((die) => die === 0);
/** Mostly amounts that fill a budget in a few steps, and some near the limits of int64. */
const amount = fc.oneof(
  { weight: 16, arbitrary: fc.bigInt({ min: 0n, max: 120n }) },
  { weight: 1, arbitrary: fc.bigInt({ min: 2n ** 53n, max: 2n ** 53n + 9n }) },
  { weight: 1, arbitrary: fc.bigInt({ min: INT64_MAX - 200n, max: INT64_MAX }) },
);

const terms = {
  subject,
  unit,
  amount,
  policy: fc.oneof(fc.constant(''), policy),
  ttlMs: fc.constantFrom<number | ''>('', 600_000, HOUR_MS),
  graceMs: fc.constantFrom(0, 5000, HOUR_MS),
};

const reserve = fc.record({
  kind: fc.constant('reserve' as const),
  client,
  tenant,
  ...terms,
  dryRun: fc.nat(9).map((die) => die === 0),
  share: fc.constantFrom(undefined, undefined, undefined, 0n, 40n, 100n),
});

const commit = fc.record({
  kind: fc.constant('commit' as const),
  client,
  hold,
  foreign,
  wrongUnit: fc.nat(19).map((die) => die === 0),
  base: fc.constantFrom(
    'zero' as const,
    'estimate' as const,
    'estimate' as const,
    'estimate' as const,
    'largest' as const,
  ),
  offset: fc.bigInt({ min: -30n, max: 60n }),
});

const group = fc.oneof(
  fc.array<GroupableOperation>(reserve, { minLength: 2, maxLength: 6 }),
  fc.array<GroupableOperation>(commit, { minLength: 2, maxLength: 6 }),
);

const set = fc.record({
  kind: fc.constant('set' as const),
  client,
  tenant,
  members: fc.array(fc.record(terms), { minLength: 2, maxLength: 5 }),
});

const template = fc.record({
  kind: fc.constant('template' as const),
  tenant,
  id: fc.constantFrom('a', 'b', 'c', 'd'),
  ends: fc.nat(3).map((die) => die === 0),
  pattern: fc.constantFrom(...PATTERNS),
  unit,
  allocated: fc.oneof(fc.bigInt({ min: 0n, max: 400n }), fc.constant(INT64_MAX)),
  overdraftLimit: fc.constantFrom(0n, 0n, 40n),
  policy: fc.option(policy, { nil: undefined, freq: 2 }),
});

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 12, arbitrary: template },
  { weight: 30, arbitrary: reserve },
  { weight: 14, arbitrary: set },
  { weight: 20, arbitrary: fc.record({ kind: fc.constant('group' as const), client, operations: group }) },
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant('debit' as const),
      client,
      tenant,
      subject,
      unit,
      actual: amount,
      policy: fc.oneof(fc.constant(''), policy),
    }),
  },
  { weight: 20, arbitrary: commit },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('release' as const), client, hold, foreign }) },
  {
    weight: 14,
    arbitrary: fc.record({
      kind: fc.constant('refund' as const),
      client,
      hold,
      foreign,
      wrongUnit: fc.nat(19).map((die) => die === 0),
      ofDebit: fc.nat(3).map((die) => die === 0),
      share: fc.constantFrom(10n, 30n, 50n, 100n, 101n),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('get' as const), client, hold, foreign }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('extend' as const),
      client,
      hold,
      foreign,
      byMs: fc.constantFrom(1, 60_000, 24 * HOUR_MS),
    }),
  },
  { weight: 18, arbitrary: fc.record({ kind: fc.constant('expire' as const), client, hold }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('sweep' as const),
      client,
      holds: fc.array(hold, { minLength: 1, maxLength: 8 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('cleanup' as const),
      client,
      limit: fc.constantFrom(1, 3, 20),
      tenant: fc.oneof(fc.constant('all' as const), tenant),
      dryRun: fc.nat(4).map((die) => die === 0),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('expiryPolicy' as const), tenant, policy: expiryPolicy }),
  },
  {
    weight: 18,
    arbitrary: fc.record({ kind: fc.constant('backdate' as const), hold, overdue: fc.boolean() }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('repeat' as const),
      client,
      request: hold,
      altered: fc.nat(3).map((die) => die === 0),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('budget' as const),
      budget: hold,
      amount,
      change: fc.constantFrom(
        'freeze' as const,
        'close' as const,
        'reopen' as const,
        'reopen' as const,
        'credit' as const,
        'credit' as const,
        'limit' as const,
      ),
    }),
  },
  { weight: 31, arbitrary: periodOperation(client, hold, amount) },
  { weight: 12, arbitrary: operatorOperation(client, hold, amount) },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('decide' as const), client, tenant, subject, unit, amount }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('tenant' as const),
      tenant,
      status: fc.constantFrom('ACTIVE', 'ACTIVE', 'ACTIVE', 'SUSPENDED', 'CLOSED'),
    }),
  },
);

const tenantPlan = fc.option(
  fc.record({
    policy: fc.option(policy, { nil: undefined }),
    expiryPolicy,
    defaultTtlMs: fc.constantFrom(120_000, HOUR_MS),
    maxTtlMs: fc.constantFrom(300_000, HOUR_MS),
    maxExtensions: fc.constantFrom(0, 2, 10),
    chargePercent: fc.constantFrom(undefined, undefined, 33, 100),
  }),
  { nil: undefined },
);

const funds = fc.oneof(
  { weight: 6, arbitrary: fc.bigInt({ min: 0n, max: 400n }) },
  { weight: 1, arbitrary: fc.bigInt({ min: 2n ** 53n, max: 2n ** 54n }) },
  { weight: 2, arbitrary: fc.constant(INT64_MAX) },
);

/** The limit of a window: mostly about as much as a budget has. */
const limit = fc.oneof(
  { weight: 4, arbitrary: fc.bigInt({ min: 0n, max: 300n }) },
  { weight: 1, arbitrary: fc.constant(INT64_MAX) },
);

/** Budgets at most places of the two hierarchies, so that some scopes have none. */
const budgetPlans: fc.Arbitrary<BudgetPlan[]> = fc
  .tuple(
    ...Array.from({ length: TENANTS }, (_, owner) => owner).flatMap((owner) =>
      SUBJECTS.flatMap((place) =>
        PLAYED_UNITS.map((kind) =>
          fc.option(
            fc.record({
              tenant: fc.constant(owner),
              subject: fc.constant(place),
              unit: fc.constant(kind),
              allocated: funds,
              overdraftLimit: fc.constantFrom(0n, 0n, 40n, INT64_MAX),
              policy: fc.nat(5).chain((die) => (die === 0 ? policy : fc.constant(undefined))),
              period: fc.option(periodPlan, { nil: undefined, freq: 2 }),
              windows: fc.oneof(fc.constant([]), fc.constant([]), windowPlans(limit)),
            }),
            { nil: undefined, freq: 4 },
          ),
        ),
      ),
    ),
  )
  .map((plans) => plans.filter((plan) => plan !== undefined));

export function worldOf(length: number): fc.Arbitrary<World> {
  return fc.record({
    tenants: fc.tuple(...Array.from({ length: TENANTS }, () => tenantPlan)),
    budgets: budgetPlans,
    operations: fc
      .tuple(
        fc.array(template, { minLength: FIRST_TEMPLATES, maxLength: FIRST_TEMPLATES }),
        fc.array(operation, {
          minLength: length - FIRST_TEMPLATES,
          maxLength: length - FIRST_TEMPLATES,
          size: 'max',
        }),
      )
      .map((parts) => parts.flat()),
  });
}
