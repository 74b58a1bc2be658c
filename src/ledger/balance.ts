import { leafSegment } from './scopes.js';

/** A budget's figures as the scripts return them: `remaining,reserved,spent,allocated,debt,overdraft_limit,is_over_limit`. */
const FIGURES = /^(-?\d+),(\d+),(\d+),(\d+),(\d+),(\d+),([01])$/;

/**
 * A balance of the protocol as JSON text. The digits go from the script to the client untouched, so no amount is ever
 * rounded on the way, and scopes and units hold no character that JSON escapes. `debt` and `overdraft_limit` are left out
 * where they are zero, and `is_over_limit` where it is false.
 * @throws Error when the figures have not the scripts' form.
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

/** The tail of a script's reply, scope and figures in turn from `first` on, as the JSON text of `balances`. */
export function balancesJson(reply: readonly string[], first: number, unit: string): string {
  let text = '[';
  for (let index = first; index < reply.length; index += 2) {
    text +=
      (index === first ? '' : ',') + balanceJson(reply[index] as string, unit, reply[index + 1] as string);
  }
  return `${text}]`;
}
