import { invalidField } from '../ledger/index.js';
import { pageEnd, placeAfter, type SortOrder } from './cursor.js';
import { DEFAULT_LIMIT, MAX_LIMIT, type Page, type RecordSelection } from './listing.js';

/** The result of reading a bounded part of one partition. */
export interface Batch<Row, Place> {
  /** The matching rows, in the order of the list. */
  readonly rows: readonly Row[];
  /** The last place that was examined, whether or not its row matches; undefined at the end of the partition. */
  readonly reached: Place | undefined;
  /** Number of entries examined. */
  readonly examined: number;
}

/** Reads the next batch of one partition. @throws StoreUnavailable */
export type ReadBatch<Row, Place> = () => Promise<Batch<Row, Place>>;

export interface MergeOptions<Row, Place> {
  readonly placeOf: (row: Row) => Place;
  /** Whether the first place precedes the second one in the list. */
  readonly isBefore: (one: Place, other: Place) => boolean;
  readonly limit: number;
  /** The page ends early after this many entries. The batches of several partitions may exceed it. */
  readonly maxExamined: number;
}

export interface MergedPage<Row, Place> {
  readonly rows: readonly Row[];
  /** The next page starts after this place; undefined at the end of the list. */
  readonly next: Place | undefined;
  /** Whether the page ended at `maxExamined`. */
  readonly endedEarly: boolean;
  readonly examined: number;
}

interface Placed<Row, Place> {
  readonly row: Row;
  readonly place: Place;
}

/**
 * Merges the sorted rows of several partitions into one page. Whenever partitions run out of buffered rows, their next batches are
 * read in parallel, so none is read much further than the page needs. A page whose filters match few rows ends early.
 */
export async function mergedPage<Row, Place>(
  readers: readonly ReadBatch<Row, Place>[],
  options: MergeOptions<Row, Place>,
): Promise<MergedPage<Row, Place>> {
  const { limit, isBefore, maxExamined } = options;
  const sources = readers.map((readBatch) => new PartitionRows(readBatch, options));
  const taken: Placed<Row, Place>[] = [];
  const pageTo = (next: Place | undefined, endedEarly = false): MergedPage<Row, Place> => ({
    rows: taken.slice(0, limit).map(({ row }) => row),
    next,
    endedEarly,
    examined: examinedOf(sources),
  });
  // One row more than the page holds shows whether there is another page.
  while (taken.length <= limit) {
    const first = shiftFirst(sources, isBefore);
    if (first !== undefined) {
      taken.push(first);
      continue;
    }
    const unread = sources.filter(({ isDrained }) => isDrained);
    if (unread.length === 0) {
      return pageTo(undefined);
    }
    if (examinedOf(sources) >= maxExamined) {
      // The next page starts where the partition that is furthest behind has got to.
      const reached = unread.flatMap((source) => (source.reached === undefined ? [] : [source.reached]));
      return pageTo(
        reached.reduce((one, other) => (isBefore(other, one) ? other : one)),
        true,
      );
    }
    await Promise.all(unread.map((source) => source.readNext()));
  }
  return pageTo(taken[limit - 1]?.place);
}

/** Removes the first row of all partitions. Undefined if there is none, or if an unread row might precede it. */
function shiftFirst<Row, Place>(
  sources: readonly PartitionRows<Row, Place>[],
  isBefore: MergeOptions<Row, Place>['isBefore'],
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
    sources.some(
      ({ isDrained, reached }) => isDrained && (reached === undefined || isBefore(reached, head.place)),
    )
  ) {
    return undefined;
  }
  first?.shift();
  return head;
}

function examinedOf(sources: readonly { readonly examined: number }[]): number {
  return sources.reduce((sum, { examined }) => sum + examined, 0);
}

/** The buffered rows of one partition. */
class PartitionRows<Row, Place> {
  examined = 0;
  /** The last place that was examined; undefined before the first batch. */
  reached: Place | undefined;
  private rows: readonly Placed<Row, Place>[] = [];
  private next = 0;
  private ended = false;

  constructor(
    private readonly readBatch: ReadBatch<Row, Place>,
    private readonly options: MergeOptions<Row, Place>,
  ) {}

  get head(): Placed<Row, Place> | undefined {
    return this.rows[this.next];
  }

  shift(): void {
    this.next += 1;
  }

  /** Whether the buffer is empty and the partition may have more. */
  get isDrained(): boolean {
    return this.head === undefined && !this.ended;
  }

  async readNext(): Promise<void> {
    const { rows, reached, examined } = await this.readBatch();
    this.examined += examined;
    this.ended = reached === undefined;
    this.reached = reached;
    this.rows = rows.map((row) => ({ row, place: this.options.placeOf(row) }));
    this.next = 0;
  }
}

/** Entries of a log that one page may examine: about a quarter of a second of Redis' time, in slices of a millisecond. */
export const EXAMINED_A_PAGE = 50_000;
/** The same for any order but that of time, which has to read the whole window. */
const EXAMINED_TO_SORT = 50_000;
/** How many rows are read at once to sort them. */
const ROWS_A_READ = 2000;

/** A log whose rows are in the order of time. */
export interface TimeLog<Row, Place> {
  /** The place of a row by its id, or undefined when Holdfast never issued such an id. */
  placeOf(id: string): Place | undefined;
  idOf(place: Place): string;
  /** Reads rows after a place. @throws StoreUnavailable */
  read(limit: number, after: Place | undefined, maxExamined: number): Promise<MergedPage<Row, Place>>;
}

export interface TimePageRequest {
  readonly cursor: string | undefined;
  readonly limit: number | undefined;
  readonly order: SortOrder;
  /** Names the query: a cursor only continues the query it came from. */
  readonly fingerprint: string;
}

/** A page in the order of time, which reads no further than the page. @throws Refusal INVALID_REQUEST, StoreUnavailable */
export async function pageInTime<Row, Place>(
  log: TimeLog<Row, Place>,
  { cursor, limit = DEFAULT_LIMIT, order, fingerprint }: TimePageRequest,
): Promise<Page<Row>> {
  const after = placeAfter(fingerprint, cursor, ({ id }) => log.placeOf(id) !== undefined);
  const { rows, next } = await log.read(
    Math.min(limit, MAX_LIMIT),
    after && log.placeOf(after.id),
    EXAMINED_A_PAGE,
  );
  const id = next === undefined ? undefined : log.idOf(next);
  return { rows, ...pageEnd(fingerprint, id === undefined ? undefined : { value: id, id }, order) };
}

/**
 * A page in another order, which reads the whole window.
 * @param rowsName what the rows are called in the refusal
 * @throws Refusal INVALID_REQUEST when the window holds too many rows; StoreUnavailable
 */
export async function pageSorted<Row, Place>(
  log: Pick<TimeLog<Row, Place>, 'read'>,
  selection: RecordSelection<Row>,
  rowsName: string,
): Promise<Page<Row>> {
  let after: Place | undefined;
  let left = EXAMINED_TO_SORT;
  do {
    const { rows, next, endedEarly, examined } = await log.read(ROWS_A_READ, after, left);
    left -= examined;
    if (endedEarly || left <= 0) {
      throw invalidField(
        'sort_by',
        `the window holds more than ${EXAMINED_TO_SORT} ${rowsName}; narrow from and to, or sort by timestamp`,
      );
    }
    rows.forEach((row) => selection.offer(row));
    after = next;
  } while (after !== undefined);
  return selection.page();
}
