import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../../metrics/index.js';

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
