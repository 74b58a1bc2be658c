import { Injectable } from '@nestjs/common';
import { isWithin, treeOrder, UNITS } from '../../ledger/index.js';
import { Records, type ScopeWalk } from '../../redis/index.js';
import {
  DEFAULT_LIMIT,
  fieldOf,
  type Fields,
  MAX_LIMIT,
  type Page,
  PageSelection,
  type Position,
  type RecordSelection,
} from '../../wire/index.js';
import type { BudgetLedger } from './budget.js';

/** In the index, these sort after the budgets of a scope, and after those and all below it: see `treeOrder`. */
const AFTER_UNITS = '!';
const AFTER_TREE = '"';

export interface ScopeOrder {
  readonly direction: 'asc' | 'desc';
  /** The scope whose tree is listed, in canonical form; empty for all. */
  readonly above: string;
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
    const mayBeOnPage =
      isWithin(scope, order.above) && (last === undefined || last.value === treeOrder(scope));
    const budget = mayBeOnPage ? budgetOf(fields) : undefined;
    if (budget !== undefined) {
      selection.offer(budget);
    }
    return mayBeOnPage;
  });
}

/**
 * Where the page starts in the index, which has each budget in the order of trees. For descending scopes it is walked backwards, but a list has
 * the units of a scope ascending in both directions. So the scope in which the previous page ended is read again, and the selection
 * drops the units that were on that page.
 */
function startOf(
  { direction, above, limit = DEFAULT_LIMIT }: ScopeOrder,
  { after: last }: RecordSelection<BudgetLedger>,
): ScopeWalk {
  const walk = { direction, limit: Math.min(limit, MAX_LIMIT) + 1 + 2 * UNITS.length };
  if (direction === 'asc') {
    return { ...walk, after: treeOrder(last?.id ?? above) };
  }
  const ends = [
    ...(above === '' ? [] : [treeOrder(above.replace(/\/$/, '')) + AFTER_TREE]),
    ...(last === undefined ? [] : [String(last.value) + AFTER_UNITS]),
  ];
  return { ...walk, after: ends.sort()[0] ?? '' };
}

interface KeptOrder {
  /** The positions of consecutive budgets of the list. The ids are `scope unit`. */
  readonly places: readonly Position[];
  /** Whether the list ends with them. */
  readonly isWhole: boolean;
  readonly foundAt: number;
}

/** A hundred pages. A place takes about 200 bytes. */
const MOST_PLACES = 10_000;
const MOST_ORDERS = 8;
const KEPT_MS = 60_000;

type Selection = RecordSelection<BudgetLedger>;

/**
 * The orders of lists that are being read page by page. No index sorts budgets by their figures, which change with each request, so the
 * first page of such a list reads all budgets. The second one does so, too, and keeps their order. Further pages read only their own
 * budgets, with their present figures. Orders belong to this process. One is lost after a minute, or if others take its place, and
 * then a page reads all budgets again.
 */
@Injectable()
export class KeptOrders {
  /** By the fingerprint of the list; the first one was used longest ago. */
  private readonly orders = new Map<string, KeptOrder>();

  constructor(private readonly records: Records) {}

  /**
   * The page after a known place of a kept order; undefined if all budgets have to be read.
   * @param budgetOf the budget of a record, or undefined if a filter leaves it out by now
   * @throws StoreUnavailable
   */
  async page(
    selection: Selection,
    budgetOf: (fields: Fields) => BudgetLedger | undefined,
  ): Promise<Page<BudgetLedger> | undefined> {
    const { query, after, limit } = selection;
    const order = this.orders.get(query);
    if (after === undefined || order === undefined || performance.now() - order.foundAt > KEPT_MS) {
      return undefined;
    }
    const place = order.places.findIndex(({ value, id }) => id === after.id && value === after.value);
    const places = order.places.slice(place + 1);
    if (place < 0 || (places.length <= limit && !order.isWhole)) {
      return undefined;
    }
    this.orders.delete(query);
    this.orders.set(query, order);
    const rows: BudgetLedger[] = [];
    let read = 0;
    while (rows.length < limit && read < places.length) {
      const some = places.slice(read, read + limit - rows.length);
      await this.records.budgets(
        some.map(({ id }) => id),
        (fields) => {
          const budget = budgetOf(fields);
          if (budget !== undefined) {
            rows.push(budget);
          }
        },
      );
      read += some.length;
    }
    return selection.pageOf(rows, read < places.length || !order.isWhole ? places[read - 1] : undefined);
  }

  /** Keeps the order of what follows the end of the previous page. Call `offer` with each budget, then `keep`. */
  newOrder({ query, after, order }: Selection): { offer: (place: Position) => void; keep: () => void } {
    const found = new PageSelection<Position>(
      { direction: order.direction, valueOf: ({ value }) => value, idOf: ({ id }) => id },
      MOST_PLACES,
      after,
    );
    return {
      offer: (place) => {
        if (after !== undefined) {
          found.offer(place);
        }
      },
      keep: () => {
        if (after === undefined) {
          return;
        }
        this.orders.delete(query);
        for (const [list, { foundAt }] of this.orders) {
          if (this.orders.size >= MOST_ORDERS || performance.now() - foundAt > KEPT_MS) {
            this.orders.delete(list);
          }
        }
        const places = [after, ...found.rows()];
        this.orders.set(query, {
          places,
          isWhole: found.next() === undefined,
          foundAt: performance.now(),
        });
      },
    };
  }
}
