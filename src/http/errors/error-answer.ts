import { HttpException } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ProviderUnavailable } from '../../auth/index.js';
import {
  EncodedBody,
  type ErrorCode,
  QueryUnavailable,
  Refusal,
  TenantLimitExceeded,
  TooBusy,
  TooManyMatched,
} from '../../ledger/index.js';
import { type SkippedNames, StoreUnavailable } from '../../redis/index.js';
import { type RequestTrace, stringifyJson } from '../../wire/index.js';
import type { RouteTable } from '../route-table.js';

export interface CatalogueEntry {
  readonly status: number;
  /** For refusals without a message of their own. */
  readonly message: string;
}

/**
 * The HTTP status of each error code: ERROR SEMANTICS of cycles-protocol-v0, and for the additional codes of the governance plane
 * cycles-governance-admin-v0.1.25. An outage of the store is 503 with INTERNAL_ERROR. Errors of HTTP itself keep their status (405,
 * 408, 413, 415, 431) with INVALID_REQUEST.
 */
export const ERROR_CATALOGUE: Readonly<Record<ErrorCode, CatalogueEntry>> = {
  INVALID_REQUEST: { status: 400, message: 'the request is not valid' },
  UNIT_MISMATCH: { status: 400, message: 'the unit differs from that of the budget or the reservation' },
  WEBHOOK_URL_INVALID: { status: 400, message: 'webhooks may not be sent to this URL' },
  UNAUTHORIZED: { status: 401, message: 'the request has no valid key' },
  FORBIDDEN: { status: 403, message: 'the key may not do this' },
  INSUFFICIENT_PERMISSIONS: {
    status: 403,
    message: 'the key lacks the permission that this operation needs',
  },
  NOT_FOUND: { status: 404, message: 'there is no such resource' },
  TENANT_NOT_FOUND: { status: 404, message: 'there is no such tenant' },
  BUDGET_NOT_FOUND: { status: 404, message: 'there is no such budget' },
  EVENT_NOT_FOUND: { status: 404, message: 'there is no such event' },
  WEBHOOK_NOT_FOUND: { status: 404, message: 'there is no such webhook subscription' },
  BUDGET_EXCEEDED: { status: 409, message: 'the remaining budget does not cover the amount' },
  BUDGET_FROZEN: { status: 409, message: 'the budget is frozen' },
  BUDGET_CLOSED: { status: 409, message: 'the budget is closed' },
  OVERDRAFT_LIMIT_EXCEEDED: { status: 409, message: 'the overdraft limit is exceeded' },
  DEBT_OUTSTANDING: { status: 409, message: 'outstanding debt blocks new reservations' },
  RESERVATION_FINALIZED: { status: 409, message: 'the reservation is committed or released already' },
  IDEMPOTENCY_MISMATCH: { status: 409, message: 'the idempotency key was used with a different request' },
  MAX_EXTENSIONS_EXCEEDED: { status: 409, message: 'the reservation cannot be extended any more' },
  TENANT_CLOSED: { status: 409, message: 'the tenant is closed' },
  ACTION_QUOTA_EXCEEDED: { status: 409, message: 'the quota of the action is used up' },
  ACTION_KIND_NOT_ALLOWED: { status: 409, message: 'the policy does not allow this kind of action' },
  ACTION_KIND_DENIED: { status: 409, message: 'the policy denies this kind of action' },
  DUPLICATE_RESOURCE: { status: 409, message: 'the resource exists already' },
  COUNT_MISMATCH: { status: 409, message: 'the filter does not match as many as expected' },
  REPLAY_IN_PROGRESS: { status: 409, message: 'a replay to this subscription is in progress' },
  KEY_REVOKED: { status: 409, message: 'the API key is already revoked' },
  KEY_EXPIRED: { status: 409, message: 'the API key has expired' },
  RESERVATION_EXPIRED: { status: 410, message: 'the reservation has expired' },
  LIMIT_EXCEEDED: { status: 429, message: 'too many requests' },
  INTERNAL_ERROR: { status: 500, message: 'an internal error occurred; the request id finds it in the log' },
};

/** An error response: ErrorResponse of cycles-protocol-v0, with its status and headers. */
export interface ErrorAnswer {
  readonly status: number;
  readonly code: ErrorCode;
  readonly message: string;
  readonly details?: Record<string, unknown> | undefined;
  /** The reference to the evidence of the refusal, if there is any. */
  readonly evidence?: object | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Of a 429: when to try again. The protocol then requires X-RateLimit-Reset, an instant, on top of the other headers. */
  readonly resetsInS?: number;
  /** Whether the error was not anticipated. It is then logged and counted. */
  readonly unexpected?: boolean;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The error response, once it is decided. */
    refusal?: ErrorAnswer;
    /** Damaged records that the response leaves out. */
    skipped?: SkippedNames;
    /** Set if it leaves no row: its client left while it waited or read, or it only looked up a name. */
    isUnaudited?: boolean;
  }
}

const CODE_BY_STATUS: ReadonlyMap<number, ErrorCode> = new Map([
  [401, 'UNAUTHORIZED'],
  [403, 'FORBIDDEN'],
  [404, 'NOT_FOUND'],
  [429, 'LIMIT_EXCEEDED'],
]);

/** Messages for errors of Fastify before routing. */
const ROUTER_REFUSALS: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: 'the path of the URL is not valid: check its percent encoding',
  FST_ERR_MAX_PARAM_LENGTH: 'a part of the path is too long',
};

/** Maps an error to a response. Unexpected errors reveal nothing to the client. */
export function answerTo(error: unknown, request: FastifyRequest): ErrorAnswer {
  if (error instanceof Refusal) {
    return refusalAnswer(error);
  }
  if (error instanceof StoreUnavailable) {
    return {
      status: 503,
      code: 'INTERNAL_ERROR',
      message: `${error.message}; retry with the same idempotency key`,
      details: { reason: error.reason },
      headers: { 'Retry-After': String(error.retryAfterS) },
    };
  }
  if (error instanceof ProviderUnavailable) {
    return {
      status: 503,
      code: 'INTERNAL_ERROR',
      message: error.message,
      headers: { 'Retry-After': String(error.retryAfterS) },
    };
  }
  if (wasCutOff(error, request)) {
    return { status: 400, code: 'INVALID_REQUEST', message: 'the request ended before its body did' };
  }
  const status = statusOf(error);
  if (status !== undefined && status >= 400 && status < 500) {
    return clientError(error as Error, status, request);
  }
  return {
    status: 500,
    code: 'INTERNAL_ERROR',
    message: ERROR_CATALOGUE.INTERNAL_ERROR.message,
    unexpected: true,
  };
}

function refusalAnswer(error: Refusal): ErrorAnswer {
  const { status, message } = ERROR_CATALOGUE[error.code];
  const { code, details, evidence } = error;
  const answer = { status, code, message: error.message || message, details, evidence };
  if (error instanceof EncodedBody) {
    return { ...answer, status: 415, headers: { 'Accept-Encoding': 'identity' } };
  }
  if (error instanceof QueryUnavailable) {
    return { ...answer, status: error.status };
  }
  if (error instanceof TooManyMatched) {
    return { ...answer, status: 400 };
  }
  const { retryAfterS } = error;
  if (error instanceof TooBusy) {
    return throttled(answer, error.retryAfterS);
  }
  if (!(error instanceof TenantLimitExceeded)) {
    return retryAfterS === undefined
      ? answer
      : { ...answer, headers: { 'Retry-After': String(retryAfterS) } };
  }
  return retryAfterS === undefined ? { ...answer, status: 400 } : throttled(answer, retryAfterS);
}

function throttled(answer: ErrorAnswer, retryAfterS: number): ErrorAnswer {
  const headers = { 'Retry-After': String(retryAfterS), 'X-RateLimit-Remaining': '0' };
  return { ...answer, headers, resetsInS: retryAfterS };
}

export function pathOf({ url }: FastifyRequest): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

export const NOTHING_HERE: ErrorAnswer = {
  status: 404,
  code: 'NOT_FOUND',
  message: 'there is nothing at this path',
};

/** 405 if the path has other methods, else 404. */
export function noRoute(request: FastifyRequest, routes: RouteTable): ErrorAnswer {
  const allowed = routes.methodsOf(pathOf(request));
  if (allowed.length === 0) {
    return NOTHING_HERE;
  }
  const allow = allowed.join(', ');
  return {
    status: 405,
    code: 'INVALID_REQUEST',
    message: `${request.method} is not allowed here; allowed: ${allow}`,
    headers: { Allow: allow },
  };
}

/** Client errors of Nest and of Fastify. Nest converts the latter to HttpException if there is a route. */
function clientError(error: Error, status: number, request: FastifyRequest): ErrorAnswer {
  switch (status) {
    case 413: {
      const limit = request.routeOptions.bodyLimit;
      return {
        status,
        code: 'INVALID_REQUEST',
        message: `the request body is larger than ${limit} bytes, the most that is allowed`,
      };
    }
    case 415:
      // The protocol has no 415. Only that of an encoded body, which HTTP's own words explain, is kept.
      return { status: 400, code: 'INVALID_REQUEST', message: 'the Content-Type must be application/json' };
    default:
  }
  const code = (error as { code?: unknown }).code;
  const known = typeof code === 'string' ? ROUTER_REFUSALS[code] : undefined;
  return known === undefined
    ? { status, code: CODE_BY_STATUS.get(status) ?? 'INVALID_REQUEST', message: error.message }
    : { status: 400, code: 'INVALID_REQUEST', message: known };
}

/** Whether the client disconnected while it sent the body, which Node reports as an error. */
function wasCutOff(error: unknown, { raw }: FastifyRequest): boolean {
  return !raw.complete && (error as { code?: unknown } | null)?.code === 'ECONNRESET';
}

function statusOf(error: unknown): number | undefined {
  if (error instanceof HttpException) {
    return error.getStatus();
  }
  const status: unknown = error instanceof Error ? (error as { statusCode?: unknown }).statusCode : undefined;
  return typeof status === 'number' ? status : undefined;
}

export function errorBody(answer: ErrorAnswer, trace: RequestTrace): string {
  return stringifyJson({
    error: answer.code,
    message: answer.message,
    request_id: trace.requestId,
    trace_id: trace.traceId,
    details: answer.details,
    cycles_evidence: answer.evidence,
  });
}

/** How a refusal is answered, for its evidence. */
export function refusalResponse(
  refusal: Refusal,
  trace: RequestTrace,
): { readonly status: number; readonly text: string } {
  const answer = refusalAnswer(refusal);
  return { status: answer.status, text: errorBody(answer, trace) };
}

export function sendError(reply: FastifyReply, answer: ErrorAnswer, trace: RequestTrace): void {
  // Fastify closes the connection when a body is refused. Requests that are pipelined behind it would be executed, but not answered, and
  // a client that is still sending might not read the refusal. Node skips the rest of the body, as it does for other early refusals.
  if (reply.hasHeader('connection')) {
    reply.header('connection', reply.raw.shouldKeepAlive ? 'keep-alive' : 'close');
  }
  for (const [name, value] of Object.entries(answer.headers ?? {})) {
    reply.header(name, value);
  }
  reply.request.refusal = answer;
  sendJson(reply, answer.status, errorBody(answer, trace));
}

/** Names damaged records that a response leaves out. */
export const SKIPPED_HEADER = 'X-Holdfast-Skipped-Records';

/** Sends JSON text. Neither Nest nor Fastify serialises it again. */
export function sendJson(reply: FastifyReply, status: number, text: string): void {
  const skipped = reply.request.skipped?.text;
  if (skipped !== undefined) {
    reply.header(SKIPPED_HEADER, skipped);
  }
  void reply.code(status).header('content-type', 'application/json; charset=utf-8').send(text);
}
