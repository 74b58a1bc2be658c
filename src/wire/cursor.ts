import { invalidField } from '../ledger/index.js';

export type SortValue = string | number | bigint;

/** Where a page ended: the sort value of its last row, and the row's id, because rows may share a value. */
export interface Position {
  readonly value: SortValue;
  readonly id: string;
}

export interface SortOrder<Key extends string = string> {
  readonly sortBy: Key;
  readonly direction: 'asc' | 'desc';
}

/**
 * A cursor contains a position and the fingerprint of the query that it continues. It is opaque to clients, but neither secret nor
 * signed, because a position only selects a part of the caller's own list.
 *
 * @param query the fingerprint of the filters and the order
 * @param order for lists with a selectable order: the request for the next page may then omit it
 */
export function encodeCursor(query: string, { value, id }: Position, order?: SortOrder): string {
  const parts = [query, typeof value, value.toString(), id];
  return Buffer.from(
    JSON.stringify(order === undefined ? parts : [...parts, order.sortBy, order.direction]),
  ).toString('base64url');
}

/**
 * The requested order. What the request omits comes from its cursor, or else from the list's default order.
 * A request that contradicts its cursor has a different fingerprint, so `decodeCursor` refuses it.
 */
export function sortOrderOf<Key extends string>(
  request: {
    readonly sort_by?: Key | undefined;
    readonly sort_dir?: 'asc' | 'desc' | undefined;
    readonly cursor?: string | undefined;
  },
  keys: readonly Key[],
  defaultOrder: SortOrder<Key>,
): SortOrder<Key> {
  const [, , , , sortBy, direction] = partsOf(request.cursor ?? '');
  const carried = keys.find((key) => key === sortBy);
  return {
    sortBy: request.sort_by ?? carried ?? defaultOrder.sortBy,
    direction:
      request.sort_dir ?? (direction === 'asc' || direction === 'desc' ? direction : defaultOrder.direction),
  };
}

/**
 * @param accepts checks a position, for lists that must not be read at a forged one
 * @throws Refusal INVALID_REQUEST if the cursor is malformed or belongs to another query.
 */
export function decodeCursor(
  query: string,
  cursor: string,
  accepts: (position: Position) => boolean = () => true,
): Position {
  const [cursorQuery, type, text, id] = partsOf(cursor);
  const value = valueOf(type, text);
  if (cursorQuery !== query || value === undefined || id === undefined || !accepts({ value, id })) {
    throw invalidField(
      'cursor',
      'the cursor does not belong to a list with these filters and this order; start again without a cursor',
    );
  }
  return { value, id };
}

/** Where a page begins: after the one before, or without a cursor at the start of the list. @throws as `decodeCursor` does */
export function placeAfter(
  query: string,
  cursor = '',
  accepts?: (position: Position) => boolean,
): Position | undefined {
  return cursor === '' ? undefined : decodeCursor(query, cursor, accepts);
}

/** The last members of a page. */
export interface PageEnd {
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

/** @param next where this page ended, if another one follows */
export function pageEnd(query: string, next: Position | undefined, order?: SortOrder): PageEnd {
  return next === undefined
    ? { has_more: false }
    : { has_more: true, next_cursor: encodeCursor(query, next, order) };
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
 * Selects one page from rows in any order and keeps only as many rows as the page needs. Rows with the same sort value are sorted by
 * id, ascending in both directions, so following cursors neither repeats nor skips a row.
 */
export class PageSelection<Row> {
  private readonly entries: Entry<Row>[] = [];

  /** @param after where the previous page ended; earlier rows are ignored */
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
    const last = this.lastKept();
    if (last !== undefined) {
      if (this.compare(entry, last) >= 0) {
        return;
      }
      this.entries.pop();
    }
    this.entries.splice(this.placeOf(entry), 0, entry);
  }

  /** Once enough rows are kept, the last of them. Rows after it are not needed any more. */
  lastKept(): Position | undefined {
    // One row more than the page holds shows whether there is another page.
    return this.entries.length > this.limit ? this.entries[this.limit] : undefined;
  }

  rows(): Row[] {
    return this.entries.slice(0, this.limit).map(({ row }) => row);
  }

  /** Where this page ends, if there is another one. */
  next(): Position | undefined {
    return this.lastKept() === undefined ? undefined : this.entries[this.limit - 1];
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
