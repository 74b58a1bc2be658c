import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';

/** `uri-host [ ":" port ]` of RFC 9110, section 7.2, whose host may be empty. */
const HOST =
  /^(?:\[([0-9A-Fa-f:.]+)\]|\[v[0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::\d*)?$/;

/**
 * What is wrong with a request's Host header by RFC 9112, section 3.2, or undefined. Two of them let a proxy and this server see
 * different hosts. Node keeps the first one only, so the header lines themselves are looked at.
 */
export function hostProblem({ httpVersion, rawHeaders }: IncomingMessage): string | undefined {
  let host: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') {
      if (host !== undefined) {
        return 'the request has more than one Host header; send one';
      }
      host = rawHeaders[index + 1];
    }
  }
  if (host === undefined) {
    return httpVersion === '1.1' ? 'an HTTP/1.1 request needs a Host header' : undefined;
  }
  const parts = HOST.exec(host);
  const isValid = parts !== null && (parts[1] === undefined || isIPv6(parts[1]));
  return isValid ? undefined : 'the Host header is not a valid host, with or without a port';
}
