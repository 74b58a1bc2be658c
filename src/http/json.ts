import { randomBytes } from 'node:crypto';
import { isUtf8 } from 'node:buffer';
import { Refusal } from '../ledger/index.js';

/** What the native parser may round (16 digits and more) or turn into Infinity (an exponent of three digits). */
const INEXACT = /\d{16}|\d[eE]\+?\d{3}/;
/** Strings and numbers of a text that is known to be valid JSON; no alternative can match at the same place twice. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
const INTEGER = /^-?\d+$/;
/** int64 has 19 digits. Longer integers are nobody's amount, and turning a million digits into a bigint would block the process. */
const MAX_INTEGER_LENGTH = 40;
/** Marks a bigint inside a JSON string; random, so that no client can write one. */
const MARK = `${randomBytes(16).toString('hex')}:`;

/**
 * Parses JSON without losing digits: integers that a double cannot hold exactly become `bigint`, all other values are
 * as JSON.parse gives them (of repeated members the last wins, always).
 * @throws Refusal INVALID_REQUEST when the text is no JSON, holds a number that nothing can represent, a member named
 * `__proto__`, or half of a surrogate pair, which could not be stored and given back.
 */
export function parseJson(text: string): unknown {
  const value = INEXACT.test(text) ? parseExact(text) : parseNative(text);
  if (text.includes('\\u') || text.includes('__proto__')) {
    refuseUnsafeText(value);
  }
  return value;
}

/** Parses a request body; an empty one is `undefined`, and whether that is allowed is the operation's own rule. */
export function parseBody(body: Buffer): unknown {
  if (body.length === 0) {
    return undefined;
  }
  if (!isUtf8(body)) {
    throw new Refusal('INVALID_REQUEST', 'the request body is not UTF-8');
  }
  return parseJson(body.toString('utf8'));
}

/** JSON with `bigint` printed as digits; otherwise as JSON.stringify. */
export function stringifyJson(value: unknown): string {
  let marked = false;
  const text = JSON.stringify(value, (_key, entry: unknown) => {
    if (typeof entry === 'bigint') {
      marked = true;
      return MARK + entry.toString();
    }
    return entry;
  });
  return marked ? text.replaceAll(MARKED_STRING, '$1') : text;
}

const MARKED_STRING = new RegExp(`"${MARK}(-?\\d+)"`, 'g');

function parseNative(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Refusal('INVALID_REQUEST', `the request body is not valid JSON: ${where(error)}`);
  }
}

/** V8 quotes the body around the mistake; the client knows its body, and logs should not. */
function where(error: unknown): string {
  const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '');
  return position === null ? 'it ends too early or holds an unexpected character' : `unexpected text at position ${position[1] ?? '0'}`;
}

function parseExact(text: string): unknown {
  // The first pass checks the grammar, so that the second may rely on it.
  parseNative(text);
  let marked = false;
  const exact = text.replace(TOKEN, (token) => {
    if (token.startsWith('"')) {
      return token;
    }
    if (!INTEGER.test(token)) {
      if (!Number.isFinite(Number(token))) {
        throw new Refusal('INVALID_REQUEST', 'the request body holds a number that is too large');
      }
      return token;
    }
    if (token.length > MAX_INTEGER_LENGTH) {
      throw new Refusal('INVALID_REQUEST', `the request body holds an integer of more than ${MAX_INTEGER_LENGTH} digits`);
    }
    if (Number.isSafeInteger(Number(token))) {
      return token;
    }
    marked = true;
    return `"${MARK}${token}"`;
  });
  if (!marked) {
    return JSON.parse(text) as unknown;
  }
  try {
    return JSON.parse(exact, (_key, entry: unknown) =>
      typeof entry === 'string' && entry.startsWith(MARK) ? BigInt(entry.slice(MARK.length)) : entry,
    ) as unknown;
  } catch (error) {
    // Only the reviver recurses, so a RangeError means nesting beyond the stack.
    if (error instanceof RangeError) {
      throw new Refusal('INVALID_REQUEST', 'the request body is nested too deeply');
    }
    throw error;
  }
}

/** Walks without recursion: the native parser accepts any depth. */
function refuseUnsafeText(root: unknown): void {
  const pending: unknown[] = [root];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (typeof value === 'string') {
      refuseLoneSurrogate(value);
    } else if (Array.isArray(value)) {
      for (const item of value) {
        pending.push(item);
      }
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, entry] of Object.entries(value)) {
        if (key === '__proto__') {
          throw new Refusal('INVALID_REQUEST', "a member may not be named '__proto__'", { field: '__proto__' });
        }
        refuseLoneSurrogate(key);
        pending.push(entry);
      }
    }
  }
}

function refuseLoneSurrogate(text: string): void {
  if (!WELL_FORMED.call(text)) {
    throw new Refusal('INVALID_REQUEST', 'the request body holds half of a surrogate pair');
  }
}

/** ES2024, in every Node that is supported, but not yet in the compiler's library. */
const WELL_FORMED = (String.prototype as unknown as { isWellFormed: (this: string) => boolean }).isWellFormed;
