import { Injectable } from '@nestjs/common';
import { type Caller, scopeAllowed } from '../../auth/index.js';
import { type EvidenceReference, EvidenceService } from '../../evidence/index.js';
import { countExpiry } from '../../expiry/index.js';
import { invalidField, treeOrder } from '../../ledger/index.js';
import {
  FIELD,
  nameSkipped,
  RedisService,
  reservationIndexKey,
  reservationKey,
  type ScriptReply,
  tagOfTenant,
} from '../../redis/index.js';
import {
  pageEnd,
  PageSelection,
  type Position,
  type RequestTrace,
  type SortValue,
  stringifyJson,
  traceText,
} from '../../wire/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import type { Operation } from '../admission.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { DamagedRecords } from '../script-refusals.js';
import { type ListQuery, listQueryOf, type ListReservationsQueryDto, type SortKey } from './list-query.js';
import { type ReservationSummary, summaryOf, withEvidence, withMetadata } from './reservation-view.js';

/** Entries that one script examines: one or two milliseconds of Redis' time, during which every other request waits. */
export const EXAMINED_A_RUN = 100;

/** A walk through a tenant's reservations in the order of their creation, a few at a time. */
export interface IndexWalk {
  /** Where the last run ended; undefined before the first one. */
  readonly place: Position | undefined;
  readonly ended: boolean;
  /**
   * Reads the next matching rows.
   * @param limit the most rows to return
   * @param more further conditions, as alternating names and values
   */
  readNext(limit: number, more?: readonly string[]): Promise<ReservationSummary[]>;
}

/** Reads the index of a tenant's reservations. The script expires overdue holds that it finds. */
@Injectable()
export class ReservationIndex {
  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
    private readonly damaged: DamagedRecords,
  ) {}

  walk(query: ListQuery, direction: 'asc' | 'desc', trace: RequestTrace, from?: Position): IndexWalk {
    const { tenantId, conditions, fromMs = '-inf', toMs = '+inf' } = query;
    const index = reservationIndexKey(tagOfTenant(tenantId, this.redis.partitions), tenantId);
    let [place, ended] = [from, false];
    const readNext = async (limit: number, more: readonly string[] = []): Promise<ReservationSummary[]> => {
      const reply = await this.redis.queries.call(
        'list_reservations',
        { reservationIndex: index },
        {
          tenantId,
          walkDir: direction,
          fromMs,
          toMs,
          walkedMs: place?.value.toString() ?? '',
          walkedId: place?.id ?? '',
          examine: EXAMINED_A_RUN,
          limit,
          retentionMs: this.calls.retentionMs,
          requestId: trace.requestId,
          trace: traceText(trace),
          rest: [...conditions, ...more],
        },
      );
      const { walkedMs, walkedId = '' } = reply;
      ended = walkedMs === undefined;
      place = walkedMs === undefined ? place : { value: BigInt(walkedMs), id: walkedId };
      for (const outcome of reply.outcomes) {
        countExpiry(this.metrics, 'access', outcome, reply.nowMs);
      }
      // A damaged record is shown with what can be known of it, and never silently. Of a key that holds no record, nothing can be shown.
      for (const { reservationId, reason } of reply.unreadable) {
        this.damaged.report(reservationId, reason);
        if (reason === 'NOT_A_RECORD') {
          nameSkipped('reservation', reservationId);
        }
      }
      return reply.rows.map((row) => this.summaryOf(row));
    };
    return {
      readNext,
      get place(): Position | undefined {
        return place;
      },
      get ended(): boolean {
        return ended;
      },
    };
  }

  private summaryOf(row: ScriptReply<'list_reservations'>['rows'][number]): ReservationSummary {
    const record = new Map(Object.entries(row));
    return summaryOf(row.id, record, (reason) => this.damaged.report(row.id, reason));
  }
}

/** A page whose conditions match few rows ends after this many runs, with a cursor to continue from there. */
const MAX_RUNS_A_PAGE = 200;
/** A million reservations. Any order but the index's has to read all of them for each page. */
const MAX_RUNS_TO_SORT = 10_000;
/** Metadata is read for a few rows at a time. A page ends early once it has this many characters of it. */
const METADATA_PORTION = 5;
const MAX_METADATA_CHARACTERS = 8 * 1024 * 1024;

const VALUES: Readonly<Record<SortKey, (row: ReservationSummary) => SortValue>> = {
  reservation_id: (row) => row.reservation_id,
  // All rows of a list belong to the same tenant.
  tenant: () => '',
  scope_path: (row) => treeOrder(row.scope_path),
  status: (row) => row.status,
  reserved: (row) => row.reserved.amount,
  created_at_ms: (row) => row.created_at_ms,
  expires_at_ms: (row) => row.expires_at_ms,
};

interface Page {
  readonly rows: readonly ReservationSummary[];
  /** Where the next page starts; undefined on the last one. */
  readonly next: Position | undefined;
  /** How many reservations were looked at, on a page that ended because few of them matched. */
  readonly examined?: number;
}

/** A page as JSON text, as ReservationListResponse of the protocol. */
export interface ListAnswer {
  readonly text: string;
  readonly examined: number | undefined;
}

/** GET /v1/reservations: a tenant's reservations in pages, at a cost that does not depend on other tenants' data. */
@Injectable()
export class ListService {
  constructor(
    private readonly index: ReservationIndex,
    private readonly calls: ReservationScripts,
    private readonly redis: RedisService,
    private readonly damaged: DamagedRecords,
    private readonly evidence: EvidenceService,
  ) {}

  /**
   * A list expires the overdue holds that it finds and returns them as EXPIRED.
   *
   * A page may hold fewer rows than its limit, or none, and still not be the last: only `has_more` shows the end.
   * @throws Refusal as `listQueryOf` documents them, and INVALID_REQUEST for more reservations than can be sorted.
   */
  async list({ caller, trace }: Operation<Caller>, dto: ListReservationsQueryDto): Promise<ListAnswer> {
    const query = listQueryOf(caller, dto);
    const found =
      query.order.sortBy === 'created_at_ms'
        ? await this.pageInIndexOrder(
            query,
            this.index.walk(query, query.order.direction, trace, query.after),
          )
        : await this.pageSorted(query, this.index.walk(query, 'desc', trace));
    const { rows, next } = await this.addExtras(query, found, new Set(dto.include));
    const end = pageEnd(query.fingerprint, next, query.order);
    return { text: stringifyJson({ reservations: rows, ...end }), examined: found.examined };
  }

  /** A page in the index's own order. It reads no further than the page. */
  private async pageInIndexOrder({ scopeFilter, single, limit }: ListQuery, walk: IndexWalk): Promise<Page> {
    const wanted = single ? 1 : limit + 1;
    const rows: ReservationSummary[] = [];
    let run = 0;
    for (; run < MAX_RUNS_A_PAGE && !walk.ended && rows.length < wanted; run += 1) {
      const found = await walk.readNext(wanted - rows.length);
      rows.push(...found.filter((row) => scopeAllowed(scopeFilter, row.scope_path)));
    }
    if (rows.length < wanted) {
      return walk.ended
        ? { rows, next: undefined }
        : { rows, next: walk.place, examined: run * EXAMINED_A_RUN };
    }
    const shown = rows.slice(0, limit);
    return {
      rows: shown,
      next: single ? undefined : positionOf(shown.at(-1) as ReservationSummary, 'created_at_ms'),
    };
  }

  /** A page in another order. It examines all of the tenant's rows, but keeps only as many as the page holds. */
  private async pageSorted({ scopeFilter, order, limit, after }: ListQuery, walk: IndexWalk): Promise<Page> {
    const { sortBy, direction } = order;
    const selection = new PageSelection<ReservationSummary>(
      { direction, valueOf: VALUES[sortBy], idOf: (row) => row.reservation_id },
      limit,
      after,
    );
    for (let run = 0; !walk.ended; run += 1) {
      if (run === MAX_RUNS_TO_SORT) {
        const count = MAX_RUNS_TO_SORT * EXAMINED_A_RUN;
        throw invalidField(
          'sort_by',
          `more than ${count} reservations cannot be sorted by ${sortBy}; narrow from and to`,
        );
      }
      const between = [...bound('after', after), ...bound('before', selection.lastKept())];
      for (const row of await walk.readNext(EXAMINED_A_RUN, [
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

  /**
   * Adds the metadata and the references to evidence that `include` names. Neither changes once written, so reading them afterwards is
   * not a race.
   */
  private async addExtras(
    { order: { sortBy } }: ListQuery,
    page: Page,
    include: ReadonlySet<string>,
  ): Promise<Page> {
    const [metadata, committed] = [include.has('metadata'), include.has('committed_metadata')];
    const evidence = include.has('evidence') && this.evidence.isIssuing;
    if (!metadata && !committed && !evidence) {
      return page;
    }
    const referenceTo = (id: string): EvidenceReference => this.evidence.referenceTo(id);
    const rows: ReservationSummary[] = [];
    let characters = 0;
    while (rows.length < page.rows.length) {
      const portion = page.rows.slice(rows.length, rows.length + METADATA_PORTION);
      const texts = await Promise.all(
        portion.map((row) => this.extrasOf(row.reservation_id, metadata || committed)),
      );
      for (const [index, row] of portion.entries()) {
        const [reserved = null, ended = null, md = null, cm = null] = texts[index] ?? [];
        const report = (reason: string): void => this.damaged.report(row.reservation_id, reason);
        const shown = withMetadata(
          row,
          metadata ? md : null,
          committed && row.status === 'COMMITTED' ? cm : null,
          report,
        );
        rows.push(evidence ? withEvidence(shown, reserved, ended, referenceTo) : shown);
        characters += (md?.length ?? 0) + (cm?.length ?? 0);
        if (characters > MAX_METADATA_CHARACTERS && rows.length < page.rows.length) {
          return { rows, next: positionOf(row, sortBy) };
        }
      }
    }
    return { rows, next: page.next };
  }

  private extrasOf(reservationId: string, withMetadata: boolean): Promise<(string | null)[]> {
    const key = reservationKey(this.calls.tagOf(reservationId), reservationId);
    const fields = withMetadata
      ? [FIELD.reserve_evidence, FIELD.end_evidence, FIELD.metadata, FIELD.commit_metadata]
      : [FIELD.reserve_evidence, FIELD.end_evidence];
    return this.redis.queries.command((client) => client.hmget(key, ...fields));
  }
}

function positionOf(row: ReservationSummary, sortBy: SortKey): Position {
  return { value: VALUES[sortBy](row), id: row.reservation_id };
}

/** One end of the range in which a row may still change the page, as conditions for the script. */
function bound(side: 'after' | 'before', position: Position | undefined): string[] {
  return position === undefined
    ? []
    : [`${side}_value`, position.value.toString(), `${side}_id`, position.id];
}
