import { type BeforeApplicationShutdown, Injectable, type OnModuleInit } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { type Caller, sourceOf } from '../../auth/index.js';
import { CallerFinder, onOneLine, type Sender, senderOf, onResponseEnd } from '../../http/index.js';
import { RedisService, SYSTEM_OWNER } from '../../redis/index.js';
import { type AuditedOperation, AuditOperations, resourceTypeOf } from './audit-operations.js';
import { AuditQuota, type Excess, type QuotaLimits } from './audit-quota.js';
import { type AuditRow, AuditTrailMetrics, AuditWriter, type PathClass } from './audit-writer.js';

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

/** The paths of the governance plane and of operations. */
const GOVERNED = /^\/(?:v1\/(?:admin|auth|webhooks|events)|ops)(?:[/?]|$)/;
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
 * they only cost a check of the path here.
 */
@Injectable()
export class AuditTrail implements OnModuleInit, BeforeApplicationShutdown {
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
    private readonly metrics: AuditTrailMetrics,
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
      this.metrics.wrote(pathClass, 'sampled-out');
    }
  }
}

function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Whether a request needs a row, if no script wrote one. */
function isWanted({ request, status, operation }: Answered): boolean {
  if (status < 400) {
    // A browser's preflight request has no operation.
    return operation !== undefined;
  }
  // Throttled authentication failures have a counter instead.
  return !(status === 429 && request.caller === undefined);
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
      ['ki', caller?.kind === 'tenant' ? caller.keyId : undefined],
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
