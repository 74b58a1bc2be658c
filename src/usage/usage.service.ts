import { type BeforeApplicationShutdown, Inject, Injectable } from '@nestjs/common';
import { type Caller, listedTenant, segmentsOf } from '../auth/index.js';
import { doubt, SPILL_PREFIX } from '../archive/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  DAY_MS,
  invalidField,
  parseScopePath,
  QueryUnavailable,
  tenantOfScope,
  TooBusy,
} from '../ledger/index.js';
import { ConcurrencyLimiter, QueryAbandoned, RedisService } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { ArchiveReader, type UsageReading } from './archive-reader.js';
import { FileQueryFailed, type FileRows, QueryProcess } from './query-process.js';
import { keyText, type Report, type ReportRow } from './report-formats.js';
import { type ReportQuery, reportStatement } from './report-sql.js';
import { offsetsIn } from './time-zone.js';
import { boundMs, DEFAULT_ROWS, FIGURES, type UsageQueryDto } from './usage.dto.js';
import { USAGE_METRICS } from './usage.metrics.js';

const DEFAULT_SPAN_MS = 30 * DAY_MS;
const LONGEST_SPAN_MS = 3660 * DAY_MS;
/** Reports of one tenant, or of the operators, that may wait for DuckDB. */
const WAITING_PER_OWNER = 16;
const OUT_OF_MEMORY = /^Out of Memory Error/i;

/** A report, and how much of the span it is about. */
export type UsageReport = Report & Omit<UsageReading, 'files'>;

/** Sums over the archive of charges. DuckDB runs one report at a time; others wait, and their tenants take turns. */
@Injectable()
export class UsageService implements BeforeApplicationShutdown {
  private readonly turns = new ConcurrencyLimiter({
    total: 1,
    perOwner: 1,
    waitingPerOwner: WAITING_PER_OWNER,
  });
  private readonly counts = this.metrics.of(USAGE_METRICS);
  private process: QueryProcess | undefined;

  constructor(
    private readonly archive: ArchiveReader,
    private readonly redis: RedisService,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly metrics: MetricsRegistry,
  ) {}

  async beforeApplicationShutdown(): Promise<void> {
    this.turns.close();
    await this.process?.stop();
  }

  /** The process of DuckDB, if it runs. For tests. */
  get pid(): number | undefined {
    return this.process?.pid;
  }

  /**
   * Waits for its turn.
   * @returns ends the turn
   * @throws Refusal LIMIT_EXCEEDED if too many wait, or for too long
   */
  async admit(owner: string, signal: AbortSignal): Promise<() => void> {
    const waitMs = this.config.usageTimeoutMs;
    const result = await this.turns.acquire({ owner }, { waitMs, signal });
    if (result === 'acquired') {
      return () => this.turns.release({ owner });
    }
    this.counts.queries.inc({ outcome: result === 'gone' ? 'gone' : 'busy' });
    throw result === 'gone'
      ? new QueryAbandoned('the client closed the connection before the answer was ready')
      : new TooBusy('too many reports of usage at the same time; one runs at once', Math.ceil(waitMs / 1000));
  }

  /**
   * To be called in its turn.
   * @throws Refusal INVALID_REQUEST, FORBIDDEN; INTERNAL_ERROR with 501 without an archive or DuckDB, and with 503 where a query ended
   */
  async report(caller: Caller, dto: UsageQueryDto, signal: AbortSignal): Promise<UsageReport> {
    const query = queryOf(caller, dto, this.redis.clock.ledgerMs());
    try {
      return await this.read(query, signal).catch((error: unknown) => {
        if (mayBeOfFile(error)) {
          // Its day was published before it was read, so its rows are in another file now. Or it was damaged since it was judged.
          return this.read(query, signal);
        }
        throw error;
      });
    } catch (error) {
      throw error instanceof FileQueryFailed ? this.refusalOf(error) : error;
    }
  }

  private async read(query: ReportQuery, signal: AbortSignal): Promise<UsageReport> {
    const { files, ...reading } = await this.archive.read(query.fromMs, query.toMs, query.equals.tenant);
    if (files.length === 0) {
      return { groups: query.groups, rows: [], totals: [], hasMore: false, ...reading };
    }
    const began = performance.now();
    const rows = await this.rowsOf(query, { files, ...reading }, signal).catch((error: unknown) => {
      if (mayBeOfFile(error)) {
        doubt(files);
      }
      throw error;
    });
    this.counts.duration.observe((performance.now() - began) / 1000);
    this.counts.queries.inc({ outcome: 'OK' });
    return { ...reportOf(query, rows), ...reading };
  }

  private rowsOf(
    query: ReportQuery,
    { files, superseded }: UsageReading,
    signal: AbortSignal,
  ): Promise<FileRows> {
    this.process ??= new QueryProcess({
      folder: this.archive.root,
      memoryMb: this.config.usageMemoryMb,
      spillMb: this.config.usageSpillMb,
      threads: this.config.usageThreads,
      timeoutMs: this.config.usageTimeoutMs,
    });
    return this.process.run(reportStatement(query, files, superseded), signal);
  }

  private refusalOf({ failure, message }: FileQueryFailed): Error {
    this.counts.queries.inc({ outcome: failure });
    switch (failure) {
      case 'missing':
        return new QueryUnavailable(
          501,
          'reports of usage need DuckDB: install the package @duckdb/node-api',
          failure,
        );
      case 'gone':
        return new QueryAbandoned('the client closed the connection before the answer was ready');
      case 'timeout':
        return new QueryUnavailable(503, `${message}; ask for a shorter span or fewer groups`, failure);
      case 'died':
      case 'refused':
    }
    const { usageMemoryMb, usageSpillMb } = this.config;
    if (OUT_OF_MEMORY.test(message)) {
      return invalidField(
        'group_by',
        `the report needs more than ${usageMemoryMb} MB of memory and ${usageSpillMb} MB of disk; ask for a shorter span or fewer groups`,
      );
    }
    this.logger.error({ failure, why: message }, 'a report of usage failed');
    return new QueryUnavailable(503, whyNot(failure, message), failure);
  }
}

function whyNot(failure: 'died' | 'refused', message: string): string {
  if (failure === 'died') {
    return 'the process that ran the report ended; the next report starts another one';
  }
  return message.includes(SPILL_PREFIX)
    ? 'the report does not fit into memory, and could not be written to the disk of the archive; the log says why'
    : 'the archive could not be read; the log says why, and `npm run archive -- verify` finds damaged files';
}

/** Whether DuckDB may not have found a file, or not have read it. */
const mayBeOfFile = (error: unknown): boolean =>
  error instanceof FileQueryFailed && error.failure === 'refused' && !OUT_OF_MEMORY.test(error.message);

function queryOf(caller: Caller, dto: UsageQueryDto, nowMs: number): ReportQuery {
  const toMs = dto.to === undefined ? nowMs : (boundMs(dto.to) as number);
  const fromMs = dto.from === undefined ? toMs - DEFAULT_SPAN_MS : (boundMs(dto.from) as number);
  if (fromMs > toMs) {
    throw invalidField('from', 'from must not be later than to');
  }
  if (toMs - fromMs > LONGEST_SPAN_MS) {
    throw invalidField('from', `from and to may be at most ${LONGEST_SPAN_MS / DAY_MS} days apart`);
  }
  const groups = [...new Set(dto.group_by)];
  if (dto.scope_depth !== undefined && !groups.includes('scope')) {
    throw invalidField('scope_depth', 'scope_depth must be absent unless group_by has scope');
  }
  const scope = dto.scope === undefined ? undefined : parseScopePath(dto.scope);
  const named = listedTenant(caller, dto.tenant_id?.toLowerCase());
  const ofScope = scope === undefined ? undefined : tenantOfScope(scope);
  if (named !== undefined && ofScope !== undefined && named !== ofScope) {
    throw invalidField('scope', "the scope is not one of the tenant's");
  }
  return {
    fromMs,
    toMs,
    offsets: offsetsIn(dto.time_zone ?? 'UTC', fromMs, toMs),
    groups,
    scopeDepth: dto.scope_depth,
    equals: {
      tenant: named ?? ofScope,
      unit: dto.unit,
      source: dto.source,
      action_kind: dto.action_kind,
      action_name: dto.action_name,
      model_version: dto.model_version,
      key_id: dto.key_id,
      workspace: dto.workspace?.toLowerCase(),
      app: dto.app?.toLowerCase(),
      workflow: dto.workflow?.toLowerCase(),
      agent: dto.agent?.toLowerCase(),
      toolset: dto.toolset?.toLowerCase(),
    },
    dimension: dimensionOf(dto.dimension),
    scope,
    tenants: caller.kind === 'admin' ? caller.tenants : undefined,
    segments: caller.kind === 'tenant' ? segmentsOf(caller.scopeFilter) : [],
    order: orderOf(dto.order, groups),
    limit: dto.limit ?? DEFAULT_ROWS,
  };
}

function dimensionOf(text: string | undefined): ReportQuery['dimension'] {
  if (text === undefined) {
    return undefined;
  }
  const at = text.indexOf('=');
  if (at < 1) {
    throw invalidField('dimension', 'dimension must be <name>=<value>');
  }
  return { name: text.slice(0, at), value: text.slice(at + 1) };
}

function orderOf(text: string | undefined, groups: readonly string[]): ReportQuery['order'] {
  if (text === undefined) {
    return undefined;
  }
  const descending = text.startsWith('-');
  const by = descending ? text.slice(1) : text;
  const allowed = [...groups, 'unit', ...FIGURES];
  if (!allowed.includes(by)) {
    throw invalidField(
      'order',
      `order must be one of ${allowed.join(', ')}, with a minus in front for the largest first`,
    );
  }
  return { by, descending };
}

function reportOf({ groups, limit }: ReportQuery, { rows }: FileRows): Report {
  const all = rows.map((cells): { isRow: boolean; row: ReportRow } => ({
    isRow: cells[0] !== null,
    row: {
      keys: groups.map((group, index) => keyText(group, cells[index + 1])),
      unit: cells[groups.length + 1] ?? '',
      figures: cells.slice(groups.length + 2).map((cell) => BigInt(cell ?? '0')),
    },
  }));
  const of = (areRows: boolean): ReportRow[] =>
    all.filter(({ isRow }) => isRow === areRows).map(({ row }) => row);
  const found = of(true);
  return { groups, rows: found.slice(0, limit), hasMore: found.length > limit, totals: of(false) };
}
