import type { FastifyRequest } from 'fastify';

type Sent = Pick<FastifyRequest, 'protocol' | 'host' | 'hostname' | 'headers'>;

const THIS_MACHINE = /^(?:127(?:\.\d+){3}|\[::1\]|(?:.+\.)?localhost)$/;

/**
 * Whether the browser sees TLS. Behind a proxy that ends it and is not in TRUST_PROXY, only its headers tell: the Origin, and Fetch
 * Metadata, which browsers send over TLS and to their own machine alone.
 */
function isSecure({ protocol, host, hostname, headers }: Sent): boolean {
  return (
    protocol === 'https' ||
    headers.origin === `https://${host}` ||
    (headers['sec-fetch-site'] !== undefined && !THIS_MACHINE.test(hostname))
  );
}

/**
 * A cookie of the console. The prefix `__Host-` makes browsers insist on Secure, on the path `/` and on this host alone. Any host of the
 * same domain can set a cookie without it, and so log somebody in as another, so over TLS only the one with the prefix is read.
 */
export class HostCookie {
  constructor(private readonly name: string) {}

  read(request: Sent): string | undefined {
    const { cookie: cookies } = request.headers;
    if (cookies?.includes(this.name) !== true) {
      return undefined;
    }
    const start = `${this.nameFor(request)}=`;
    return cookies
      .split(';')
      .map((pair) => pair.trim())
      .find((pair) => pair.startsWith(start))
      ?.slice(start.length);
  }

  /** The Set-Cookie header that stores a value, or without one removes it. */
  header(request: Sent, value: string | undefined, lifetimeMs: number): string {
    const maxAgeS = value === undefined ? 0 : lifetimeMs / 1000;
    const flags = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}${isSecure(request) ? '; Secure' : ''}`;
    return `${this.nameFor(request)}=${value ?? ''}; ${flags}`;
  }

  private nameFor(request: Sent): string {
    return isSecure(request) ? `__Host-${this.name}` : this.name;
  }
}
