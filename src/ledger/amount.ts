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
