import { Resolver } from 'node:dns/promises';
import type { LookupAddress } from 'node:dns';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';

/** An address, and for how many seconds its name server lets it be kept. */
export interface ResolvedAddress extends LookupAddress {
  readonly ttl?: number;
}

/** All addresses of a host name. Rejects when there is none, or nobody says so in time. */
export type ResolveHost = (hostname: string) => Promise<readonly ResolvedAddress[]>;

/** A name that does not exist, or that has no address: its servers said so. */
export const NOT_FOUND = 'ENOTFOUND';
/** A name whose servers said nothing in time. */
export const TIMED_OUT = 'ETIMEOUT';

/** A name server that does not answer must hold neither a request nor an attempt. */
const LOOKUP_TIMEOUT_MS = 5000;
/** For one question to one server; c-ares doubles it for the next round. */
const QUESTION_TIMEOUT_MS = 1000;
const ROUNDS = 3;
const HOSTS_FILE = '/etc/hosts';
const HOSTS_KEPT_MS = 5000;
const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/**
 * Asks name servers by c-ares, which takes none of the few threads of the process: the system's own lookup keeps one for each name whose
 * servers do not answer. The hosts file goes first, as it does for the system. Names are asked for as they are: search domains are not
 * appended, and neither mDNS nor other sources of the system are asked.
 * @param servers addresses, with ports where these are not 53; without them those of /etc/resolv.conf
 */
export function resolverOf(servers: readonly string[] | undefined): ResolveHost {
  const hosts = new HostsFile();
  return async (hostname) => {
    const name = hostname.toLowerCase().replace(/\.$/, '');
    const listed = await hosts.addressesOf(name);
    if (listed.length > 0) {
      return listed;
    }
    return name === 'localhost' || name.endsWith('.localhost') ? LOOPBACK : askServers(name, servers);
  };
}

/** With a resolver for this name only, so that giving it up gives up no other. */
async function askServers(name: string, servers: readonly string[] | undefined): Promise<ResolvedAddress[]> {
  const resolver = new Resolver({ timeout: QUESTION_TIMEOUT_MS, tries: ROUNDS });
  if (servers !== undefined) {
    resolver.setServers(servers);
  }
  const timer = setTimeout(() => resolver.cancel(), LOOKUP_TIMEOUT_MS);
  const [v4, v6] = await Promise.allSettled([
    resolver.resolve4(name, { ttl: true }),
    resolver.resolve6(name, { ttl: true }),
  ]);
  clearTimeout(timer);
  const found = [
    ...(v4.status === 'fulfilled' ? v4.value.map((record) => ({ ...record, family: 4 })) : []),
    ...(v6.status === 'fulfilled' ? v6.value.map((record) => ({ ...record, family: 6 })) : []),
  ];
  if (found.length === 0) {
    throw failureOf(name, [v4, v6]);
  }
  return found;
}

/** A name that has no address of one kind may have one of the other kind, so only both together say that there is none. */
function failureOf(name: string, outcomes: readonly PromiseSettledResult<unknown>[]): Error {
  const codes = outcomes.map((outcome) =>
    outcome.status === 'rejected'
      ? ((outcome.reason as NodeJS.ErrnoException).code ?? 'EUNKNOWN')
      : 'ENODATA',
  );
  const other = codes.find((code) => code !== 'ENOTFOUND' && code !== 'ENODATA');
  if (other === undefined) {
    return Object.assign(new Error(`${name} has no address`), { code: NOT_FOUND });
  }
  const isLate = other === 'ETIMEOUT' || other === 'ECANCELLED';
  const why = isLate ? `was not resolved within ${LOOKUP_TIMEOUT_MS} ms` : `was not resolved: ${other}`;
  return Object.assign(new Error(`${name} ${why}`), { code: isLate ? TIMED_OUT : other });
}

/** The hosts file, read anew every few seconds. A file that cannot be read lists nothing. */
class HostsFile {
  private reading: Promise<ReadonlyMap<string, LookupAddress[]>> | undefined;
  private readAt = -Infinity;

  async addressesOf(name: string): Promise<readonly LookupAddress[]> {
    if (this.reading === undefined || performance.now() - this.readAt > HOSTS_KEPT_MS) {
      this.readAt = performance.now();
      this.reading = readFile(HOSTS_FILE, 'utf8').then(parseHosts, () => new Map());
    }
    return (await this.reading).get(name) ?? [];
  }
}

/** Lines of an address and its names, with comments. */
export function parseHosts(text: string): Map<string, LookupAddress[]> {
  const listed = new Map<string, LookupAddress[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*$/, '').trim().split(/\s+/);
    const family = isIP(address);
    for (const name of family === 0 ? [] : names.map((one) => one.toLowerCase())) {
      listed.set(name, [...(listed.get(name) ?? []), { address, family }]);
    }
  }
  return listed;
}
