import { Injectable } from '@nestjs/common';
import { type LabelledCounter, MetricsRegistry } from '../telemetry/index.js';

@Injectable()
export class SpikeMetrics {
  private readonly emittedEvents: LabelledCounter;
  private readonly counted: LabelledCounter;
  private readonly cuts: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.emittedEvents = metrics.counter({
      name: 'holdfast_spike_events_total',
      help: 'Events about a rate or latency above its threshold that this instance emitted, by type.',
      labels: ['event_type'],
    });
    this.counted = metrics.counter({
      name: 'holdfast_spike_events_counted_total',
      help: 'Denials and expirations that this instance counted into the rates of tenants.',
    });
    this.cuts = metrics.counter({
      name: 'holdfast_spike_runs_cut_total',
      help: 'Runs that ended for time before everything was counted and compared. The next one continues.',
    });
  }

  emitted(eventType: string, number = 1): void {
    this.emittedEvents.inc({ event_type: eventType }, number);
  }

  events(number: number): void {
    this.counted.inc({}, number);
  }

  cut(): void {
    this.cuts.inc();
  }
}
