import { periodPlansKey } from '../../src/redis/keyspace.js';
import { setWindows } from '../support/governance-client.js';
import { type LedgerClient, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import type { LedgerState } from '../support/ledger-state.js';
import type { LedgerModel } from './model.js';
import type { ModelBudget } from './model-records.js';
import { type ModelWindow, planAtOf } from './model-windows.js';
import type { OperatorOperation, WindowPlan } from './operator-operations.js';
import type { Call } from './play.js';
import { AGO_MS, endsAfter, passed, RECURRENCE } from './play-periods.js';

const ADMIN = ['admin', '', 'req_1', TRACE] as const;

/** Stores the windows of a budget as set_windows does. */
export async function storeWindows(
  client: LedgerClient,
  { scope, unit, windows = [] }: ModelBudget,
): Promise<void> {
  if (windows.length === 0) {
    return;
  }
  const fields = windows.map(({ name, limit, spent, starts, ends }) =>
    [name, limit, spent, starts, ends].join(),
  );
  await client.redis.hset(client.budgetKeyOf(scope, unit), {
    extras: '1',
    windows: fields.join(' '),
    window_rules: windows.map(({ name }) => `rule of ${name}`).join('|'),
    window_plans: windows.map(({ plan }) => plan.join()).join('|'),
  });
  for (const { name, planAt } of windows) {
    if (planAt !== undefined) {
      await client.redis.zadd(periodPlansKey(client.tag), planAt, `${scope} ${unit} ${name}`);
    }
  }
}

/** The first windows of a budget, which have already begun. */
export function firstWindows(plans: readonly WindowPlan[], now: number): ModelWindow[] {
  return plans.map(({ name, limit, hours }) => {
    const starts = now - AGO_MS;
    const [ends = 0, ...plan] = endsAfter(starts, hours);
    return { name, limit, spent: 0n, starts, ends, plan, planAt: planAtOf(plan) };
  });
}

/** A window after time has passed over this many of its boundaries, or over all planned ones. */
export function passedWindow(window: ModelWindow, boundaries: number, now: number): ModelWindow {
  const {
    starts,
    ends,
    plan = [],
    planAt,
  } = passed({ ...window, policy: 'NONE', allocation: 0n }, boundaries, now);
  return { ...window, starts, ends, plan, planAt };
}

/** The stored windows beside those of the model: pairs with a name. */
export function comparedWindows(model: LedgerModel, state: LedgerState): [string, string[], string[]][] {
  return model.budgets.map(({ scope, unit, windows = [] }) => {
    const stored = state.budgets.get(`${unit}:${scope}`);
    const modelled = [
      windows
        .map(({ name, limit, spent, starts, ends }) => [name, limit, spent, starts, ends].join())
        .join(' '),
      windows.map(({ plan }) => plan.join()).join('|'),
    ];
    return [`windows of ${scope}`, [stored?.['windows'] ?? '', stored?.['window_plans'] ?? ''], modelled];
  });
}

/** The reply without the record, but with the time of the last change that the record has. */
function dated(reply: string[]): string[] {
  return reply[0] === 'CHANGED' ? ['CHANGED', reply[reply.indexOf('updated_at') + 1] as string] : reply;
}

/** The call of an operation. `began` is an instant before the play. */
export function operatorCall(
  operation: OperatorOperation,
  budgets: readonly ModelBudget[],
  began: number,
): Call | undefined {
  const budget = budgets[operation.budget % budgets.length];
  if (budget === undefined) {
    return undefined;
  }
  const { scope, unit } = budget;
  const owner = scope.split('/')[0]?.slice('tenant:'.length) as string;
  const asDated = (judge: (model: LedgerModel, now: number) => string[]): Call['judge'] => {
    return (model, now) => {
      const reply = judge(model, now);
      return reply[0] === 'CHANGED' ? ['CHANGED', String(now)] : reply;
    };
  };
  switch (operation.kind) {
    case 'update': {
      const { overdraftLimit, policy, hours } = operation;
      const ends = hours === undefined ? undefined : (endsAfter(began, [hours])[0] as number);
      const rest = ends === undefined ? [] : ['rollover_policy', policy];
      return {
        send: async (client) =>
          dated(
            await client.scripts.run(
              'update_budget',
              [client.budgetKeyOf(scope, unit)],
              [
                owner,
                scope,
                unit,
                String(overdraftLimit),
                ...ADMIN,
                '',
                String(ends ?? ''),
                RETENTION_MS,
                ...rest,
              ],
            ),
          ),
        judge: asDated((model, now) => model.update(budget, { overdraftLimit, ends, policy }, now)),
      };
    }
    case 'recurrence': {
      const instants = endsAfter(began, operation.hours);
      const rule = instants.length === 0 ? '' : RECURRENCE;
      return {
        send: async (client) =>
          dated(
            await client.scripts.run(
              'set_recurrence',
              [client.budgetKeyOf(scope, unit)],
              [owner, scope, unit, rule, operation.policy, ...ADMIN, ...instants],
            ),
          ),
        judge: asDated((model, now) => model.setRecurrence(budget, instants, operation.policy, now)),
      };
    }
    case 'windows': {
      const windows = operation.windows.map(({ name, limit, hours }) => ({
        name,
        limit,
        ends: endsAfter(began, hours),
      }));
      // Removing the windows of a budget without windows changes nothing, not even its time of change.
      const changes = windows.length + (budget.windows ?? []).length > 0;
      return {
        send: async (client) => {
          const reply = dated(await setWindows(client, windows, scope, unit));
          return changes || reply[0] !== 'CHANGED' ? reply : ['UNCHANGED'];
        },
        judge: asDated((model, now) => model.setWindows(budget, windows, now)),
      };
    }
    case 'planWindow': {
      const { name, isOld, hours } = operation;
      const window = budget.windows?.find((one) => one.name === name);
      const instants = endsAfter(window?.starts ?? 0, hours);
      const rule = isOld ? 'the rule before' : `rule of ${name}`;
      return {
        send: (client) =>
          client.scripts.run(
            'plan_window',
            [client.budgetKeyOf(scope, unit)],
            [scope, unit, name, rule, ...instants],
          ),
        judge: (model) => model.planWindow(budget, name, instants, isOld),
      };
    }
  }
}
