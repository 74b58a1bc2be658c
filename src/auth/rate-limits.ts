import { isIPv6 } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { LRUCache } from 'lru-cache';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import { MetricsRegistry } from '../telemetry/index.js';

const WINDOW_MS = 60_000;

/**
 * Whom one limit remembers at most. With more of them in one window, those that were silent longest are forgotten and start
 * anew: a flood from everywhere may pass, but it costs no more memory and refuses nobody else.
 */
export const MAX_SOURCES = 50_000;

/** One source's fixed window, from its first request on. */
export interface RateWindow {
  used: number;
  readonly endsAtMs: number;
  /** Unix time in whole seconds, rounded up: X-RateLimit-Reset. */
  readonly resetsAtS: string;
}

/**
 * So many requests of each source in a minute. It counts in this process alone: a count in Redis would cost a round trip for
 * each request, and a limit that protects an instance needs to know no other.
 */
export class RateLimit {
  private readonly windows = new LRUCache<string, RateWindow>({ max: MAX_SOURCES });

  /** @param refused counts a refusal; @param what is limited, as the end of a sentence for the caller. */
  constructor(
    readonly perMinute: number,
    private readonly what: string,
    private readonly clock: WindowClock,
    private readonly refused: () => void,
  ) {}

  get size(): number {
    return this.windows.size;
  }

  /**
   * Counts one request and tells its sender in headers what is left.
   * @throws Refusal LIMIT_EXCEEDED when nothing was left, with Retry-After.
   */
  admit(source: string, reply: FastifyReply): void {
    const window = this.count(source);
    if (window.used > this.perMinute) {
      throw this.refusal(window, reply);
    }
    reply
      .header('X-RateLimit-Remaining', String(this.perMinute - window.used))
      .header('X-RateLimit-Reset', window.resetsAtS);
  }

  /** Counts one request; the refusal to answer it with when nothing was left. */
  exceeded(source: string, reply: FastifyReply): Refusal | undefined {
    const window = this.count(source);
    return window.used > this.perMinute ? this.refusal(window, reply) : undefined;
  }

  private count(source: string): RateWindow {
    const nowMs = this.clock.nowMs();
    let window = this.windows.get(source);
    if (window === undefined || nowMs >= window.endsAtMs) {
      // The date is shown and decides nothing: the window ends by the clock that cannot be set.
      window = {
        used: 0,
        endsAtMs: nowMs + WINDOW_MS,
        resetsAtS: String(Math.ceil((new Date().getTime() + WINDOW_MS) / 1000)),
      };
      this.windows.set(source, window);
    }
    window.used += 1;
    return window;
  }

  private refusal({ endsAtMs, resetsAtS }: RateWindow, reply: FastifyReply): Refusal {
    this.refused();
    const waitS = Math.max(1, Math.ceil((endsAtMs - this.clock.nowMs()) / 1000));
    reply
      .header('X-RateLimit-Remaining', '0')
      .header('X-RateLimit-Reset', resetsAtS)
      .header('Retry-After', String(waitS));
    return new Refusal(
      'LIMIT_EXCEEDED',
      `more than ${this.perMinute} ${this.what} in a minute; retry in ${waitS} s`,
    );
  }
}

/** The time that rate-limit windows go by: milliseconds that only grow, whatever is done to the machine's date. */
@Injectable()
export class WindowClock {
  nowMs(): number {
    return performance.now();
  }
}

/** The limits that the operator asked for; one that is off does not exist, and costs nothing. */
@Injectable()
export class RateLimits {
  /** By API key: every request on the runtime plane whose key is valid, whatever becomes of it. */
  readonly perKey: RateLimit | undefined;
  /** By source address and kind of key: authentications that failed. A valid key is let through whatever the count. */
  readonly authFailures: RateLimit | undefined;
  /** By source address: documents that everybody may read and that cost something. */
  readonly public: RateLimit | undefined;

  constructor(
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(MetricsRegistry) metrics: MetricsRegistry,
    @Inject(WindowClock) clock: WindowClock,
  ) {
    const refusals = metrics.counter({
      name: 'holdfast_rate_limited_total',
      help: 'Requests that this instance answered with 429, by the limit that they exceeded.',
      labels: ['limit'],
    });
    const limit = (name: string, perMinute: number, what: string): RateLimit | undefined =>
      perMinute === 0
        ? undefined
        : new RateLimit(perMinute, what, clock, () => {
            refusals.inc({ limit: name });
          });
    this.perKey = limit('api_key', config.rateLimitPerKeyPerMinute, 'requests with this API key');
    this.authFailures = limit(
      'auth_failures',
      config.rateLimitAuthFailuresPerMinute,
      'failed authentications from this address',
    );
    this.public = limit('public', config.rateLimitPublicPerMinute, 'requests from this address');
  }
}

/** IPv4 in IPv6's form, as a socket shows it that listens to both. */
const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const GROUPS = 8;
const NETWORK_GROUPS = 4;

/**
 * Whom a limit counts an address as. An IPv6 address counts as its /64 network: one subscriber has as many addresses in
 * there as it likes, and could change them with every request. A closed socket has no address; these share one count.
 */
export function sourceOf(address: string | undefined): string {
  if (address === undefined || !isIPv6(address)) {
    return address ?? 'unknown';
  }
  return MAPPED.exec(address)?.[1] ?? networkOf(address);
}

function networkOf(address: string): string {
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    // A dotted quad at the end stands for two groups.
    const after = tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
    const rest = tail === '' ? [] : tail.split(':');
    groups.push(...new Array<string>(GROUPS - groups.length - after).fill('0'), ...rest);
  }
  // Proxies write the same group with and without leading zeros.
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
