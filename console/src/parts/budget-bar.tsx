import type { ReactNode } from 'react';
import type { Int64 } from '../api/json';
import type { Budget } from '../api/types';

/** The share of a whole in per mille, computed exactly; 1000 at most. */
export function perMille(part: Int64, whole: Int64): number {
  const [some, all] = [BigInt(part), BigInt(whole)];
  if (all <= 0n) {
    return some > 0n ? 1000 : 0;
  }
  const share = (some * 1000n) / all;
  return Number(share > 1000n ? 1000n : share < 0n ? 0n : share);
}

/** What is spent and held of what is allocated. */
export function usedPerMille({ allocated, spent, reserved }: Budget): number {
  return perMille(BigInt(spent.amount) + BigInt(reserved.amount), allocated.amount);
}

/** Spent, held and debt as shares of what is allocated. */
export function BudgetBar({ budget: { allocated, spent, reserved, debt } }: { budget: Budget }): ReactNode {
  const parts = [
    ['--debt', debt],
    ['--spent', spent],
    ['--held', reserved],
  ] as const;
  return (
    <div className="bar" aria-hidden="true">
      {parts.map(([colour, part]) => (
        <span
          key={colour}
          style={{
            width: `${perMille(part.amount, allocated.amount) / 10}%`,
            background: `var(${colour})`,
          }}
        />
      ))}
    </div>
  );
}
