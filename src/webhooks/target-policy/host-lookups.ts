import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import { type Claim, ConcurrencyLimiter } from '../../redis/index.js';

/** An address with its time to live in seconds. */
export interface ResolvedAddress extends LookupAddress {
  readonly ttl?: number;
}

/** All addresses of a host name. Rejects if there are none, or if no server answers in time. */
export type ResolveHost = (hostname: string) => Promise<readonly ResolvedAddress[]>;

/** `known`: answered from the cache. `busy`: not started, because too many were in flight. */
export type LookupOutcome = 'found' | 'known' | 'not_found' | 'timeout' | 'failed' | 'busy';

/** The name does not exist or has no address, according to its servers. */
export const NOT_FOUND = 'ENOTFOUND';
/** No server of the name answered in time. */
export const TIMED_OUT = 'ETIMEOUT';

/** Bounds how long a request or an attempt waits for name servers. */
const LOOKUP_TIMEOUT_MS = 5000;
/** For one query to one server; c-ares doubles it in each round. */
const QUERY_TIMEOUT_MS = 1000;
const ROUNDS = 3;
const HOSTS_FILE = '/etc/hosts';
const HOSTS_KEPT_MS = 5000;
const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/**
 * Resolves names with c-ares, which uses none of the process's few threads; the system's lookup would block one for each name whose
 * servers do not answer. Reads the hosts file first, as the system does, but appends no search domains and uses neither mDNS nor other
 * sources of the system.
 * @param servers addresses, with a port unless it is 53; by default those of /etc/resolv.conf
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

/** Uses its own resolver, so that cancelling this name cancels no other. */
async function askServers(name: string, servers: readonly string[] | undefined): Promise<ResolvedAddress[]> {
  const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: ROUNDS });
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

/** Only if both queries find nothing does the name have no address: it may have one of either family. */
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

/** The hosts file, read again every few seconds. An unreadable file lists nothing. */
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

/** Parses lines of an address and its names. `#` starts a comment. */
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

/** The error code of a lookup that was not started, because its owner has too many in flight. It says nothing about the name. */
export const LOOKUPS_BUSY = 'ELOOKUPSBUSY';

/** Concurrent lookups, in total and per owner. c-ares needs one or two sockets for each. */
const MAX_CONCURRENT = 128;
const MAX_CONCURRENT_PER_OWNER = 16;
const MAX_WAITING_PER_OWNER = 256;
/** Shorter than the time limit of an attempt, so that a lookup that waits longer is postponed and does not time out. */
const QUEUE_MS = 1000;
/** An answer is cached for its time to live, but at most this long. */
const MAX_CACHE_MS = 30_000;
const FAILURE_CACHE_MS = 5000;
/** For this long, a name that failed uses the slots reserved for slow names, so that it does not delay names that work. */
const SLOW_MS = 600_000;
const MAX_CACHED_NAMES = 10_000;
/** Bounds the memory of the cache: one answer may hold thousands of addresses. */
const MAX_CACHED_ADDRESSES = 50_000;

export interface LookupCounts {
  lookedUp(outcome: LookupOutcome): void;
}

type Answer = { readonly addresses: readonly LookupAddress[] } | { readonly error: Error };
type CachedAnswer = Answer & { readonly untilMs: number };

/**
 * Looks up host names: a bounded number at a time, in total and per owner, each name only once at a time, and not again while its
 * answer or failure is cached. Names that failed recently have slots of their own, in total and per owner, so that a name whose
 * servers do not answer delays no name that works.
 */
export class HostLookups {
  /** By name: lookups in flight, whichever owner started them. */
  private readonly underWay = new Map<string, Promise<readonly LookupAddress[]>>();
  /** By owner and name: lookups waiting for a slot. Each owner has its own queue. */
  private readonly queued = new Map<string, Promise<readonly LookupAddress[]>>();
  private readonly cache = new LRUCache<string, CachedAnswer>({
    max: MAX_CACHED_NAMES,
    maxSize: MAX_CACHED_ADDRESSES,
    sizeCalculation: sizeOf,
  });
  /** By name: until when it counts as slow. */
  private readonly slowUntil = new LRUCache<string, number>({ max: MAX_CACHED_NAMES });
  private readonly limiter = new ConcurrencyLimiter({
    total: MAX_CONCURRENT,
    perOwner: MAX_CONCURRENT_PER_OWNER,
    waitingPerOwner: MAX_WAITING_PER_OWNER,
  });

  constructor(
    private readonly resolve: ResolveHost,
    private readonly counts: LookupCounts,
  ) {}

  get inUse(): number {
    return this.limiter.inUse;
  }

  get waiting(): number {
    return this.limiter.waiting;
  }

  /**
   * @param owner whose subscription this is for; the lookup counts against its slots unless the name is already being looked up
   * @throws an error with the code LOOKUPS_BUSY, or the reason why the name has no address
   */
  addressesOf(hostname: string, owner: string): Promise<readonly LookupAddress[]> {
    const family = isIP(hostname);
    if (family !== 0) {
      return Promise.resolve([{ address: hostname, family }]);
    }
    const key = `${owner} ${hostname}`;
    const same = this.cachedOrUnderWay(hostname) ?? this.queued.get(key);
    if (same !== undefined) {
      return same;
    }
    const answer = this.lookUpInTurn(hostname, owner).finally(() => this.queued.delete(key));
    this.queued.set(key, answer);
    return answer;
  }

  /** Why a name has no address, if that is known: its last lookup failed a few seconds ago at most. */
  knownFailure(hostname: string): Error | undefined {
    const cached = this.cache.get(hostname);
    if (cached === undefined || !('error' in cached) || cached.untilMs <= performance.now()) {
      return undefined;
    }
    this.counts.lookedUp('known');
    return cached.error;
  }

  private cachedOrUnderWay(hostname: string): Promise<readonly LookupAddress[]> | undefined {
    const cached = this.cache.get(hostname);
    if (cached === undefined || cached.untilMs <= performance.now()) {
      return this.underWay.get(hostname);
    }
    this.counts.lookedUp('known');
    return 'error' in cached ? Promise.reject(cached.error) : Promise.resolve(cached.addresses);
  }

  private async lookUpInTurn(hostname: string, owner: string): Promise<readonly LookupAddress[]> {
    const slow = (this.slowUntil.get(hostname) ?? 0) > performance.now();
    const claim: Claim = { owner: slow ? `troubled ${owner}` : owner, slow };
    if ((await this.limiter.acquire(claim, { waitMs: QUEUE_MS })) !== 'acquired') {
      this.counts.lookedUp('busy');
      throw Object.assign(new Error('too many host names are being looked up'), { code: LOOKUPS_BUSY });
    }
    try {
      // Another owner may have asked for the same name meanwhile.
      const same = this.cachedOrUnderWay(hostname);
      if (same !== undefined) {
        return await same;
      }
      const answer = this.lookUp(hostname).finally(() => this.underWay.delete(hostname));
      this.underWay.set(hostname, answer);
      return await answer;
    } finally {
      this.limiter.release(claim);
    }
  }

  private async lookUp(hostname: string): Promise<readonly LookupAddress[]> {
    try {
      const addresses = await this.resolve(hostname);
      this.counts.lookedUp('found');
      this.slowUntil.delete(hostname);
      this.remember(hostname, { addresses }, cacheMs(addresses));
      return addresses;
    } catch (error) {
      this.counts.lookedUp(outcomeOf(error));
      this.slowUntil.set(hostname, performance.now() + SLOW_MS);
      this.remember(hostname, { error: error as Error }, FAILURE_CACHE_MS);
      throw error;
    }
  }

  private remember(hostname: string, answer: Answer, forMs: number): void {
    this.cache.set(hostname, { ...answer, untilMs: performance.now() + forMs });
  }
}

/** In addresses, but at least 1, because the cache does not accept a size of 0. */
function sizeOf(answer: Answer): number {
  return 'error' in answer ? 1 : Math.max(1, answer.addresses.length);
}

/** An answer without a time to live is not cached. */
function cacheMs(addresses: readonly ResolvedAddress[]): number {
  return Math.min(MAX_CACHE_MS, ...addresses.map(({ ttl = 0 }) => ttl * 1000));
}

function outcomeOf(error: unknown): LookupOutcome {
  const { code } = error as NodeJS.ErrnoException;
  return code === NOT_FOUND ? 'not_found' : code === TIMED_OUT ? 'timeout' : 'failed';
}
