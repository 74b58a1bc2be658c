import {
  decodeCursor,
  encodeCursor,
  PageSelection as Selection,
  type PageOrder,
  type Position,
  type SortOrder,
} from '../../http/index.js';
import { fingerprintOf } from '../../ledger/index.js';
import type { Fields } from './fields.js';

export const DEFAULT_LIMIT = 50;
/** A larger limit is taken for this one: dashboards ask for thousands. */
export const MAX_LIMIT = 100;

export interface PageRequest<Row> extends Omit<PageOrder<Row>, 'direction'> {
  /** All that tells this list from others, but its order: a cursor continues only the same. */
  readonly query: object;
  readonly order: SortOrder;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
  /** Whether a position can stand in this list, for lists that a forged one would harm. */
  readonly accepts?: (position: Position) => boolean;
}

/** One page, in the members that every list of the governance plane has. */
export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

/** Picks one page of a list of the governance plane out of rows that come in any order. */
export class PageSelection<Row> {
  private readonly query: string;
  private readonly order: SortOrder;
  private readonly selection: Selection<Row>;
  /** Where the page before ended. */
  readonly after: Position | undefined;

  /** @throws Refusal INVALID_REQUEST when the cursor belongs to another list. */
  constructor(request: PageRequest<Row>) {
    const { cursor = '', limit = DEFAULT_LIMIT, order, accepts } = request;
    this.order = order;
    this.query = fingerprintOf({ ...request.query, sort_by: order.sortBy, sort_dir: order.direction });
    this.after = cursor === '' ? undefined : decodeCursor(this.query, cursor, accepts);
    this.selection = new Selection(
      { ...request, direction: order.direction },
      Math.min(limit, MAX_LIMIT),
      this.after,
    );
  }

  offer(row: Row): void {
    this.selection.offer(row);
  }

  /** The row behind which none is wanted any more, once there are enough. */
  worst(): Position | undefined {
    return this.selection.worst();
  }

  page(): Page<Row> {
    const rows = this.selection.rows();
    const next = this.selection.next();
    return next === undefined
      ? { rows, has_more: false }
      : { rows, has_more: true, next_cursor: encodeCursor(this.query, next, this.order) };
  }
}

/** A page with the free texts of its rows, which lists read for those that they show only. */
export async function withTexts<Row>(
  page: Page<Row>,
  read: (rows: readonly Row[]) => Promise<readonly Fields[]>,
  textsOf: (fields: Fields) => Partial<Row>,
): Promise<Page<Row>> {
  const texts = page.rows.length === 0 ? [] : await read(page.rows);
  return { ...page, rows: page.rows.map((row, index) => ({ ...row, ...textsOf(texts[index] as Fields) })) };
}
