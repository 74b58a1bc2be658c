import { Injectable } from '@nestjs/common';
import { Refusal } from '../../ledger/index.js';
import { MetricsRegistry, type LabelledCounter } from '../../metrics/index.js';

@Injectable()
export class ReplayMetrics {
  private readonly replays: LabelledCounter;
  private readonly events: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.replays = metrics.counter({
      name: 'holdfast_webhook_replays_total',
      help: 'Replays of events to webhook subscriptions that were asked for, by what came of them.',
      labels: ['result'],
    });
    this.events = metrics.counter({
      name: 'holdfast_webhook_replayed_events_total',
      help: 'Deliveries that replays queued.',
    });
  }

  accepted(isActive: boolean, events: number): void {
    this.replays.inc({ result: isActive ? 'accepted' : 'inactive' });
    this.events.inc({}, events);
  }

  inProgress(): void {
    this.replays.inc({ result: 'in_progress' });
  }

  /** Counts a refusal of what was asked for on its way through. */
  async rejections<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof Refusal) {
        this.replays.inc({ result: 'rejected' });
      }
      throw error;
    }
  }
}
