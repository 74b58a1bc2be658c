import type { Logger, MetricsRegistry } from '../telemetry/index.js';
import { CURRENT_QUERY } from './current-query.js';
import { RECORD_METRICS } from './redis.metrics.js';
import type { SkippedKind } from './skipped-names.js';

/** Skipped records already logged. The set is cleared beyond this many, so one may then be logged again. */
const MAX_LOGGED = 10_000;

/** Lets the client of the current query know what its answer leaves out. */
export function nameSkipped(kind: SkippedKind, name: string): void {
  CURRENT_QUERY.getStore()?.skipped?.add(kind, name);
}

/**
 * Lists, counts and bulk actions read many records, and one that is damaged must not take the others with it. It is left out, counted
 * each time, and named in the log once. Whoever reads the list gets its name,
 * and whoever reads the record alone still gets a loud error.
 */
export class SkippedRecords {
  private readonly logged = new Set<string>();
  private readonly counts = this.metrics.of(RECORD_METRICS);

  constructor(
    private readonly metrics: MetricsRegistry,
    private readonly logger: Logger,
  ) {}

  /** What `read` makes of the record, or undefined if that is damaged. It must only parse what is given to it. */
  whole<Row>(kind: SkippedKind, name: string, read: () => Row): Row | undefined {
    try {
      return read();
    } catch (error) {
      this.skip(kind, name, error);
      return undefined;
    }
  }

  /** @param error why it is damaged, if that is known */
  skip(kind: SkippedKind, name: string, error?: unknown): void {
    this.counts.recordsSkipped.inc({ kind });
    nameSkipped(kind, name);
    const place = `${kind} ${name}`;
    if (this.logged.has(place)) {
      return;
    }
    if (this.logged.size === MAX_LOGGED) {
      this.logged.clear();
    }
    this.logged.add(place);
    this.logger.warn({ kind, record: name, err: error }, 'a damaged record is left out of lists and counts');
  }
}
