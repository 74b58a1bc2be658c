/** The ids of a request in logs, events and answers: CORRELATION AND TRACING of cycles-protocol-v0. */
export interface RequestTrace {
  /** This one HTTP request, `req_` and 24 hex digits; always ours, an inbound X-Request-Id is not trusted. */
  readonly requestId: string;
  /** The logical operation, 32 lower-case hex digits: inbound `traceparent`, else inbound `X-Cycles-Trace-Id`, else random. */
  readonly traceId: string;
  /** The flags of a valid inbound `traceparent`, else `01`; webhook deliveries pass them on. */
  readonly traceFlags: string;
}

/** The form in which scripts keep a trace on their events: trace id and flags. */
export function traceText({ traceId, traceFlags }: RequestTrace): string {
  return `${traceId}-${traceFlags}`;
}

/** Who caused an event, as the governance scripts take it. */
export interface Origin {
  readonly actor: string;
  /** The API key that asks; empty for an operator. */
  readonly keyId: string;
  readonly requestId: string;
  readonly trace: string;
}
