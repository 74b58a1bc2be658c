/** What Holdfast itself says in a delivery, and what belongs to the connection: no subscription may set these. */
const RESERVED = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'traceparent',
  'tracestate',
  'transfer-encoding',
  'upgrade',
  'user-agent',
  'x-request-id',
]);
const RESERVED_PREFIXES = ['proxy-', 'webhook-', 'x-cycles-'];

/** Whether a custom header has a name that only Holdfast may use; upper or lower case. */
export function isReservedHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return RESERVED.has(lower) || RESERVED_PREFIXES.some((prefix) => lower.startsWith(prefix));
}
