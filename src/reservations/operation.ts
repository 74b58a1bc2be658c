import type { FastifyRequest } from 'fastify';
import type { Caller, TenantCaller } from '../auth/index.js';
import type { RequestTrace } from '../http/index.js';

/** Who asks, and under which trace: what every operation passes to its script beside its own figures. */
export interface Operation<Who extends Caller = TenantCaller> {
  readonly caller: Who;
  readonly trace: RequestTrace;
}

/** An operation that accepts the admin key says so by `operationOf<Caller>`. */
export function operationOf<Who extends Caller = TenantCaller>(request: FastifyRequest): Operation<Who> {
  return { caller: request.caller as Who, trace: request.trace };
}

/** The form in which scripts keep a trace on their events: trace id and flags. */
export function traceText({ traceId, traceFlags }: RequestTrace): string {
  return `${traceId}-${traceFlags}`;
}
