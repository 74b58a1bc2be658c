import { isIPv6 } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import { RedisService } from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { WrongSecret } from './api-key-verifier.js';
import { AUTH_METRICS } from './auth.metrics.js';

const WINDOW_MS = 60_000;

/**
 * The maximum number of sources that a limit tracks. Beyond it, the least recently seen sources are evicted and their counts restart. A
 * flood from more sources can thus exceed the limit, but needs no more memory and affects no other source.
 */
export const MAX_SOURCES = 50_000;

/** The fixed window of one source. It starts with a request. */
export interface RateWindow {
  used: number;
  readonly endsAtMs: number;
  /** Unix time in whole seconds, rounded up: X-RateLimit-Reset. */
  readonly resetsAtS: string;
}

/**
 * Limits the requests of each source per minute. It counts in this process only, because it protects the instance, and counting in
 * Redis would add a round trip to each request.
 */
export class RateLimit {
  private readonly windows = new LRUCache<string, RateWindow>({ max: MAX_SOURCES });

  /**
   * @param what names what is limited, as in "more than 5 <what> in a minute"
   * @param refused is called at each refusal
   */
  constructor(
    readonly perMinute: number,
    private readonly what: string,
    private readonly clock: Pick<WindowClock, 'nowMs' | 'redisMs'>,
    private readonly refused: () => void,
  ) {}

  get size(): number {
    return this.windows.size;
  }

  /**
   * Counts a request and sets the headers with the number of requests left.
   * @throws Refusal LIMIT_EXCEEDED, with Retry-After, if none was left
   */
  admit(source: string, reply: FastifyReply): void {
    this.admitAll(source, reply, 1);
  }

  /**
   * The same for a counted request that stands for several.
   * @param all the counted one included
   * @throws Refusal INVALID_REQUEST if a whole minute has fewer; LIMIT_EXCEEDED if too few were left, which then stay as they are
   */
  admitRest(source: string, reply: FastifyReply, all: number): void {
    if (all > this.perMinute) {
      throw new Refusal(
        'INVALID_REQUEST',
        `this counts as ${all} requests, and only ${this.perMinute} ${this.what} are allowed in a minute`,
      );
    }
    this.admitAll(source, reply, all - 1);
  }

  private admitAll(source: string, reply: FastifyReply, requests: number): void {
    const window = this.windowOf(source);
    if (!this.take(window, requests)) {
      throw this.refusal(window, reply);
    }
    reply
      .header('X-RateLimit-Remaining', String(this.perMinute - window.used))
      .header('X-RateLimit-Reset', window.resetsAtS);
  }

  /** Counts a request. Returns a refusal if none was left. */
  exceeded(source: string, reply: FastifyReply): Refusal | undefined {
    const window = this.windowOf(source);
    return this.take(window, 1) ? undefined : this.refusal(window, reply);
  }

  private take(window: RateWindow, requests: number): boolean {
    if (window.used + requests > this.perMinute) {
      return false;
    }
    window.used += requests;
    return true;
  }

  private windowOf(source: string): RateWindow {
    const nowMs = this.clock.nowMs();
    let window = this.windows.get(source);
    if (window === undefined || nowMs >= window.endsAtMs) {
      // Redis' time is only for the header. The window ends by the monotonic clock.
      window = {
        used: 0,
        endsAtMs: nowMs + WINDOW_MS,
        resetsAtS: String(Math.ceil((this.clock.redisMs() + WINDOW_MS) / 1000)),
      };
      this.windows.set(source, window);
    }
    return window;
  }

  private refusal({ used, endsAtMs, resetsAtS }: RateWindow, reply: FastifyReply): Refusal {
    this.refused();
    const waitS = Math.max(1, Math.ceil((endsAtMs - this.clock.nowMs()) / 1000));
    reply
      .header('X-RateLimit-Remaining', String(this.perMinute - used))
      .header('X-RateLimit-Reset', resetsAtS);
    const refusal = new Refusal(
      'LIMIT_EXCEEDED',
      `more than ${this.perMinute} ${this.what} in a minute; retry in ${waitS} s`,
    );
    refusal.retryAfterS = waitS;
    return refusal;
  }
}

/** Monotonic milliseconds, and Redis' time. Tests replace it to control the windows. */
@Injectable()
export class WindowClock {
  constructor(@Inject(RedisService) private readonly redis: RedisService) {}

  redisMs(): number {
    return this.redis.clock.nowMs();
  }

  nowMs(): number {
    return performance.now();
  }
}

/** The configured limits. One that is off is undefined. */
@Injectable()
export class RateLimits {
  /** Per API key: all requests on the runtime plane with a valid key, whatever their result. */
  readonly perKey: RateLimit | undefined;
  /** Per source address and kind of key: wrong keys and log-ins. A valid key is always accepted. */
  private readonly authFailures: RateLimit | undefined;
  /** Of all addresses together: wrong keys of operators, and log-ins. */
  private readonly operatorFailures: RateLimit | undefined;
  /** Per source address: public documents that are expensive to send. */
  readonly public: RateLimit | undefined;

  constructor(
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(MetricsRegistry) metrics: MetricsRegistry,
    @Inject(WindowClock) clock: WindowClock,
  ) {
    const { rateLimited } = metrics.of(AUTH_METRICS);
    const limit = (name: string, perMinute: number, what: string): RateLimit | undefined =>
      perMinute === 0
        ? undefined
        : new RateLimit(perMinute, what, clock, () => {
            rateLimited.inc({ limit: name });
          });
    this.perKey = limit('api_key', config.rateLimitPerKeyPerMinute, 'requests with this API key');
    this.authFailures = limit(
      'auth_failures',
      config.rateLimitAuthFailuresPerMinute,
      'failed authentications from this address',
    );
    this.operatorFailures = limit(
      'auth_failures_in_all',
      config.rateLimitAuthFailuresPerMinute * ADDRESSES_IN_ALL,
      'failed authentications of operators',
    );
    this.public = limit('public', config.rateLimitPublicPerMinute, 'requests from this address');
  }

  /** Counts a guess. Returns the failure, or LIMIT_EXCEEDED if the address, or of operators all of them together, have guessed too often. */
  answerTo(
    failure: unknown,
    kind: 'admin_key' | 'api_key',
    address: string | undefined,
    reply: FastifyReply,
  ): unknown {
    if (!(failure instanceof WrongSecret)) {
      return failure;
    }
    // In this order, so that one address that is refused already uses up nothing of the others.
    return (
      this.authFailures?.exceeded(`${kind} ${sourceOf(address)}`, reply) ??
      (kind === 'admin_key' ? this.operatorFailures?.exceeded('', reply) : undefined) ??
      failure
    );
  }
}

/** What all addresses together may fail as operators, in multiples of what one may: few people run a deployment. */
const ADDRESSES_IN_ALL = 10;

const NETWORK_GROUPS = 4;

/**
 * The source that an address counts as. An IPv6 address counts as its /64 network, because one subscriber can use any address in it, and
 * an IPv4-mapped one, as on a socket that accepts both, as the IPv4 address. A closed socket has no address; those share one count.
 */
export function sourceOf(address: string | undefined): string {
  if (address === undefined || !isIPv6(address)) {
    return address ?? 'unknown';
  }
  const parsed = ipaddr.IPv6.parse(address);
  if (parsed.isIPv4MappedAddress()) {
    return parsed.toIPv4Address().toString();
  }
  const network = parsed.parts.slice(0, NETWORK_GROUPS).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}
