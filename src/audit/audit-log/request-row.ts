import type { FastifyRequest } from 'fastify';
import { type Caller, sourceOf } from '../../auth/index.js';
import { onOneLine, type Sender, senderOf } from '../../http/index.js';
import { SYSTEM_OWNER } from '../../redis/index.js';
import type { AuditLog } from './audit-log-rows.js';
import { type AuditedOperation, resourceTypeOf } from './audit-operations.js';
import type { AuditRow, PathClass } from './audit-writer.js';
import type { Excess } from './row-quota.js';

const UNAUTHENTICATED = '__unauth__';
const ADMIN = '__admin__';
const MAX_MESSAGE = 1024;
const MAX_PATH = 128;
const MAX_SCOPE = 1024;

/** A request and its response, as far as rows about it need them. */
export interface Answered {
  readonly request: FastifyRequest;
  readonly sender: Sender;
  readonly status: number;
  readonly operation: AuditedOperation | undefined;
  /** The route with `{name}` for its parameters, or the path where there is no route. */
  readonly template: string;
}

/** What is known before the end of the response, after which a closed connection has no address. */
export function askedOf(
  request: FastifyRequest,
  operation: AuditedOperation | undefined,
): Omit<Answered, 'status'> {
  const route = request.is404 ? undefined : request.routeOptions.url;
  const path = route?.replaceAll(/:(\w+)/g, '{$1}') ?? request.url.replace(/\?.*$/s, '');
  return { request, operation, sender: senderOf(request), template: onOneLine(path, MAX_PATH) };
}

/** Whose quota a row counts against. In the request log, all requests without a valid key share one. */
export function sourceOfRow({ sender }: Answered, caller: Caller | undefined, pathClass: PathClass): string {
  return pathClass === 'unauthenticated' ? sourceOf(sender.sourceIp) : tenantOf(caller);
}

function tenantOf(caller: Caller | undefined): string {
  return caller === undefined ? UNAUTHENTICATED : caller.kind === 'admin' ? ADMIN : caller.tenantId;
}

/** The row of the audit log or, if it is `refused`, of the request log. */
export function rowOf(
  { request, sender, status, operation, template }: Answered,
  caller: Caller | undefined,
  log: AuditLog,
): AuditRow {
  const { trace, refusal } = request;
  const isNamed = operation !== undefined && (status < 400 || log === 'refused');
  return {
    partitionOf: caller?.kind === 'tenant' ? caller.tenantId : SYSTEM_OWNER,
    log,
    fields: [
      ['op', isNamed ? operation.id : `${request.method}:${template}`],
      ['tn', tenantOf(caller)],
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
      ['scope', log === 'refused' ? scopeOf(request) : undefined],
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

/** The budget that refused. */
function scopeOf({ refusal }: FastifyRequest): string | undefined {
  const scope = refusal?.details?.['scope'];
  return typeof scope === 'string' ? onOneLine(scope, MAX_SCOPE) : undefined;
}

const SUMMARIES: Readonly<Record<PathClass, { log: AuditLog; status: string; code?: string }>> = {
  success: { log: 'audit-brief', status: '200' },
  failure: { log: 'audit', status: '400', code: 'INVALID_REQUEST' },
  unauthenticated: { log: 'audit-brief', status: '401', code: 'UNAUTHORIZED' },
  refused: { log: 'refused', status: '400', code: 'INVALID_REQUEST' },
};

/** The summary row for requests that a window only counted. */
export function summaryOf(pathClass: PathClass, { source, count }: Excess, windowMs: number): AuditRow {
  const isAddress = pathClass === 'unauthenticated';
  const isTenant = !isAddress && source !== undefined && source !== ADMIN && source !== UNAUTHENTICATED;
  const { log, status, code } = SUMMARIES[pathClass];
  return {
    partitionOf: isTenant ? source : SYSTEM_OWNER,
    log,
    fields: [
      ['op', `summary:${pathClass}`],
      ['tn', isAddress ? UNAUTHENTICATED : (source ?? ADMIN)],
      ['ac', 'system'],
      ['st', status],
      ['ec', code],
      ['ip', isAddress ? source : undefined],
      ['not_listed', String(count)],
      ['window_ms', String(windowMs)],
    ],
  };
}
