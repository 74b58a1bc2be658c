import { leafSegment } from './scopes.js';

/** A budget's figures as the scripts return them: `remaining,reserved,spent,allocated,debt,overdraft_limit,is_over_limit`. */
const FIGURES = /^(-?\d+),(\d+),(\d+),(\d+),(\d+),(\d+),([01])$/;

/**
 * A `Balance` of the protocol as JSON text. Digits are copied from the script's reply, so no amount is ever rounded. Scopes and
 * units contain no character that JSON escapes. Omits `debt` and `overdraft_limit` when zero and `is_over_limit` when false.
 * @throws Error if the figures are malformed.
 */
export function balanceJson(scopePath: string, unit: string, figures: string): string {
  const parts = FIGURES.exec(figures);
  if (parts === null) {
    throw new Error(`not a balance: ${figures}`);
  }
  const [, remaining, reserved, spent, allocated, debt, overdraftLimit, isOverLimit] =
    parts as unknown as string[];
  const amount = `{"unit":"${unit}","amount":`;
  const owed = debt === '0' ? '' : `,"debt":${amount}${debt}}`;
  const limit = overdraftLimit === '0' ? '' : `,"overdraft_limit":${amount}${overdraftLimit}}`;
  return (
    `{"scope":"${leafSegment(scopePath)}","scope_path":"${scopePath}","remaining":${amount}${remaining}},` +
    `"reserved":${amount}${reserved}},"spent":${amount}${spent}},"allocated":${amount}${allocated}}` +
    `${owed}${limit}${isOverLimit === '1' ? ',"is_over_limit":true' : ''}}`
  );
}

/** The JSON text of `balances`, from a script's reply that alternates scopes and figures from index `first` on. */
export function balancesJson(reply: readonly string[], first: number, unit: string): string {
  let text = '[';
  for (let index = first; index < reply.length; index += 2) {
    text +=
      (index === first ? '' : ',') + balanceJson(reply[index] as string, unit, reply[index + 1] as string);
  }
  return `${text}]`;
}
