import { type BeforeApplicationShutdown, Injectable, type OnModuleInit } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Caller } from '../../auth/index.js';
import { CallerFinder, isRead, onResponseEnd } from '../../http/index.js';
import { RedisService } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import type { AuditLog } from './audit-log-rows.js';
import { AuditOperations } from './audit-operations.js';
import { AuditWriter, type PathClass } from './audit-writer.js';
import { AUDIT_METRICS } from '../audit.metrics.js';
import { type Answered, askedOf, rowOf, sourceOfRow, summaryOf } from './request-row.js';
import { type QuotaLimits, RowQuota } from './row-quota.js';

const WINDOW_MS = 60_000;
/** Rows written per minute, by class. A dashboard causes a few dozen. Beyond these limits, a summary row counts the rest. */
const LIMITS: Readonly<Record<PathClass, QuotaLimits>> = {
  success: { perSource: 600, overall: 3000 },
  failure: { perSource: 600, overall: 3000 },
  unauthenticated: { perSource: 5, overall: 60 },
  // A log of 1,000 rows a tenant needs no more.
  refused: { perSource: 1000, overall: 6000 },
};

/** Requests whose row a script has written but whose response is not sent yet. No instance has more in flight. */
const MAX_AUDITED = 10_000;
/** Requests refused early whose keys are looked up at the same time. Beyond this, the caller is recorded as unknown. */
const MAX_IDENTIFYING = 1000;

/** The paths of the governance plane, of operations, and of log-in to the console. */
const GOVERNED =
  /^\/(?:v1\/(?:admin|auth|webhooks|events)|ops|console\/api\/(?:login|logout|provider))(?:[/?]|$)/;
/** The paths whose refusals are in the request log. */
const OPERATIONS = /^\/(?:v1|ops)\//;

interface Followed extends Answered {
  readonly isGoverned: boolean;
  readonly isRefused: boolean;
}

/**
 * Ensures that each request of the governance plane gets exactly one audit row. A script that changes something writes it; this class
 * writes all others, after the response was sent. Runtime requests have none, except for an operator's release, whose script writes it.
 * The same requests are counted here, if they are not reads.
 *
 * Each refused request, runtime or not, gets a row of the request log, too. An accepted runtime request only costs a check of its path.
 */
@Injectable()
export class AuditedRequests implements OnModuleInit, BeforeApplicationShutdown {
  private readonly audited = new LRUCache<string, true>({ max: MAX_AUDITED });
  private readonly quotas: Readonly<Record<PathClass, RowQuota>> = {
    success: new RowQuota(LIMITS.success),
    failure: new RowQuota(LIMITS.failure),
    unauthenticated: new RowQuota(LIMITS.unauthenticated),
    refused: new RowQuota(LIMITS.refused),
  };
  private readonly followed = new WeakSet<FastifyRequest>();
  private readonly identifying = new Set<Promise<void>>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly operations: AuditOperations,
    private readonly callers: CallerFinder,
    private readonly writer: AuditWriter,
    private readonly metrics: MetricsRegistry,
  ) {}

  onModuleInit(): void {
    this.redis.scripts.onAudited((requestId) => this.audited.set(requestId, true));
    this.timer = setInterval(() => this.endWindow(), WINDOW_MS).unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await Promise.allSettled(this.identifying);
    this.endWindow();
    await this.writer.drained();
  }

  /** Waits, for a bounded time, until the rows of requests answered by this instance are written. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.identifying);
    await this.writer.drained();
  }

  /**
   * Called when a response is about to be sent. The row is written once it is sent or the client has disconnected, which may have
   * received a part of it. Matches the route, not the path, because any character of a path may be percent-encoded.
   */
  follow(request: FastifyRequest, reply: FastifyReply): void {
    const route = request.is404 ? undefined : request.routeOptions.url;
    const isRefused = request.refusal !== undefined && route !== undefined && OPERATIONS.test(route);
    // A stream that fails before its first byte leads to a second response.
    if (!(isRefused || GOVERNED.test(route ?? request.url)) || this.followed.has(request)) {
      return;
    }
    const operation = route === undefined ? undefined : this.operations.find(request.method, route);
    // createEvent of the runtime plane has the same path as listTenantEvents.
    const isGoverned = GOVERNED.test(route ?? request.url) && operation?.access.plane !== 'runtime';
    if (!isGoverned && !isRefused) {
      return;
    }
    this.followed.add(request);
    if (isGoverned && operation !== undefined && !isRead(request)) {
      const outcome = request.refusal?.code ?? 'OK';
      this.metrics.of(AUDIT_METRICS).changes.inc({ operation: operation.id, outcome });
    }
    const asked = askedOf(request, operation);
    onResponseEnd(reply, () => this.observe({ ...asked, isGoverned, isRefused, status: reply.statusCode }));
  }

  /** Ends a window, with summary rows for what it rejected. */
  endWindow(): void {
    for (const [name, quota] of Object.entries(this.quotas)) {
      const pathClass = name as PathClass;
      for (const excess of quota.endWindow()) {
        this.writer.write(summaryOf(pathClass, excess, WINDOW_MS), pathClass);
      }
    }
  }

  private observe(answered: Followed): void {
    const { request, isGoverned, isRefused } = answered;
    const isAudited = this.audited.delete(request.trace.requestId);
    const wanted = {
      ...answered,
      isGoverned: isGoverned && !isAudited && isWanted(answered),
      isRefused: isRefused && request.isUnaudited !== true,
    };
    if (wanted.isGoverned || wanted.isRefused) {
      this.record(wanted);
    }
  }

  private record(answered: Followed): void {
    const { request } = answered;
    if (
      request.caller !== undefined ||
      request.refusal?.code === 'UNAUTHORIZED' ||
      this.identifying.size >= MAX_IDENTIFYING
    ) {
      this.offer(answered, request.caller);
      return;
    }
    // Refused for its path or body before its key was checked.
    const finding = this.callers
      .find(request, answered.operation?.access)
      .then((caller) => this.offer(answered, caller));
    const tracked: Promise<void> = finding.finally(() => this.identifying.delete(tracked));
    this.identifying.add(tracked);
  }

  private offer(answered: Followed, caller: Caller | undefined): void {
    if (answered.isGoverned) {
      const succeeded = answered.status < 400;
      const pathClass = caller === undefined ? 'unauthenticated' : succeeded ? 'success' : 'failure';
      const isBrief = caller === undefined || (succeeded && isRead(answered.request));
      this.writeRow(answered, caller, pathClass, isBrief ? 'audit-brief' : 'audit');
    }
    if (answered.isRefused) {
      this.writeRow(answered, caller, 'refused', 'refused');
    }
  }

  private writeRow(
    answered: Answered,
    caller: Caller | undefined,
    pathClass: PathClass,
    log: AuditLog,
  ): void {
    if (this.quotas[pathClass].admit(sourceOfRow(answered, caller, pathClass))) {
      this.writer.write(rowOf(answered, caller, log), pathClass);
    } else {
      this.metrics.of(AUDIT_METRICS).writes.inc({ path_class: pathClass, outcome: 'sampled-out' });
    }
  }
}

/** Whether a request needs a row, if no script wrote one. */
function isWanted({ request, status, operation }: Answered): boolean {
  if (request.isUnaudited === true) {
    return false;
  }
  if (status < 400) {
    // A browser's preflight request has no operation.
    return operation !== undefined;
  }
  // Throttled authentication failures have a counter instead.
  return !(status === 429 && request.caller === undefined);
}
