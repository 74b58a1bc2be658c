export { ExpiryMetrics, ExpiryMetricsModule, LATENESS_BUCKETS } from './expiry.metrics.js';
export { ExpiryModule } from './expiry.module.js';
export { SweeperState, type SweeperStateReport } from './sweeper-state.js';
