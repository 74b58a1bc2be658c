import { leafSegment } from './scopes.js';

/** A budget's figures, as the scripts return them. */
export interface BalanceFigures {
  readonly remaining: string;
  readonly reserved: string;
  readonly spent: string;
  readonly allocated: string;
  readonly debt: string;
  readonly overdraftLimit: string;
  readonly isOverLimit: boolean;
}

/**
 * A `Balance` of the protocol as JSON text. Digits are copied from the script's reply, so no amount is ever rounded. Scopes and
 * units contain no character that JSON escapes. Omits `debt` and `overdraft_limit` when zero and `is_over_limit` when false.
 */
export function balanceJson(scopePath: string, unit: string, figures: BalanceFigures): string {
  const { remaining, reserved, spent, allocated, debt, overdraftLimit, isOverLimit } = figures;
  const amount = `{"unit":"${unit}","amount":`;
  const owed = debt === '0' ? '' : `,"debt":${amount}${debt}}`;
  const limit = overdraftLimit === '0' ? '' : `,"overdraft_limit":${amount}${overdraftLimit}}`;
  return (
    `{"scope":"${leafSegment(scopePath)}","scope_path":"${scopePath}","remaining":${amount}${remaining}},` +
    `"reserved":${amount}${reserved}},"spent":${amount}${spent}},"allocated":${amount}${allocated}}` +
    `${owed}${limit}${isOverLimit ? ',"is_over_limit":true' : ''}}`
  );
}

/** The balances of a script's reply as JSON text. */
export function balancesJson(
  balances: readonly { readonly scope: string; readonly balance: BalanceFigures }[],
  unit: string,
): string {
  return `[${balances.map(({ scope, balance }) => balanceJson(scope, unit, balance)).join(',')}]`;
}
