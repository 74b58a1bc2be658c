import { Refusal } from '../ledger/index.js';

export type SortValue = string | number | bigint;

/** Where a page ended: the last row's sort value, and its id for those that share the value. */
export interface Position {
  readonly value: SortValue;
  readonly id: string;
}

/**
 * A cursor holds its position and the fingerprint of the query that it continues. It is opaque to clients, but it is neither
 * secret nor signed: a position says only where in the caller's own list to go on.
 */
export function encodeCursor(query: string, { value, id }: Position): string {
  return Buffer.from(JSON.stringify([query, typeof value, value.toString(), id])).toString('base64url');
}

/**
 * @param accepts whether a position can stand in this list, for lists that a forged one would harm
 * @throws Refusal INVALID_REQUEST when the cursor is none, or continues another query.
 */
export function decodeCursor(query: string, cursor: string, accepts: (position: Position) => boolean = () => true): Position {
  const [asked, type, text, id] = partsOf(cursor);
  const value = valueOf(type, text);
  if (asked !== query || value === undefined || id === undefined || !accepts({ value, id })) {
    throw new Refusal('INVALID_REQUEST', 'the cursor belongs to no list with these filters and this order; start again without a cursor', {
      field: 'cursor',
    });
  }
  return { value, id };
}

function partsOf(cursor: string): string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    return Array.isArray(parts) && parts.length === 4 && parts.every((part) => typeof part === 'string') ? parts : [];
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
