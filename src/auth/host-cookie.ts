import type { FastifyRequest } from 'fastify';

const THIS_MACHINE = /^(?:127(?:\.\d+){3}|\[::1\]|(?:.+\.)?localhost)$/;

/**
 * Whether the browser sees TLS. Behind a proxy that ends it and is not in TRUST_PROXY, only its headers tell: the Origin, and Fetch
 * Metadata, which browsers send over TLS and to their own machine alone.
 */
function isSecure({ protocol, host, hostname, headers }: FastifyRequest): boolean {
  return (
    protocol === 'https' ||
    headers.origin === `https://${host.replace(/:443$/, '')}` ||
    (headers['sec-fetch-site'] !== undefined && !THIS_MACHINE.test(hostname))
  );
}

/**
 * A cookie of the console. The prefix `__Host-` makes browsers insist on Secure, on the path `/` and on this host alone. Any host of the
 * same domain can set a cookie without it, and so log somebody in as another, so over TLS only the one with the prefix is read. That one
 * is always read: not every request that comes over TLS shows it.
 */
export class HostCookie {
  private readonly secureName: string;

  constructor(private readonly name: string) {
    this.secureName = `__Host-${name}`;
  }

  read(request: FastifyRequest): string | undefined {
    const { cookie: cookies } = request.headers;
    if (cookies?.includes(this.name) !== true) {
      return undefined;
    }
    const values = cookies.split(';').map((pair) => pair.trim());
    const valueOf = (name: string): string | undefined =>
      values.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);
    return valueOf(this.secureName) ?? (isSecure(request) ? undefined : valueOf(this.name));
  }

  /** The Set-Cookie header that stores a value, or without one removes it. */
  header(request: FastifyRequest, value: string | undefined, lifetimeMs: number): string {
    const maxAgeS = value === undefined ? 0 : lifetimeMs / 1000;
    const flags = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeS}`;
    return isSecure(request)
      ? `${this.secureName}=${value ?? ''}; ${flags}; Secure`
      : `${this.name}=${value ?? ''}; ${flags}`;
  }
}
