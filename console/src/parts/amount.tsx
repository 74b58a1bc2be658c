import type { ReactNode } from 'react';
import type { Int64 } from '../api/json';
import { COUNT, type Decimal, numberFormat, readDecimal } from './numbers';

/** A dollar has a hundred million microcents. */
const MICROCENTS_DIGITS = 8;
const CENT_DIGITS = 2;
const DOLLARS = numberFormat({
  minimumFractionDigits: CENT_DIGITS,
  maximumFractionDigits: MICROCENTS_DIGITS,
});

/** Dollars with at least two decimals, and as many more as the amount has. */
function dollars(amount: bigint): string {
  const digits = amount.toString().padStart(MICROCENTS_DIGITS + 1, '0');
  const point = digits.length - MICROCENTS_DIGITS;
  return `$${DOLLARS.format(`${digits.slice(0, point)}.${digits.slice(point)}` as Decimal)}`;
}

/** An amount in the form of its unit, exact. */
export function formatAmount(amount: Int64, unit: string): string {
  const exact = BigInt(amount);
  const size = exact < 0n ? -exact : exact;
  return `${exact < 0n ? '−' : ''}${unit === 'USD_MICROCENTS' ? dollars(size) : COUNT.format(size)}`;
}

const UNIT_WORDS: Readonly<Record<string, string>> = {
  USD_MICROCENTS: 'US dollars',
  TOKENS: 'tokens',
  CREDITS: 'credits',
  RISK_POINTS: 'risk points',
};

export const unitWord = (unit: string): string => UNIT_WORDS[unit] ?? unit;

/** What an operator typed, as an amount; undefined if it is none. Dollars may have up to eight decimals. */
export function parseAmount(text: string, unit: string): bigint | undefined {
  const isDollars = unit === 'USD_MICROCENTS';
  const [whole = '', decimals = ''] =
    readDecimal(isDollars ? text.replace(/^\s*\$/, '') : text)?.split('.') ?? [];
  return whole !== '' && decimals.length <= (isDollars ? MICROCENTS_DIGITS : 0) && whole.length <= MAX_DIGITS
    ? BigInt(`${whole}${isDollars ? decimals.padEnd(MICROCENTS_DIGITS, '0') : ''}`)
    : undefined;
}

/** An int64 has 19. The server refuses what is beyond one. */
const MAX_DIGITS = 19;
/** Shows the separators of the reader's language. */
const EXAMPLES: Readonly<Record<'dollars' | 'whole', string>> = {
  dollars: formatAmount(123_450_000_000n, 'USD_MICROCENTS'),
  whole: formatAmount(1234n, 'TOKENS'),
};

/** Why what an operator typed is no amount, or undefined if it is one. */
export function amountProblem(text: string, unit: string, what = 'An amount'): string | undefined {
  if (text.trim() === '') {
    return `${what} in ${unitWord(unit)} is missing`;
  }
  return parseAmount(text, unit) === undefined
    ? `“${text.trim()}” is not an amount in ${unitWord(unit)}; write ${
        unit === 'USD_MICROCENTS' ? EXAMPLES.dollars : EXAMPLES.whole
      }, or leave out what separates thousands`
    : undefined;
}

/** What an operator typed, where `amountProblem` finds nothing wrong with it. */
export function amountOf(text: string, unit: string): bigint {
  const amount = parseAmount(text, unit);
  if (amount === undefined) {
    throw new Error(amountProblem(text, unit));
  }
  return amount;
}

/** An amount in the form of its unit. The exact integer of the protocol shows on hover. */
export function Amount({
  amount,
  unit,
  withUnit = false,
}: {
  amount: Int64;
  unit: string;
  withUnit?: boolean;
}): ReactNode {
  return (
    <span className="num" title={`${BigInt(amount).toString()} ${unit}`}>
      {formatAmount(amount, unit)}
      {withUnit && unit !== 'USD_MICROCENTS' && <span className="muted"> {unitWord(unit)}</span>}
    </span>
  );
}
