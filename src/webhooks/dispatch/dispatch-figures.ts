import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { type HealthReport, MetricsRegistry } from '../../telemetry/index.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';
import { DispatchLeases } from './dispatch-leases.js';
import { OrderedQueues } from './ordered-queues.js';

/** What metrics and readiness say of the dispatcher. */
@Injectable()
export class DispatchFigures {
  private readonly counts = this.metrics.of(WEBHOOK_METRICS);
  private lastGoodBeatAt = performance.now();

  constructor(
    private readonly leases: DispatchLeases,
    private readonly queues: OrderedQueues,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  restarted(): void {
    this.counts.restarts.inc();
  }

  beat(isGood: boolean): void {
    const { counts } = this;
    const now = performance.now();
    this.lastGoodBeatAt = isGood ? now : this.lastGoodBeatAt;
    counts.partitions.set(this.leases.held.size);
    counts.lag.set(this.sum('lag'));
    counts.oldest.set(this.oldestForMs(now) / 1000);
    counts.inFlight.set(this.queues.limiter.inUse);
    counts.waiting.set(this.sum('waiting'), { for: 'first_attempt' });
    counts.waiting.set(this.sum('retrying'), { for: 'retry' });
  }

  /**
   * Readiness is red while events wait for this dispatcher. A slow or failing endpoint does not turn it red: its deliveries wait in its own
   * queue.
   */
  health(): HealthReport {
    const now = performance.now();
    const limitMs = this.config.webhookAlertMs;
    const lateForMs = this.leases.own.map((partition) => partition.lateForMs(now));
    const lateMs = Math.round(Math.max(0, ...lateForMs, this.queues.limiter.longestWaitMs(now)));
    const ageMs = Math.round(now - this.lastGoodBeatAt);
    return {
      up: lateMs <= limitMs && ageMs <= limitMs,
      details: {
        last_success_age_ms: ageMs,
        lateness_ms: lateMs,
        limit_ms: limitMs,
        partitions: this.leases.held.size,
        event_lag: this.sum('lag'),
        oldest_undelivered_ms: Math.round(this.oldestForMs(now)),
        waiting_deliveries: this.sum('waiting'),
        waiting_retries: this.sum('retrying'),
      },
    };
  }

  private sum(figure: 'lag' | 'retrying' | 'waiting'): number {
    return this.leases.own.reduce((total, partition) => total + partition[figure], 0);
  }

  /** Age of the oldest event that waits to be read or for its first attempt. */
  private oldestForMs(now: number): number {
    return Math.max(0, ...this.leases.own.map((partition) => partition.oldestForMs(now)));
  }
}
