import { Injectable } from '@nestjs/common';
import { mayActFor, partitionsOfTenants, type Tenants } from '../../auth/index.js';
import { fingerprintOf, invalidField, TENANT_ID_PATTERN } from '../../ledger/index.js';
import { partitionCode, Records, RedisService, SYSTEM_OWNER, tagOf, tagOfKeyId } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import {
  instantMs,
  matchesSearch,
  type MergedPage,
  mergedPage,
  type Page,
  pageInTime,
  pageSorted,
  RecordSelection,
  type SortOrder,
  sortOrderOf,
  type TimeLog,
} from '../../wire/index.js';
import {
  AUDIT_SORT_KEYS,
  type AuditLogQueryDto,
  type AuditSortKey,
  type RequestLogQueryDto,
} from './audit-log.dto.js';
import {
  type AuditIndex,
  type AuditLog,
  type AuditLogEntry,
  type AuditPlace,
  type AuditSearch,
  PartitionAuditLog,
  comesFirst,
  indexOfValue,
  logIdOf,
  placeOfLogId,
} from './audit-log-rows.js';
import { type RefusedRequest, refusedRequestOf } from './refused-request.js';
import { AuditedRequests } from './audited-requests.js';
import { AUDIT_METRICS } from '../audit.metrics.js';

/** The share of a page that each log fetches at a time while many are merged, so that a page does not read many times its size. */
const SHARE_A_RUN_MERGED = 1 / 8;
const NEWEST_FIRST: SortOrder<AuditSortKey> = { sortBy: 'timestamp', direction: 'desc' };
/** Reads that succeed have a log of their own, together with requests of nobody known. */
const ALL: readonly AuditLog[] = ['audit', 'audit-brief'];
const CHANGES: readonly AuditLog[] = ['audit'];
const REFUSED: readonly AuditLog[] = ['refused'];
const REFUSED_FROM = 400;
const SENTINELS = ['__admin__', '__unauth__'];

/** The queries of the audit log and of the request log. */
type RowQuery = AuditLogQueryDto & Pick<RequestLogQueryDto, 'scope'>;
type ListQuery = AuditLogQueryDto & { readonly tenants: Tenants };
type Filters = Omit<RowQuery, 'cursor' | 'limit'> & { readonly tenants: Tenants };

/**
 * Reads the audit log: two streams in each partition. In the order of time, each is read only from the start of the page to its end.
 * Filters by request id, trace id, resource id or tenant use an index, so that other rows cost nothing.
 */
@Injectable()
export class AuditLogService {
  private readonly counts = this.metrics.of(AUDIT_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly audited: AuditedRequests,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * The last refused requests, newest first.
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST
   */
  async listRefused(
    { cursor, limit, ...asked }: RequestLogQueryDto,
    tenants: Tenants,
  ): Promise<Page<RefusedRequest>> {
    const query = { ...asked, tenants };
    await this.audited.settled();
    const fingerprint = fingerprintOf({ list: 'requests', ...query });
    const log = this.logOf(query, 'desc', REFUSED);
    const page = await pageInTime(log, { cursor, limit, order: NEWEST_FIRST, fingerprint });
    return { ...page, rows: page.rows.map(refusedRequestOf) };
  }

  /**
   * Newest first by default. A page whose filters match few rows ends early, with a cursor.
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST
   */
  async list(asked: AuditLogQueryDto, tenants: Tenants): Promise<Page<AuditLogEntry>> {
    requireValidStatus(asked);
    const query: ListQuery = { ...asked, tenants };
    await this.audited.settled();
    const order = sortOrderOf(query, AUDIT_SORT_KEYS, NEWEST_FIRST);
    return order.sortBy === 'timestamp' ? this.listByTime(query, order) : this.listSorted(query, order);
  }

  private listByTime(
    { cursor, limit, ...query }: ListQuery,
    order: SortOrder<AuditSortKey>,
  ): Promise<Page<AuditLogEntry>> {
    const { sortBy, direction } = order;
    const fingerprint = fingerprintOf({ list: 'audit-logs', ...query, sort_by: sortBy, sort_dir: direction });
    return pageInTime(this.logOf(query, direction), { cursor, limit, order, fingerprint });
  }

  private listSorted(
    { cursor, limit, ...query }: ListQuery,
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
    return pageSorted(this.logOf(query, 'asc'), selection, 'rows');
  }

  private logOf(
    query: Filters,
    direction: 'asc' | 'desc',
    logs = query.changes_only === true ? CHANGES : ALL,
  ): TimeLog<AuditLogEntry, AuditPlace> {
    const search = searchOf(query, direction);
    return {
      placeOf: placeOfLogId,
      idOf: ({ partition, log, entryId }) => logIdOf(partition, log, entryId),
      read: (limit, after, maxExamined) => this.read(query, search, logs, { limit, after }, maxExamined),
    };
  }

  private async read(
    query: Filters,
    search: AuditSearch,
    names: readonly AuditLog[],
    { limit, after }: { limit: number; after: AuditPlace | undefined },
    maxExamined: number,
  ): Promise<MergedPage<AuditLogEntry, AuditPlace>> {
    const { direction } = search;
    const logs = this.partitionLogsOf(query, search, names, limit, after);
    const page = await mergedPage<AuditLogEntry, AuditPlace>(
      logs.map((log) => () => log.readNext()),
      {
        placeOf: ({ log_id: id }) => placeOfLogId(id) as AuditPlace,
        isBefore: (one, other) => comesFirst(direction, one, other),
        limit,
        maxExamined,
      },
    );
    if (page.endedEarly) {
      this.counts.pagesCut.inc();
    }
    return page;
  }

  private partitionLogsOf(
    query: Filters,
    search: AuditSearch,
    names: readonly AuditLog[],
    limit: number,
    after: AuditPlace | undefined,
  ): PartitionAuditLog[] {
    const partitions = this.partitionsOf(query);
    const rowsARun = partitions.length === 1 ? limit + 1 : Math.ceil((limit + 1) * SHARE_A_RUN_MERGED);
    return partitions.flatMap((code) =>
      names.map((log) => new PartitionAuditLog(this.redis, code, log, search, rowsARun, after)),
    );
  }

  /** Rows about a tenant or by its keys are in its partition. Rows of operators and of unauthenticated requests are in the system's. */
  private partitionsOf({ tenant_id: tenantId = '', key_id: keyId = '', tenants }: Filters): string[] {
    const owner = SENTINELS.includes(tenantId)
      ? SYSTEM_OWNER
      : TENANT_ID_PATTERN.test(tenantId)
        ? tenantId
        : undefined;
    const tag =
      owner === undefined ? tagOfKeyId(keyId, this.redis.partitions) : this.records.tagOfTenant(owner);
    const all = partitionsOfTenants(tenants, this.redis.partitions).map(partitionCode);
    return tag === undefined ? all : all.filter((code) => tagOf(code) === tag);
  }
}

function searchOf(query: Filters, direction: 'asc' | 'desc'): AuditSearch {
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

/** The most selective index that the filters can use. */
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

function requireValidStatus({ status, status_min: min, status_max: max }: AuditLogQueryDto): void {
  if (status !== undefined && (min !== undefined || max !== undefined)) {
    throw invalidField('status', 'status must not be combined with status_min or status_max');
  }
  if ((min ?? 0) > (max ?? Infinity)) {
    throw invalidField('status_min', 'status_min must not exceed status_max');
  }
}

/** Whether the scope of a refusal is this one, or below it. */
function isWithin(scope: string | undefined, of: unknown): boolean {
  return scope === undefined || scope === '' || `${String(of)}/`.startsWith(`${scope}/`);
}

/** Combines all filters. An absent filter matches everything. */
function matcherOf(query: Filters): (entry: AuditLogEntry) => boolean {
  const isOrAny = (wanted: string | number | undefined, value: unknown): boolean =>
    wanted === undefined || wanted === '' || wanted === value;
  const inOrAny = (wanted: readonly string[] | undefined, value: string | undefined): boolean =>
    wanted === undefined || wanted.length === 0 || (value !== undefined && wanted.includes(value));
  return (entry) =>
    mayActFor(query.tenants, entry.tenant_id) &&
    isOrAny(query.tenant_id, entry.tenant_id) &&
    isOrAny(query.key_id, entry.key_id) &&
    isOrAny(query.resource_id, entry.resource_id) &&
    isOrAny(query.trace_id, entry.trace_id) &&
    isOrAny(query.request_id, entry.request_id) &&
    isOrAny(query.status, entry.status) &&
    isWithin(query.scope, entry.metadata['scope']) &&
    (query.changes_only !== true || entry.status < REFUSED_FROM) &&
    entry.status >= (query.status_min ?? 0) &&
    entry.status <= (query.status_max ?? Infinity) &&
    inOrAny(query.operation, entry.operation) &&
    inOrAny(query.resource_type, entry.resource_type) &&
    inOrAny(query.error_code, entry.error_code) &&
    // The row of a success has no error code, so this never excludes it.
    !(entry.error_code !== undefined && query.error_code_exclude?.includes(entry.error_code) === true) &&
    matchesSearch(
      query.search,
      entry.resource_id ?? '',
      entry.log_id,
      entry.error_code ?? '',
      entry.operation,
    );
}
