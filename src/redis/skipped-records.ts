import { Counter, type Registry } from 'prom-client';

/** Skipped records already logged. The set is cleared beyond this many, so one may then be logged again. */
const MAX_LOGGED = 10_000;

export type RecordKind = 'tenant' | 'api_key' | 'budget' | 'policy' | 'webhook';

type Warn = (members: object, message: string) => void;

/**
 * Lists, counts and bulk actions read many records, and one that is damaged must not take the others with it. It is left out, counted
 * each time, and named in the log once. Whoever reads that record alone still gets a loud error.
 */
export class SkippedRecords {
  private readonly logged = new Set<string>();
  private readonly skipped: Counter;

  constructor(
    registry: Registry,
    private readonly warn: Warn,
  ) {
    this.skipped = new Counter({
      name: 'holdfast_records_skipped_total',
      help: 'Damaged records that lists, counts and bulk actions left out, by kind. The log names each of them once.',
      labelNames: ['kind'],
      registers: [registry],
    });
  }

  /** What `read` makes of the record, or undefined if that is damaged. It must only parse what is given to it. */
  whole<Row>(kind: RecordKind, name: string, read: () => Row): Row | undefined {
    try {
      return read();
    } catch (error) {
      this.skip(kind, name, error);
      return undefined;
    }
  }

  /** @param error why it is damaged, if that is known */
  skip(kind: RecordKind, name: string, error?: unknown): void {
    this.skipped.inc({ kind });
    const place = `${kind} ${name}`;
    if (this.logged.has(place)) {
      return;
    }
    if (this.logged.size === MAX_LOGGED) {
      this.logged.clear();
    }
    this.logged.add(place);
    this.warn({ kind, record: name, err: error }, 'a damaged record is left out of lists and counts');
  }
}
