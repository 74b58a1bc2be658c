import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import canonicalize from 'canonicalize';
import { Refusal } from '../ledger/index.js';

/** Matches integers that JSON.parse may round (16 digits or more) and numbers with a fraction or exponent. May also match in strings. */
const INEXACT = /\d{16}|(?:^|[:[,\s])-?\d+[.eE]/;
/** Matches the strings and numbers of valid JSON. At each position only one alternative can match, so there is no backtracking. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
const INTEGER = /^-?\d+$/;
/** No int64 has more than 19 digits. Converting an integer of a million digits to bigint would block the process. */
const MAX_INTEGER_LENGTH = 40;
/** Prefix of a string that stands for a bigint. Random, so that no client can send it. */
export const MARK = `${randomBytes(16).toString('hex')}:`;
/** Prefix of a string that stands for an integer written with a fraction or an exponent. */
const DECIMAL_MARK = `${randomBytes(16).toString('hex')}:`;

/** For each parsed object, the members whose values are integers, but were not written as such. */
const decimals = new WeakMap<object, Set<string>>();

/**
 * Whether the value of a parsed member is an integer, but was not written as one: `1.0`, `1e3`, `1e-400`,
 * `0.99999999999999999999`. An amount must not be a rounded one.
 */
export function isWrittenAsDecimal(holder: object, name: string): boolean {
  return decimals.get(holder)?.has(name) === true;
}

/**
 * Parses JSON without losing digits: integers that a double cannot represent exactly become `bigint`. Everything else is as
 * JSON.parse returns it; of repeated members, the last one counts.
 * @throws Refusal INVALID_REQUEST if the text is not valid JSON, or contains a number out of range, a member named `__proto__`, or a
 * lone surrogate, which cannot be stored as UTF-8.
 */
export function parseJson(text: string): unknown {
  const value = INEXACT.test(text) ? parseExact(text) : parseNative(text);
  if (text.includes('\\u') || text.includes('__proto__')) {
    refuseUnsafeText(value);
  }
  return value;
}

/** Parses a request body. An empty one is `undefined`; the operation decides whether that is allowed. */
export function parseBody(body: Buffer): unknown {
  if (body.length === 0) {
    return undefined;
  }
  if (!isUtf8(body)) {
    throw new Refusal('INVALID_REQUEST', 'the request body is not UTF-8');
  }
  return parseJson(body.toString('utf8'));
}

/** The integer that a text of digits stands for: a number, or a `bigint` where a number would be rounded. */
export function exactInteger(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

/** Like JSON.stringify, but writes `bigint` as an integer. That takes several times as long if there is one. */
export function stringifyJson(value: unknown): string {
  try {
    // Several times as fast as with a replacer. Throws at the first bigint.
    return JSON.stringify(value);
  } catch {
    return unmarked(
      JSON.stringify(value, (_key, entry: unknown) =>
        typeof entry === 'bigint' ? MARK + entry.toString() : entry,
      ),
    );
  }
}

/** Writes the marked strings of a JSON text as the integers that they stand for. */
export function unmarked(text: string): string {
  return text.replaceAll(MARKED_STRING, '$1');
}

const MARKED_STRING = new RegExp(`"${MARK}(-?\\d+)"`, 'g');

function parseNative(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Refusal('INVALID_REQUEST', `the request body is not valid JSON: ${syntaxProblem(error)}`);
  }
}

/** V8's message quotes the body, which must not reach the log. */
function syntaxProblem(error: unknown): string {
  const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '');
  return position === null
    ? 'it ends too early or contains an unexpected character'
    : `unexpected text at position ${position[1] ?? '0'}`;
}

function parseExact(text: string): unknown {
  // Validates the syntax, which TOKEN relies on.
  parseNative(text);
  let marked = false;
  const exact = text.replace(TOKEN, (token) => {
    if (token.startsWith('"')) {
      return token;
    }
    if (!INTEGER.test(token)) {
      const value = Number(token);
      if (!Number.isFinite(value)) {
        throw new Refusal('INVALID_REQUEST', 'the request body contains a number that is too large');
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
        `the request body contains an integer of more than ${MAX_INTEGER_LENGTH} digits`,
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
    // Only the reviver recurses, so a RangeError means that the nesting exhausts the stack.
    if (error instanceof RangeError) {
      throw new Refusal('INVALID_REQUEST', 'the request body is nested too deeply');
    }
    throw error;
  }
}

/** A reviver of JSON.parse, which passes the object that has the member as `this`. */
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

/** Not recursive, because JSON.parse accepts any depth. */
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
          throw new Refusal('INVALID_REQUEST', "a member must not be named '__proto__'", {
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
    throw new Refusal('INVALID_REQUEST', 'the request body contains half of a surrogate pair');
  }
}

/** From ES2024, which all supported versions of Node have, but the compiler's library lacks. */
const WELL_FORMED = (String.prototype as unknown as { isWellFormed: (this: string) => boolean }).isWellFormed;

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
