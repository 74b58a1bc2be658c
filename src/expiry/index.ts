export { ExpiryMetricsModule } from './expiry-metrics.module.js';
export { ExpiryMetrics } from './expiry.metrics.js';
export { ExpiryModule } from './expiry.module.js';
