import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import canonicalize from 'canonicalize';
import { Refusal } from '../ledger/index.js';
import { hasBigint, JsonProblem, readJson } from './exact-json.js';

/**
 * Parses a request body. An empty one is `undefined`; the operation decides whether that is allowed.
 * @throws Refusal INVALID_REQUEST if `readJson` does not accept it
 */
export function parseBody(body: Buffer): unknown {
  if (body.length === 0) {
    return undefined;
  }
  if (!isUtf8(body)) {
    throw new Refusal('INVALID_REQUEST', 'the request body is not UTF-8');
  }
  return readBody(body.toString('utf8'));
}

function readBody(text: string): unknown {
  try {
    return readJson(text);
  } catch (error) {
    if (error instanceof JsonProblem) {
      const { message, field } = error;
      throw new Refusal(
        'INVALID_REQUEST',
        `the request body ${message}`,
        field === undefined ? undefined : { field },
      );
    }
    throw error;
  }
}

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
  return exact ? text.replaceAll(MARKED_STRING, '$1') : text;
}

/** Prefix of a string that stands for a bigint. Random, so that no client can send it. */
const MARK = `${randomBytes(16).toString('hex')}:`;
const MARKED_STRING = new RegExp(`"${MARK}(-?\\d+)"`, 'g');

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
