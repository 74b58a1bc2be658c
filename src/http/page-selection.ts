import type { Position, SortValue } from './cursor.js';

export interface PageOrder<Row> {
  readonly direction: 'asc' | 'desc';
  readonly valueOf: (row: Row) => SortValue;
  readonly idOf: (row: Row) => string;
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

  /** @param after where the page before ended; rows up to there are not taken */
  constructor(
    private readonly order: PageOrder<Row>,
    private readonly limit: number,
    private readonly after?: Position,
  ) {}

  offer(row: Row): void {
    const entry = { row, value: this.order.valueOf(row), id: this.order.idOf(row) };
    if (this.after !== undefined && this.compare(entry, this.after) <= 0) {
      return;
    }
    const worst = this.worst();
    if (worst !== undefined) {
      if (this.compare(entry, worst) >= 0) {
        return;
      }
      this.entries.pop();
    }
    this.entries.splice(this.placeOf(entry), 0, entry);
  }

  /** The row that the next better one will push out, once there are enough: a row behind it is not wanted any more. */
  worst(): Position | undefined {
    // One row more than the page holds tells whether there is another page.
    return this.entries.length > this.limit ? this.entries[this.limit] : undefined;
  }

  rows(): Row[] {
    return this.entries.slice(0, this.limit).map(({ row }) => row);
  }

  /** Where this page ends, when there is another one. */
  next(): Position | undefined {
    return this.worst() === undefined ? undefined : this.entries[this.limit - 1];
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
      return a.value < b.value === (this.order.direction === 'asc') ? -1 : 1;
    }
    return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
  }
}
