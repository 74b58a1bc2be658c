import { Refusal } from '../ledger/index.js';
import { decodeCursor, encodeCursor, type SortOrder } from './cursor.js';
import { DEFAULT_LIMIT, MAX_LIMIT, type Page, type RecordSelection } from './listing.js';
import type { MergedPage } from './merged-page.js';

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
  { cursor = '', limit = DEFAULT_LIMIT, order, fingerprint }: TimePageRequest,
): Promise<Page<Row>> {
  const after =
    cursor === ''
      ? undefined
      : log.placeOf(decodeCursor(fingerprint, cursor, ({ id }) => log.placeOf(id) !== undefined).id);
  const { rows, next } = await log.read(Math.min(limit, MAX_LIMIT), after, EXAMINED_A_PAGE);
  if (next === undefined) {
    return { rows, has_more: false };
  }
  const id = log.idOf(next);
  return { rows, has_more: true, next_cursor: encodeCursor(fingerprint, { value: id, id }, order) };
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
      throw new Refusal(
        'INVALID_REQUEST',
        `the window holds more than ${EXAMINED_TO_SORT} ${rowsName}; narrow from and to, or sort by timestamp`,
        { field: 'sort_by' },
      );
    }
    rows.forEach((row) => selection.offer(row));
    after = next;
  } while (after !== undefined);
  return selection.page();
}
