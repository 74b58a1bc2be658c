import { AsyncLocalStorage } from 'node:async_hooks';
import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import { Refusal, TooBusy } from '../../ledger/index.js';
import { SYSTEM_OWNER } from '../../redis/index.js';
import { type LabelledCounter, MetricsRegistry } from '../../telemetry/index.js';
import { matchesPattern } from './address-rules.js';
import { HostLookups, LOOKUPS_BUSY, type ResolveHost } from './host-lookups.js';
import { type SecurityRules, SecuritySettings } from './security-settings.js';

/** When a URL or an address was judged. */
export type Judged = 'registration' | 'attempt' | 'dial';
/** `known`: the answer, or the failure, of a moment ago. `busy`: not begun, because too many were under way. */
export type LookupOutcome = 'found' | 'known' | 'not_found' | 'timeout' | 'failed' | 'busy';
export type RefusalReason =
  'malformed' | 'scheme' | 'credentials' | 'pattern' | 'unresolved' | 'blocked_address';

/** What the target policy refuses: a subscriber's mistake, or somebody who tries doors. */
@Injectable()
export class TargetMetrics {
  private readonly refusals: LabelledCounter;
  private readonly lookups: LabelledCounter;

  constructor(private readonly metrics: MetricsRegistry) {
    this.refusals = metrics.counter({
      name: 'holdfast_webhook_targets_refused_total',
      help: 'URLs and addresses that webhooks may not be sent to, by when and why they were refused.',
      labels: ['judged', 'reason'],
    });
    this.lookups = metrics.counter({
      name: 'holdfast_webhook_lookups_total',
      help: 'Host names of webhook endpoints that were looked up, by what came of it.',
      labels: ['outcome'],
    });
  }

  lookedUp(outcome: LookupOutcome): void {
    this.lookups.inc({ outcome });
  }

  showLookups(underWay: () => number, waiting: () => number): void {
    this.metrics.observedGauge(
      {
        name: 'holdfast_webhook_lookups_under_way',
        help: 'Host names that name servers are being asked for.',
      },
      underWay,
    );
    this.metrics.observedGauge(
      {
        name: 'holdfast_webhook_lookups_waiting',
        help: 'Lookups that wait until others of their tenant are done.',
      },
      waiting,
    );
  }

  refused(judged: Judged, reason: RefusalReason): void {
    this.refusals.inc({ judged, reason });
  }
}

/** The injection token of a ResolveHost. */
export const RESOLVE_HOST = Symbol('RESOLVE_HOST');

/** The code of the error that a refused lookup ends with. */
export const TARGET_BLOCKED = 'ETARGETBLOCKED';
/** What URL parsers drop or turn round in silence, so that two readers could see two hosts. */
const AMBIGUOUS = /[\s\\\p{Cc}]/u;
const ASCII = /^[!-~]*$/;
const RETRY_AFTER_S = 2;

interface TargetRefusal {
  readonly reason: RefusalReason;
  readonly message: string;
}

/**
 * Where webhooks may go. Every URL is judged when it is registered, and again before each attempt; every address is judged
 * when the URL is registered, and again when it is dialled, where only those that were just judged are handed on: a name
 * that meanwhile resolves to another address gains nothing.
 */
@Injectable()
export class TargetPolicy {
  private readonly lookups: HostLookups;
  /** Whose delivery the connection is made for. */
  private readonly owner = new AsyncLocalStorage<string>();

  constructor(
    private readonly settings: SecuritySettings,
    @Inject(RESOLVE_HOST) resolve: ResolveHost,
    private readonly metrics: TargetMetrics,
  ) {
    this.lookups = new HostLookups(resolve, metrics);
    metrics.showLookups(
      () => this.lookups.inUse,
      () => this.lookups.waiting,
    );
  }

  /**
   * Judges a URL for a subscription, by the configuration of this moment and by what its host resolves to.
   * @param owner whose subscription it is for
   * @returns the URL as it is to be stored: as given, or with its host in ASCII where it has other letters.
   * @throws Refusal WEBHOOK_URL_INVALID; TooBusy when too many names are being looked up for the owner; StoreUnavailable
   */
  async check(text: string, owner: string): Promise<string> {
    const url = URL.canParse(text) && !AMBIGUOUS.test(text) ? new URL(text) : undefined;
    const rules = await this.settings.current();
    const refusal =
      url === undefined ? MALFORMED : (refusalOf(url, rules) ?? (await this.hostRefusal(url, rules, owner)));
    if (refusal !== undefined) {
      this.metrics.refused('registration', refusal.reason);
      throw new Refusal('WEBHOOK_URL_INVALID', refusal.message, { field: 'url' });
    }
    return url === undefined || ASCII.test(text) ? text : url.href;
  }

  /** Why the configuration of the moment refuses a URL, before its host is looked up; undefined when it does not. @throws StoreUnavailable */
  async urlRefusal(url: URL): Promise<string | undefined> {
    const refusal = refusalOf(url, await this.settings.recent());
    if (refusal !== undefined) {
      this.metrics.refused('attempt', refusal.reason);
    }
    return refusal?.message;
  }

  /** Changes with the configuration that was seen last. */
  revision(): string {
    return this.settings.lastSeen().revision;
  }

  /** Makes the lookups of all that `dial` begins those of an owner. */
  forOwner<T>(owner: string, dial: () => T): T {
    return this.owner.run(owner, dial);
  }

  /** For `net.connect`, which asks it for names only; whoever dials an address asks it itself. */
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

  /** One forbidden address condemns the whole answer: a name that mixes them has no good reason to. */
  private async allowedAddresses(
    hostname: string,
    family: number | string | undefined,
  ): Promise<readonly LookupAddress[]> {
    const [rules, found] = await Promise.all([
      this.settings.recent(),
      this.lookups.addressesOf(hostname, this.owner.getStore() ?? SYSTEM_OWNER),
    ]);
    const addresses = found.filter((entry) => (family !== 4 && family !== 6) || entry.family === family);
    if (addresses.length === 0) {
      throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' });
    }
    if (found.some(({ address }) => rules.addresses.blocks(address))) {
      this.metrics.refused('dial', 'blocked_address');
      throw Object.assign(new Error(`${hostname} leads to an address that webhooks may not be sent to`), {
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
  message: 'url must be an absolute URL without white space, control characters and backslashes',
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
    return { reason: 'credentials', message: 'the URL must not hold a user or a password; use a header' };
  }
  const { allowed_url_patterns: patterns } = config;
  return patterns.length > 0 && !patterns.some((pattern) => matchesPattern(url, pattern))
    ? { reason: 'pattern', message: 'the URL matches no allowed pattern' }
    : undefined;
}
