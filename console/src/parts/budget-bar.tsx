import type { ReactNode } from 'react';
import type { Int64 } from '../api/json';

/** The share of a whole in per mille, computed exactly; 1000 at most. */
export function perMille(part: Int64 | bigint, whole: Int64 | bigint): number {
  const [some, all] = [BigInt(part), BigInt(whole)];
  if (all <= 0n) {
    return some > 0n ? 1000 : 0;
  }
  const share = (some * 1000n) / all;
  return Number(share > 1000n ? 1000n : share < 0n ? 0n : share);
}

/** Spent, held and debt as shares of what is allocated. */
export function BudgetBar({
  allocated,
  spent,
  reserved,
  debt,
}: {
  allocated: Int64;
  spent: Int64;
  reserved: Int64;
  debt: Int64;
}): ReactNode {
  const parts = [
    ['--debt', perMille(debt, allocated)],
    ['--spent', perMille(spent, allocated)],
    ['--held', perMille(reserved, allocated)],
  ] as const;
  return (
    <div className="bar" aria-hidden="true">
      {parts.map(([colour, share]) => (
        <span key={colour} style={{ width: `${share / 10}%`, background: `var(${colour})` }} />
      ))}
    </div>
  );
}
