import canonicalize from 'canonicalize';
import { MARK, unmarked } from './json.js';

/**
 * The canonical JSON text of a value by RFC 8785 (JCS). One difference: an integer that a double cannot represent, a `bigint` here,
 * keeps all its digits. JCS has no form for it, and rounding it would sign another amount than the ledger's.
 * @throws Error for what JSON has no form for, and for a lone surrogate
 */
export function canonicalJson(value: unknown): string {
  const exact = hasBigint(value);
  const text = canonicalize(exact ? marked(value) : value);
  if (text === undefined) {
    throw new Error('the value has no JSON form');
  }
  return exact ? unmarked(text) : text;
}

function hasBigint(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'bigint';
  }
  return Object.values(value).some(hasBigint);
}

/** A copy with a marked string for each bigint. JCS sorts members by their names alone, so the values may be replaced afterwards. */
function marked(value: unknown): unknown {
  if (typeof value === 'bigint') {
    return MARK + value.toString();
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  return Array.isArray(value)
    ? value.map(marked)
    : Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, marked(entry)]));
}
