import { lookup, type LookupAddress } from 'node:dns';

/** All addresses of a host name, or of a text that is an address already. */
export type ResolveHost = (hostname: string) => Promise<readonly LookupAddress[]>;

/** A name server that does not answer must not hold a request, nor an attempt until its own time is up. */
const LOOKUP_TIMEOUT_MS = 5000;

/** As the system resolves, /etc/hosts included. */
export const resolveBySystem: ResolveHost = (hostname) =>
  new Promise((done, fail) => {
    lookup(hostname, { all: true }, (error, addresses) => (error === null ? done(addresses) : fail(error)));
  });

/**
 * Looks names up, each once at a time. The system's lookup cannot be given up and keeps one of the process' few threads until it
 * ends, so whoever asks for a name whose servers do not answer must not start another one: it would take the threads away from
 * the names of everybody else.
 */
export class HostLookups {
  private readonly underWay = new Map<string, Promise<readonly LookupAddress[]>>();

  constructor(private readonly resolve: ResolveHost) {}

  /** Rejects when there is no answer within 5 s, and from then on at once for as long as the system still waits. */
  addressesOf(hostname: string): Promise<readonly LookupAddress[]> {
    const known = this.underWay.get(hostname);
    if (known !== undefined) {
      return known;
    }
    const answer = this.resolve(hostname);
    const inTime = withinTime(answer, hostname);
    this.underWay.set(hostname, inTime);
    const forget = (): boolean => this.underWay.delete(hostname);
    answer.then(forget, forget);
    return inTime;
  }
}

function withinTime<T>(work: Promise<T>, hostname: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_done, fail) => {
    timer = setTimeout(() => fail(new Error(`${hostname} was not resolved within ${LOOKUP_TIMEOUT_MS} ms`)), LOOKUP_TIMEOUT_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
