export { ExpiryMetrics, ExpiryMetricsModule } from './expiry.metrics.js';
export { ExpiryModule } from './expiry.module.js';
