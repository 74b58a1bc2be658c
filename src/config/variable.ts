import type { Parse } from './parsers.js';

/** One environment variable: the single place for its name, its default, its rule and its description. */
export interface Variable<T = unknown, Kind extends 'setting' | 'optional' = 'setting' | 'optional'> {
  /** A setting always has a value: the given one or the default. An optional variable may have none. */
  readonly kind: Kind;
  readonly name: string;
  /** The default as an operator would write it, or a remark in parentheses if there is none. */
  readonly fallback: string;
  readonly parse: Parse<T>;
  readonly doc: string;
  /** The value must not appear in any message. */
  readonly secret: boolean;
}

interface Undocumented<V> {
  describe(doc: string): V;
}

export function setting<T>(
  name: string,
  fallback: string,
  parse: Parse<T>,
): Undocumented<Variable<T, 'setting'>> {
  return { describe: (doc) => ({ kind: 'setting', name, fallback, parse, doc, secret: false }) };
}

export function optional<T>(
  name: string,
  remark: string,
  parse: Parse<T>,
): Undocumented<Variable<T, 'optional'>> {
  return { describe: (doc) => ({ kind: 'optional', name, fallback: remark, parse, doc, secret: false }) };
}

export function secret<T>(
  name: string,
  remark: string,
  parse: Parse<T>,
): Undocumented<Variable<T, 'optional'>> {
  return { describe: (doc) => ({ kind: 'optional', name, fallback: remark, parse, doc, secret: true }) };
}
