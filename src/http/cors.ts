import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';
import { REQUEST_ID_HEADER, TRACE_ID_HEADER } from './tracing.js';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
/** What clients of the protocol send, beside what a browser lets every script send. */
const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'traceparent',
  'tracestate',
  'X-Admin-API-Key',
  'X-Cycles-API-Key',
  TRACE_ID_HEADER,
  'X-Idempotency-Key',
  REQUEST_ID_HEADER,
];
/** What answers carry for clients, beside what a browser shows to every script. */
const ANSWER_HEADERS = [
  'Allow',
  'Content-Disposition',
  'Retry-After',
  'X-Cycles-Cascade-Status',
  'X-Cycles-Tenant',
  TRACE_ID_HEADER,
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  REQUEST_ID_HEADER,
];
/** A browser asks again after this time, or sooner by a rule of its own. */
const PREFLIGHT_LIFE_S = 3600;

/**
 * Lets scripts of these origins use the API from a browser. Keys are sent in headers by whoever has them, so no cookies or other
 * credentials of the browser are let in. A request of another origin, or of none, is answered as without this. Refusals that later
 * hooks give are shown to the scripts too.
 */
export async function installCors(fastify: FastifyInstance, origins: readonly string[]): Promise<void> {
  await fastify.register(cors, {
    origin: (origin, decide) =>
      decide(null, origin !== undefined && origins.includes(origin) ? origin : false),
    methods: METHODS,
    allowedHeaders: REQUEST_HEADERS,
    exposedHeaders: ANSWER_HEADERS,
    maxAge: PREFLIGHT_LIFE_S,
    // Strict, it would refuse an OPTIONS that is no preflight outside the protocol's error form.
    strictPreflight: false,
  });
}
