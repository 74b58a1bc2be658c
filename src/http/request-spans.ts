import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Span, spanIdFrom, type Tracing } from '../telemetry/index.js';
import { traceParentOf } from './tracing.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set while traces are recorded. */
    span: Span | null;
  }
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
