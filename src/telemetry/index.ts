export { exposition, GroupMetrics, joinGroupMetrics } from './group-metrics.js';
export {
  type HealthContributor,
  HealthContributors,
  type HealthReport,
  type HealthWarning,
  ShutdownState,
} from './health.js';
export { createLogger, type Logger, LOGGER } from './logger.js';
export { type Activity, MetricsRegistry } from './metrics-registry.js';
export type { Instruments, MetricsTable } from './metrics-table.js';
export { RequestMetrics } from './request-metrics.js';
export { TelemetryModule } from './telemetry.module.js';
export { type Span, spanIdFrom, Tracing } from './tracing/tracing.js';
