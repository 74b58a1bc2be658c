import { Module } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { LOGGER, type Logger } from '../logger.js';
import { MetricsRegistry } from '../metrics-registry.js';
import { MetricsModule } from '../metrics.module.js';
import { Tracing } from './tracing.js';

/** The packages of OpenTelemetry are loaded only if traces have somewhere to go. */
async function startTracing(
  config: HoldfastConfig,
  logger: Logger,
  metrics: MetricsRegistry,
): Promise<Tracing> {
  const { otlpEndpoint, otlpHeaders = {}, otelServiceName, otelTraceShare } = config;
  if (otlpEndpoint === undefined) {
    return new Tracing();
  }
  const spans = metrics.counter({
    name: 'holdfast_trace_spans_total',
    help: 'Spans of traces by what became of them: exported, failed (the collector did not take them) or dropped (too many waited).',
    labels: ['outcome'],
  });
  const { openTelemetry } = await import('./opentelemetry.js');
  const options = {
    endpoint: otlpEndpoint,
    headers: otlpHeaders,
    serviceName: otelServiceName,
    share: otelTraceShare,
  };
  return new Tracing(openTelemetry(options, logger, (outcome, count) => spans.inc({ outcome }, count)));
}

@Module({
  imports: [MetricsModule],
  providers: [{ provide: Tracing, inject: [CONFIG, LOGGER, MetricsRegistry], useFactory: startTracing }],
  exports: [Tracing],
})
export class TracingModule {}
