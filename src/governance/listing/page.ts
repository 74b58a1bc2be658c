import { fingerprintOf } from '../../ledger/index.js';
import { decodeCursor, encodeCursor, type Position, type SortValue } from './cursor.js';

export const DEFAULT_LIMIT = 50;
/** A larger limit is taken for this one: dashboards ask for thousands. */
export const MAX_LIMIT = 100;

export interface PageRequest<Row> {
  /** All that tells this list and its order from others: a cursor continues only the same. */
  readonly query: object;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
  readonly direction: 'asc' | 'desc';
  readonly valueOf: (row: Row) => SortValue;
  readonly idOf: (row: Row) => string;
}

/** One page, in the members that every list of the governance plane has. */
export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

interface Entry<Row> extends Position {
  readonly row: Row;
}

/**
 * Picks one page out of rows that come in any order, keeping no more of them than the page needs. Rows with the same sort value
 * stand in the order of their ids, in both directions, so a walk from cursor to cursor neither repeats nor skips a row.
 */
export class PageSelection<Row> {
  private readonly entries: Entry<Row>[] = [];
  private readonly query: string;
  private readonly after: Position | undefined;
  private readonly limit: number;

  /** @throws Refusal INVALID_REQUEST when the cursor belongs to another list. */
  constructor(private readonly request: PageRequest<Row>) {
    this.query = fingerprintOf(request.query);
    this.after = request.cursor === undefined || request.cursor === '' ? undefined : decodeCursor(this.query, request.cursor);
    this.limit = Math.min(request.limit ?? DEFAULT_LIMIT, MAX_LIMIT);
  }

  offer(row: Row): void {
    const entry = { row, value: this.request.valueOf(row), id: this.request.idOf(row) };
    if (this.after !== undefined && this.compare(entry, this.after) <= 0) {
      return;
    }
    // One row more than the page holds tells whether there is another page.
    if (this.entries.length > this.limit) {
      if (this.compare(entry, this.entries.at(-1) as Entry<Row>) >= 0) {
        return;
      }
      this.entries.pop();
    }
    this.entries.splice(this.placeOf(entry), 0, entry);
  }

  page(): Page<Row> {
    const shown = this.entries.slice(0, this.limit);
    const last = shown.at(-1);
    const rows = shown.map(({ row }) => row);
    return this.entries.length > this.limit && last !== undefined
      ? { rows, has_more: true, next_cursor: encodeCursor(this.query, last) }
      : { rows, has_more: false };
  }

  private placeOf(entry: Position): number {
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.compare(this.entries[middle] as Position, entry) < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private compare(a: Position, b: Position): number {
    if (a.value !== b.value) {
      return (a.value < b.value) === (this.request.direction === 'asc') ? -1 : 1;
    }
    return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
  }
}
