/**
 * Balance of cycles-protocol-v0, UNIT CONSISTENCY and LEDGER INVARIANT: a server must never send a balance
 * whose figures have different units or do not add up. A schema cannot express this.
 */

const FIGURES = ['remaining', 'reserved', 'spent', 'allocated', 'debt', 'overdraft_limit'];

interface Figure {
  readonly unit: string;
  readonly amount: number | bigint;
}

/** The faults of all balances anywhere in a response body. */
export function balanceProblems(value: unknown, at = ''): string[] {
  if (typeof value !== 'object' || value === null) {
    return [];
  }
  const inside = Object.entries(value).flatMap(([name, entry]) => balanceProblems(entry, `${at}/${name}`));
  return 'scope_path' in value && 'remaining' in value ? [...problemsOf(value, at), ...inside] : inside;
}

function problemsOf(balance: object, at: string): string[] {
  const figures = new Map(
    Object.entries(balance as Readonly<Record<string, Figure | undefined>>).filter(
      ([name, figure]) => FIGURES.includes(name) && figure !== undefined,
    ),
  );
  const units = new Set([...figures.values()].map((figure) => figure?.unit));
  const problems = units.size > 1 ? [`${at} mixes the units ${[...units].join(', ')}`] : [];
  const [remaining, allocated, spent, reserved, debt] = [
    'remaining',
    'allocated',
    'spent',
    'reserved',
    'debt',
  ].map((name) => figures.get(name)?.amount);
  if (remaining === undefined || allocated === undefined || spent === undefined || reserved === undefined) {
    return problems;
  }
  // Holdfast omits a debt of zero.
  const expected = BigInt(allocated) - BigInt(spent) - BigInt(reserved) - BigInt(debt ?? 0);
  return BigInt(remaining) === expected
    ? problems
    : [...problems, `${at}: ${remaining} remains, and allocated - spent - reserved - debt is ${expected}`];
}
