import { UNITS } from '../../src/ledger/amount.js';
import type { SubjectLevels } from '../../src/ledger/scopes.js';
import type { ModelCharge } from './model-refunds.js';
import { type ModelWindow, roomOf } from './model-windows.js';

export const ROLLOVER_POLICIES = ['NONE', 'CARRY_FORWARD', 'CAP_AT_ALLOCATED'] as const;

export interface ModelPeriod {
  readonly starts: number;
  readonly ends: number;
  readonly policy: (typeof ROLLOVER_POLICIES)[number];
  /** The allocation of each new period. */
  readonly allocation: bigint;
  /** The ends of the periods to come, for a budget with a recurrence. */
  readonly plan: readonly number[] | undefined;
  /** When the job starts to request new boundaries. */
  readonly planAt?: number | undefined;
}

export interface ModelBudget {
  readonly scope: string;
  readonly unit: string;
  allocated: bigint;
  spent: bigint;
  debt: bigint;
  /** All that it was ever charged, whatever periods and funds have made of `spent` and `debt`. */
  charged?: bigint;
  overdraftLimit: bigint;
  marked: boolean;
  status: string;
  policy?: string;
  period?: ModelPeriod;
  /** Whether the job for idle budgets will find the end of the period. */
  isIndexed?: boolean;
  windows?: readonly ModelWindow[];
}

export type ExpiryPolicy = 'AUTO_RELEASE' | 'MANUAL_CLEANUP' | 'GRACE_ONLY';

export interface ModelTenant {
  status: string;
  expiryPolicy: ExpiryPolicy;
  policy: string | undefined;
  defaultTtlMs: number;
  maxTtlMs: number;
  maxExtensions: number;
  /** What share of its estimate a hold costs if it expires. */
  chargePercent?: number | undefined;
}

export interface ModelHold extends ModelCharge {
  readonly amount: bigint;
  readonly policy: string;
  readonly graceMs: number;
  readonly expiryPolicy: ExpiryPolicy;
  readonly maxExtensions: number;
  /** What it costs if it expires. */
  readonly charge: bigint;
  /** Whether it waits for an operator, because int64 cannot hold what it costs. */
  isQuarantined?: boolean;
  expiresAt: number;
  extensions: number;
  state: 'ACTIVE' | 'COMMITTED' | 'RELEASED' | 'EXPIRED';
}

export interface ReserveRequest {
  readonly tenant: string;
  readonly id: string;
  readonly key: string;
  readonly subject: SubjectLevels;
  readonly unit: string;
  readonly amount: bigint;
  readonly policy: string;
  readonly ttlMs: number | '';
  readonly graceMs: number;
  readonly dryRun: boolean;
  /** What it says itself that it costs if it expires. */
  readonly charge?: bigint | undefined;
}

export interface DebitRequest {
  readonly tenant: string;
  readonly id: string;
  readonly key: string;
  readonly subject: SubjectLevels;
  readonly unit: string;
  readonly actual: bigint;
  readonly policy: string;
}

export interface SettleRequest {
  readonly tenant: string;
  readonly id: string;
  readonly key: string;
}

export type DecideRequest = Omit<DebitRequest, 'id' | 'actual' | 'policy'> & { readonly amount: bigint };
export type CommitRequest = SettleRequest & { readonly unit: string; readonly actual: bigint };
export type ExtendRequest = SettleRequest & { readonly byMs: number };

export const atLeastZero = (value: bigint): bigint => (value < 0n ? 0n : value);
export const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** The last instant at which a hold may be settled. */
export const deadlineOf = (hold: ModelHold): number => hold.expiresAt + hold.graceMs;

/** The time that is left of a lease with this end. */
export const leadOf = (hold: ModelHold, expiresAt: number, now: number): string =>
  String(hold.state === 'ACTIVE' ? Math.max(0, expiresAt - now) : 0);

/** Live holds past their grace, oldest first. */
function pastGrace(holds: ReadonlyMap<string, ModelHold>, now: number): ModelHold[] {
  const order = (a: ModelHold, b: ModelHold): number =>
    deadlineOf(a) - deadlineOf(b) || (a.id < b.id ? -1 : 1);
  return [...holds.values()]
    .filter((hold) => hold.state === 'ACTIVE' && hold.isQuarantined !== true && now > deadlineOf(hold))
    .sort(order);
}

/** The first holds that can no longer be settled and are not expired yet, as many as one run takes. */
export function dueOf(holds: ReadonlyMap<string, ModelHold>, now: number): ModelHold[] {
  return pastGrace(holds, now)
    .filter(({ expiryPolicy }) => expiryPolicy !== 'MANUAL_CLEANUP')
    .slice(0, 100);
}

/** The holds that only a release or an operator's cleanup can end. */
export function awaitingOf(holds: ReadonlyMap<string, ModelHold>, now: number): ModelHold[] {
  return pastGrace(holds, now).filter(({ expiryPolicy }) => expiryPolicy === 'MANUAL_CLEANUP');
}

/** Whether there is debt above a nonzero limit, or the mark of a capped charge. */
export const isOver = ({ marked, overdraftLimit, debt }: ModelBudget): boolean =>
  marked || (overdraftLimit > 0n && debt > overdraftLimit);

/**
 * The first refusal of a reserve. Each rule is checked for all budgets before the next one: status, over
 * limit, debt, amount.
 */
export function refusalOf(
  budgets: readonly ModelBudget[],
  amount: bigint,
  remainingOf: (budget: ModelBudget) => bigint,
): string[] | undefined {
  const rules: ((budget: ModelBudget) => string | false)[] = [
    ({ status }) => status !== 'ACTIVE' && `BUDGET_${status}`,
    (budget) => isOver(budget) && 'OVERDRAFT_LIMIT_EXCEEDED',
    ({ debt, overdraftLimit }) => debt > 0n && overdraftLimit === 0n && 'DEBT_OUTSTANDING',
  ];
  for (const rule of rules) {
    for (const budget of budgets) {
      const word = rule(budget);
      if (word !== false) {
        return [word, budget.scope, String(remainingOf(budget))];
      }
    }
  }
  return shortOf(budgets, amount, remainingOf);
}

/** The refusal by the first budget that has too little, in total or in one of its windows. */
export function shortOf(
  budgets: readonly ModelBudget[],
  amount: bigint,
  remainingOf: (budget: ModelBudget) => bigint,
): string[] | undefined {
  for (const budget of budgets) {
    const remaining = remainingOf(budget);
    if (remaining < amount) {
      return ['BUDGET_EXCEEDED', budget.scope, String(remaining)];
    }
    const reserved = reservedIn(budget, remaining);
    const window = budget.windows?.find((one) => roomOf(one, reserved) < amount);
    if (window !== undefined) {
      return ['BUDGET_EXCEEDED', budget.scope, String(roomOf(window, reserved)), window.name];
    }
  }
  return undefined;
}

/** The reserved amount of a budget with this remaining amount. */
export const reservedIn = ({ allocated, spent, debt }: ModelBudget, remaining: bigint): bigint =>
  allocated - spent - debt - remaining;

/** The budgets at the scopes in a unit, root first. */
export function budgetsAt(
  budgets: readonly ModelBudget[],
  scopes: readonly string[],
  unit: string,
): ModelBudget[] {
  return scopes.flatMap((scope) =>
    budgets.filter((budget) => budget.scope === scope && budget.unit === unit),
  );
}

/** The mismatch if a scope, checked from the deepest, has budgets only in other units. */
export function otherUnits(budgets: readonly ModelBudget[], scopes: readonly string[]): string[] | undefined {
  const scope = scopes.findLast((path) => budgets.some((budget) => budget.scope === path));
  return scope === undefined
    ? undefined
    : ['UNIT_MISMATCH', scope, ...UNITS.filter((unit) => budgetsAt(budgets, [scope], unit).length > 0)];
}

/** The requested overage policy, else the deepest budget's, the tenant's, or the protocol's. */
export function policyOf(
  asked: string,
  budgets: readonly ModelBudget[],
  tenant: ModelTenant | undefined,
): string {
  const inherited = budgets.findLast(({ policy }) => policy !== undefined)?.policy ?? tenant?.policy;
  return asked === '' ? (inherited ?? 'ALLOW_IF_AVAILABLE') : asked;
}

/** The stored field of a reserve that says what it costs if it expires. */
export const chargeField = ({
  charge,
}: Pick<ReserveRequest, 'charge'>): { fields?: Record<string, string> } =>
  charge === undefined ? {} : { fields: { ce: String(charge) } };
