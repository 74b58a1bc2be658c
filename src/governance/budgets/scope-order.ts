import { UNITS } from '../../ledger/index.js';
import type { Records, ScopeWalk } from '../../redis/index.js';
import { DEFAULT_LIMIT, fieldOf, type Fields, MAX_LIMIT, type RecordSelection } from '../../wire/index.js';
import type { BudgetLedger } from './budget.js';

/** Sorts after the space that follows a scope in the index, and before every character of a longer scope. */
const AFTER_UNITS = '!';
/** Sorts after every character of a scope. */
const AFTER_SCOPES = '\u007f';

export interface ScopeOrder {
  readonly direction: 'asc' | 'desc';
  /** What the scopes start with, in lower case. */
  readonly prefix: string;
  readonly limit: number | undefined;
}

/**
 * Offers a tenant's budgets to a list in the order of scopes, from where the previous page ended until the page is full.
 * @param budgetOf the budget of a record, or undefined if a filter leaves it out
 * @throws StoreUnavailable
 */
export async function offerByScope(
  records: Records,
  tenantId: string,
  order: ScopeOrder,
  selection: RecordSelection<BudgetLedger>,
  budgetOf: (fields: Fields) => BudgetLedger | undefined,
): Promise<void> {
  await records.budgetsByScope(tenantId, startOf(order, selection), (fields) => {
    const scope = fieldOf(fields, 'scope');
    const last = selection.lastKept();
    const mayBeOnPage = scope.startsWith(order.prefix) && (last === undefined || last.value === scope);
    const budget = mayBeOnPage ? budgetOf(fields) : undefined;
    if (budget !== undefined) {
      selection.offer(budget);
    }
    return mayBeOnPage;
  });
}

/**
 * Where the page starts in the index, which has each budget as `scope unit`. For descending scopes it is walked backwards, but a list has
 * the units of a scope ascending in both directions. So the scope in which the previous page ended is read again, and the selection
 * drops the units that were on that page.
 */
function startOf(
  { direction, prefix, limit = DEFAULT_LIMIT }: ScopeOrder,
  { after: last }: RecordSelection<BudgetLedger>,
): ScopeWalk {
  const walk = { direction, limit: Math.min(limit, MAX_LIMIT) + 1 + 2 * UNITS.length };
  if (direction === 'asc') {
    const after = last?.id ?? '';
    return { ...walk, after: after > prefix ? after : prefix };
  }
  const ends = [
    ...(prefix === '' ? [] : [prefix + AFTER_SCOPES]),
    ...(last === undefined ? [] : [String(last.value) + AFTER_UNITS]),
  ];
  return { ...walk, after: ends.sort()[0] ?? '' };
}
