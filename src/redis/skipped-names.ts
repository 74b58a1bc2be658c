export type RecordKind = 'tenant' | 'api_key' | 'budget' | 'budget_template' | 'policy' | 'webhook';
/** What else lists leave out. */
export type SkippedKind = RecordKind | 'action_counter' | 'credit' | 'delivery' | 'operator' | 'reservation';

/** The most characters that a client gets of the names of skipped records. */
const MAX_NAMED = 2000;

/** The damaged records that one response has left out. */
export class SkippedNames {
  private readonly names = new Set<string>();

  add(kind: SkippedKind, name: string): void {
    this.names.add(`${kind}=${encodeURIComponent(name).replaceAll(/%(3A|2F|2B)/g, decodeURIComponent)}`);
  }

  /** `kind=name`, percent-encoded and separated by commas, and how many `more` there are; undefined if nothing was left out. */
  get text(): string | undefined {
    const named: string[] = [];
    let length = 0;
    for (const name of this.names) {
      length += name.length + 2;
      if (length > MAX_NAMED) {
        break;
      }
      named.push(name);
    }
    const more = this.names.size - named.length;
    const parts = more === 0 ? named : [...named, `more=${more}`];
    return parts.length === 0 ? undefined : parts.join(', ');
  }
}
