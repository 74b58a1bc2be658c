import { DemoError, type Answer, type Api } from './api.js';
import { SCOPES, TENANT, UNIT } from './demo-scopes.js';

export const FIGURES = ['remaining', 'reserved', 'spent', 'allocated'] as const;
export type Figure = (typeof FIGURES)[number];
export type Figures = Readonly<Record<Figure, number>>;
/** The figures of each demo scope, root first. */
export type Balances = ReadonlyMap<string, Figures>;

interface BalanceBody {
  readonly scope_path: string;
  readonly remaining: { readonly unit: string; readonly amount: number };
  readonly reserved?: { readonly amount: number };
  readonly spent?: { readonly amount: number };
  readonly allocated?: { readonly amount: number };
}

/**
 * The balances that an answer carries, of the demo's scopes only.
 * @throws DemoError when one of the scopes is missing.
 */
export function balancesIn(step: string, { body }: Answer): Balances {
  const listed = (body['balances'] ?? []) as readonly BalanceBody[];
  return new Map(
    SCOPES.map((scope) => {
      const found = listed.find((balance) => balance.scope_path === scope && balance.remaining.unit === UNIT);
      if (found === undefined) {
        throw new DemoError(`${step}: the answer holds no balance of ${scope}`);
      }
      const { remaining, reserved, spent, allocated } = found;
      const figures = {
        remaining: remaining.amount,
        reserved: reserved?.amount ?? 0,
        spent: spent?.amount ?? 0,
        allocated: allocated?.amount ?? 0,
      };
      return [scope, figures];
    }),
  );
}

export async function readBalances(step: string, api: Api): Promise<Balances> {
  return balancesIn(
    step,
    await api.expect(step, [200], 'GET', `/v1/balances?tenant=${TENANT}&include_children=true&limit=200`),
  );
}

/** Why `after` is not `before` with the given changes at every scope, in words; undefined when it is. */
export function deviation(before: Balances, after: Balances, change: Partial<Figures>): string | undefined {
  for (const scope of SCOPES) {
    for (const figure of FIGURES) {
      const expected = (before.get(scope)?.[figure] ?? 0) + (change[figure] ?? 0);
      const found = after.get(scope)?.[figure] ?? 0;
      if (found !== expected) {
        return `${figure} of ${scope} should be ${expected} and is ${found}`;
      }
    }
  }
  return undefined;
}

export function someReserved(balances: Balances): boolean {
  return [...balances.values()].some(({ reserved }) => reserved !== 0);
}
