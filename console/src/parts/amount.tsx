import type { ReactNode } from 'react';
import type { Int64 } from '../api/json';
import type { Unit } from '../api/types';
import { COUNT, type Decimal, numberFormat, readDecimal } from './numbers';

/** A dollar has a hundred million microcents. */
const MICROCENTS_DIGITS = 8;
const CENT_DIGITS = 2;
const DOLLARS = numberFormat({
  minimumFractionDigits: CENT_DIGITS,
  maximumFractionDigits: MICROCENTS_DIGITS,
});

/** In columns at most, two more than cents have. */
const COLUMN_DIGITS = 4;
const CENTS = numberFormat({ minimumFractionDigits: CENT_DIGITS, maximumFractionDigits: CENT_DIGITS });
const SHORT_DOLLARS = numberFormat({
  minimumFractionDigits: COLUMN_DIGITS,
  maximumFractionDigits: COLUMN_DIGITS,
});
const LEAST_SHOWN = 10n ** BigInt(MICROCENTS_DIGITS - COLUMN_DIGITS);

/** Dollars with at least two decimals, and as many more as the amount and the format have. */
function dollars(amount: bigint, format: Intl.NumberFormat): string {
  const digits = amount.toString().padStart(MICROCENTS_DIGITS + 1, '0');
  const point = digits.length - MICROCENTS_DIGITS;
  return `$${format.format(`${digits.slice(0, point)}.${digits.slice(point)}` as Decimal)}`;
}

/** An amount in the form of its unit, exact. */
export function formatAmount(amount: Int64, unit: string): string {
  const exact = BigInt(amount);
  const size = exact < 0n ? -exact : exact;
  return `${exact < 0n ? '−' : ''}${unit === 'USD_MICROCENTS' ? dollars(size, DOLLARS) : COUNT.format(size)}`;
}

/** Whether it is one once it is rounded to the decimals of a column. */
const isWholeCents = (size: bigint): boolean =>
  ((size + LEAST_SHOWN / 2n) / LEAST_SHOWN) % 10n ** BigInt(COLUMN_DIGITS - CENT_DIGITS) === 0n;

/**
 * An amount for a column: whole cents, or rounded to two decimals more. What rounds to nothing is shown as less than the least. `rest` has
 * the decimals that it lacks, for a column in which another amount has them.
 */
function shortAmount(amount: Int64, unit: string): { readonly shown: string; readonly rest: string } {
  if (unit !== 'USD_MICROCENTS') {
    return { shown: formatAmount(amount, unit), rest: '' };
  }
  const exact = BigInt(amount);
  const size = exact < 0n ? -exact : exact;
  const sign = exact < 0n ? '−' : '';
  if (size === 0n || (size >= LEAST_SHOWN && isWholeCents(size))) {
    const shown = dollars(size, CENTS);
    return { shown: sign + shown, rest: dollars(size, SHORT_DOLLARS).slice(shown.length) };
  }
  const shown = size < LEAST_SHOWN ? `<${dollars(LEAST_SHOWN, SHORT_DOLLARS)}` : dollars(size, SHORT_DOLLARS);
  return { shown: sign + shown, rest: '' };
}

const UNIT_WORDS: Readonly<Record<string, string>> = {
  USD_MICROCENTS: 'US dollars',
  TOKENS: 'tokens',
  CREDITS: 'credits',
  RISK_POINTS: 'risk points',
};

export const UNITS = Object.keys(UNIT_WORDS) as readonly Unit[];

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

/** An amount in the form of its unit. On hover it is exact, also as the integer of the protocol; with `exact`, always. */
export function Amount({
  amount,
  unit,
  withUnit = false,
  exact = false,
}: {
  amount: Int64;
  unit: string;
  withUnit?: boolean;
  exact?: boolean;
}): ReactNode {
  const full = formatAmount(amount, unit);
  const { shown, rest } = exact ? { shown: full, rest: '' } : shortAmount(amount, unit);
  const isLong = !exact && unit === 'USD_MICROCENTS' && rest === '';
  const integer = `${BigInt(amount).toString()} ${unit}`;
  return (
    <span
      className={isLong ? 'num amount-long' : 'num'}
      title={shown === full ? integer : `${full}, ${integer}`}
    >
      {shown}
      {rest !== '' && <span className="amount-rest">{rest}</span>}
      {withUnit && unit !== 'USD_MICROCENTS' && <span className="muted"> {unitWord(unit)}</span>}
    </span>
  );
}
