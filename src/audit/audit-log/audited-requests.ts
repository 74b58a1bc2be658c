import { type BeforeApplicationShutdown, Injectable, type OnModuleInit } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { type Caller, sourceOf } from '../../auth/index.js';
import { CallerFinder, isRead, onOneLine, onResponseEnd, type Sender, senderOf } from '../../http/index.js';
import { RedisService, SYSTEM_OWNER } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { type AuditedOperation, AuditOperations, resourceTypeOf } from './audit-operations.js';
import { type AuditRow, AuditWriter, type PathClass } from './audit-writer.js';
import { AUDIT_METRICS } from '../audit.metrics.js';

const WINDOW_MS = 60_000;
/** Rows written per minute, by class. A dashboard causes a few dozen. Beyond these limits, a summary row counts the rest. */
const LIMITS: Readonly<Record<PathClass, QuotaLimits>> = {
  success: { perSource: 600, overall: 3000 },
  failure: { perSource: 600, overall: 3000 },
  unauthenticated: { perSource: 5, overall: 60 },
};
const CLASSES = ['success', 'failure', 'unauthenticated'] as const;

/** Requests whose row a script has written but whose response is not sent yet. No instance has more in flight. */
const MAX_AUDITED = 10_000;
/** Requests refused early whose keys are looked up at the same time. Beyond this, the caller is recorded as unknown. */
const MAX_IDENTIFYING = 1000;
const MAX_MESSAGE = 1024;
const MAX_PATH = 128;

/** The paths of the governance plane, of operations, and of log-in to the console. */
const GOVERNED =
  /^\/(?:v1\/(?:admin|auth|webhooks|events)|ops|console\/api\/(?:login|logout|provider))(?:[/?]|$)/;
const UNAUTHENTICATED = '__unauth__';
const ADMIN = '__admin__';

/** A request and its response, as far as audit rows need them. */
interface Answered {
  readonly request: FastifyRequest;
  readonly sender: Sender;
  readonly status: number;
  readonly operation: AuditedOperation | undefined;
  /** The route with `{name}` for its parameters, or the path where there is no route. */
  readonly template: string;
}

/**
 * Ensures that each request of the governance plane gets exactly one audit row. A script that changes something writes it; this class
 * writes all others, after the response was sent. Runtime requests have none, except for an operator's release, whose script writes it;
 * they only cost a check of the path here. The same requests are counted here, if they are not reads.
 */
@Injectable()
export class AuditedRequests implements OnModuleInit, BeforeApplicationShutdown {
  private readonly audited = new LRUCache<string, true>({ max: MAX_AUDITED });
  private readonly quotas: Readonly<Record<PathClass, AuditQuota>> = {
    success: new AuditQuota(LIMITS.success),
    failure: new AuditQuota(LIMITS.failure),
    unauthenticated: new AuditQuota(LIMITS.unauthenticated),
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
    // A stream that fails before its first byte leads to a second response.
    if (!GOVERNED.test(route ?? request.url) || this.followed.has(request)) {
      return;
    }
    const operation = route === undefined ? undefined : this.operations.find(request.method, route);
    // createEvent of the runtime plane has the same path as listTenantEvents.
    if (operation?.access.plane === 'runtime') {
      return;
    }
    this.followed.add(request);
    if (operation !== undefined && !isRead(request)) {
      const outcome = request.refusal?.code ?? 'OK';
      this.metrics.of(AUDIT_METRICS).changes.inc({ operation: operation.id, outcome });
    }
    // Read now, because a closed connection has no address.
    const sender = senderOf(request);
    const template = onOneLine(
      route?.replaceAll(/:(\w+)/g, '{$1}') ?? (request.url.split('?', 1)[0] as string),
      MAX_PATH,
    );
    onResponseEnd(reply, () =>
      this.observe({ request, sender, status: reply.statusCode, operation, template }),
    );
  }

  /** Ends a window, with summary rows for what it rejected. */
  endWindow(): void {
    for (const pathClass of CLASSES) {
      for (const excess of this.quotas[pathClass].endWindow()) {
        this.writer.write(summaryOf(pathClass, excess), pathClass);
      }
    }
  }

  private observe(answered: Answered): void {
    const isAudited = this.audited.delete(answered.request.trace.requestId);
    if (!isAudited && isWanted(answered)) {
      this.record(answered);
    }
  }

  private record(answered: Answered): void {
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

  private offer(answered: Answered, caller: Caller | undefined): void {
    const pathClass =
      caller === undefined ? 'unauthenticated' : answered.status < 400 ? 'success' : 'failure';
    const source =
      caller === undefined
        ? sourceOf(answered.sender.sourceIp)
        : caller.kind === 'admin'
          ? ADMIN
          : caller.tenantId;
    if (this.quotas[pathClass].admit(source)) {
      this.writer.write(rowOf(answered, caller), pathClass);
    } else {
      this.metrics.of(AUDIT_METRICS).writes.inc({ path_class: pathClass, outcome: 'sampled-out' });
    }
  }
}

/** Whether a request needs a row, if no script wrote one. */
function isWanted({ request, status, operation }: Answered): boolean {
  if (status < 400) {
    // A browser's preflight request has no operation.
    return operation !== undefined;
  }
  // Throttled authentication failures have a counter instead, and so have lists whose page was left before they were read.
  return !(status === 429 && request.caller === undefined) && request.isAbandoned !== true;
}

function rowOf(
  { request, sender, status, operation, template }: Answered,
  caller: Caller | undefined,
): AuditRow {
  const { trace, refusal } = request;
  const succeeded = status < 400;
  const isBrief = caller === undefined || (succeeded && isRead(request));
  const tenant = caller === undefined ? UNAUTHENTICATED : caller.kind === 'admin' ? ADMIN : caller.tenantId;
  return {
    partitionOf: caller?.kind === 'tenant' ? caller.tenantId : SYSTEM_OWNER,
    log: isBrief ? 'audit-brief' : 'audit',
    fields: [
      ['op', succeeded && operation !== undefined ? operation.id : `${request.method}:${template}`],
      ['tn', tenant],
      ['ac', actorOf(operation, caller)],
      ['rt', operation?.resourceType ?? resourceTypeOf(template)],
      ['ri', resourceIdOf(request)],
      ['st', String(status)],
      ['ec', refusal?.code],
      ['ki', caller?.keyId],
      ['rq', trace.requestId],
      ['tr', `${trace.traceId}-${trace.traceFlags}`],
      ['ip', sender.sourceIp],
      ['ua', sender.userAgent],
      ['message', refusal === undefined ? undefined : onOneLine(refusal.message, MAX_MESSAGE)],
    ],
  };
}

/** Where a tenant could make the request itself, an operator acts on the tenant's behalf. */
function actorOf(operation: AuditedOperation | undefined, caller: Caller | undefined): string {
  if (caller === undefined) {
    return 'unauthenticated';
  }
  if (caller.kind === 'tenant') {
    return 'api_key';
  }
  return operation?.access.tenant === undefined ? 'admin' : 'admin_on_behalf_of';
}

function resourceIdOf({ params }: FastifyRequest): string | undefined {
  const last = Object.values((params ?? {}) as Record<string, unknown>).at(-1);
  return typeof last === 'string' ? onOneLine(last, MAX_PATH) : undefined;
}

/** The summary row for requests that a window only counted. */
function summaryOf(pathClass: PathClass, { source, count }: Excess): AuditRow {
  const isTenant = pathClass !== 'unauthenticated' && source !== undefined && source !== ADMIN;
  const tenant = pathClass === 'unauthenticated' ? UNAUTHENTICATED : (source ?? ADMIN);
  return {
    partitionOf: isTenant ? source : SYSTEM_OWNER,
    log: pathClass === 'failure' ? 'audit' : 'audit-brief',
    fields: [
      ['op', `summary:${pathClass}`],
      ['tn', tenant],
      ['ac', 'system'],
      ['st', pathClass === 'success' ? '200' : pathClass === 'failure' ? '400' : '401'],
      [
        'ec',
        pathClass === 'success' ? undefined : pathClass === 'failure' ? 'INVALID_REQUEST' : 'UNAUTHORIZED',
      ],
      ['ip', pathClass === 'unauthenticated' ? source : undefined],
      ['not_listed', String(count)],
      ['window_ms', String(WINDOW_MS)],
    ],
  };
}

export interface QuotaLimits {
  /** The most rows of one source in a window. */
  readonly perSource: number;
  /** The most rows of all sources together. */
  readonly overall: number;
}

/** The requests of one source beyond the limits of a window. */
export interface Excess {
  /** Undefined for all sources without an entry of their own. */
  readonly source: string | undefined;
  readonly count: number;
}

/** Sources that a window distinguishes. All others are counted together, so that a flood from many sources costs no more memory. */
const MAX_SOURCES = 1000;
/** Sources that get an entry of their own at the end of a window. The others share one. */
const MAX_REPORTED = 10;

/** Limits the rows of each source and of all sources in a window, and counts the rest. */
export class AuditQuota {
  private readonly used = new Map<string, number>();
  private readonly excess = new Map<string, number>();
  private total = 0;
  private others = 0;

  constructor(private readonly limits: QuotaLimits) {}

  /** Counts a row. @returns whether it may be written */
  admit(source: string): boolean {
    const used = this.used.get(source) ?? 0;
    const isKnown = used > 0 || this.used.size < MAX_SOURCES;
    if (this.total < this.limits.overall && isKnown && used < this.limits.perSource) {
      this.total += 1;
      this.used.set(source, used + 1);
      return true;
    }
    if (this.excess.has(source) || this.excess.size < MAX_SOURCES) {
      this.excess.set(source, (this.excess.get(source) ?? 0) + 1);
    } else {
      this.others += 1;
    }
    return false;
  }

  /** Ends the window. @returns what it rejected: an entry for each of the sources with the most, and one for all others */
  endWindow(): Excess[] {
    const ranked = [...this.excess].sort(([, one], [, other]) => other - one);
    const excesses: Excess[] = ranked.slice(0, MAX_REPORTED).map(([source, count]) => ({ source, count }));
    const rest = ranked.slice(MAX_REPORTED).reduce((sum, [, count]) => sum + count, this.others);
    this.used.clear();
    this.excess.clear();
    this.total = 0;
    this.others = 0;
    return rest === 0 ? excesses : [...excesses, { source: undefined, count: rest }];
  }
}
