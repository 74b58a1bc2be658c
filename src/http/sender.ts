import type { FastifyRequest } from 'fastify';
import { oneLine } from '../ledger/index.js';

/** Where a request comes from, as rows of the audit log keep it; a part that is not known is empty. */
export interface Sender {
  readonly sourceIp: string;
  readonly userAgent: string;
}

const MAX_USER_AGENT = 256;
/** An IPv6 address with a zone. A trusted proxy can write anything there. */
const MAX_ADDRESS = 64;

/** At most `most` characters of a text, without line breaks and other control characters. */
export function onOneLine(text: string, most: number): string {
  return oneLine(text.slice(0, most));
}

export function senderOf(request: FastifyRequest): Sender {
  return {
    // A connection that is closed already has no address.
    sourceIp: onOneLine(request.ip ?? '', MAX_ADDRESS).replaceAll(' ', ''),
    userAgent: onOneLine(request.headers['user-agent'] ?? '', MAX_USER_AGENT),
  };
}

/** Trace id and flags with the sender behind them: scripts put the sender into audit rows and leave it out of events. */
export function auditTraceOf(request: FastifyRequest): string {
  const { sourceIp, userAgent } = senderOf(request);
  return `${request.trace.traceId}-${request.trace.traceFlags} ${sourceIp} ${userAgent}`;
}
