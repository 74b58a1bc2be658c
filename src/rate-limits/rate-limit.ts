import type { FastifyReply } from 'fastify';
import { LRUCache } from 'lru-cache';
import { Refusal } from '../ledger/index.js';
import type { WindowClock } from './window-clock.js';

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
