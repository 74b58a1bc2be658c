import type { Variable } from './variables.js';

const LONGEST_SHOWN = 60;

/** One pass over the environment that collects every problem instead of stopping at the first. */
export class Reading {
  readonly problems: string[] = [];

  constructor(private readonly env: NodeJS.ProcessEnv) {}

  isSet(variable: Variable): boolean {
    return this.textOf(variable) !== undefined;
  }

  /** The value, or undefined when it is unset or bad; a bad one is noted. */
  optional<T>(variable: Variable<T>): T | undefined {
    const text = this.textOf(variable);
    return text === undefined ? undefined : this.parse(variable, text);
  }

  /** The value or the default. A bad value is noted, and the default stands in until the reading is refused as a whole. */
  required<T>(variable: Variable<T>): T {
    const given = this.optional(variable);
    if (given !== undefined) {
      return given;
    }
    const fallback = variable.parse(variable.fallback);
    if ('allowed' in fallback) {
      throw new Error(`the default of ${variable.name} is not allowed by its own rule`);
    }
    return fallback.value;
  }

  refuse(problem: string): void {
    this.problems.push(problem);
  }

  private textOf(variable: Variable): string | undefined {
    const text = this.env[variable.name]?.trim();
    return text === undefined || text === '' ? undefined : text;
  }

  private parse<T>(variable: Variable<T>, text: string): T | undefined {
    const parsed = variable.parse(text);
    if ('value' in parsed) {
      return parsed.value;
    }
    const shown = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}...` : text;
    const given = variable.secret ? 'its value' : JSON.stringify(shown);
    this.refuse(`${variable.name}: ${given} is not allowed; give ${parsed.allowed}`);
    return undefined;
  }
}
