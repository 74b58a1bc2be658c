export interface QuotaLimits {
  /** Rows of one source that a window lets through. */
  readonly perSource: number;
  /** Rows of all sources together. */
  readonly overall: number;
}

/** What one source sent beyond the limits of a window. */
export interface Excess {
  /** Undefined for all the sources that have no entry of their own. */
  readonly source: string | undefined;
  readonly count: number;
}

/** Sources that one window tells apart; what others send is counted together, so that a flood from everywhere costs no more memory. */
const MAX_SOURCES = 1000;
/** Entries of their own in what a window tells at its end; the other sources share one. */
const MAX_TOLD = 10;

/** Lets so many rows of each source and of all through in a window, and counts the others. */
export class AuditQuota {
  private readonly used = new Map<string, number>();
  private readonly excess = new Map<string, number>();
  private total = 0;
  private others = 0;

  constructor(private readonly limits: QuotaLimits) {}

  /** Counts a row, and tells whether it may be written. */
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

  /** Ends the window and tells what was not let through: the sources with the most each, and the others together. */
  endWindow(): Excess[] {
    const ranked = [...this.excess].sort(([, one], [, other]) => other - one);
    const told: Excess[] = ranked.slice(0, MAX_TOLD).map(([source, count]) => ({ source, count }));
    const rest = ranked.slice(MAX_TOLD).reduce((sum, [, count]) => sum + count, this.others);
    this.used.clear();
    this.excess.clear();
    this.total = 0;
    this.others = 0;
    return rest === 0 ? told : [...told, { source: undefined, count: rest }];
  }
}
