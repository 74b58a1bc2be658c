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
