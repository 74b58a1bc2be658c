import type { Cluster, Redis } from 'ioredis';
import type { HealthWarning, Logger } from '../telemetry/index.js';
import { StoreUnavailable, toStoreError } from './errors.js';
import { testClockKey } from './keyspace.js';
import type { ScriptRegistry } from './scripts.js';

/** How soon a step of Redis' clock is noticed. */
const SYNC_MS = 5000;
/** Clocks that are kept by NTP differ by less. */
const MAY_DIFFER_MS = 10_000;

/**
 * Redis' time, for every instant that leaves the process: signatures, headers, ids, what consoles show. Scripts ask Redis itself. Between
 * two readings, the monotonic clock counts on, so a wrong or stepping clock of the host does not matter.
 */
export class RedisClock {
  /** Redis' time less that of the monotonic clock. */
  private offsetMs = 0;
  /** How far the time of scripts is ahead of it: 0 without a test clock. */
  private aheadMs = 0;
  private isFailing = false;

  /** @param scripts that have a test clock, if there is one */
  constructor(
    private readonly client: Redis | Cluster,
    private readonly logger: Logger,
    private readonly scripts?: ScriptRegistry,
  ) {}

  nowMs(): number {
    return Math.floor(performance.now() + this.offsetMs);
  }

  /** The time of scripts, as of the last reading. Differs from `nowMs` only with a test clock. */
  ledgerMs(): number {
    return this.nowMs() + this.aheadMs;
  }

  /** What an operator should know of the time by which deadlines are decided. */
  warnings(): HealthWarning[] {
    const aheadMs = Math.round(this.aheadMs);
    // eslint-disable-next-line no-restricted-syntax -- compares the two
    const differMs = this.nowMs() - Date.now();
    const found: HealthWarning[] = [];
    if (aheadMs > 0) {
      const message = `the time of this ledger was advanced by a test clock and is ${durationOf(aheadMs)} ahead of Redis' clock. Count no real money with it`;
      found.push({ code: 'test_clock_advanced', message });
    }
    if (Math.abs(differMs) > MAY_DIFFER_MS) {
      const message = `Redis' clock is ${durationOf(Math.abs(differMs))} ${differMs > 0 ? 'ahead of' : 'behind'} the clock of this host. Redis' clock decides deadlines: compare both with NTP, and correct the wrong one`;
      found.push({ code: 'clock_differs', message });
    }
    return found;
  }

  /** How far a test clock has put the time of scripts ahead, as of the last reading. */
  get ahead(): number {
    return this.aheadMs;
  }

  /** Reads the time of scripts. @throws StoreUnavailable */
  async readLedgerMs(): Promise<number> {
    await this.sync();
    return this.ledgerMs();
  }

  /** The time of scripts at an instant of performance.now(), or earlier, by at most the time that an answer takes. @throws StoreUnavailable */
  async ledgerMsAt(monotonicMs: number): Promise<number> {
    return Math.floor(monotonicMs + (await this.sync()) + this.aheadMs);
  }

  /** Reads Redis' clock. @returns how far it is ahead of performance.now(), at least. @throws StoreUnavailable */
  async sync(): Promise<number> {
    const sentAt = performance.now();
    try {
      const [seconds, micros] = await this.client.time();
      const redisMs = Number(seconds) * 1000 + Number(micros) / 1000;
      const receivedAt = performance.now();
      // Redis read its clock at some time between question and reply.
      this.offsetMs = redisMs - (sentAt + receivedAt) / 2;
      const clock = await this.scripts?.call('read_test_clock', { testClock: testClockKey() }, {});
      this.aheadMs = clock?.aheadMs ?? 0;
      return redisMs - receivedAt;
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /** Reads Redis' clock again and again until the signal ends that. */
  follow(closing: AbortSignal): void {
    const timer = setInterval(() => void this.refresh(), SYNC_MS).unref();
    closing.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  /** Never rejects. While Redis is away, which readiness says, the last reading counts on. */
  private async refresh(): Promise<void> {
    try {
      await this.sync();
      this.isFailing = false;
    } catch (error) {
      if (!this.isFailing && !(error instanceof StoreUnavailable)) {
        this.isFailing = true;
        this.logger.error({ err: error }, "Redis' clock cannot be read; its last reading counts on");
      }
    }
  }
}

/** In the two largest units: `2 days 3 hours`. */
function durationOf(ms: number): string {
  const s = Math.round(ms / 1000);
  const parts = [
    [Math.floor(s / 86_400), 'day'],
    [Math.floor(s / 3600) % 24, 'hour'],
    [Math.floor(s / 60) % 60, 'minute'],
    [s % 60, 'second'],
  ] as const;
  return (
    parts
      .filter(([count]) => count > 0)
      .slice(0, 2)
      .map(([count, unit]) => `${count} ${unit}${count === 1 ? '' : 's'}`)
      .join(' ') || '0 seconds'
  );
}
