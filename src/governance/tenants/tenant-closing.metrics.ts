import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../../metrics/index.js';

/** How the closing of tenants goes on after the flip, under the names that existing dashboards know. */
@Injectable()
export class TenantClosingMetrics {
  private readonly incompletes: LabelledCounter;
  private readonly errors: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.incompletes = metrics.counter({
      name: 'cycles_admin_tenant_close_reconcile_incomplete_total',
      help: 'Runs that left a closed tenant with something that is not closed yet.',
    });
    this.errors = metrics.counter({
      name: 'cycles_admin_tenant_close_reconcile_errors_total',
      help: 'Runs over the closing tenants that failed.',
    });
  }

  incomplete(): void {
    this.incompletes.inc();
  }

  failed(): void {
    this.errors.inc();
  }
}
