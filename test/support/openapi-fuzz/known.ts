/** Longer texts are no ids, and nothing else of an answer is worth asking for again. */
const MAX_LENGTH = 512;
/** Old values are forgotten, so that what was made last is asked for most. */
const KEPT = 12;

/** Names under which the same value is asked for as it was answered under. */
const ASKED_AS: ReadonlyMap<string, readonly string[]> = new Map([
  ['tenant_id', ['tenant']],
  ['tenant', ['tenant_id']],
  ['next_cursor', ['cursor']],
  ['scope', ['scope_prefix', 'scope_filter', 'scope_pattern']],
]);

/**
 * What earlier answers held, by the name of the member: ids, scopes, cursors. Without it every random id would be unknown, and
 * no request would get further than that.
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

  /** Takes up every text of a parsed answer. */
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

  /** One of the values of a name; undefined when there is none. */
  pick(name: string, index: number): string | undefined {
    const values = this.values.get(name) ?? [];
    return values[index % values.length];
  }
}
