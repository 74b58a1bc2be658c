import { IsIn } from 'class-validator';
import { fingerprintOf } from '../ledger/index.js';
import {
  type PageEnd,
  pageEnd,
  type PageOrder,
  PageSelection,
  placeAfter,
  type Position,
  type SortOrder,
} from './cursor.js';
import { IsInt, MaxLength, Obeys, Optional } from './rules/decorators.js';

/** The fields of a stored record. */
export type Fields = ReadonlyMap<string, string>;

/** From a flat list of names and values, as HGETALL and scripts return it. */
export function fieldsOf(flat: readonly string[]): Fields {
  const fields = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) {
    fields.set(flat[index] as string, flat[index + 1] as string);
  }
  return fields;
}

/** @throws Error if the record lacks the field, which means that it is corrupt. */
export function fieldOf(fields: Fields, name: string): string {
  const value = fields.get(name);
  if (value === undefined) {
    throw new Error(`corrupt record: it has no ${name}`);
  }
  return value;
}

/** A stored time in ms as RFC 3339 text. @throws Error if it is not a number. */
export function timeOf(ms: string): string {
  return new Date(/^-?\d{1,15}$/.test(ms) ? Number(ms) : Number.NaN).toISOString();
}

/** A stored text, or what is read from it, as a member to spread into a response; no member if there is none. */
export function optional<Name extends string>(
  name: Name,
  text: string | undefined,
): Partial<Record<Name, string>>;
export function optional<Name extends string, Value>(
  name: Name,
  text: string | undefined,
  read: (text: string) => Value,
): Partial<Record<Name, Value>>;
export function optional(
  name: string,
  text: string | undefined,
  read: (text: string) => unknown = (value) => value,
): object {
  return text === undefined ? {} : { [name]: read(text) };
}

/** Likewise, for an optional stored time. */
export function optionalTime<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  return optional(name, fields.get(name), timeOf);
}

/** Likewise, for a text under its own name. */
export function optionalText<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  return optional(name, fields.get(name));
}

const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))$/i;
const MINUTE_MS = 60_000;
/** The range of RFC 3339 in UTC. With an offset, a text may denote an instant up to a day outside, which is clamped. */
const FIRST_MS = Date.parse('0000-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Parses an RFC 3339 date-time into ms since the epoch (negative before 1970) and truncates its fraction. A leap second becomes the
 * second after it, because Redis and Node do not count leap seconds.
 * @returns undefined for anything else, including a blank text, which the protocol treats as no bound.
 */
export function instantMs(text: string | undefined): number | undefined {
  const parts = DATE_TIME.exec(text ?? '');
  if (parts === null) {
    return undefined;
  }
  const [, date = '', hour, minute, second, fraction = '', sign, offsetHour = 0, offsetMinute = 0] = parts;
  // Date.parse refuses the 32nd of a month, but reads 31 February as 3 March.
  const dayMs = Date.parse(`${date}T00:00:00Z`);
  if (
    Number.isNaN(dayMs) ||
    new Date(dayMs).getUTCDate() !== Number(date.slice(8)) ||
    Number(hour) > 23 ||
    Number(minute) > 59
  ) {
    return undefined;
  }
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) {
    return undefined;
  }
  const offsetMinutes = (Number(offsetHour) * 60 + Number(offsetMinute)) * (sign === '-' ? -1 : 1);
  const wholeMs =
    dayMs + (Number(hour) * 60 + Number(minute) - offsetMinutes) * MINUTE_MS + Number(second) * 1000;
  if (Number(second) > 60 || (Number(second) === 60 && !startsMonth(wholeMs))) {
    return undefined;
  }
  const ms = wholeMs + Number(fraction.slice(0, 3).padEnd(3, '0'));
  return Math.min(Math.max(ms, FIRST_MS), LAST_MS);
}

/** Leap seconds end a month in UTC, so the second after one starts the next month. */
function startsMonth(ms: number): boolean {
  const date = new Date(ms);
  return date.getUTCDate() === 1 && date.getUTCHours() === 0 && date.getUTCMinutes() === 0;
}

/** A bound of a time window: a date-time of RFC 3339, or blank for no bound. Read it with `instantMs`. */
export function WindowBound(): PropertyDecorator {
  const isBound = Obeys({
    name: 'isWindowBound',
    test: (value) => typeof value === 'string' && (value.trim() === '' || instantMs(value) !== undefined),
    schema: { type: 'string', format: 'date-time' },
    phrase: "a date-time such as 2026-01-31T12:00:00Z (a '+' is written %2B in a URL), or blank for no bound",
  });
  return Optional(isBound);
}

/** A date-time of RFC 3339. Read it with `instantMs`. */
export function IsDateTime(): PropertyDecorator {
  return Obeys({
    name: 'isDateTime',
    test: (value) => typeof value === 'string' && instantMs(value) !== undefined,
    schema: { type: 'string', format: 'date-time' },
    phrase: 'a date and time with its offset, such as 2030-01-31T12:00:00Z',
  });
}

/** Where the page before ended, as its next_cursor says. */
export function PageCursor(): PropertyDecorator {
  return Optional(MaxLength(2048));
}

/** How many rows a page may have. */
export function PageLimit(most?: number): PropertyDecorator {
  return Optional(IsInt({ min: 1, max: most }));
}

/** The parameters of every list with pages. */
export class PageQueryDto {
  @PageCursor()
  cursor?: string;

  @PageLimit()
  limit?: number;
}

/** The parameters of lists with a time window, which includes both bounds. */
export class WindowQueryDto extends PageQueryDto {
  @WindowBound()
  from?: string;

  @WindowBound()
  to?: string;
}

/** The free text that lists and bulk actions of the governance plane search for; see `matchesSearch`. */
export function SearchText(): PropertyDecorator {
  return Optional(MaxLength(128));
}

/** The parameters of the governance plane's lists with search. */
export class ListQueryDto extends PageQueryDto {
  @SearchText()
  search?: string;

  @Optional(IsIn(['asc', 'desc']))
  sort_dir?: 'asc' | 'desc';
}

/** Whether one of the texts contains the search text, ignoring case. Without a search text, everything matches. */
export function matchesSearch(search: string | undefined, ...texts: readonly string[]): boolean {
  const lower = search?.toLowerCase() ?? '';
  return lower === '' || texts.some((text) => text.toLowerCase().includes(lower));
}

export const DEFAULT_LIMIT = 50;
/** Larger limits are reduced to this one, because dashboards ask for thousands. */
export const MAX_LIMIT = 100;

export interface PageRequest<Row> extends Omit<PageOrder<Row>, 'direction'> {
  /** The filters and whatever else identifies the list, except its order. A cursor is valid only for the same list. */
  readonly query: object;
  readonly order: SortOrder;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
  /** Checks the position of a cursor, for lists that must not be read at a forged one. */
  readonly accepts?: (position: Position) => boolean;
}

/** One page of a list of the governance plane. */
export interface Page<Row> extends PageEnd {
  readonly rows: readonly Row[];
}

/** Selects one page of a list of the governance plane from rows in any order. */
export class RecordSelection<Row> {
  /** The fingerprint of the list. */
  readonly query: string;
  readonly order: SortOrder;
  /** The most rows of a page. */
  readonly limit: number;
  private readonly selection: PageSelection<Row>;
  /** Where the previous page ended. */
  readonly after: Position | undefined;

  /** @throws Refusal INVALID_REQUEST if the cursor belongs to another list. */
  constructor(private readonly request: PageRequest<Row>) {
    const { cursor, limit = DEFAULT_LIMIT, order, accepts } = request;
    this.order = order;
    this.query = fingerprintOf({ ...request.query, sort_by: order.sortBy, sort_dir: order.direction });
    this.after = placeAfter(this.query, cursor, accepts);
    this.limit = Math.min(limit, MAX_LIMIT);
    this.selection = new PageSelection({ ...request, direction: order.direction }, this.limit, this.after);
  }

  offer(row: Row): void {
    this.selection.offer(row);
  }

  /** The position of a row in the list. */
  placeOf(row: Row): Position {
    return { value: this.request.valueOf(row), id: this.request.idOf(row) };
  }

  /** Once the page is full, the position of the first row of the next one. Rows after it are not needed any more. */
  lastKept(): Position | undefined {
    return this.selection.lastKept();
  }

  page(): Page<Row> {
    return this.pageOf(this.selection.rows(), this.selection.next());
  }

  /** A page of rows that were found in another way, and where it ended if another one follows. */
  pageOf(rows: readonly Row[], next: Position | undefined): Page<Row> {
    return { rows, ...pageEnd(this.query, next, this.order) };
  }
}
