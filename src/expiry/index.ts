export { ExpiryMetrics } from './expiry.metrics.js';
export { ExpiryMetricsModule } from './expiry-metrics.module.js';
export { ExpiryModule } from './expiry.module.js';
export { ExpiryService } from './expiry.service.js';
export type { DrainReport } from './partition-drain.js';
