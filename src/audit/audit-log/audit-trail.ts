import { type BeforeApplicationShutdown, Injectable, type OnModuleInit } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { type Caller, sourceOf } from '../../auth/index.js';
import { CallerFinder, onOneLine, type Sender, senderOf, whenOver } from '../../http/index.js';
import { RedisService, SYSTEM_OWNER } from '../../redis/index.js';
import {
  type AuditedOperation,
  AuditOperations,
  AuditQuota,
  type Excess,
  type QuotaLimits,
  resourceTypeOf,
} from './audit-operations.js';
import { type AuditRow, AuditTrailMetrics, AuditWriter, type PathClass } from './audit-writer.js';

const WINDOW_MS = 60_000;
/** Rows by class in a minute. A dashboard needs a few dozen; beyond these numbers a summary row tells how many there were. */
const LIMITS: Readonly<Record<PathClass, QuotaLimits>> = {
  success: { perSource: 600, overall: 3000 },
  failure: { perSource: 600, overall: 3000 },
  unauthenticated: { perSource: 5, overall: 60 },
};
const CLASSES = ['success', 'failure', 'unauthenticated'] as const;

/** Requests whose rows scripts have written and whose answers are not out yet; more are in flight on no instance. */
const MAX_AUDITED = 10_000;
/** Requests that were refused early and whose keys are looked up at the same time; the callers of further ones stay unknown. */
const MAX_IDENTIFYING = 1000;
const MAX_MESSAGE = 1024;
const MAX_PATH = 128;

/** The paths of the governance plane, and what is for operators beside it. */
const GOVERNED = /^\/(?:v1\/(?:admin|auth|webhooks|events)|ops)(?:[/?]|$)/;
const UNAUTHENTICATED = '__unauth__';
const ADMIN = '__admin__';

/** One request with its answer, as far as rows need it. */
interface Answered {
  readonly request: FastifyRequest;
  readonly sender: Sender;
  readonly status: number;
  readonly operation: AuditedOperation | undefined;
  /** The route with `{name}` for its parameters, or the path where there is no route. */
  readonly template: string;
}

/**
 * Sees to it that each request of the governance plane has one row. A script that changes something has written it; all other rows
 * are made here, once the answer is out. Requests of the runtime plane cost one test of their path: an operator's release has
 * the row that its script writes, and everything else there has none.
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

  /** Waits, for a bounded time, until the rows of requests that were answered here are written. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.identifying);
    await this.writer.drained();
  }

  /**
   * Called when an answer is handed over. Its row is made once it is out, or its client is gone: whoever hangs up early has read
   * what was sent until then. The route decides, not the path, of which any letter may be written with a percent sign.
   */
  follow(request: FastifyRequest, reply: FastifyReply): void {
    const route = request.is404 ? undefined : request.routeOptions.url;
    // A stream that fails before its first byte is followed by another answer.
    if (!GOVERNED.test(route ?? request.url) || this.followed.has(request)) {
      return;
    }
    const operation = route === undefined ? undefined : this.operations.find(request.method, route);
    // The path of createEvent is that of listTenantEvents.
    if (operation?.access.plane === 'runtime') {
      return;
    }
    this.followed.add(request);
    // A connection that is closed has no address any more.
    const sender = senderOf(request);
    const template = onOneLine(
      route?.replaceAll(/:(\w+)/g, '{$1}') ?? (request.url.split('?', 1)[0] as string),
      MAX_PATH,
    );
    whenOver(reply, () => this.observe({ request, sender, status: reply.statusCode, operation, template }));
  }

  /** Ends a window: a summary row for what it did not let through. */
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
    // Refused before anybody looked at its key, for its path or its body.
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

/** Whether a request that no script wrote a row for needs one. */
function isWanted({ request, status, operation }: Answered): boolean {
  if (status < 400) {
    // A preflight of a browser has no operation.
    return operation !== undefined;
  }
  // A source that fails to authenticate too often is throttled, which has a counter of its own.
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

/** An operator acts on a tenant's behalf where the tenant could act itself. */
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

/** The row of what a window only counted. */
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
