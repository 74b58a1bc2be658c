import type { FastifyRequest } from 'fastify';
import type { TenantCaller } from '../auth/index.js';
import type { RequestTrace } from '../http/index.js';

/** Who asks, and under which trace: what every operation passes to its script beside its own figures. */
export interface Operation {
  readonly caller: TenantCaller;
  readonly trace: RequestTrace;
}

export function operationOf(request: FastifyRequest): Operation {
  return { caller: request.caller as TenantCaller, trace: request.trace };
}

/** The form in which scripts keep a trace on their events: trace id and flags. */
export function traceText({ traceId, traceFlags }: RequestTrace): string {
  return `${traceId}-${traceFlags}`;
}
