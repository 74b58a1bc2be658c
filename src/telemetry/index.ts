export { GroupMetrics, joinGroupMetrics } from './group-metrics.js';
export { type HealthContributor, HealthContributors, type HealthReport, ShutdownState } from './health.js';
export { createLogger, type Logger, LOGGER, LoggingModule } from './logger.js';
export {
  type Activity,
  ActivityCounts,
  type LabelledCounter,
  type LabelledGauge,
  type LabelledHistogram,
  MaintenanceMetrics,
  MetricsRegistry,
} from './metrics-registry.js';
export { MetricsModule, RequestMetrics } from './metrics.module.js';
export { type Span, spanIdFrom, Tracing } from './tracing/tracing.js';
export { TracingModule } from './tracing/tracing.module.js';
