import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../metrics/index.js';

/** What verifications of the ledger found, for the alert on it. Without labels, so that the first drift ever is an increase from 0. */
@Injectable()
export class VerifyMetrics {
  private readonly budgets: LabelledCounter;
  private readonly drifts: LabelledCounter;
  private readonly unreadables: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.budgets = metrics.counter({
      name: 'holdfast_verify_budgets_total',
      help: 'Budgets that were recomputed from their reservations.',
    });
    this.drifts = metrics.counter({
      name: 'holdfast_verify_drift_total',
      help: 'Budgets that did not agree with their reservations, counted at each verification.',
    });
    this.unreadables = metrics.counter({
      name: 'holdfast_verify_unreadable_total',
      help: 'Live reservations whose records could not be read, counted at each verification.',
    });
  }

  verified(budgets: number, drifts: number, unreadable: number): void {
    this.budgets.inc({}, budgets);
    this.drifts.inc({}, drifts);
    this.unreadables.inc({}, unreadable);
  }
}
