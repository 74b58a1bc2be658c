import { budgetIndexKey, periodIndexKey, periodPlansKey } from '../../src/redis/keyspace.js';
import type { LedgerClient } from '../support/ledger-client.js';
import type { LedgerState } from '../support/ledger-state.js';
import { fund, rollOver } from '../support/governance-client.js';
import type { LedgerModel } from './model.js';
import type { ModelBudget, ModelPeriod } from './model-records.js';
import { undatedFunding } from './readings.js';
import type { PeriodOperation, PeriodPlan } from './period-operations.js';
import type { Call } from './play.js';

const HOUR_MS = 3_600_000;
/**
 * How long ago boundaries are passed and periods begin. The next boundary is at least an hour away, so none
 * is reached by itself.
 */
export const AGO_MS = 60_000;
export const RECURRENCE = 'a rule';

/** The ends of consecutive periods with these lengths, from an instant on. */
export function endsAfter(instant: number, hours: readonly number[]): number[] {
  let last = instant;
  return hours.map((count) => (last += count * HOUR_MS));
}

/** The first period of a budget, which has already begun. */
export function firstPeriod(plan: PeriodPlan, allocation: bigint, now: number): ModelPeriod {
  const starts = now - AGO_MS;
  const [ends = 0, ...coming] = endsAfter(starts, [plan.hours, ...(plan.recurrence ?? [])]);
  const { policy, recurrence } = plan;
  return { starts, ends, policy, allocation, plan: recurrence === undefined ? undefined : coming };
}

/** Moves the periods of a budget into the past, by this many boundaries or by all planned ones. */
export function passed(period: ModelPeriod, boundaries: number, now: number): ModelPeriod {
  const { starts, ends, plan } = period;
  const length = ends - starts;
  const coming =
    plan === undefined
      ? Array.from({ length: boundaries }, (_, index) => ends + index * length)
      : [ends, ...plan];
  const by = now - AGO_MS - (coming.slice(0, boundaries).at(-1) as number);
  const moved = (instant: number): number => instant + by;
  return {
    ...period,
    starts: moved(starts),
    ends: moved(ends),
    plan: plan?.map(moved),
    planAt: period.planAt === undefined ? undefined : moved(period.planAt),
  };
}

/** Stores the period as the scripts do. Its end is in the index while the model says so. */
export async function storePeriod(
  client: LedgerClient,
  { scope, unit, period, isIndexed }: ModelBudget,
): Promise<void> {
  if (period === undefined) {
    return;
  }
  const { starts, ends, policy, allocation, plan, planAt } = period;
  await client.redis.hset(client.budgetKeyOf(scope, unit), {
    extras: '1',
    period_start: starts,
    period_end: ends,
    rollover_policy: policy,
    period_allocated: String(allocation),
    ...(plan && { recurrence: RECURRENCE, boundaries: plan.join() }),
  });
  if (isIndexed === true) {
    await client.redis.zadd(periodIndexKey(client.tag), ends, `${scope} ${unit}`);
  }
  if (planAt !== undefined) {
    await client.redis.zadd(periodPlansKey(client.tag), planAt, `${scope} ${unit}`);
  }
}

/** The fields of a budget's period that a rollover or funding may change. */
function storedPeriod(stored: Readonly<Record<string, string>> | undefined): string {
  return ['period_start', 'period_end', 'period_allocated', 'boundaries']
    .map((name) => stored?.[name])
    .join(' ');
}

/** The stored periods and their events beside those of the model: pairs with a name. */
export function comparedPeriods(model: LedgerModel, state: LedgerState): [string, string[], string[]][] {
  const pairs = model.budgets.flatMap(({ scope, unit, period }): [string, string[], string[]][] => {
    const stored = storedPeriod(state.budgets.get(`${unit}:${scope}`));
    const modelled =
      period === undefined
        ? '   '
        : [period.starts, period.ends, period.allocation, period.plan?.join()].join(' ');
    return [[`period of ${scope}`, [stored], [modelled]]];
  });
  const rollovers = state.events.filter(({ fields }) => fields['rollover_policy'] !== undefined);
  const index = model.indexed().map(([member, ends]) => `${member} ${ends}`);
  return [
    ...pairs,
    ['index of periods', [...state.periods].map((entry) => entry.join(' ')).sort(), index.sort()],
    ['audit rows of rollovers', [String(state.rolloverRows)], [String(rollovers.length)]],
  ];
}

/** What reads show for tenants with a rollover that no script has made yet. */
export async function comparedReads(
  client: LedgerClient,
  model: LedgerModel,
  tenants: readonly string[],
): Promise<[string, string[], string[]][]> {
  const now = await client.serverTime();
  const compared: [string, string[], string[]][] = [];
  for (const tenant of tenants) {
    const root = `tenant:${tenant}`;
    const budgets = model.budgets.filter(({ scope }) => scope.split('/')[0] === root);
    if (budgets.some((budget) => model.shown(budget, now) !== model.figures(budget))) {
      // After the place where the next run starts, and the number of damaged budgets.
      const [, , ...shown] = await client.scripts.run(
        'balances',
        [budgetIndexKey(client.tag, tenant)],
        ['', 100, 100, '1', root, root],
      );
      const lines = budgets.map((budget) => [budget.scope, budget.unit, model.shown(budget, now)].join(' '));
      const stored = budgets.map((_, index) => shown.slice(index * 3, index * 3 + 3).join(' '));
      compared.push(['balances', stored.sort(), lines.sort()]);
    }
  }
  return compared;
}

/** The call of an operation, or nothing for one that only moves time. */
export function periodCall(
  operation: Exclude<PeriodOperation, { kind: 'pass' }>,
  budgets: readonly ModelBudget[],
): Call | undefined {
  if (operation.kind === 'idle') {
    const { limit } = operation;
    return {
      send: async (ledger) => ['ROLLED', ...(await rollOver(ledger, limit))],
      judge: (model, now) => model.rollOverIdle(limit, now),
    };
  }
  const budget = budgets[operation.budget % budgets.length];
  if (budget === undefined) {
    return undefined;
  }
  const { scope, unit } = budget;
  if (operation.kind === 'plan') {
    const instants = endsAfter(budget.period?.starts ?? 0, operation.hours);
    const rule = operation.isOld ? 'the rule before' : RECURRENCE;
    return {
      send: (client) =>
        client.scripts.run(
          'plan_periods',
          [client.budgetKeyOf(scope, unit)],
          [scope, unit, rule, ...instants],
        ),
      judge: (model) => model.plan(budget, instants, operation.isOld),
    };
  }
  const { operation: funding, amount, spent } = operation;
  return {
    send: async (client) =>
      undatedFunding(await fund(client, amount, { scope, unit, operation: funding, spent: spent ?? '' })),
    judge: (model, now) => model.fund(budget, { operation: funding, amount, spent }, now),
  };
}
