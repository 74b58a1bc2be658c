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
import type { Fields } from './fields.js';
import { MaxLength, Optional } from './rules/decorators.js';
import { IsWindowBound } from './rules/instant.js';

/** The parameters of every list with pages. */
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

/** The parameters of lists with a time window, which includes both bounds. */
export class WindowQueryDto extends PageQueryDto {
  @Optional()
  @IsWindowBound()
  from?: string;

  @Optional()
  @IsWindowBound()
  to?: string;
}

/** The parameters of the governance plane's lists with search. */
export class ListQueryDto extends PageQueryDto {
  @Optional()
  @IsString()
  @MaxLength(128)
  search?: string;

  @Optional()
  @IsIn(['asc', 'desc'])
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
export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

/** Selects one page of a list of the governance plane from rows in any order. */
export class RecordSelection<Row> {
  private readonly query: string;
  private readonly order: SortOrder;
  private readonly selection: PageSelection<Row>;
  /** Where the previous page ended. */
  readonly after: Position | undefined;

  /** @throws Refusal INVALID_REQUEST if the cursor belongs to another list. */
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

  page(): Page<Row> {
    const rows = this.selection.rows();
    const next = this.selection.next();
    return next === undefined
      ? { rows, has_more: false }
      : { rows, has_more: true, next_cursor: encodeCursor(this.query, next, this.order) };
  }
}

/** Adds the free texts to the rows of a page. They are large, so only those of the rows on the page are read. */
export async function withTexts<Row>(
  page: Page<Row>,
  read: (rows: readonly Row[]) => Promise<readonly Fields[]>,
  textsOf: (fields: Fields) => Partial<Row>,
): Promise<Page<Row>> {
  const texts = page.rows.length === 0 ? [] : await read(page.rows);
  return { ...page, rows: page.rows.map((row, index) => ({ ...row, ...textsOf(texts[index] as Fields) })) };
}
