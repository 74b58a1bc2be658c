import { IsIn, IsInt, IsString, Min } from 'class-validator';
import { fingerprintOf } from '../ledger/index.js';
import {
  decodeCursor,
  encodeCursor,
  type PageOrder,
  PageSelection,
  type Position,
  type SortOrder,
} from './cursor.js';
import { MaxLength, Optional } from './rules/decorators.js';
import { IsWindowBound } from './rules/instant.js';

/** One stored record. */
export type Fields = ReadonlyMap<string, string>;

/** Reads a flat list of field and value pairs, as HGETALL and the scripts give it. */
export function fieldsOf(flat: readonly string[]): Fields {
  const fields = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) {
    fields.set(flat[index] as string, flat[index + 1] as string);
  }
  return fields;
}

/** @throws Error when a record lacks a field that every one has: Holdfast did not write it so. */
export function fieldOf(fields: Fields, name: string): string {
  const value = fields.get(name);
  if (value === undefined) {
    throw new Error(`corrupt record: it has no ${name}`);
  }
  return value;
}

/** A stored time in ms as RFC 3339 text. @throws Error when it is none. */
export function timeOf(ms: string): string {
  return new Date(/^-?\d{1,15}$/.test(ms) ? Number(ms) : Number.NaN).toISOString();
}

/** An optional stored time, as a member to spread into a response: absent, never null. */
export function optionalTime<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  const ms = fields.get(name);
  return ms === undefined ? {} : ({ [name]: timeOf(ms) } as Partial<Record<Name, string>>);
}

/** An optional stored text, likewise. */
export function optionalText<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  const text = fields.get(name);
  return text === undefined ? {} : ({ [name]: text } as Partial<Record<Name, string>>);
}

/** What every list takes that is given out page by page. */
export class PageQueryDto {
  @Optional()
  @IsString()
  @MaxLength(2048)
  cursor?: string;

  @Optional()
  @IsInt()
  @Min(1)
  limit?: number;
}

/** The same of lists over time, whose window holds both its bounds. */
export class WindowQueryDto extends PageQueryDto {
  @Optional()
  @IsWindowBound()
  from?: string;

  @Optional()
  @IsWindowBound()
  to?: string;
}

/** What every list of the governance plane takes that can be searched. */
export class ListQueryDto extends PageQueryDto {
  @Optional()
  @IsString()
  @MaxLength(128)
  search?: string;

  @Optional()
  @IsIn(['asc', 'desc'])
  sort_dir?: 'asc' | 'desc';
}

/** Whether one of the texts holds what is searched for, upper and lower case alike; an empty search finds all. */
export function matchesSearch(search: string | undefined, ...texts: readonly string[]): boolean {
  const wanted = search?.toLowerCase() ?? '';
  return wanted === '' || texts.some((text) => text.toLowerCase().includes(wanted));
}

export const DEFAULT_LIMIT = 50;
/** A larger limit is taken for this one: dashboards ask for thousands. */
export const MAX_LIMIT = 100;

export interface PageRequest<Row> extends Omit<PageOrder<Row>, 'direction'> {
  /** All that tells this list from others, but its order: a cursor continues only the same. */
  readonly query: object;
  readonly order: SortOrder;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
  /** Whether a position can stand in this list, for lists that a forged one would harm. */
  readonly accepts?: (position: Position) => boolean;
}

/** One page, in the members that every list of the governance plane has. */
export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

/** Picks one page of a list of the governance plane out of rows that come in any order. */
export class RecordSelection<Row> {
  private readonly query: string;
  private readonly order: SortOrder;
  private readonly selection: PageSelection<Row>;
  /** Where the page before ended. */
  readonly after: Position | undefined;

  /** @throws Refusal INVALID_REQUEST when the cursor belongs to another list. */
  constructor(request: PageRequest<Row>) {
    const { cursor = '', limit = DEFAULT_LIMIT, order, accepts } = request;
    this.order = order;
    this.query = fingerprintOf({ ...request.query, sort_by: order.sortBy, sort_dir: order.direction });
    this.after = cursor === '' ? undefined : decodeCursor(this.query, cursor, accepts);
    this.selection = new PageSelection(
      { ...request, direction: order.direction },
      Math.min(limit, MAX_LIMIT),
      this.after,
    );
  }

  offer(row: Row): void {
    this.selection.offer(row);
  }

  /** The row behind which none is wanted any more, once there are enough. */
  worst(): Position | undefined {
    return this.selection.worst();
  }

  page(): Page<Row> {
    const rows = this.selection.rows();
    const next = this.selection.next();
    return next === undefined
      ? { rows, has_more: false }
      : { rows, has_more: true, next_cursor: encodeCursor(this.query, next, this.order) };
  }
}

/** A page with the free texts of its rows, which lists read for those that they show only. */
export async function withTexts<Row>(
  page: Page<Row>,
  read: (rows: readonly Row[]) => Promise<readonly Fields[]>,
  textsOf: (fields: Fields) => Partial<Row>,
): Promise<Page<Row>> {
  const texts = page.rows.length === 0 ? [] : await read(page.rows);
  return { ...page, rows: page.rows.map((row, index) => ({ ...row, ...textsOf(texts[index] as Fields) })) };
}
