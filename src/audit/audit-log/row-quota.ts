export interface QuotaLimits {
  /** The most rows of one source in a window. */
  readonly perSource: number;
  /** The most rows of all sources together. */
  readonly overall: number;
}

/** The requests of one source beyond the limits of a window. */
export interface Excess {
  /** Undefined for all sources without an entry of their own. */
  readonly source: string | undefined;
  readonly count: number;
}

/** Sources that a window distinguishes. All others are counted together, so that a flood from many sources costs no more memory. */
const MAX_SOURCES = 1000;
/** Sources that get an entry of their own at the end of a window. The others share one. */
const MAX_REPORTED = 10;

/** Limits the rows of each source and of all sources in a window, and counts the rest. */
export class RowQuota {
  private readonly used = new Map<string, number>();
  private readonly excess = new Map<string, number>();
  private total = 0;
  private others = 0;

  constructor(private readonly limits: QuotaLimits) {}

  /** Counts a row. @returns whether it may be written */
  admit(source: string): boolean {
    const used = this.used.get(source) ?? 0;
    const isKnown = used > 0 || this.used.size < MAX_SOURCES;
    if (this.total < this.limits.overall && isKnown && used < this.limits.perSource) {
      this.total += 1;
      this.used.set(source, used + 1);
      return true;
    }
    if (this.excess.has(source) || this.excess.size < MAX_SOURCES) {
      this.excess.set(source, (this.excess.get(source) ?? 0) + 1);
    } else {
      this.others += 1;
    }
    return false;
  }

  /** Ends the window. @returns what it rejected: an entry for each of the sources with the most, and one for all others */
  endWindow(): Excess[] {
    const ranked = [...this.excess].sort(([, one], [, other]) => other - one);
    const excesses: Excess[] = ranked.slice(0, MAX_REPORTED).map(([source, count]) => ({ source, count }));
    const rest = ranked.slice(MAX_REPORTED).reduce((sum, [, count]) => sum + count, this.others);
    this.used.clear();
    this.excess.clear();
    this.total = 0;
    this.others = 0;
    return rest === 0 ? excesses : [...excesses, { source: undefined, count: rest }];
  }
}
