import { Injectable } from '@nestjs/common';
import { scopeAllowed, type Caller } from '../../auth/index.js';
import {
  encodeCursor,
  PageSelection,
  stringifyJson,
  type Position,
  type SortValue,
} from '../../http/index.js';
import { Refusal } from '../../ledger/index.js';
import { RedisService, reservationKey } from '../../redis/index.js';
import { DamagedRecords } from '../damaged-records.js';
import type { Operation } from '../operation.js';
import { ReservationStore } from '../reservation-store.js';
import { listQuestion, type ListQuestion } from './list-question.js';
import type { ListReservationsQueryDto, SortKey } from './list-reservations.dto.js';
import { EXAMINED_A_RUN, ReservationIndex, type IndexWalk } from './reservation-index.js';
import { withMetadata, type ReservationSummary } from './reservation-view.js';

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
