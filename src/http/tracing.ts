import { randomFillSync } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/** Who a request is, in logs, events and answers: CORRELATION AND TRACING of cycles-protocol-v0. */
export interface RequestTrace {
  /** This one HTTP request, `req_` and 24 hex digits; always ours, an inbound X-Request-Id is not trusted. */
  readonly requestId: string;
  /** The logical operation, 32 lower-case hex digits: inbound `traceparent`, else inbound `X-Cycles-Trace-Id`, else random. */
  readonly traceId: string;
  /** The flags of a valid inbound `traceparent`, else `01`; webhook deliveries pass them on. */
  readonly traceFlags: string;
}

declare module 'fastify' {
  interface FastifyRequest {
    trace: RequestTrace;
  }
}

export const REQUEST_ID_HEADER = 'X-Request-Id';
export const TRACE_ID_HEADER = 'X-Cycles-Trace-Id';

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const TRACE_ID = /^[0-9a-f]{32}$/;
const ZERO_TRACE_ID = '0'.repeat(32);
const ZERO_SPAN_ID = '0'.repeat(16);
const DEFAULT_FLAGS = '01';

/** Random hex is cut from a pool, because one call of the generator costs more than the rest of a request's tracing. */
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

/** A malformed header counts as absent; nothing here can refuse a request. */
export function traceFrom(headers: IncomingHttpHeaders, requestId: string): RequestTrace {
  const { traceparent } = headers;
  if (typeof traceparent === 'string') {
    const parts = TRACEPARENT.exec(traceparent);
    if (parts !== null && parts[1] !== ZERO_TRACE_ID && parts[2] !== ZERO_SPAN_ID) {
      return { requestId, traceId: parts[1] as string, traceFlags: parts[3] as string };
    }
  }
  const own = headers['x-cycles-trace-id'];
  const valid = typeof own === 'string' && TRACE_ID.test(own) && own !== ZERO_TRACE_ID;
  return { requestId, traceId: valid ? own : newTraceId(), traceFlags: DEFAULT_FLAGS };
}

/** Gives the request its trace and the answer its headers, whatever the answer will be. */
export function startTrace(request: FastifyRequest, reply: FastifyReply): void {
  const trace = traceFrom(request.headers, request.id);
  request.trace = trace;
  reply.header(REQUEST_ID_HEADER, trace.requestId).header(TRACE_ID_HEADER, trace.traceId);
}

/** Must be the first hook of the instance, so that no later one can answer without a trace. */
export function installTracing(fastify: FastifyInstance): void {
  // The hook sets the trace before anything reads it, which the type of a decorator cannot say.
  fastify.decorateRequest('trace', null as unknown as RequestTrace);
  fastify.addHook('onRequest', (request, reply, done) => {
    startTrace(request, reply);
    done();
  });
}
