import type { Cluster, Redis } from 'ioredis';
import type { Logger } from '../telemetry/index.js';
import { StoreUnavailable, toStoreError } from './errors.js';
import { testClockKey } from './keyspace.js';
import type { ScriptRegistry } from './scripts.js';

/** How soon a step of Redis' clock is noticed. */
const SYNC_MS = 5000;

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

  /** Reads the time of scripts. @throws StoreUnavailable */
  async readLedgerMs(): Promise<number> {
    await this.sync();
    return this.ledgerMs();
  }

  /** Reads Redis' clock. @throws StoreUnavailable */
  async sync(): Promise<void> {
    const sentAt = performance.now();
    try {
      const [seconds, micros] = await this.client.time();
      const redisMs = Number(seconds) * 1000 + Number(micros) / 1000;
      // Redis read its clock at some time between question and reply.
      this.offsetMs = redisMs - (sentAt + performance.now()) / 2;
      const clock = await this.scripts?.call('read_test_clock', { testClock: testClockKey() }, {});
      this.aheadMs = clock?.aheadMs ?? 0;
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
