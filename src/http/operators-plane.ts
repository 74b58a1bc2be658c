import type { IncomingMessage, Server } from 'node:http';

/**
 * What only operators use. `/v1/auth/introspect`, where API keys ask about themselves, is not part of it, nor are operations of the
 * runtime plane that also take an operator's key.
 */
const OPERATORS_PLANE =
  /^\/(?:v1\/admin|v1\/auth\/validate|ops|console|metrics|actuator\/prometheus)(?:\/|$)/;

/** @param path of a request, or of a route in any notation for its parameters */
export function isOperatorsPlane(path: string): boolean {
  return OPERATORS_PLANE.test(path);
}

const outside = new WeakSet<IncomingMessage>();

/** Keeps the operators' plane from the requests of a server. */
export function withholdOperatorsPlane(server: Server): void {
  server.prependListener('request', (request) => {
    outside.add(request);
  });
}

/** Whether the server that a request came to has no operators' plane. */
export function lacksOperatorsPlane(request: IncomingMessage): boolean {
  return outside.has(request);
}
