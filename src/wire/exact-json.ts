/**
 * The one reader and the one writer of JSON: for request bodies, stored texts, evidence, the command line, and the console, which runs
 * this file in browsers. So it imports nothing.
 *
 * JSON.parse rounds integers beyond 2^53, and keeps the last of repeated members, where another reader may keep the first. This reader
 * takes about as long for the body of a reserve as JSON.parse with the checks that were around it; lossless-json takes twice as long,
 * and accepts repeated members with equal values.
 */

/** Why a text is not accepted, as the rest of a sentence about it: `is not valid JSON: …`. */
export class JsonProblem extends Error {
  override readonly name = 'JsonProblem';

  constructor(
    message: string,
    readonly field?: string,
  ) {
    super(message);
  }
}

/** No int64 has more than 19 digits. Converting an integer of a million digits to bigint would block the process. */
const MAX_INTEGER_LENGTH = 40;
/** Long before the stack ends. Nothing that a client may send nests as deep. */
const MAX_DEPTH = 1000;

/** Up to the first character that cannot stand for itself in a string. */
const PLAIN_TEXT = /[^"\\\u0000-\u001f]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const INTEGER = /^-?\d+$/;
/** The pattern reads whole characters, so it matches only halves without the other half. */
const LONE_SURROGATE = /\p{Surrogate}/u;

const LAST_CONTROL = 0x1f;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const SPACE = 0x20;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const TAB = 0x09;

/** For each parsed object, the members whose values are integers, but were not written as such. */
const decimals = new WeakMap<object, Set<string>>();

/** Whether a value is an object of JSON: no list, and not null. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Whether the value of a parsed member is an integer, but was not written as one: `1.0`, `1e3`, `1e-400`,
 * `0.99999999999999999999`. An amount must not be a rounded one.
 */
export function isWrittenAsDecimal(holder: object, name: string): boolean {
  return decimals.get(holder)?.has(name) === true;
}

/**
 * Reads JSON without losing digits: integers that a double cannot represent exactly become `bigint`. Everything else is as JSON.parse
 * returns it.
 * @throws JsonProblem if the text is not valid JSON, repeats a member of an object, names one `__proto__`, nests too deeply, or contains
 * half of a surrogate pair, which cannot be stored as UTF-8, or a number out of range
 */
export function readJson(text: string): unknown {
  return new Reader(text).whole();
}

/** The integer that a text of digits stands for: a number, or a `bigint` where a number would be rounded. */
export function exactInteger(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

/** Like JSON.stringify, but writes `bigint` as an integer. That takes several times as long if there is one. */
export function stringifyJson(value: unknown): string {
  try {
    // Throws at the first bigint.
    return JSON.stringify(value);
  } catch (error) {
    if (!hasBigint(value)) {
      throw error;
    }
    return written(value) as string;
  }
}

export function hasBigint(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) {
    return typeof value === 'bigint';
  }
  return Object.values(value).some(hasBigint);
}

/** Undefined for what JSON.stringify leaves out of objects. */
function written(value: unknown): string | undefined {
  if (typeof value === 'bigint') {
    return value.toString();
  }
  if (typeof value !== 'object' || value === null || 'toJSON' in value) {
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map((item) => written(item) ?? 'null').join(',')}]`;
  }
  const members = Object.entries(value).flatMap(([name, entry]) => {
    const text = written(entry);
    return text === undefined ? [] : [`${JSON.stringify(name)}:${text}`];
  });
  return `{${members.join(',')}}`;
}

/** A function for each kind of value, called where the value begins. */
class Reader {
  private at = 0;
  /** Whether the last number is an integer that was not written as one. */
  private isDecimal = false;

  constructor(private readonly text: string) {}

  whole(): unknown {
    const value = this.value(0);
    this.next();
    if (this.at < this.text.length) {
      throw this.unexpected();
    }
    return value;
  }

  private value(depth: number): unknown {
    if (depth > MAX_DEPTH) {
      throw new JsonProblem('is nested too deeply');
    }
    switch (this.next()) {
      case QUOTE:
        return this.string();
      case OPEN_OBJECT:
        return this.object(depth);
      case OPEN_LIST:
        return this.list(depth);
      case 0x74:
        return this.literal('true', true);
      case 0x66:
        return this.literal('false', false);
      case 0x6e:
        return this.literal('null', null);
      default:
        return this.number();
    }
  }

  private object(depth: number): object {
    const read: Record<string, unknown> = {};
    this.at += 1;
    if (this.ends(CLOSE_OBJECT)) {
      return read;
    }
    do {
      if (this.next() !== QUOTE) {
        throw this.unexpected();
      }
      const name = this.string();
      if (name === '__proto__') {
        throw new JsonProblem("must not have a member named '__proto__'", name);
      }
      if (Object.hasOwn(read, name)) {
        throw new JsonProblem(`has the member ${JSON.stringify(shortened(name))} twice`, shortened(name));
      }
      if (this.next() !== COLON) {
        throw this.unexpected();
      }
      this.at += 1;
      read[name] = this.value(depth + 1);
      this.markDecimal(read, name);
    } while (this.goesOn(CLOSE_OBJECT));
    return read;
  }

  private list(depth: number): unknown[] {
    const read: unknown[] = [];
    this.at += 1;
    if (this.ends(CLOSE_LIST)) {
      return read;
    }
    do {
      read.push(this.value(depth + 1));
      this.markDecimal(read, String(read.length - 1));
    } while (this.goesOn(CLOSE_LIST));
    return read;
  }

  private markDecimal(holder: object, name: string): void {
    if (this.isDecimal) {
      this.isDecimal = false;
      decimals.set(holder, (decimals.get(holder) ?? new Set()).add(name));
    }
  }

  private string(): string {
    const from = this.at;
    let code: number;
    do {
      this.at += 1;
      code = this.text.charCodeAt(this.at);
    } while (code > LAST_CONTROL && code !== QUOTE && code !== BACKSLASH);
    if (code === QUOTE) {
      this.at += 1;
      return this.text.slice(from + 1, this.at - 1);
    }
    return this.escaped(from);
  }

  /** The rest of a string from its first backslash. */
  private escaped(from: number): string {
    while (this.text.charCodeAt(this.at) === BACKSLASH) {
      PLAIN_TEXT.lastIndex = this.at + 2;
      PLAIN_TEXT.test(this.text);
      this.at = PLAIN_TEXT.lastIndex;
    }
    if (this.text.charCodeAt(this.at) !== QUOTE) {
      throw this.unexpected();
    }
    this.at += 1;
    return this.unescaped(this.text.slice(from, this.at), from);
  }

  private unescaped(token: string, from: number): string {
    let text: string;
    try {
      text = JSON.parse(token) as string;
    } catch {
      this.at = from;
      throw this.unexpected();
    }
    if (LONE_SURROGATE.test(text)) {
      throw new JsonProblem('contains half of a surrogate pair');
    }
    return text;
  }

  private number(): number | bigint {
    NUMBER.lastIndex = this.at;
    if (!NUMBER.test(this.text)) {
      throw this.unexpected();
    }
    const token = this.text.slice(this.at, NUMBER.lastIndex);
    this.at = NUMBER.lastIndex;
    const value = Number(token);
    if (INTEGER.test(token)) {
      if (token.length > MAX_INTEGER_LENGTH) {
        throw new JsonProblem(`contains an integer of more than ${MAX_INTEGER_LENGTH} digits`);
      }
      return Number.isSafeInteger(value) ? value : BigInt(token);
    }
    if (!Number.isFinite(value)) {
      throw new JsonProblem('contains a number that is too large');
    }
    this.isDecimal = Number.isInteger(value);
    return value;
  }

  private literal<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) {
      throw this.unexpected();
    }
    this.at += word.length;
    return value;
  }

  /** Skips spaces. Returns the code of the character after them, NaN at the end. */
  private next(): number {
    let code = this.text.charCodeAt(this.at);
    while (code <= SPACE && (code === SPACE || code === LINE_FEED || code === RETURN || code === TAB)) {
      this.at += 1;
      code = this.text.charCodeAt(this.at);
    }
    return code;
  }

  private ends(close: number): boolean {
    const isEnd = this.next() === close;
    this.at += isEnd ? 1 : 0;
    return isEnd;
  }

  /** After an entry: whether another one follows. */
  private goesOn(close: number): boolean {
    if (this.ends(close)) {
      return false;
    }
    if (this.next() !== COMMA) {
      throw this.unexpected();
    }
    this.at += 1;
    return true;
  }

  /** Names no part of the text, which must not reach the log. */
  private unexpected(): JsonProblem {
    const problem =
      this.at >= this.text.length ? 'it ends too early' : `unexpected text at position ${this.at}`;
    return new JsonProblem(`is not valid JSON: ${problem}`);
  }
}

const SHOWN_LENGTH = 64;

const shortened = (name: string): string =>
  name.length > SHOWN_LENGTH ? `${name.slice(0, SHOWN_LENGTH)}…` : name;
