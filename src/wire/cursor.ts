import { Refusal } from '../ledger/index.js';

export type SortValue = string | number | bigint;

/** Where a page ended: the last row's sort value, and its id for those that share the value. */
export interface Position {
  readonly value: SortValue;
  readonly id: string;
}

/** In what order a list comes. */
export interface SortOrder<Key extends string = string> {
  readonly sortBy: Key;
  readonly direction: 'asc' | 'desc';
}

/**
 * A cursor holds its position and the fingerprint of the query that it continues. It is opaque to clients, but it is neither
 * secret nor signed: a position says only where in the caller's own list to go on.
 *
 * @param query the fingerprint of the filters and of the order
 * @param order that of a list that can be sorted: the next page need not ask for it again
 */
export function encodeCursor(query: string, { value, id }: Position, order?: SortOrder): string {
  const parts = [query, typeof value, value.toString(), id];
  return Buffer.from(
    JSON.stringify(order === undefined ? parts : [...parts, order.sortBy, order.direction]),
  ).toString('base64url');
}

/**
 * The order that a request asks for; what it leaves out comes from the cursor that it continues, or else from the list's usual order.
 * A request that contradicts its cursor gets another fingerprint than the cursor has, so `decodeCursor` refuses it.
 */
export function sortOrderOf<Key extends string>(
  request: {
    readonly sort_by?: Key | undefined;
    readonly sort_dir?: 'asc' | 'desc' | undefined;
    readonly cursor?: string | undefined;
  },
  keys: readonly Key[],
  usual: SortOrder<Key>,
): SortOrder<Key> {
  const [, , , , sortBy, direction] = partsOf(request.cursor ?? '');
  const carried = keys.find((key) => key === sortBy);
  return {
    sortBy: request.sort_by ?? carried ?? usual.sortBy,
    direction:
      request.sort_dir ?? (direction === 'asc' || direction === 'desc' ? direction : usual.direction),
  };
}

/**
 * @param accepts whether a position can stand in this list, for lists that a forged one would harm
 * @throws Refusal INVALID_REQUEST when the cursor is none, or continues another query.
 */
export function decodeCursor(
  query: string,
  cursor: string,
  accepts: (position: Position) => boolean = () => true,
): Position {
  const [asked, type, text, id] = partsOf(cursor);
  const value = valueOf(type, text);
  if (asked !== query || value === undefined || id === undefined || !accepts({ value, id })) {
    throw new Refusal(
      'INVALID_REQUEST',
      'the cursor belongs to no list with these filters and this order; start again without a cursor',
      {
        field: 'cursor',
      },
    );
  }
  return { value, id };
}

function partsOf(cursor: string): string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    return Array.isArray(parts) &&
      (parts.length === 4 || parts.length === 6) &&
      parts.every((part) => typeof part === 'string')
      ? parts
      : [];
  } catch {
    // Whatever is wrong with the text, the answer is the same.
    return [];
  }
}

function valueOf(type: string | undefined, text = ''): SortValue | undefined {
  switch (type) {
    case 'bigint':
      return /^-?\d{1,19}$/.test(text) ? BigInt(text) : undefined;
    case 'number':
      return text === '' || Number.isNaN(Number(text)) ? undefined : Number(text);
    case 'string':
      return text;
    default:
      return undefined;
  }
}

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
