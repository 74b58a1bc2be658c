import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { Refusal } from '../ledger/index.js';

/** What the native parser may round (16 digits and more), and numbers with a fraction or an exponent; a few texts look like them. */
const INEXACT = /\d{16}|(?:^|[:[,\s])-?\d+[.eE]/;
/** Strings and numbers of a text that is known to be valid JSON; no alternative can match at the same place twice. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
const INTEGER = /^-?\d+$/;
/** int64 has 19 digits. Longer integers are nobody's amount, and turning a million digits into a bigint would block the process. */
const MAX_INTEGER_LENGTH = 40;
/** Marks a bigint inside a JSON string; random, so that no client can write one. */
const MARK = `${randomBytes(16).toString('hex')}:`;
/** Marks a number that is whole, but was written with a fraction or an exponent. */
const DECIMAL_MARK = `${randomBytes(16).toString('hex')}:`;

/** Members of parsed objects whose value is whole only because a double rounds, or which were written like `1.0` or `1e3`. */
const decimals = new WeakMap<object, Set<string>>();

/**
 * Whether a member of a parsed object is not written as an integer, though its value is one: `1.0`, `1e3`, `1e-400`,
 * `0.99999999999999999999`. JSON knows no difference, but an amount that was rounded is another amount.
 */
export function isWrittenAsDecimal(holder: object, name: string): boolean {
  return decimals.get(holder)?.has(name) === true;
}

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
  return position === null
    ? 'it ends too early or holds an unexpected character'
    : `unexpected text at position ${position[1] ?? '0'}`;
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
      const value = Number(token);
      if (!Number.isFinite(value)) {
        throw new Refusal('INVALID_REQUEST', 'the request body holds a number that is too large');
      }
      if (!Number.isInteger(value)) {
        return token;
      }
      marked = true;
      return `"${DECIMAL_MARK}${token}"`;
    }
    if (token.length > MAX_INTEGER_LENGTH) {
      throw new Refusal(
        'INVALID_REQUEST',
        `the request body holds an integer of more than ${MAX_INTEGER_LENGTH} digits`,
      );
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
    return JSON.parse(exact, unmark) as unknown;
  } catch (error) {
    // Only the reviver recurses, so a RangeError means nesting beyond the stack.
    if (error instanceof RangeError) {
      throw new Refusal('INVALID_REQUEST', 'the request body is nested too deeply');
    }
    throw error;
  }
}

/** Called by JSON.parse for each member, its holder being `this`. */
function unmark(this: object, key: string, entry: unknown): unknown {
  if (typeof entry !== 'string') {
    return entry;
  }
  if (entry.startsWith(MARK)) {
    return BigInt(entry.slice(MARK.length));
  }
  if (!entry.startsWith(DECIMAL_MARK)) {
    return entry;
  }
  const names = decimals.get(this) ?? new Set();
  decimals.set(this, names.add(key));
  return Number(entry.slice(DECIMAL_MARK.length));
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
          throw new Refusal('INVALID_REQUEST', "a member may not be named '__proto__'", {
            field: '__proto__',
          });
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
