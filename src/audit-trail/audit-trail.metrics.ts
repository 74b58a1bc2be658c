import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../metrics/index.js';

/** What a row is about: a read or a change that succeeded without writing a row itself, a refusal or failure, or a missing credential. */
export type PathClass = 'success' | 'failure' | 'unauthenticated';

@Injectable()
export class AuditTrailMetrics {
  private readonly writes: LabelledCounter;
  private readonly displaced: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.writes = metrics.counter({
      name: 'cycles_admin_audit_writes_total',
      help: 'Audit rows of requests that changed nothing: written, lost by an error or a full queue, or only counted in a summary row.',
      labels: ['path_class', 'outcome'],
    });
    this.displaced = metrics.counter({
      name: 'holdfast_audit_rows_displaced_total',
      help: 'Audit rows of reads and missing credentials removed before their retention because their log was full.',
    });
  }

  wrote(pathClass: PathClass, outcome: 'written' | 'error' | 'sampled-out', count = 1): void {
    this.writes.inc({ path_class: pathClass, outcome }, count);
  }

  displacedRows(count: number): void {
    this.displaced.inc({}, count);
  }
}
