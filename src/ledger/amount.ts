import { leafSegment } from './scopes.js';

/** Amounts are int64, exact: `bigint` in TypeScript, decimal strings in the scripts, plain JSON integers on the wire. */
export const INT64_MAX = 9223372036854775807n;
export const INT64_MIN = -9223372036854775808n;

const DECIMAL = /^-?(0|[1-9]\d{0,18})$/;

/**
 * Parses an amount that a script returned.
 * @throws Error if the text is not a canonical int64, as in a corrupt record.
 */
export function parseAmount(text: string | undefined): bigint {
  if (text === undefined || !DECIMAL.test(text)) {
    throw new Error(`not an int64 amount: ${text ?? 'missing'}`);
  }
  const value = BigInt(text);
  if (value > INT64_MAX || value < INT64_MIN) {
    throw new Error(`amount outside int64: ${text}`);
  }
  return value;
}

/** The four units of the protocol (UnitEnum). */
export const UNITS = ['USD_MICROCENTS', 'TOKENS', 'CREDITS', 'RISK_POINTS'] as const;
export type Unit = (typeof UNITS)[number];

export const OVERAGE_POLICIES = ['REJECT', 'ALLOW_IF_AVAILABLE', 'ALLOW_WITH_OVERDRAFT'] as const;
export type OveragePolicy = (typeof OVERAGE_POLICIES)[number];

/** ObserveModeEnum of cycles-protocol-extensions-v0.1.26. DISABLED means the same as ENFORCE. */
export const OBSERVE_MODES = ['DISABLED', 'OBSERVE', 'ENFORCE'] as const;
export type ObserveMode = (typeof OBSERVE_MODES)[number];

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

const UNIT_WORDS: Readonly<Record<Unit, string>> = {
  USD_MICROCENTS: '',
  TOKENS: 'tokens',
  CREDITS: 'credits',
  RISK_POINTS: 'risk points',
};
/** A dollar has a hundred million microcents. */
const MICROCENTS_DIGITS = 8;

/** An amount as people read it, exact: `3,300 tokens`, `$0.33`. */
export function amountWords(amount: bigint, unit: string): string {
  if (unit !== 'USD_MICROCENTS') {
    return `${amount.toLocaleString('en-US')} ${UNIT_WORDS[unit as Unit] ?? unit}`;
  }
  const digits = amount.toString().padStart(MICROCENTS_DIGITS + 1, '0');
  const dollars = BigInt(digits.slice(0, -MICROCENTS_DIGITS)).toLocaleString('en-US');
  const cents = digits.slice(-MICROCENTS_DIGITS).replace(/0{1,6}$/, '');
  return `$${dollars}.${cents}`;
}
