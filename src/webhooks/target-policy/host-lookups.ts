import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import { type Claim, ConcurrencyLimiter } from '../../redis/index.js';
import type { LookupOutcome } from './target-policy.js';

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

/** The code of the error of a lookup that was not begun, because too many are under way for its owner. It says nothing about the name. */
export const LOOKUPS_BUSY = 'ELOOKUPSBUSY';

/** Names that are asked for at the same time, in all and for one owner; c-ares needs a socket or two for each. */
const AT_ONCE = 128;
const AT_ONCE_PER_OWNER = 16;
const WAITING_PER_OWNER = 256;
/** Shorter than an attempt may take: what waits longer is postponed, and its own time limit does not end it. */
const QUEUE_MS = 1000;
/** An answer is kept for as long as its server allows, but no longer than the first; a failure for the second. */
const KEPT_MAX_MS = 30_000;
const FAILURE_KEPT_MS = 5000;
/** Names that failed have places of their own for so long, so that they do not hold up those that work. */
const TROUBLED_MS = 600_000;
const NAMES_KEPT = 10_000;
/** One answer may hold thousands. */
const ADDRESSES_KEPT = 50_000;

export interface LookupCounts {
  lookedUp(outcome: LookupOutcome): void;
}

type Answer = { readonly addresses: readonly LookupAddress[] } | { readonly error: Error };
type KeptAnswer = Answer & { readonly untilMs: number };

/**
 * Looks host names up: few at the same time, of each owner and in all, each name once at a time, and not again while its answer or
 * failure is fresh. Names that failed share half of the places, and of their owner's have some of their own, so that a name whose
 * servers do not answer delays no name that works.
 */
export class HostLookups {
  /** By name, whoever asked first: these have a place. */
  private readonly underWay = new Map<string, Promise<readonly LookupAddress[]>>();
  /** By owner and name: nobody waits in the queue of another owner. */
  private readonly queued = new Map<string, Promise<readonly LookupAddress[]>>();
  private readonly known = new LRUCache<string, KeptAnswer>({
    max: NAMES_KEPT,
    maxSize: ADDRESSES_KEPT,
    sizeCalculation: sizeOf,
  });
  /** Until when each name counts as one that failed. */
  private readonly troubled = new LRUCache<string, number>({ max: NAMES_KEPT });
  private readonly places = new ConcurrencyLimiter({
    total: AT_ONCE,
    perOwner: AT_ONCE_PER_OWNER,
    waitingPerOwner: WAITING_PER_OWNER,
  });

  constructor(
    private readonly resolve: ResolveHost,
    private readonly counts: LookupCounts,
  ) {}

  get inUse(): number {
    return this.places.inUse;
  }

  get waiting(): number {
    return this.places.waiting;
  }

  /**
   * @param owner whose subscription asks; it pays for the lookup unless another one asks for the same name already
   * @throws an error with the code LOOKUPS_BUSY, or with what is wrong with the name
   */
  addressesOf(hostname: string, owner: string): Promise<readonly LookupAddress[]> {
    const family = isIP(hostname);
    if (family !== 0) {
      return Promise.resolve([{ address: hostname, family }]);
    }
    const key = `${owner} ${hostname}`;
    const same = this.answerAtHand(hostname) ?? this.queued.get(key);
    if (same !== undefined) {
      return same;
    }
    const answer = this.inTurn(hostname, owner).finally(() => this.queued.delete(key));
    this.queued.set(key, answer);
    return answer;
  }

  private answerAtHand(hostname: string): Promise<readonly LookupAddress[]> | undefined {
    const known = this.known.get(hostname);
    if (known === undefined || known.untilMs <= performance.now()) {
      return this.underWay.get(hostname);
    }
    this.counts.lookedUp('known');
    return 'error' in known ? Promise.reject(known.error) : Promise.resolve(known.addresses);
  }

  private async inTurn(hostname: string, owner: string): Promise<readonly LookupAddress[]> {
    const slow = (this.troubled.get(hostname) ?? 0) > performance.now();
    const claim: Claim = { owner: slow ? `troubled ${owner}` : owner, slow };
    if ((await this.places.take(claim, { waitMs: QUEUE_MS })) !== 'taken') {
      this.counts.lookedUp('busy');
      throw Object.assign(new Error('too many host names are being looked up'), { code: LOOKUPS_BUSY });
    }
    try {
      // Another owner may have asked for the same name meanwhile.
      const same = this.answerAtHand(hostname);
      if (same !== undefined) {
        return await same;
      }
      const answer = this.lookUp(hostname).finally(() => this.underWay.delete(hostname));
      this.underWay.set(hostname, answer);
      return await answer;
    } finally {
      this.places.giveBack(claim);
    }
  }

  private async lookUp(hostname: string): Promise<readonly LookupAddress[]> {
    try {
      const addresses = await this.resolve(hostname);
      this.counts.lookedUp('found');
      this.troubled.delete(hostname);
      this.keep(hostname, { addresses }, keptMs(addresses));
      return addresses;
    } catch (error) {
      this.counts.lookedUp(outcomeOf(error));
      this.troubled.set(hostname, performance.now() + TROUBLED_MS);
      this.keep(hostname, { error: error as Error }, FAILURE_KEPT_MS);
      throw error;
    }
  }

  private keep(hostname: string, answer: Answer, forMs: number): void {
    this.known.set(hostname, { ...answer, untilMs: performance.now() + forMs });
  }
}

/** In addresses. Not 0, which the cache does not take. */
function sizeOf(answer: Answer): number {
  return 'error' in answer ? 1 : Math.max(1, answer.addresses.length);
}

/** Who resolves without a time to live says that the answer is not to be kept. */
function keptMs(addresses: readonly ResolvedAddress[]): number {
  return Math.min(KEPT_MAX_MS, ...addresses.map(({ ttl = 0 }) => ttl * 1000));
}

function outcomeOf(error: unknown): LookupOutcome {
  const { code } = error as NodeJS.ErrnoException;
  return code === NOT_FOUND ? 'not_found' : code === TIMED_OUT ? 'timeout' : 'failed';
}
