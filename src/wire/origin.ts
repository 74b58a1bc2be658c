/** The ids of a request in logs, events and responses: CORRELATION AND TRACING of cycles-protocol-v0. */
export interface RequestTrace {
  /** The id of this HTTP request, `req_` and 24 hex digits. Always generated; an inbound X-Request-Id is ignored. */
  readonly requestId: string;
  /** The id of the logical operation, 32 lower-case hex digits: from `traceparent`, else from `X-Cycles-Trace-Id`, else random. */
  readonly traceId: string;
  /** The flags of a valid `traceparent`, else `01`. Webhook deliveries forward them. */
  readonly traceFlags: string;
}

/** The form in which scripts store a trace with events. */
export function traceText({ traceId, traceFlags }: RequestTrace): string {
  return `${traceId}-${traceFlags}`;
}

/** Who caused a change, as arguments of the governance scripts. */
export interface Origin {
  readonly actor: string;
  /** Empty for an operator. */
  readonly keyId: string;
  readonly requestId: string;
  readonly trace: string;
}
