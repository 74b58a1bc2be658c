import type { ReactNode } from 'react';
import type { Int64 } from '../api/json';

export type Unit = 'USD_MICROCENTS' | 'TOKENS' | 'CREDITS' | 'RISK_POINTS';

/** Amount of the API. */
export interface AmountOf {
  readonly unit: string;
  readonly amount: Int64;
}

/** A dollar has a hundred million microcents. */
const MICROCENTS_DIGITS = 8;
const CENT_DIGITS = 2;

function grouped(digits: string): string {
  return digits.replace(/\B(?=(\d{3})+$)/g, ',');
}

/** Dollars with at least two decimals, and as many more as the amount has. */
function dollars(amount: bigint): string {
  const digits = (amount < 0n ? -amount : amount).toString().padStart(MICROCENTS_DIGITS + 1, '0');
  const whole = grouped(digits.slice(0, -MICROCENTS_DIGITS));
  const fraction = digits.slice(-MICROCENTS_DIGITS).replace(/0+$/, '').padEnd(CENT_DIGITS, '0');
  return `${amount < 0n ? '−' : ''}$${whole}.${fraction}`;
}

/** An amount in the form of its unit, exact. */
export function formatAmount(amount: Int64 | bigint, unit: string): string {
  const exact = BigInt(amount);
  if (unit === 'USD_MICROCENTS') {
    return dollars(exact);
  }
  const text = grouped((exact < 0n ? -exact : exact).toString());
  return `${exact < 0n ? '−' : ''}${text}`;
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
  const clean = text.replace(/[\s,$_]/g, '');
  if (unit !== 'USD_MICROCENTS') {
    return /^\d{1,19}$/.test(clean) ? BigInt(clean) : undefined;
  }
  const parts = /^(\d{1,12})(?:\.(\d{0,8}))?$/.exec(clean);
  return parts === null
    ? undefined
    : BigInt(`${parts[1] ?? ''}${(parts[2] ?? '').padEnd(MICROCENTS_DIGITS, '0')}`);
}

const MAX_COUNT = 2_147_483_647;

/** The number that a field has; undefined if it is empty, NaN if it is no count. */
export function parseCount(text: string): number | undefined {
  const clean = text.replace(/[\s,_]/g, '');
  const count = /^\d{1,10}$/.test(clean) ? Number(clean) : Number.NaN;
  return clean === '' ? undefined : count <= MAX_COUNT ? count : Number.NaN;
}

/** An amount in the form of its unit. The exact integer of the protocol shows on hover. */
export function Amount({
  amount,
  unit,
  withUnit = false,
}: {
  amount: Int64 | bigint;
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
