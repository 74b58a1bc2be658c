import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../../metrics/index.js';

/** When a URL or an address was judged. */
export type Judged = 'registration' | 'attempt' | 'dial';
export type RefusalReason = 'malformed' | 'scheme' | 'credentials' | 'pattern' | 'unresolved' | 'blocked_address';

/** What the target policy refuses: a subscriber's mistake, or somebody who tries doors. */
@Injectable()
export class TargetMetrics {
  private readonly refusals: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.refusals = metrics.counter({
      name: 'holdfast_webhook_targets_refused_total',
      help: 'URLs and addresses that webhooks may not be sent to, by when and why they were refused.',
      labels: ['judged', 'reason'],
    });
  }

  refused(judged: Judged, reason: RefusalReason): void {
    this.refusals.inc({ judged, reason });
  }
}
