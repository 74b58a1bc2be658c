import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import { Refusal, TooBusy } from '../../ledger/index.js';
import { RestingStorage, SYSTEM_OWNER } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { matchesPattern } from './address-rules.js';
import { HostLookups, LOOKUPS_BUSY, type ResolveHost } from './host-lookups.js';
import { type SecurityRules, SecuritySettings } from './security-settings.js';
import { WEBHOOK_METRICS, type WebhookCounts } from '../webhooks.metrics.js';

/** When a URL or an address was checked. */
export type Judged = 'registration' | 'attempt' | 'dial';
export type RefusalReason =
  'malformed' | 'scheme' | 'credentials' | 'pattern' | 'unresolved' | 'blocked_address';

/** The injection token of a ResolveHost. */
export const RESOLVE_HOST = Symbol('RESOLVE_HOST');

/** The code of the error that a refused lookup ends with. */
export const TARGET_BLOCKED = 'ETARGETBLOCKED';
/** Characters that URL parsers silently drop or rewrite, so that two parsers could see different hosts. */
const AMBIGUOUS = /[\s\\\p{Cc}]/u;
const ASCII = /^[!-~]*$/;
const RETRY_AFTER_S = 2;

/** The owner of the delivery that a connection is made for. One per process, see `Queries`. */
const OWNER = new RestingStorage<string>();

interface TargetRefusal {
  readonly reason: RefusalReason;
  readonly message: string;
}

/**
 * Decides where webhooks may be sent. Every URL is checked at registration and before each attempt. Every address is checked at
 * registration and again when connecting: the connection uses exactly the addresses just checked, so DNS rebinding gains nothing.
 */
@Injectable()
export class TargetPolicy {
  private readonly counts: WebhookCounts;
  private readonly lookups: HostLookups;

  constructor(
    private readonly settings: SecuritySettings,
    @Inject(RESOLVE_HOST) resolve: ResolveHost,
    metrics: MetricsRegistry,
  ) {
    const counts = metrics.of(WEBHOOK_METRICS);
    this.counts = counts;
    this.lookups = new HostLookups(resolve, { lookedUp: (outcome) => counts.lookups.inc({ outcome }) });
    counts.lookupsUnderWay.readFrom(() => this.lookups.inUse);
    counts.lookupsWaiting.readFrom(() => this.lookups.waiting);
  }

  /**
   * Checks a URL for a subscription against the current configuration, including the addresses of its host.
   * @param owner the owner of the subscription
   * @returns the URL to store: as given, or normalized if it contains non-ASCII characters
   * @throws Refusal WEBHOOK_URL_INVALID; TooBusy if too many names are being looked up for the owner; StoreUnavailable
   */
  async check(text: string, owner: string): Promise<string> {
    const url = URL.canParse(text) && !AMBIGUOUS.test(text) ? new URL(text) : undefined;
    const rules = await this.settings.current();
    const refusal =
      url === undefined ? MALFORMED : (refusalOf(url, rules) ?? (await this.hostRefusal(url, rules, owner)));
    if (refusal !== undefined) {
      this.refused('registration', refusal.reason);
      throw new Refusal('WEBHOOK_URL_INVALID', refusal.message, { field: 'url' });
    }
    return url === undefined || ASCII.test(text) ? text : url.href;
  }

  /** Why the current configuration refuses a URL, apart from its host's addresses; undefined if it does not. @throws StoreUnavailable */
  async urlRefusal(url: URL): Promise<string | undefined> {
    const refusal = refusalOf(url, await this.settings.recent());
    if (refusal !== undefined) {
      this.refused('attempt', refusal.reason);
    }
    return refusal?.message;
  }

  /** Why a connection to a host would fail now, as far as that is known without a lookup. */
  knownFailure(hostname: string): Error | undefined {
    return this.lookups.knownFailure(hostname);
  }

  /** Changes with the configuration read last. */
  revision(): string {
    return this.settings.lastSeen().revision;
  }

  /** Counts all lookups that `dial` starts against an owner. */
  forOwner<T>(owner: string, dial: () => T): T {
    return OWNER.run(owner, dial);
  }

  /** For `net.connect`, which calls it for names only. Callers that connect to an address must call it themselves. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    this.allowedAddresses(hostname, options.family).then(
      (addresses) => {
        const [first] = addresses as [LookupAddress];
        if (options.all === true) {
          callback(null, [...addresses]);
        } else {
          callback(null, first.address, first.family);
        }
      },
      (error: NodeJS.ErrnoException) => callback(error, options.all === true ? [] : '', 0),
    );
  };

  private refused(judged: Judged, reason: RefusalReason): void {
    this.counts.targetsRefused.inc({ judged, reason });
  }

  /** One blocked address blocks the name: there is no good reason to mix them. */
  private async allowedAddresses(
    hostname: string,
    family: number | string | undefined,
  ): Promise<readonly LookupAddress[]> {
    const [rules, found] = await Promise.all([
      this.settings.recent(),
      this.lookups.addressesOf(hostname, OWNER.getStore() ?? SYSTEM_OWNER),
    ]);
    const addresses = found.filter((entry) => (family !== 4 && family !== 6) || entry.family === family);
    if (addresses.length === 0) {
      throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' });
    }
    if (found.some(({ address }) => rules.addresses.blocks(address))) {
      this.refused('dial', 'blocked_address');
      throw Object.assign(new Error(`${hostname} resolves to a blocked address`), {
        code: TARGET_BLOCKED,
      });
    }
    return addresses;
  }

  private async hostRefusal(
    url: URL,
    rules: SecurityRules,
    owner: string,
  ): Promise<TargetRefusal | undefined> {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const addresses = await this.lookups.addressesOf(host, owner).catch((error: NodeJS.ErrnoException) => {
      if (error.code === LOOKUPS_BUSY) {
        throw new TooBusy(error.message, RETRY_AFTER_S);
      }
      return [];
    });
    if (addresses.length === 0) {
      return { reason: 'unresolved', message: 'the host of the URL cannot be resolved' };
    }
    return addresses.some(({ address }) => rules.addresses.blocks(address))
      ? { reason: 'blocked_address', message: 'the host of the URL resolves to a blocked address' }
      : undefined;
  }
}

const MALFORMED: TargetRefusal = {
  reason: 'malformed',
  message: 'url must be an absolute URL without white space, control characters or backslashes',
};

function refusalOf(url: URL, { config }: SecurityRules): TargetRefusal | undefined {
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && config.allow_http)) {
    return {
      reason: 'scheme',
      message: config.allow_http
        ? 'the URL must start with https:// or http://'
        : 'the URL must start with https://',
    };
  }
  if (url.username !== '' || url.password !== '') {
    return {
      reason: 'credentials',
      message: 'the URL must not contain a user name or password; use a header',
    };
  }
  const { allowed_url_patterns: patterns } = config;
  return patterns.length > 0 && !patterns.some((pattern) => matchesPattern(url, pattern))
    ? { reason: 'pattern', message: 'the URL matches no allowed pattern' }
    : undefined;
}
