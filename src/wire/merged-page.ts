/** What one look at a partition found: a bounded stretch of it. */
export interface Stretch<Row, Place> {
  /** Those that match, in order. */
  readonly rows: readonly Row[];
  /** All up to here was looked at; undefined at the end. There need not be a row. */
  readonly reached: Place | undefined;
  /** How many entries were looked at. */
  readonly examined: number;
}

/** Looks at the next stretch of one partition. @throws StoreUnavailable */
export type Look<Row, Place> = () => Promise<Stretch<Row, Place>>;

export interface MergeTerms<Row, Place> {
  readonly placeOf: (row: Row) => Place;
  /** Whether the first place comes before the second one in the list. */
  readonly isBefore: (one: Place, other: Place) => boolean;
  readonly limit: number;
  /** Entries after which a page ends early; some more are looked at when partitions are merged. */
  readonly examineMost: number;
}

export interface MergedPage<Row, Place> {
  readonly rows: readonly Row[];
  /** Behind which the next page begins; undefined at the end. */
  readonly next: Place | undefined;
  /** Whether it ended early. */
  readonly isCut: boolean;
  readonly examined: number;
}

interface Placed<Row, Place> {
  readonly row: Row;
  readonly place: Place;
}

/**
 * One page of what stands in several partitions. Each is in order by itself, so it is read only as far as the page goes: on and on
 * wherever nothing is in store, all partitions side by side. A page whose filters let little pass ends early.
 */
export async function mergedPage<Row, Place>(
  looks: readonly Look<Row, Place>[],
  terms: MergeTerms<Row, Place>,
): Promise<MergedPage<Row, Place>> {
  const { limit, isBefore } = terms;
  const sources = looks.map((look) => new PartitionRows(look, terms));
  const taken: Placed<Row, Place>[] = [];
  const pageTo = (next: Place | undefined, isCut = false): MergedPage<Row, Place> => ({
    rows: taken.slice(0, limit).map(({ row }) => row),
    next,
    isCut,
    examined: examinedOf(sources),
  });
  // One row more than the page holds tells whether there is another page.
  while (taken.length <= limit) {
    const first = take(sources, isBefore);
    if (first !== undefined) {
      taken.push(first);
      continue;
    }
    const open = sources.filter(({ isOpen }) => isOpen);
    if (open.length === 0) {
      return pageTo(undefined);
    }
    if (examinedOf(sources) >= terms.examineMost) {
      // The next page begins where the partition is that is furthest behind.
      const reached = open.flatMap((source) => (source.reached === undefined ? [] : [source.reached]));
      return pageTo(
        reached.reduce((one, other) => (isBefore(other, one) ? other : one)),
        true,
      );
    }
    await Promise.all(open.map((source) => source.readOn()));
  }
  return pageTo(taken[limit - 1]?.place);
}

/** The next row, or undefined when it is not known yet which one it is, or there is none. */
function take<Row, Place>(
  sources: readonly PartitionRows<Row, Place>[],
  isBefore: MergeTerms<Row, Place>['isBefore'],
): Placed<Row, Place> | undefined {
  let first: PartitionRows<Row, Place> | undefined;
  for (const source of sources) {
    if (
      source.head !== undefined &&
      (first?.head === undefined || isBefore(source.head.place, first.head.place))
    ) {
      first = source;
    }
  }
  const head = first?.head;
  if (
    head === undefined ||
    sources.some(({ isOpen, reached }) => isOpen && (reached === undefined || isBefore(reached, head.place)))
  ) {
    return undefined;
  }
  first?.shift();
  return head;
}

function examinedOf(sources: readonly { readonly examined: number }[]): number {
  return sources.reduce((sum, { examined }) => sum + examined, 0);
}

/** One partition's rows, some ahead of the reader. */
class PartitionRows<Row, Place> {
  examined = 0;
  /** All up to here was looked at; undefined before the first look. */
  reached: Place | undefined;
  private rows: readonly Placed<Row, Place>[] = [];
  private next = 0;
  private ended = false;

  constructor(
    private readonly look: Look<Row, Place>,
    private readonly terms: MergeTerms<Row, Place>,
  ) {}

  get head(): Placed<Row, Place> | undefined {
    return this.rows[this.next];
  }

  shift(): void {
    this.next += 1;
  }

  /** Whether there may be more, and nothing is in store. */
  get isOpen(): boolean {
    return this.head === undefined && !this.ended;
  }

  async readOn(): Promise<void> {
    const { rows, reached, examined } = await this.look();
    this.examined += examined;
    this.ended = reached === undefined;
    this.reached = reached;
    this.rows = rows.map((row) => ({ row, place: this.terms.placeOf(row) }));
    this.next = 0;
  }
}
