import type { FastifyRequest } from 'fastify';
import { auditTraceOf } from '../http/index.js';

/** Who caused an event, as the governance scripts take it. */
export type Origin = readonly [actor: string, keyId: string, requestId: string, trace: string];

/** `adminActor` is what an operator counts as here: `admin`, or `admin_on_behalf_of` where tenants may act for themselves. */
export function originOf(request: FastifyRequest, adminActor: 'admin' | 'admin_on_behalf_of'): Origin {
  const { caller, trace } = request;
  return caller?.kind === 'tenant'
    ? ['api_key', caller.keyId, trace.requestId, auditTraceOf(request)]
    : [adminActor, '', trace.requestId, auditTraceOf(request)];
}
