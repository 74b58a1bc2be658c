import { FIGURES, type Balances } from './balances.js';

/** A number as a person reads it: 1,000,000. */
export function amount(value: number): string {
  return value.toLocaleString('en-US');
}

/** The balances as aligned lines; a figure that changed since `before` is followed by its change. */
export function balanceTable(balances: Balances, before: Balances = balances): string {
  const rows = [...balances].map(([scope, figures]) => {
    const cells = FIGURES.flatMap((figure) => {
      const change = figures[figure] - (before.get(scope)?.[figure] ?? 0);
      return [amount(figures[figure]), change === 0 ? '' : `(${change > 0 ? '+' : ''}${amount(change)})`];
    });
    return [scope, ...cells];
  });
  return align([['scope', ...FIGURES.flatMap((figure) => [figure, ''])], ...rows]);
}

/** Figures stand to the right of their columns; the scope, and the change behind each figure, to the left. */
function align(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) =>
        column % 2 === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart((widths[column] ?? 0) + 1),
      )
      .join(' ');
  return rows.map((row) => `   ${line(row)}`.trimEnd()).join('\n');
}
