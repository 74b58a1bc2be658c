/** Longer strings are not ids, and nothing else in a response is worth using in later requests. */
const MAX_LENGTH = 512;
/** Only this many values are kept per name, so that requests mostly use the newest. */
const KEPT = 12;

/** Other names under which requests use a value that a response had under this name. */
const ASKED_AS: ReadonlyMap<string, readonly string[]> = new Map([
  ['tenant_id', ['tenant']],
  ['tenant', ['tenant_id']],
  ['next_cursor', ['cursor']],
  ['scope', ['scope_prefix', 'scope_filter', 'scope_pattern']],
]);

/**
 * Values from earlier responses, by member name: ids, scopes, cursors. Random ids alone would all be unknown,
 * so no request would get past the lookup.
 */
export class Known {
  private readonly values = new Map<string, string[]>();

  add(name: string, value: string): void {
    for (const each of [name, ...(ASKED_AS.get(name) ?? [])]) {
      const values = this.values.get(each) ?? [];
      if (!values.includes(value)) {
        this.values.set(each, [...values, value].slice(-KEPT));
      }
    }
  }

  /** Collects every string of a parsed response. */
  learn(answer: unknown): void {
    if (typeof answer !== 'object' || answer === null) {
      return;
    }
    for (const [name, value] of Object.entries(answer)) {
      if (typeof value === 'string' && value.length <= MAX_LENGTH) {
        this.add(name, value);
      } else {
        this.learn(value);
      }
    }
  }

  /** One of the values known under a name, or undefined if there are none. */
  pick(name: string, index: number): string | undefined {
    const values = this.values.get(name) ?? [];
    return values[index % values.length];
  }
}
