import { Refusal } from '../../ledger/index.js';

export type SortValue = string | number | bigint;

/** Where a page ended: the last row's sort value, and its id for those that share the value. */
export interface Position {
  readonly value: SortValue;
  readonly id: string;
}

/** A cursor holds its position and the fingerprint of the query that it continues. It is opaque to clients. */
export function encodeCursor(query: string, { value, id }: Position): string {
  return Buffer.from(JSON.stringify([query, typeof value, value.toString(), id])).toString('base64url');
}

/** @throws Refusal INVALID_REQUEST when the cursor is none, or continues another query. */
export function decodeCursor(query: string, cursor: string): Position {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (Array.isArray(parts) && parts.length === 4 && parts.every((part) => typeof part === 'string')) {
      const [cursorQuery, type, text, id] = parts as [string, string, string, string];
      if (cursorQuery === query) {
        return { value: valueOf(type, text), id };
      }
    }
  } catch {
    // Whatever is wrong with the text, the answer is the same.
  }
  throw new Refusal('INVALID_REQUEST', 'the cursor belongs to no list with these filters and this order; start again without a cursor', {
    field: 'cursor',
  });
}

function valueOf(type: string, text: string): SortValue {
  switch (type) {
    case 'bigint':
      return BigInt(text);
    case 'number':
      return Number(text);
    default:
      return text;
  }
}
