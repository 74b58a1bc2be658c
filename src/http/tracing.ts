import { randomFillSync } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { headerText, oneLine } from '../ledger/index.js';
import { type Span, spanIdFrom, type Tracing } from '../telemetry/index.js';
import type { Origin, RequestTrace } from '../wire/index.js';

declare module 'fastify' {
  interface FastifyRequest {
    trace: RequestTrace;
    /** Set while traces are recorded. */
    span: Span | null;
  }
}

export const REQUEST_ID_HEADER = 'X-Request-Id';
export const TRACE_ID_HEADER = 'X-Cycles-Trace-Id';

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const TRACE_ID = /^[0-9a-f]{32}$/;
const ZERO_TRACE_ID = '0'.repeat(32);
const ZERO_SPAN_ID = '0'.repeat(16);
const DEFAULT_FLAGS = '01';

/** Random hex digits come from a pool, because a call of the generator costs more than the rest of tracing a request. */
const pool = Buffer.alloc(4096);
let hex = '';
let used = 0;

function randomHex(length: number): string {
  if (used + length > hex.length) {
    hex = randomFillSync(pool).toString('hex');
    used = 0;
  }
  used += length;
  return hex.slice(used - length, used);
}

export function newRequestId(): string {
  return `req_${randomHex(24)}`;
}

function newTraceId(): string {
  for (;;) {
    const traceId = randomHex(32);
    if (traceId !== ZERO_TRACE_ID) {
      return traceId;
    }
  }
}

interface TraceParent {
  readonly traceId: string;
  readonly parentId: string;
  readonly flags: string;
}

/** Undefined without a valid header. */
function traceParentOf({ traceparent }: IncomingHttpHeaders): TraceParent | undefined {
  const [, traceId = '', parentId = '', flags = ''] =
    typeof traceparent === 'string' ? (TRACEPARENT.exec(traceparent) ?? []) : [];
  return traceId === '' || traceId === ZERO_TRACE_ID || parentId === ZERO_SPAN_ID
    ? undefined
    : { traceId, parentId, flags };
}

/** Malformed headers are ignored; tracing never refuses a request. */
export function traceFrom(headers: IncomingHttpHeaders, requestId: string): RequestTrace {
  const parent = traceParentOf(headers);
  if (parent !== undefined) {
    return { requestId, traceId: parent.traceId, traceFlags: parent.flags };
  }
  const own = headers['x-cycles-trace-id'];
  const valid = typeof own === 'string' && TRACE_ID.test(own) && own !== ZERO_TRACE_ID;
  return { requestId, traceId: valid ? own : newTraceId(), traceFlags: DEFAULT_FLAGS };
}

/** Sets the trace of the request and the headers of the response. */
export function startTrace(request: FastifyRequest, reply: FastifyReply): void {
  const trace = traceFrom(request.headers, request.id);
  request.trace = trace;
  reply.header(REQUEST_ID_HEADER, trace.requestId).header(TRACE_ID_HEADER, trace.traceId);
}

/** Must install the first hook of the instance, so that no other hook can respond without a trace. */
export function installTracing(fastify: FastifyInstance): void {
  // The hook sets the trace before anything reads it, so the type excludes null.
  fastify.decorateRequest('trace', null as unknown as RequestTrace);
  fastify.addHook('onRequest', (request, reply, done) => {
    startTrace(request, reply);
    done();
  });
}

/** The sender of a request, for rows of the audit log. Unknown parts are empty. */
export interface Sender {
  readonly sourceIp: string;
  readonly userAgent: string;
}

const MAX_USER_AGENT = 256;
/** Longer than an IPv6 address with a zone. A trusted proxy can send any text. */
const MAX_ADDRESS = 64;

/** The first `most` characters of a text, with control characters replaced by spaces. */
export function onOneLine(text: string, most: number): string {
  return oneLine(text.slice(0, most));
}

export function senderOf(request: FastifyRequest): Sender {
  return {
    // A closed connection has no address.
    sourceIp: onOneLine(headerText(request.ip ?? ''), MAX_ADDRESS).replaceAll(' ', ''),
    userAgent: onOneLine(headerText(request.headers['user-agent'] ?? ''), MAX_USER_AGENT),
  };
}

/** Trace id and flags, followed by the sender. Scripts store the sender in audit rows, but not in events. */
export function auditTraceOf(request: FastifyRequest): string {
  const { sourceIp, userAgent } = senderOf(request);
  return `${request.trace.traceId}-${request.trace.traceFlags} ${sourceIp} ${userAgent}`;
}

/** @param adminActor the actor for operators: `admin`, or `admin_on_behalf_of` for operations that tenants have too */
export function originOf(
  request: FastifyRequest,
  adminActor: 'admin' | 'admin_on_behalf_of' = 'admin',
): Origin {
  const { caller, trace } = request;
  const [actor, keyId] =
    caller?.kind === 'tenant' ? ['api_key', caller.keyId] : [adminActor, caller?.keyId ?? ''];
  return { actor, keyId, requestId: trace.requestId, trace: auditTraceOf(request) };
}

const SAMPLED = 1;

/** Probes, scrapes and documents would only be noise. */
const TRACED = /^\/(v1|ops)\//;

/**
 * A span for each request to an operation, in the trace of the request. What is recorded is decided here: events keep the flags, so that
 * their deliveries follow. Must come after the hook that sets the trace.
 */
export function traceRequests(fastify: FastifyInstance, tracing: Tracing): void {
  fastify.decorateRequest('span', null);
  fastify.addHook('onRequest', (request, reply, done) => {
    const route = request.routeOptions.url ?? '';
    if (!TRACED.test(route)) {
      done();
      return;
    }
    const span = startSpan(tracing, request, route);
    request.span = span;
    request.trace = { ...request.trace, traceFlags: flagsWith(request.trace.traceFlags, span) };
    reply.raw.once('close', () => endSpan(span, request, reply));
    tracing.within(span, done);
  });
  // Reading the body continues in the context of the connection, which is that of its first request.
  fastify.addHook('preValidation', (request, _reply, done) => {
    tracing.within(request.span ?? undefined, done);
  });
}

/** The flags of the request with the decision whether it is recorded; other flags stay. */
function flagsWith(flags: string, span: Span): string {
  const others = Number.parseInt(flags, 16) & ~SAMPLED;
  return (others | Number.parseInt(span.flags, 16)).toString(16).padStart(2, '0');
}

function startSpan(tracing: Tracing, { method, trace, headers }: FastifyRequest, route: string): Span {
  const origin = {
    traceId: trace.traceId,
    parentId: traceParentOf(headers)?.parentId,
    flags: trace.traceFlags,
    spanId: spanIdFrom(trace.requestId),
  };
  const attributes = {
    'http.request.method': method,
    'http.route': route,
    'holdfast.request_id': trace.requestId,
  };
  return tracing.start(`${method} ${route}`, origin, { kind: 'server', attributes }) as Span;
}

function endSpan(span: Span, { caller }: FastifyRequest, { raw }: FastifyReply): void {
  span.set({
    'http.response.status_code': raw.headersSent ? raw.statusCode : undefined,
    'holdfast.caller': caller?.kind,
    'holdfast.tenant_id': caller?.kind === 'tenant' ? caller.tenantId : undefined,
  });
  if (!raw.writableFinished) {
    span.fail('client_disconnected');
  } else if (raw.statusCode >= 500) {
    span.fail(String(raw.statusCode));
  }
  span.end();
}
