import { Injectable } from '@nestjs/common';
import { type Caller, scopeAllowed, type ScopeFilter } from '../../auth/index.js';
import { fingerprintOf, Refusal } from '../../ledger/index.js';
import { RedisService, reservationKey } from '../../redis/index.js';
import {
  decodeCursor,
  encodeCursor,
  instantMs,
  PageSelection,
  type Position,
  type SortOrder,
  sortOrderOf,
  type SortValue,
  stringifyJson,
} from '../../wire/index.js';
import type { Operation } from '../admission.js';
import { ReservationStore } from '../reservation-store.js';
import { DamagedRecords } from '../script-refusals.js';
import { type ListReservationsQueryDto, SORT_KEYS, type SortKey } from './list-reservations.dto.js';
import { EXAMINED_A_RUN, type IndexWalk, ReservationIndex } from './reservation-index.js';
import { type ReservationSummary, withMetadata } from './reservation-view.js';

const DEFAULT_LIMIT = 50;
const LEVELS = ['workspace', 'app', 'workflow', 'agent', 'toolset'] as const;
const WINDOWS = [
  ['from', 'to'],
  ['expires_from', 'expires_to'],
  ['finalized_from', 'finalized_to'],
] as const;
const NEWEST_FIRST: SortOrder<SortKey> = { sortBy: 'created_at_ms', direction: 'desc' };
const RESERVATION_ID = /^rsv_[0-9A-Za-z]{18}$/;

type WindowBound = (typeof WINDOWS)[number][number];

/** What a list is asked, checked and in canonical form. */
export interface ListQuestion {
  readonly tenantId: string;
  readonly scopeFilter: ScopeFilter;
  /** What a row must satisfy beside its creation time, name and value in turn, as lua/list_reservations.lua reads them. */
  readonly conditions: readonly string[];
  /** The window of created_at_ms, inclusive. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** A question by idempotency key has one answer at most, the newest, whatever order is asked for. */
  readonly single: boolean;
  readonly order: SortOrder<SortKey>;
  readonly limit: number;
  readonly after: Position | undefined;
  /** Names all of the above but the limit and the place: a cursor continues only the same question. */
  readonly fingerprint: string;
}

/**
 * @throws Refusal INVALID_REQUEST (an operator names no tenant, a window ends before it starts, a foreign cursor), FORBIDDEN
 * (another tenant than the key's).
 */
export function listQuestion(caller: Caller, query: ListReservationsQueryDto): ListQuestion {
  const tenantId = tenantOf(caller, query.tenant);
  const bounds = windowsOf(query);
  const single = query.idempotency_key !== undefined;
  const order = single ? NEWEST_FIRST : orderOf(query);
  const conditions: string[] = [];
  const require = (name: string, value: string | number | undefined): void => {
    if (value !== undefined) {
      conditions.push(name, String(value));
    }
  };
  require('status', query.status?.toUpperCase());
  require('idempotency_key', query.idempotency_key);
  for (const level of LEVELS) {
    require(level, query[level]?.toLowerCase());
  }
  for (const name of ['expires_from', 'expires_to', 'finalized_from', 'finalized_to'] as const) {
    require(name, bounds[name]);
  }
  const created = [bounds.from ?? '', bounds.to ?? ''].map(String);
  const fingerprint = fingerprintOf([
    'reservations',
    tenantId,
    ...conditions,
    ...created,
    order.sortBy,
    order.direction,
  ]);
  return {
    tenantId,
    scopeFilter: caller.kind === 'tenant' ? caller.scopeFilter : [],
    conditions,
    fromMs: bounds.from,
    toMs: bounds.to,
    single,
    order,
    limit: query.limit ?? DEFAULT_LIMIT,
    after: placeOf(query.cursor, fingerprint, order.sortBy),
    fingerprint,
  };
}

/** The words may come in any case. */
function orderOf({
  sort_by: sortBy,
  sort_dir: direction,
  cursor,
}: ListReservationsQueryDto): SortOrder<SortKey> {
  return sortOrderOf(
    {
      sort_by: sortBy?.toLowerCase() as SortKey | undefined,
      sort_dir: direction?.toLowerCase() as 'asc' | 'desc' | undefined,
      cursor,
    },
    SORT_KEYS,
    NEWEST_FIRST,
  );
}

function tenantOf(caller: Caller, named = ''): string {
  const tenantId = named.trim().toLowerCase();
  if (caller.kind === 'admin') {
    if (tenantId === '') {
      throw new Refusal(
        'INVALID_REQUEST',
        'tenant query parameter is required when using admin key authentication',
        { field: 'tenant' },
      );
    }
    return tenantId;
  }
  if (tenantId !== '' && tenantId !== caller.tenantId) {
    throw new Refusal('FORBIDDEN', 'tenant is not the tenant of the API key', { field: 'tenant' });
  }
  return caller.tenantId;
}

function windowsOf(query: ListReservationsQueryDto): Partial<Record<WindowBound, number | undefined>> {
  const bounds: Partial<Record<WindowBound, number | undefined>> = {};
  for (const [start, end] of WINDOWS) {
    const [from, to] = [instantMs(query[start]), instantMs(query[end])];
    if (from !== undefined && to !== undefined && from > to) {
      throw new Refusal('INVALID_REQUEST', `${start} must not be later than ${end}`, { field: start });
    }
    bounds[start] = from;
    bounds[end] = to;
  }
  return bounds;
}

/** A forged place goes no further than this: the script relies on figures that are figures. */
function placeOf(cursor = '', fingerprint: string, sortBy: SortKey): Position | undefined {
  if (cursor === '') {
    return undefined;
  }
  const type = sortBy === 'reserved' || sortBy.endsWith('_at_ms') ? 'bigint' : 'string';
  return decodeCursor(
    fingerprint,
    cursor,
    ({ value, id }) => typeof value === type && RESERVATION_ID.test(id),
  );
}

/** A page whose conditions match little ends after so many runs, with a cursor that goes on from there. */
const MAX_RUNS_A_PAGE = 200;
/** A million reservations: an order that is not the index's needs all of them for each page. */
const MAX_RUNS_TO_SORT = 10_000;
/** Metadata is read in portions, and a page ends early when it has grown to this. */
const METADATA_PORTION = 5;
const MAX_METADATA_CHARACTERS = 8 * 1024 * 1024;

const VALUES: Readonly<Record<SortKey, (row: ReservationSummary) => SortValue>> = {
  reservation_id: (row) => row.reservation_id,
  // One list holds the reservations of one tenant.
  tenant: () => '',
  scope_path: (row) => row.scope_path,
  status: (row) => row.status,
  reserved: (row) => row.reserved.amount,
  created_at_ms: (row) => row.created_at_ms,
  expires_at_ms: (row) => row.expires_at_ms,
};

interface Page {
  readonly rows: readonly ReservationSummary[];
  /** Where the next page starts; undefined on the last one. */
  readonly next: Position | undefined;
}

/** GET /v1/reservations: a tenant's reservations, a page at a time, at a cost that other tenants' data do not change. */
@Injectable()
export class ListService {
  constructor(
    private readonly index: ReservationIndex,
    private readonly store: ReservationStore,
    private readonly redis: RedisService,
    private readonly damaged: DamagedRecords,
  ) {}

  /**
   * Overdue holds are expired by the list and shown as EXPIRED.
   *
   * A page may hold fewer rows than its limit, or none, and still have a successor: only `has_more` tells the end.
   * @returns ReservationListResponse of the protocol as JSON text
   * @throws Refusal INVALID_REQUEST, FORBIDDEN as `listQuestion` documents them; INVALID_REQUEST for more reservations than can be sorted.
   */
  async list({ caller, trace }: Operation<Caller>, query: ListReservationsQueryDto): Promise<string> {
    const question = listQuestion(caller, query);
    const found =
      question.order.sortBy === 'created_at_ms'
        ? await this.walked(
            question,
            this.index.walk(question, question.order.direction, trace, question.after),
          )
        : await this.sorted(question, this.index.walk(question, 'desc', trace));
    const { rows, next } = await this.project(question, found, new Set(query.include));
    const more =
      next === undefined
        ? { has_more: false }
        : { has_more: true, next_cursor: encodeCursor(question.fingerprint, next, question.order) };
    return stringifyJson({ reservations: rows, ...more });
  }

  /** A page in the order of the index, which needs to read no further than the page. */
  private async walked({ scopeFilter, single, limit }: ListQuestion, walk: IndexWalk): Promise<Page> {
    const wanted = single ? 1 : limit + 1;
    const rows: ReservationSummary[] = [];
    for (let run = 0; run < MAX_RUNS_A_PAGE && !walk.ended && rows.length < wanted; run += 1) {
      const found = await walk.run(wanted - rows.length);
      rows.push(...found.filter((row) => scopeAllowed(scopeFilter, row.scope_path)));
    }
    if (rows.length < wanted) {
      return { rows, next: walk.ended ? undefined : walk.place };
    }
    const shown = rows.slice(0, limit);
    return {
      rows: shown,
      next: single ? undefined : positionOf(shown.at(-1) as ReservationSummary, 'created_at_ms'),
    };
  }

  /** A page in another order: all of the tenant's rows are looked at, and no more of them kept than the page holds. */
  private async sorted({ scopeFilter, order, limit, after }: ListQuestion, walk: IndexWalk): Promise<Page> {
    const { sortBy, direction } = order;
    const selection = new PageSelection<ReservationSummary>(
      { direction, valueOf: VALUES[sortBy], idOf: (row) => row.reservation_id },
      limit,
      after,
    );
    for (let run = 0; !walk.ended; run += 1) {
      if (run === MAX_RUNS_TO_SORT) {
        const count = MAX_RUNS_TO_SORT * EXAMINED_A_RUN;
        throw new Refusal(
          'INVALID_REQUEST',
          `more than ${count} reservations cannot be sorted by ${sortBy}: narrow from and to`,
          { field: 'sort_by' },
        );
      }
      const between = [...bound('after', after), ...bound('before', selection.worst())];
      for (const row of await walk.run(EXAMINED_A_RUN, [
        'sort_by',
        sortBy,
        'sort_dir',
        direction,
        ...between,
      ])) {
        if (scopeAllowed(scopeFilter, row.scope_path)) {
          selection.offer(row);
        }
      }
    }
    return { rows: selection.rows(), next: selection.next() };
  }

  /** Adds the metadata that was asked for. It never changes once it is written, so reading it afterwards is no race. */
  private async project(
    { order: { sortBy } }: ListQuestion,
    page: Page,
    include: ReadonlySet<string>,
  ): Promise<Page> {
    const [metadata, committed] = [include.has('metadata'), include.has('committed_metadata')];
    if (!metadata && !committed) {
      return page;
    }
    const rows: ReservationSummary[] = [];
    let characters = 0;
    while (rows.length < page.rows.length) {
      const portion = page.rows.slice(rows.length, rows.length + METADATA_PORTION);
      const texts = await Promise.all(portion.map((row) => this.metadataOf(row.reservation_id)));
      for (const [index, row] of portion.entries()) {
        const [md = null, cm = null] = texts[index] ?? [];
        const report = (reason: string): void => this.damaged.report(row.reservation_id, reason);
        rows.push(
          withMetadata(
            row,
            metadata ? md : null,
            committed && row.status === 'COMMITTED' ? cm : null,
            report,
          ),
        );
        characters += (md?.length ?? 0) + (cm?.length ?? 0);
        if (characters > MAX_METADATA_CHARACTERS && rows.length < page.rows.length) {
          return { rows, next: positionOf(row, sortBy) };
        }
      }
    }
    return { rows, next: page.next };
  }

  private metadataOf(reservationId: string): Promise<(string | null)[]> {
    const key = reservationKey(this.store.tagOf(reservationId), reservationId);
    return this.redis.queries.ask((client) => client.hmget(key, 'md', 'cm'));
  }
}

function positionOf(row: ReservationSummary, sortBy: SortKey): Position {
  return { value: VALUES[sortBy](row), id: row.reservation_id };
}

/** A row between which and another one a page may still change, in the words of the script. */
function bound(side: 'after' | 'before', position: Position | undefined): string[] {
  return position === undefined
    ? []
    : [`${side}_value`, position.value.toString(), `${side}_id`, position.id];
}
