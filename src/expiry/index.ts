export { ExpiryMetrics } from './expiry.metrics.js';
export { ExpiryMetricsModule } from './expiry-metrics.module.js';
export { ExpiryModule } from './expiry.module.js';
export { ExpiryService, type SweepReport } from './expiry.service.js';
