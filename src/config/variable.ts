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
  /** Who has a reason to set it. What nobody has a reason to set is a constant, in constants.ts. */
  readonly setBy: string;
  /** The value must not appear in any message. */
  readonly secret: boolean;
}

/** The remark for an optional variable without a default. */
export const NONE = '(none)';

interface Undocumented<V> {
  describe(doc: string, setBy: string): V;
}

export function setting<T>(
  name: string,
  fallback: string,
  parse: Parse<T>,
): Undocumented<Variable<T, 'setting'>> {
  return {
    describe: (doc, setBy) => ({ kind: 'setting', name, fallback, parse, doc, setBy, secret: false }),
  };
}

export function optional<T>(
  name: string,
  remark: string,
  parse: Parse<T>,
): Undocumented<Variable<T, 'optional'>> {
  return {
    describe: (doc, setBy) => ({
      kind: 'optional',
      name,
      fallback: remark,
      parse,
      doc,
      setBy,
      secret: false,
    }),
  };
}

export function secret<T>(
  name: string,
  remark: string,
  parse: Parse<T>,
): Undocumented<Variable<T, 'optional'>> {
  return {
    describe: (doc, setBy) => ({ kind: 'optional', name, fallback: remark, parse, doc, setBy, secret: true }),
  };
}

const MAX_SHOWN_LENGTH = 60;

/** Reads variables from an environment. Collects every problem instead of stopping at the first. */
export class EnvironmentReader {
  readonly problems: string[] = [];

  constructor(private readonly env: NodeJS.ProcessEnv) {}

  isSet(variable: Variable): boolean {
    return this.textOf(variable) !== undefined;
  }

  /** The given value. Undefined if the variable is unset or its value is not allowed, which is recorded as a problem. */
  given<T>(variable: Variable<T>): T | undefined {
    const text = this.textOf(variable);
    return text === undefined ? undefined : this.parse(variable, text);
  }

  /** The given value or the default. A value that is not allowed is recorded, and the default takes its place. */
  givenOrDefault<T>(variable: Variable<T, 'setting'>): T {
    const given = this.given(variable);
    if (given !== undefined) {
      return given;
    }
    const parsed = variable.parse(variable.fallback);
    if ('allowed' in parsed) {
      throw new Error(`the default of ${variable.name} is not allowed by its own rule`);
    }
    return parsed.value;
  }

  addProblem(problem: string): void {
    this.problems.push(problem);
  }

  /** A blank value counts as unset. */
  private textOf(variable: Variable): string | undefined {
    const text = this.env[variable.name]?.trim();
    return text === undefined || text === '' ? undefined : text;
  }

  private parse<T>(variable: Variable<T>, text: string): T | undefined {
    const parsed = variable.parse(text);
    if ('value' in parsed) {
      return parsed.value;
    }
    const shortened = text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}...` : text;
    const shown = variable.secret ? 'its value' : JSON.stringify(shortened);
    this.addProblem(`${variable.name}: ${shown} is not allowed; give ${parsed.allowed}`);
    return undefined;
  }
}
