import type { HoldfastConfig } from '../../config/index.js';
import type { Logger } from '../logger.js';
import type { MetricsRegistry } from '../metrics-registry.js';
import type { MetricsTable } from '../metrics-table.js';
import { Tracing } from './tracing.js';

const TRACING_METRICS = {
  spans: {
    name: 'holdfast_trace_spans_total',
    help: 'Spans of traces by what became of them: exported, failed (the collector did not take them) or dropped (too many waited).',
    labels: ['outcome'],
  },
} as const satisfies MetricsTable;

/** The packages of OpenTelemetry are loaded, and spans are counted, only if traces have somewhere to go. */
export async function startTracing(
  config: HoldfastConfig,
  logger: Logger,
  metrics: MetricsRegistry,
): Promise<Tracing> {
  const { otlpEndpoint, otlpHeaders = {}, otelServiceName, otelTraceShare } = config;
  if (otlpEndpoint === undefined) {
    return new Tracing();
  }
  const { spans } = metrics.of(TRACING_METRICS);
  const { openTelemetry } = await import('./opentelemetry.js');
  const options = {
    endpoint: otlpEndpoint,
    headers: otlpHeaders,
    serviceName: otelServiceName,
    share: otelTraceShare,
  };
  return new Tracing(openTelemetry(options, logger, (outcome, count) => spans.inc({ outcome }, count)));
}
