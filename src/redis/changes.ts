import { TooBusy } from '../ledger/index.js';
import { ConcurrencyLimiter } from './concurrency-limiter.js';
import type { MetricsRegistry } from '../telemetry/index.js';
import { RECORD_METRICS } from './redis.metrics.js';

/** More would let one tenant's changes queue in front of the requests of others. */
const PER_TENANT = 1;
/** A client that makes thousands of budgets at once should get them all. */
const LONGEST_WAIT_MS = 10_000;

/** The client disconnected before the change had its turn. Nothing was changed. */
export class ChangeAbandoned extends Error {
  override readonly name = 'ChangeAbandoned';
}

/**
 * Lets each tenant change one of its records at a time: budgets, policies, keys and subscriptions. Each may have kilobytes of
 * metadata, so a flood of such changes would keep the process busy and delay the reservations of other tenants.
 */
export class Changes {
  private readonly turns = new ConcurrencyLimiter({ total: Infinity, perOwner: PER_TENANT });
  private readonly counts = this.metrics.of(RECORD_METRICS);

  /** @param waitMs the longest wait of a change */
  constructor(
    private readonly metrics: MetricsRegistry,
    private readonly waitMs = LONGEST_WAIT_MS,
  ) {
    this.counts.changesWaiting.readFrom(() => this.turns.waiting);
  }

  /**
   * Waits until no other change of the owner is running.
   * @param owner the tenant, or an empty string for operators, who count as one tenant
   * @param signal aborted when the client has disconnected
   * @returns ends the turn
   * @throws TooBusy, ChangeAbandoned
   */
  async admit(owner: string, signal: AbortSignal): Promise<() => void> {
    const claim = { owner };
    if (!this.turns.tryAcquire(claim)) {
      this.counts.changeWaits.inc();
      const result = await this.turns.acquire(claim, { waitMs: this.waitMs, signal });
      if (result === 'gone') {
        throw new ChangeAbandoned('the client closed the connection before the change began');
      }
      if (result !== 'acquired') {
        this.counts.changesRefused.inc();
        throw new TooBusy('too many changes at the same time: those of a tenant run one after the other', 1);
      }
    }
    return () => this.turns.release(claim);
  }
}
