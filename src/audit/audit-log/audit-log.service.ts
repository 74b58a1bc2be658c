import { Injectable } from '@nestjs/common';
import { fingerprintOf, Refusal, TENANT_ID_PATTERN } from '../../ledger/index.js';
import { partitionCode, Records, RedisService, SYSTEM_OWNER, tagOf, tagOfKeyId } from '../../redis/index.js';
import { type LabelledCounter, MetricsRegistry } from '../../telemetry/index.js';
import {
  decodeCursor,
  DEFAULT_LIMIT,
  encodeCursor,
  matchesSearch,
  instantMs,
  MAX_LIMIT,
  mergedPage,
  type MergedPage,
  type Page,
  RecordSelection,
  type SortOrder,
  sortOrderOf,
} from '../../wire/index.js';
import { AUDIT_SORT_KEYS, type AuditLogQueryDto, type AuditSortKey } from './audit-log.dto.js';
import {
  type AuditIndex,
  type AuditLogEntry,
  type AuditPlace,
  type AuditQuestion,
  AuditSource,
  comesFirst,
  firstIndexed,
  indexOfValue,
  placeOfLogId,
} from './audit-source.js';
import { AuditTrail } from './audit-trail.js';

/** Entries that one page may cost: about a quarter of a second of Redis' time, in slices of a millisecond. */
const EXAMINED_A_PAGE = 50_000;
/** The same for an order other than that of time, which reads all that lies in the window. */
const SORTED_MOST = 50_000;
/** How many of them are fetched at once. */
const SORTED_A_PAGE = 2000;
/** The share of a page that one log has in store while many are merged, so that a page does not fetch many times what it holds. */
const SHARE_A_RUN_MERGED = 1 / 8;
const NEWEST_FIRST: SortOrder<AuditSortKey> = { sortBy: 'timestamp', direction: 'desc' };
const SENTINELS = ['__admin__', '__unauth__'];

type Filters = Omit<AuditLogQueryDto, 'cursor' | 'limit'>;

/**
 * Reads the audit log: two streams in each partition. In the order of time each is read from where the page begins, and no further
 * than the page goes. A request id, trace id, resource id or tenant has an index, so that other rows cost nothing.
 */
@Injectable()
export class AuditLogService {
  private readonly cuts: LabelledCounter;

  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly trail: AuditTrail,
    metrics: MetricsRegistry,
  ) {
    this.cuts = metrics.counter({
      name: 'holdfast_audit_pages_cut_total',
      help: 'Pages of the audit log that ended early because so many rows did not match.',
    });
  }

  /**
   * Newest first, unless asked otherwise. A page whose filters let few rows pass ends early and has a cursor.
   * @throws Refusal INVALID_REQUEST
   */
  async list(query: AuditLogQueryDto): Promise<Page<AuditLogEntry>> {
    requireSoundStatus(query);
    await this.trail.settled();
    const order = sortOrderOf(query, AUDIT_SORT_KEYS, NEWEST_FIRST);
    return order.sortBy === 'timestamp' ? this.pageInTime(query, order) : this.pageSorted(query, order);
  }

  private async pageInTime(
    { cursor = '', limit = DEFAULT_LIMIT, ...query }: AuditLogQueryDto,
    order: SortOrder,
  ): Promise<Page<AuditLogEntry>> {
    const fingerprint = fingerprintOf({
      list: 'audit-logs',
      ...query,
      sort_by: order.sortBy,
      sort_dir: order.direction,
    });
    const position =
      cursor === ''
        ? undefined
        : decodeCursor(fingerprint, cursor, ({ id }) => placeOfLogId(id) !== undefined);
    const after = position === undefined ? undefined : placeOfLogId(position.id);
    const { rows, next } = await this.read(
      query,
      questionOf(query, order.direction),
      { limit: Math.min(limit, MAX_LIMIT), after },
      EXAMINED_A_PAGE,
    );
    if (next === undefined) {
      return { rows, has_more: false };
    }
    const id = logIdOf(next);
    return { rows, has_more: true, next_cursor: encodeCursor(fingerprint, { value: id, id }, order) };
  }

  private async pageSorted(
    { cursor, limit, ...query }: AuditLogQueryDto,
    order: SortOrder<AuditSortKey>,
  ): Promise<Page<AuditLogEntry>> {
    const selection = new RecordSelection<AuditLogEntry>({
      query: { list: 'audit-logs', ...query },
      order,
      cursor,
      limit,
      valueOf: (entry) => entry[order.sortBy] ?? '',
      idOf: ({ log_id: id }) => id,
    });
    const question = questionOf(query, 'asc');
    let after: AuditPlace | undefined;
    let left = SORTED_MOST;
    do {
      const { rows, next, endedEarly, examined } = await this.read(
        query,
        question,
        { limit: SORTED_A_PAGE, after },
        left,
      );
      left -= examined;
      if (endedEarly || left <= 0) {
        throw new Refusal(
          'INVALID_REQUEST',
          `more than ${SORTED_MOST} rows lie in the window; narrow from and to, or sort by timestamp`,
          { field: 'sort_by' },
        );
      }
      for (const row of rows) {
        selection.offer(row);
      }
      after = next;
    } while (after !== undefined);
    return selection.page();
  }

  private async read(
    query: Filters,
    question: AuditQuestion,
    { limit, after }: { limit: number; after: AuditPlace | undefined },
    maxExamined: number,
  ): Promise<MergedPage<AuditLogEntry, AuditPlace>> {
    const { direction } = question;
    const sources = await this.sourcesOf(query, question, limit, after);
    const page = await mergedPage<AuditLogEntry, AuditPlace>(
      sources.map((source) => () => source.readNext()),
      {
        placeOf: ({ log_id: id }) => placeOfLogId(id) as AuditPlace,
        isBefore: (one, other) => comesFirst(direction, one, other),
        limit,
        maxExamined,
      },
    );
    if (page.endedEarly) {
      this.cuts.inc();
    }
    return page;
  }

  private async sourcesOf(
    query: Filters,
    question: AuditQuestion,
    limit: number,
    after: AuditPlace | undefined,
  ): Promise<AuditSource[]> {
    const partitions = this.partitionsOf(query);
    const rowsARun = partitions.length === 1 ? limit + 1 : Math.ceil((limit + 1) * SHARE_A_RUN_MERGED);
    const sources = partitions.flatMap((code) =>
      (['audit', 'audit-brief'] as const).map(
        (log) => new AuditSource(this.redis, code, log, question, rowsARun, after),
      ),
    );
    if (question.index === undefined) {
      return sources;
    }
    // Rows that a version before 0.6 wrote are in no index.
    const unindexed = await Promise.all(
      partitions.map(async (code) => {
        const before = (await firstIndexed(this.redis, code)) ?? END_OF_TIME;
        return new AuditSource(this.redis, code, 'audit', question, rowsARun, after, before);
      }),
    );
    return [...sources, ...unindexed];
  }

  /** Rows shown under a tenant, or written by one of its keys, stand in its own partition, and those of operators and strangers in theirs. */
  private partitionsOf({ tenant_id: tenantId = '', key_id: keyId = '' }: Filters): string[] {
    const owner = SENTINELS.includes(tenantId)
      ? SYSTEM_OWNER
      : TENANT_ID_PATTERN.test(tenantId)
        ? tenantId
        : undefined;
    const tag =
      owner === undefined ? tagOfKeyId(keyId, this.redis.partitions) : this.records.tagOfTenant(owner);
    const all = Array.from({ length: this.redis.partitions }, (_, partition) => partitionCode(partition));
    return tag === undefined ? all : all.filter((code) => tagOf(code) === tag);
  }
}

/** No entry is behind it. */
const END_OF_TIME = '999999999999999-0';

/** A cut page ends at a place that need not have a row; its log_id says the place all the same. */
function logIdOf({ partition, log, entryId }: AuditPlace): string {
  return `log_${partition}${log === 'audit' ? '' : 'b'}${entryId}`;
}

function questionOf(query: Filters, direction: 'asc' | 'desc'): AuditQuestion {
  const conditions: (readonly [string, string | number | undefined])[] = [
    ['ki', query.key_id],
    ['ri', query.resource_id],
    ['rq', query.request_id],
    ['tr', query.trace_id],
    ['st', query.status],
    ['min_status', query.status_min],
    ['max_status', query.status_max],
    ...(query.operation ?? []).map((value) => ['op', value] as const),
    ...(query.resource_type ?? []).map((value) => ['rt', value] as const),
    ...(query.error_code ?? []).map((value) => ['ec', value] as const),
  ];
  return {
    direction,
    fromMs: instantMs(query.from),
    toMs: instantMs(query.to),
    index: indexOf(query),
    conditions: conditions.flatMap(([name, value]) =>
      value === undefined || value === '' ? [] : [name, String(value)],
    ),
    matches: matcherOf(query),
  };
}

/** The index with the fewest rows that are not wanted. */
function indexOf({
  request_id: requestId = '',
  trace_id: traceId = '',
  resource_id: resourceId = '',
  tenant_id: tenantId = '',
}: Filters): AuditIndex | undefined {
  if (requestId !== '') {
    return indexOfValue('q', requestId);
  }
  if (traceId !== '') {
    return indexOfValue('x', traceId);
  }
  if (resourceId !== '') {
    return indexOfValue('r', resourceId);
  }
  return tenantId === '' ? undefined : indexOfValue('t', tenantId);
}

function requireSoundStatus({ status, status_min: min, status_max: max }: Filters): void {
  if (status !== undefined && (min !== undefined || max !== undefined)) {
    throw new Refusal('INVALID_REQUEST', 'status must not be combined with status_min or status_max', {
      field: 'status',
    });
  }
  if ((min ?? 0) > (max ?? Infinity)) {
    throw new Refusal('INVALID_REQUEST', 'status_min must not exceed status_max', { field: 'status_min' });
  }
}

/** All filters together; an absent one lets everything pass. */
function matcherOf(query: Filters): (entry: AuditLogEntry) => boolean {
  const isOrAny = (wanted: string | number | undefined, value: unknown): boolean =>
    wanted === undefined || wanted === '' || wanted === value;
  const inOrAny = (wanted: readonly string[] | undefined, value: string | undefined): boolean =>
    wanted === undefined || wanted.length === 0 || (value !== undefined && wanted.includes(value));
  return (entry) =>
    isOrAny(query.tenant_id, entry.tenant_id) &&
    isOrAny(query.key_id, entry.key_id) &&
    isOrAny(query.resource_id, entry.resource_id) &&
    isOrAny(query.trace_id, entry.trace_id) &&
    isOrAny(query.request_id, entry.request_id) &&
    isOrAny(query.status, entry.status) &&
    entry.status >= (query.status_min ?? 0) &&
    entry.status <= (query.status_max ?? Infinity) &&
    inOrAny(query.operation, entry.operation) &&
    inOrAny(query.resource_type, entry.resource_type) &&
    inOrAny(query.error_code, entry.error_code) &&
    // A row of a success has no code, and is never hidden by one.
    !(entry.error_code !== undefined && query.error_code_exclude?.includes(entry.error_code) === true) &&
    matchesSearch(
      query.search,
      entry.resource_id ?? '',
      entry.log_id,
      entry.error_code ?? '',
      entry.operation,
    );
}
